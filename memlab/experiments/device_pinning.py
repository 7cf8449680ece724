"""device-pinning: what does memory look like that is kept in place for a device?

What passing a device through does to a virtual machine, in one call of a few pages: VFIO maps all
of the guest's memory for the device. Not here: iommufd, the other interface to an IOMMU (Linux
6.2), which accounts in VmPin as io_uring does.
"""

from memlab.experiment import (
    COUNT,
    At,
    Checks,
    Claim,
    Cost,
    Count,
    Exclude,
    Experiment,
    Factor,
    Metric,
    Raw,
    choice,
)

PAGES = 1021  # a prime
MECHANISMS = ("touch", "mlock", "io_uring", "vfio_type1", "mlock_io_uring", "mlock_vfio_type1")
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


def pages(name: str, field: str, text: str, view: str = "after") -> Metric:
    return Metric(
        name,
        "count",
        text,
        of=lambda raw, _: float(raw[view][field] / raw["page_bytes"]),
        evidence=evidence,
    )


def of(mechanism: str, metric: str, count: int, text: str, published: str) -> Count:
    return Count(
        text=text,
        metric=metric,
        where={"mechanism": mechanism, "pages": PAGES},
        equals=count,
        published=published,
    )


def kept(mechanism: str, who: str, counter: str, published: str, resident: str) -> list[Claim]:
    """All pages are resident at once, one of VmLck and VmPin counts them, and the VMA has no
    lock."""
    other = {"VmLck": "VmPin", "VmPin": "VmLck"}[counter]
    metric = {"VmLck": "vm_lck_pages", "VmPin": "vm_pin_pages"}
    return [
        of(mechanism, "resident_before_pages", 0, "nothing of the buffer was touched", MAN),
        of(mechanism, "resident_pages", PAGES, f"{who} brings in every page", resident),
        of(mechanism, metric[counter], PAGES, f"{who} accounts in {counter}", published),
        of(mechanism, metric[other], 0, f"{who} does not account in {other}", published),
        of(mechanism, "locked_pages", 0, f"smaps shows nothing Locked by {who}", SMAPS),
        of(mechanism, "locked_vma_count", 0, f"{who} sets no VM_LOCKED (lo)", SMAPS),
        of(mechanism, "vm_lck_released_pages", 0, f"what {who} let go is in no VmLck", published),
        of(mechanism, "vm_pin_released_pages", 0, f"what {who} let go is in no VmPin", published),
    ]


EXPERIMENT = Experiment(
    name="device-pinning",
    question="What does memory look like that is kept in place for a device, and not by mlock?",
    probe="device_pinning",
    factors=[
        Factor(
            "mechanism",
            choice(*MECHANISMS),
            quick=MECHANISMS,
            help="who brings the buffer in and keeps it: nobody (a store to each page), mlock, "
            "io_uring's fixed buffers, VFIO's type 1 IOMMU; and the last two over a locked buffer",
        ),
        Factor("pages", COUNT, quick=[PAGES], help="of the buffer"),
    ],
    excludes=[Exclude(lambda at: int(at["pages"]) < 1, "a buffer has a page")],
    metrics=[
        pages("resident_pages", "rss_bytes", "pages of the buffer in memory, by smaps"),
        pages("resident_before_pages", "rss_bytes", "the same before the call", "before"),
        pages("vm_lck_pages", "vm_locked_bytes", "VmLck of the process"),
        pages("vm_pin_pages", "vm_pinned_bytes", "VmPin of the process"),
        pages("locked_pages", "locked_bytes", "pages of the buffer that smaps shows as Locked"),
        Metric(
            "locked_vma_count",
            "count",
            "VMAs of the buffer with VM_LOCKED (lo)",
            of=lambda raw, _: float(raw["after"]["locked_vma_count"]),
            evidence=evidence,
        ),
        pages("vm_lck_released_pages", "vm_locked_bytes", "VmLck after the release", "released"),
        pages("vm_pin_released_pages", "vm_pinned_bytes", "VmPin after the release", "released"),
    ],
    cost=Cost(memory=lambda at: int(at["pages"]) * 4096 + 16 * 2**20, time=lambda at: 0.02),
    tiny={"pages": [23], "mechanism": ["touch", "mlock", "io_uring"]},
    judges={"miao-2021": ["2"]},
    claims=[
        of("touch", "resident_pages", PAGES, "a store brings its page in", MAN),
        of("touch", "vm_lck_pages", 0, "what is merely touched is not locked", MAN),
        of("touch", "vm_pin_pages", 0, "what is merely touched is not pinned", MAN),
        of("mlock", "resident_before_pages", 0, "nothing of the buffer was touched", MAN),
        of("mlock", "resident_pages", PAGES, "mlock brings in every page", MAN),
        of("mlock", "vm_lck_pages", PAGES, "mlock accounts in VmLck", MAN),
        of("mlock", "vm_pin_pages", 0, "mlock does not account in VmPin", MAN),
        of("mlock", "locked_pages", PAGES, "smaps shows what mlock locked as Locked", SMAPS),
        of("mlock", "locked_vma_count", 1, "mlock sets VM_LOCKED (lo)", SMAPS),
        *kept("io_uring", "a fixed buffer of io_uring", "VmPin", RING, RING),
        *kept("vfio_type1", "a mapping for a device", "VmLck", VFIO, ROW_4),
        of(
            "mlock_io_uring",
            "vm_lck_pages",
            PAGES,
            "a locked buffer that io_uring pins is once in VmLck",
            RING,
        ),
        of("mlock_io_uring", "vm_pin_pages", PAGES, "and once in VmPin", RING),
        of(
            "mlock_vfio_type1",
            "vm_lck_pages",
            2 * PAGES,
            "a locked buffer that is mapped for a device is twice in VmLck",
            VFIO,
        ),
        of("mlock_vfio_type1", "resident_pages", PAGES, "and in memory once", VFIO),
    ],
    figure=Checks("resident_pages", over="mechanism", by=()),
)
