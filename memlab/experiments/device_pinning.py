"""device-pinning: how does /proc show memory that is pinned for a device?

What passing a device through does to a virtual machine, in one call and a few pages: VFIO maps all
of the guest's memory. Not included: iommufd (Linux 6.2), which counts in VmPin as io_uring does.
"""

from memlab.experiment import *

PAGES = 1021  # a prime
ROW_4 = "table 2, PCI, off: 10GB of 10GB"
MAN = "mlock(2)"
RING = "io_uring_register(2); io_uring/rsrc.c, io_account_mem"
VFIO = "vfio_iommu_type1.c, vfio_lock_acct"
SMAPS = "proc(5), on smaps"


def _lines(view: Raw) -> str:
    return (
        f"{view['smaps'].rstrip()}\n"
        f"VmLck: {view['vm_locked_bytes'] // 1024} kB, VmPin: {view['vm_pinned_bytes'] // 1024} kB"
    )


def evidence(raw: Raw, _: At) -> str:
    return f"{_lines(raw['before'])}\n{raw['call']}\n{_lines(raw['after'])}"


def needs(at: At) -> list[str]:
    mechanism = str(at["mechanism"])
    if "io_uring" in mechanism:
        return ["io_uring"]
    return ["/dev/vfio/vfio"] if "vfio" in mechanism else []


def pages(field: str, view: str = "after") -> Expression:
    return F[view][f"{field}_bytes"] / F.page_bytes


METRICS = (
    ("resident_pages", "resident pages; of the buffer, by smaps", pages("rss")),
    (
        "resident_before_pages",
        "resident pages before the call; of the buffer, by smaps",
        pages("rss", "before"),
    ),
    ("vm_lck_pages", "VmLck in pages; of the process", pages("vm_locked")),
    ("vm_pin_pages", "VmPin in pages; of the process", pages("vm_pinned")),
    ("locked_pages", "pages that smaps shows as Locked; of the buffer", pages("locked")),
    (
        "locked_vma_count",
        "VMAs with VM_LOCKED; of the buffer (lo in smaps)",
        F.after.locked_vma_count,
    ),
    ("vm_lck_released_pages", "VmLck after the release, in pages", pages("vm_locked", "released")),
    ("vm_pin_released_pages", "VmPin after the release, in pages", pages("vm_pinned", "released")),
)


Row = tuple[str, str, int, str, str]  # mechanism, metric, its value, sentence, source


def pinned(mechanism: str, who: str, counter: str, published: str, resident: str) -> list[Row]:
    """All pages are resident at once, one of VmLck and VmPin counts them, and the VMA has no
    lock."""
    counted = {"VmLck": (PAGES, 0), "VmPin": (0, PAGES)}[counter]
    lck, pin = ("counts" if count else "does not count" for count in counted)
    return [
        (mechanism, "resident_before_pages", 0, NOT_YET, MAN),
        (mechanism, "resident_pages", PAGES, f"{who} brings in every page", resident),
        (mechanism, "vm_lck_pages", counted[0], f"{who} {lck} in VmLck", published),
        (mechanism, "vm_pin_pages", counted[1], f"{who} {pin} in VmPin", published),
        (mechanism, "locked_pages", 0, f"smaps shows no page of {who} as Locked", SMAPS),
        (mechanism, "locked_vma_count", 0, f"{who} sets no VM_LOCKED (lo)", SMAPS),
        *(
            (
                mechanism,
                f"{metric}_released_pages",
                0,
                f"once released, {who} no longer counts in {name}",
                published,
            )
            for metric, name in (("vm_lck", "VmLck"), ("vm_pin", "VmPin"))
        ),
    ]


TOUCHED, LOCKED = "memory that is only touched", "a locked buffer"
IO_URING, DEVICE = f"{LOCKED} that io_uring pins", f"{LOCKED} that is mapped for a device"
NOT_YET = "no page of the buffer is resident before the call"
ROWS: list[Row] = [
    ("touch", "resident_pages", PAGES, "a store faults its page in", MAN),
    ("touch", "vm_lck_pages", 0, f"{TOUCHED} is not in VmLck", MAN),
    ("touch", "vm_pin_pages", 0, f"{TOUCHED} is not in VmPin", MAN),
    ("mlock", "resident_before_pages", 0, NOT_YET, MAN),
    ("mlock", "resident_pages", PAGES, "mlock brings in every page", MAN),
    ("mlock", "vm_lck_pages", PAGES, "mlock counts in VmLck", MAN),
    ("mlock", "vm_pin_pages", 0, "mlock does not count in VmPin", MAN),
    ("mlock", "locked_pages", PAGES, "smaps shows memory that mlock locked as Locked", SMAPS),
    ("mlock", "locked_vma_count", 1, "mlock sets VM_LOCKED (lo)", SMAPS),
    *pinned("io_uring", "a fixed buffer of io_uring", "VmPin", RING, RING),
    *pinned("vfio_type1", "a mapping for a device", "VmLck", VFIO, ROW_4),
    ("mlock_io_uring", "vm_lck_pages", PAGES, f"{IO_URING} counts once in VmLck", RING),
    ("mlock_io_uring", "vm_pin_pages", PAGES, f"{IO_URING} counts once in VmPin", RING),
    ("mlock_vfio_type1", "vm_lck_pages", 2 * PAGES, f"{DEVICE} counts twice in VmLck", VFIO),
    ("mlock_vfio_type1", "resident_pages", PAGES, f"{DEVICE} is resident once", VFIO),
]


EXPERIMENT = Experiment(
    name="device-pinning",
    question="How does /proc show memory that is pinned for a device instead of locked by mlock?",
    so=[
        Decision(
            "vfio-type1-resident",
            "count all of a buffer that a device may reach as taken, locked or not: every page is "
            "resident",
            "a buffer that a device may reach is not resident as a whole: size hosts by what is "
            "touched",
        ),
    ],
    probe="device_pinning",
    factors=[
        Factor(
            "mechanism",
            ENUM,
            help="mechanism; what brings the buffer in and keeps it there: a store to each page "
            "(touch, which keeps nothing), mlock, io_uring's fixed buffers, VFIO's type 1 IOMMU, "
            "or one of the last two over a locked buffer",
            level_labels={
                "touch": "touch only",
                "io_uring": "io_uring fixed buffer",
                "vfio_type1": "VFIO type 1",
                "mlock_io_uring": "mlock and io_uring",
                "mlock_vfio_type1": "mlock and VFIO",
            },
        ),
        Factor("pages", COUNT, quick=[PAGES], help="pages of the buffer", least=1),
    ],
    host=Host(
        needs=needs, locks=lambda at: 0 if at["mechanism"] == "touch" else int(at["pages"]) * 4096
    ),
    metrics=counts(evidence, METRICS),
    cost=Cost(memory=lambda at: int(at["pages"]) * 4096 + 16 * 2**20, time=lambda at: 0.02),
    tiny={"pages": [23], "mechanism": ["touch", "mlock", "io_uring"]},
    judges={"miao-2021": ["2"]},
    claims=[
        Count(
            id=f"{mechanism}-{metric}".replace("_", "-").removesuffix("-pages"),
            text=text,
            metric=metric,
            where={"mechanism": mechanism, "pages": PAGES},
            equals=count,
            exact=True,
            published=published,
        )
        for mechanism, metric, count, text, published in ROWS
    ],
    figure=Checks("resident_pages", over="mechanism", by=()),
)
