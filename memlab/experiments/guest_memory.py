"""guest-memory: how much of its host's memory does a virtual machine take, with QEMU's mem-lock and
without?

Nothing runs in the guest after its boot, and no driver uses its network device: the published
900 MB is for a whole system under libvirt.
"""

from math import inf

from memlab.experiment import *

MIB, GIB = 2**20, 2**30
# QEMU's own memory, which mem-lock locks too: its code and libraries, 64 MiB of translations where
# the guest is emulated, thread stacks, and the page tables of the guest's memory.
QEMU_OWN = 512 * MIB
BOOT_S = {"kernel": 18.0, "firmware": 1.0}  # emulated
TAKEN_A_SECOND = 600 * MIB
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


def size(name: str, field: str, help: str) -> Metric:
    return Metric(name, "B", help, of=F[field], evidence=evidence)


def share(name: str, field: str, help: str) -> Metric:
    """Of the guest's memory."""
    return Metric(name, "1", help, of=F[field] / F.guest_bytes, evidence=evidence)


def after(name: str, field: str, help: str) -> Metric:
    return Metric(name, "s", help, of=F[field])


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
    question="How much host memory does a virtual machine take, with and without mem-lock?",
    so=[
        Decision(
            "virtio-unlocked",
            "leave mem-lock off if hosts are to be shared: an idle guest's memory is not resident "
            "({number} of it is)",
            "a guest's memory is resident without mem-lock too ({number} of it): plan the host "
            "for all of it",
            if_holds=(0, 0.2),
            if_fails=(0.8, inf),
            between="without mem-lock {number} of an idle guest's memory is resident",
        ),
        Decision(
            "virtio-locked",
            "plan the host for the guest's whole memory with mem-lock",
            "mem-lock does not make all of the guest's memory resident ({number} of it)",
            if_holds=(0.95, inf),
            if_fails=(0, 0.9),
        ),
    ],
    probe="guest_memory",
    factors=[
        Factor(
            "mem_lock",
            FLAG,
            quick=[False, True],
            help="mem-lock; QEMU's -overcommit mem-lock=on",
            level_labels={False: "no mem-lock", True: "mem-lock"},
        ),
        Factor(
            "nic",
            choice("none", "virtio", "passed_through"),
            quick=["virtio", "passed_through"],
            full=["none", "virtio", "passed_through"],
            help="network device; of the guest. passed_through: any PCI device that vfio-pci "
            "already has; memlab takes none from the host",
            host=True,
            level_labels={"none": "no network device", "passed_through": "passed-through device"},
        ),
        Factor(
            "memory",
            BYTES,
            quick=[4 * GIB],
            paper=[10 * GIB],
            help="guest memory; a multiple of 1 MiB",
            least=MIB,
        ),
        Factor(
            "boots",
            choice("kernel", "firmware"),
            quick=["kernel"],
            help="guest; kernel: Linux with an init that sleeps; firmware: only the firmware, "
            "which finds no disk",
            host=True,
            level_labels={"kernel": "Linux", "firmware": "firmware only"},
        ),
        Factor(
            "kernel",
            PATH,
            quick=[FOUND],
            help="vmlinuz of the guest; found: the newest in /boot with its modules",
            host=True,
        ),
        Factor(
            "settle", SECONDS, quick=[2.0], help="time between the boot and the reading of memory"
        ),
    ],
    excludes=[
        Exclude(lambda at: int(at["memory"]) % MIB != 0, "a guest's memory is a multiple of 1 MiB")
    ],
    controls=[
        control(
            "firmware",
            "The firmware alone, which touches nearly none of the guest's memory.",
            {"boots": ["firmware"], "nic": "virtio"},
            Explanation(
                Within(
                    metric="rss_share",
                    where={"boots": "firmware", **ON},
                    above=1.0,
                    timed=False,
                ),
                "with mem-lock and a guest that boots only its firmware, QEMU's resident memory "
                "is {value} times the guest's",
                confirmed="the lock takes the memory, not the guest",
                refuted="the lock alone does not take all of it",
            ),
            Explanation(
                Ratio(
                    metric="rss",
                    where=OFF,
                    of={"boots": "firmware"},
                    to={"boots": "kernel"},
                    below=0.8,
                    timed=False,
                ),
                "without mem-lock the firmware alone takes {of}, a booted kernel {to}",
                confirmed="without mem-lock the memory that the guest has touched is resident",
                refuted="the resident memory does not follow what the guest touches",
            ),
        )
    ],
    metrics=[
        size("rss", "rss_bytes", "resident memory of QEMU (VmRSS); once the guest has settled"),
        share("rss_share", "rss_bytes", "resident memory of QEMU (VmRSS) / guest's memory"),
        size("vm_lck", "vm_locked_bytes", "locked address space of QEMU (VmLck)"),
        share(
            "vm_lck_share",
            "vm_locked_bytes",
            "locked address space of QEMU (VmLck) / guest's memory",
        ),
        size("vm_pin", "vm_pinned_bytes", "pinned memory of QEMU (VmPin)"),
        size("locked", "locked_bytes", "resident and locked memory of QEMU (Locked in smaps)"),
        size(
            "anonymous",
            "rss_anon_bytes",
            "anonymous resident memory of QEMU (RssAnon); without its code and libraries",
        ),
        size("guest", "guest_bytes", "guest's memory; as QEMU reports it"),
        after("answer_time", "answered_ns", "time from QEMU's start until it answers over QMP"),
        after("boot_time", "booted_ns", "time from QEMU's start until the guest has booted"),
    ],
    cost=Cost(
        memory=memory,
        time=lambda at: (
            BOOT_S[str(at["boots"])]
            + float(at["settle"])
            + (memory(at) / TAKEN_A_SECOND if at["mem_lock"] else 0)
        ),
    ),
    host=Host(
        containment=Containment(limit=memory, required=lambda _: False),
        virtual_machine=machine,
        cpus="all",
        locks=lambda at: memory(at) if at["mem_lock"] else 0,
    ),
    shrinks="memory",
    tiny={
        "mem_lock": [False],
        "nic": ["virtio"],
        "memory": [64 * MIB],
        "boots": ["firmware"],
        "settle": [0.1],
    },
    published=[
        Published(
            "miao-2021",
            "2",
            "rss_share",
            share_of="10G B",
            columns={"occupied": {"boots": "kernel"}},
            rows={
                1: {**VIRTIO, **ON},
                2: {**VIRTIO, **OFF},
                3: {**PASSED, **ON},
                4: {**PASSED, **OFF},
            },
            note="Of a guest of 10 GB there, and of any size here. A whole guest under libvirt "
            "there, an idle kernel here.",
        )
    ],
    claims=[
        Within(
            id="virtio-locked",
            text="with mem-lock the guest's whole memory is resident, and little more",
            metric="rss_share",
            where={**VIRTIO, **ON, "boots": "kernel"},
            above=1.0,
            below=1.25,
            published=f"{TABLE_2}, virtio, on: 10GB of 10GB",
            controls=("firmware",),
            timed=False,
        ),
        Within(
            id="virtio-unlocked",
            text="without mem-lock less than a fifth of the guest's memory is resident",
            metric="rss_share",
            where={**VIRTIO, **OFF, "boots": "kernel"},
            below=0.2,
            published=f"{TABLE_2}, virtio, off: 900MB of 10GB",
            controls=("firmware",),
            timed=False,
        ),
        Within(
            id="locked-vmlck",
            text="mem-lock locks the guest's whole memory",
            metric="vm_lck_share",
            where={**VIRTIO, **ON, "boots": "kernel"},
            above=1.0,
            published="section 2: <locked/> locks the guest's memory",
            timed=False,
        ),
        Count(
            id="unlocked-vmlck",
            text="without mem-lock QEMU locks nothing",
            metric="vm_lck",
            where={**VIRTIO, **OFF, "boots": "kernel"},
            equals=0,
            exact=True,
            published="section 2: off by default",
        ),
        Within(
            id="device-locked",
            text="with a passed-through device and mem-lock the whole memory is resident",
            metric="rss_share",
            where={**PASSED, **ON},
            above=1.0,
            published=f"{TABLE_2}, PCI, on: 10GB of 10GB",
            timed=False,
        ),
        Within(
            id="device-unlocked",
            text="with a passed-through device the whole memory is resident without mem-lock, too",
            metric="rss_share",
            where={**PASSED, **OFF},
            above=1.0,
            published=f"{TABLE_2}, PCI, off: 10GB of 10GB",
            timed=False,
        ),
        Within(
            id="device-vmlck",
            text="a passed-through device's memory counts in VmLck, though QEMU locks nothing",
            metric="vm_lck_share",
            where={**PASSED, **OFF},
            above=0.99,
            below=1.05,
            published=f"{TABLE_2}, PCI, off: 10GB of 10GB; device-pinning says why",
            timed=False,
        ),
    ],
    figure=Bars(
        "rss_share",
        over="memory",
        by=["mem_lock"],
        panels=["nic"],
        base=OFF,
        answers=[
            Explanation(
                Within(
                    metric="rss_share",
                    where={**VIRTIO, **ON, "boots": "kernel"},
                    above=1.0,
                    timed=False,
                ),
                "with mem-lock QEMU holds {value} times the guest's memory",
                confirmed="all of it is resident",
                refuted="not all of it is resident",
            ),
            Explanation(
                Within(
                    metric="rss_share",
                    where={**VIRTIO, **OFF, "boots": "kernel"},
                    below=0.2,
                    timed=False,
                ),
                "without the lock {value} times",
                confirmed="under a fifth of it",
                refuted="a fifth of it or more",
            ),
        ],
    ),
    more_figures={
        "over-time": timeline("rss", "rss", "resident memory of QEMU"),
        "locked-over-time": timeline("vm_lck", "locked", "locked memory of QEMU"),
    },
    budget_s={"quick": 420.0, "paper": 900.0, "full": 3600.0},
)
