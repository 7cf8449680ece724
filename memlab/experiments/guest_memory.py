"""guest-memory: what does a virtual machine take of its host's memory, with QEMU's mem-lock and
without?

Nothing runs in the guest after its boot, and no driver takes its network device: the published
900 MB is of a whole system under libvirt. Not measured here: what a guest's own programs touch,
which without a lock becomes resident page by page and is not given back.
"""

from memlab.experiment import (
    BYTES,
    FLAG,
    FOUND,
    PATH,
    SECONDS,
    At,
    Bars,
    Containment,
    Control,
    Cost,
    Count,
    Exclude,
    Experiment,
    Explanation,
    Factor,
    Metric,
    Published,
    Ratio,
    Raw,
    Timeline,
    VirtualMachine,
    Within,
    choice,
)

MIB, GIB = 2**20, 2**30
# QEMU's own, all of which mem-lock locks: its code and libraries, 64 MiB of translations where the
# guest is emulated, thread stacks, and the page tables of the guest's memory.
QEMU_OWN = 512 * MIB
BOOT_S = 15.0  # emulated
TAKEN_A_SECOND = 400 * MIB
TABLE_2 = "table 2"
VIRTIO, PASSED = {"nic": "virtio"}, {"nic": "passed_through"}
ON, OFF = {"mem_lock": True}, {"mem_lock": False}


def machine(at: At) -> VirtualMachine:
    return VirtualMachine(
        memory_bytes=int(at["memory"]),
        mem_lock=bool(at["mem_lock"]),
        nic=str(at["nic"]),
        kernel=str(at["kernel"]) if at["boots"] == "kernel" else None,
    )


def memory(at: At) -> int:
    return int(at["memory"]) * 65 // 64 + QEMU_OWN


def evidence(raw: Raw, _: At) -> str:
    return str(raw["status"])


def read(name: str, field: str, text: str) -> Metric:
    return Metric(name, "B", text, of=lambda raw, _: float(raw[field]), evidence=evidence)


def share(name: str, field: str, text: str) -> Metric:
    """Of the memory that the guest has."""
    return Metric(
        name, "1", text, of=lambda raw, _: raw[field] / raw["guest_bytes"], evidence=evidence
    )


def after(name: str, field: str, text: str) -> Metric:
    return Metric(name, "s", text, of=lambda raw, _: raw[field] * 1e-9)


def timeline(metric: str, series: str, quantity: str) -> Timeline:
    return Timeline(
        metric,
        over="memory",
        by=["mem_lock"],
        panels=["nic"],
        series=series,
        quantity=quantity,
        marks="booted",
        mark_label="the guest has booted",
        moments=True,
        limit=lambda at: float(int(at["memory"])),
        limit_label="the guest has",
    )


EXPERIMENT = Experiment(
    name="guest-memory",
    question="What does a virtual machine take of its host's memory, with mem-lock and without?",
    probe="guest_memory",
    factors=[
        Factor("mem_lock", FLAG, quick=[False, True], help="QEMU's -overcommit mem-lock"),
        Factor(
            "nic",
            choice("none", "virtio", "passed_through"),
            quick=["virtio", "passed_through"],
            full=["none", "virtio", "passed_through"],
            help="the guest's network device; passed_through is any PCI device that vfio-pci has "
            "already: memlab takes none from the host",
            host=True,
        ),
        Factor(
            "memory",
            BYTES,
            quick=[4 * GIB],
            paper=[10 * GIB],
            help="the guest's memory, in whole MiB",
        ),
        Factor(
            "boots",
            choice("kernel", "firmware"),
            quick=["kernel"],
            help="Linux into an init that sleeps, or the firmware alone, which finds no disk",
            host=True,
        ),
        Factor(
            "kernel",
            PATH,
            quick=[FOUND],
            help="the guest's vmlinuz; found: the newest in /boot with its modules",
            host=True,
        ),
        Factor("settle", SECONDS, quick=[2.0], help="after the boot, before memory is read"),
    ],
    excludes=[
        Exclude(
            lambda at: int(at["memory"]) < MIB or int(at["memory"]) % MIB != 0,
            "QEMU gives a guest whole MiB",
        )
    ],
    controls=[
        Control(
            "firmware",
            "The firmware alone: nearly nothing of the guest's memory is ever touched. With the "
            "lock it is resident all the same; without, what is resident is what was touched.",
            levels={"boots": ["firmware"], "nic": ["virtio"]},
            explanations=[
                Explanation(
                    predicts=Within(
                        text="the whole memory of a guest that touches nearly none is resident",
                        metric="rss_share",
                        where={"boots": "firmware", **VIRTIO, **ON},
                        above=1.0,
                        timed=False,
                    ),
                    confirmed="of a guest that boots its firmware alone {value} of the memory is "
                    "resident with mem-lock: the lock takes it, and not the guest",
                    refuted="of a guest that boots its firmware alone {value} of the memory is "
                    "resident with mem-lock: the lock alone does not take all of it",
                    undecided="of a guest that boots its firmware alone {value} of the memory is "
                    "resident with mem-lock: whether the lock takes it is not shown",
                ),
                Explanation(
                    predicts=Ratio(
                        text="without a lock a guest that touches less takes less",
                        metric="rss",
                        where={**VIRTIO, **OFF},
                        of={"boots": "firmware"},
                        to={"boots": "kernel"},
                        below=0.8,
                        timed=False,
                    ),
                    confirmed="without a lock the firmware alone takes {of}, and a booted kernel "
                    "{to}: resident is what the guest has touched",
                    refuted="without a lock the firmware alone takes {of}, and a booted kernel "
                    "{to}: what is resident does not follow what the guest touches",
                    undecided="without a lock the firmware alone takes {of}, and a booted kernel "
                    "{to}: whether resident is what was touched is not shown",
                ),
            ],
        ),
    ],
    metrics=[
        read("rss", "rss_bytes", "resident memory of QEMU, VmRSS, once the guest has settled"),
        share("rss_share", "rss_bytes", "VmRSS of QEMU over the guest's memory"),
        read("vm_lck", "vm_locked_bytes", "VmLck of QEMU: address space that is locked"),
        share("vm_lck_share", "vm_locked_bytes", "VmLck of QEMU over the guest's memory"),
        read("vm_pin", "vm_pinned_bytes", "VmPin of QEMU"),
        read("locked", "locked_bytes", "Locked of QEMU's smaps: what is resident and locked"),
        read("anonymous", "rss_anon_bytes", "RssAnon of QEMU: without its code and libraries"),
        read("guest", "guest_bytes", "the guest's memory, as QEMU says it"),
        after("answer_time", "answered_ns", "from QEMU's start until it greets over QMP"),
        after("boot_time", "booted_ns", "from QEMU's start until the guest has booted"),
    ],
    cost=Cost(
        memory=memory,
        time=lambda at: BOOT_S + float(at["settle"]) + memory(at) / TAKEN_A_SECOND,
    ),
    containment=Containment(limit=memory, required=False),
    virtual_machine=machine,
    shrinks="memory",
    cpus="all",
    tiny={
        "mem_lock": [False],
        "nic": ["virtio"],
        "memory": [64 * MIB],
        "boots": ["firmware"],
        "settle": [0.1],
    },
    published=[
        Published(
            source="miao-2021",
            table="2",
            metric="rss",
            columns={"occupied": {"memory": 10 * GIB, "boots": "kernel"}},
            rows={
                1: {**VIRTIO, **ON},
                2: {**VIRTIO, **OFF},
                3: {**PASSED, **ON},
                4: {**PASSED, **OFF},
            },
            note="A whole guest under libvirt there, an idle kernel here.",
        )
    ],
    claims=[
        Within(
            text="with mem-lock the guest's whole memory is resident, and little beside",
            metric="rss_share",
            where={**VIRTIO, **ON, "boots": "kernel"},
            above=1.0,
            below=1.25,
            published=f"{TABLE_2}, virtio, on: 10GB of 10GB",
            controls=("firmware",),
            timed=False,
        ),
        Within(
            text="without mem-lock less than a fifth of the guest's memory is resident",
            metric="rss_share",
            where={**VIRTIO, **OFF, "boots": "kernel"},
            below=0.2,
            published=f"{TABLE_2}, virtio, off: 900MB of 10GB",
            controls=("firmware",),
            timed=False,
        ),
        Within(
            text="mem-lock locks the guest's whole memory",
            metric="vm_lck_share",
            where={**VIRTIO, **ON, "boots": "kernel"},
            above=1.0,
            published="section 2: <locked/> locks the guest's memory",
            timed=False,
        ),
        Count(
            text="without mem-lock QEMU locks nothing",
            metric="vm_lck",
            where={**VIRTIO, **OFF, "boots": "kernel"},
            equals=0,
            published="section 2: off by default",
        ),
        Within(
            text="a passed-through device makes the whole memory resident with mem-lock",
            metric="rss_share",
            where={**PASSED, **ON},
            above=1.0,
            published=f"{TABLE_2}, PCI, on: 10GB of 10GB",
            timed=False,
        ),
        Within(
            text="a passed-through device makes the whole memory resident without mem-lock",
            metric="rss_share",
            where={**PASSED, **OFF},
            above=1.0,
            published=f"{TABLE_2}, PCI, off: 10GB of 10GB",
            timed=False,
        ),
        Within(
            text="and it is in VmLck, though QEMU locks nothing",
            metric="vm_lck_share",
            where={**PASSED, **OFF},
            above=0.99,
            below=1.05,
            published=f"{TABLE_2}, PCI, off: 10GB of 10GB; device-pinning says why",
            timed=False,
        ),
    ],
    figure=Bars("rss", over="memory", by=["mem_lock"], panels=["nic"], base=OFF),
    more_figures={
        "over-time": timeline("rss", "rss", "resident memory of QEMU"),
        "locked-over-time": timeline("vm_lck", "locked", "locked memory of QEMU"),
    },
    budget_s={"quick": 360.0, "paper": 900.0, "full": 3600.0},
)
