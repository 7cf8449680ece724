"""The environment of machines that are not this one, of none at all, and of this one."""

import json
import os
from pathlib import Path

import pytest

from memlab import experiments
from memlab.observe import capabilities, environment, virtualization

from .trees import ARM64, BARE_METAL, HYBRID, KVM_GUEST, V2, V2_MOUNT, grow

PROCESS_FACTS = {"machine", "page_size_bytes", "libc_version", "python_version"}


def test_an_empty_tree_leaves_everything_unknown(tmp_path: Path) -> None:
    found = environment.read(tmp_path)
    known = {key for key, value in found.items() if value is not None}
    assert known - PROCESS_FACTS == {"shootdowns_hidden_reason"}


def test_the_keys_are_the_same_on_every_machine(tmp_path: Path) -> None:
    here = environment.read()
    trees = {"none": {}, "arm64": ARM64, "metal": BARE_METAL, "v2": V2, "hybrid": HYBRID}
    for name, files in trees.items():
        assert environment.read(grow(tmp_path / name, files)).keys() == here.keys()


def test_this_machine_is_read_and_fits_json() -> None:
    here = environment.read()
    assert here["kernel_release"] == os.uname().release
    assert here["host_name"] == os.uname().nodename
    assert here["cpu_count"] >= len(os.sched_getaffinity(0))
    assert here["memory_total_bytes"] > 0
    assert json.loads(json.dumps(here)) == here
    # The boot's kernel log may be long gone, and free page reporting never rests.
    assert environment.unlike(here, environment.read()) == []


def test_bare_metal(tmp_path: Path) -> None:
    found = environment.read(grow(tmp_path, BARE_METAL))
    assert found["cpu_model"] == "Intel(R) Xeon(R) @ 2.00GHz"
    assert (found["cpu_count"], found["socket_count"], found["core_count"]) == (4, 2, 2)
    assert found["cpus_allowed"] == "0-3"
    assert found["caches"] == [
        {"level": 1, "type": "Data", "size_bytes": 49152, "line_bytes": 64, "shared_cpus": "0-1"}
    ]
    assert found["mitigations"] == {"meltdown": "Mitigation: PTI", "mds": "Not affected"}
    assert found["frequency_governor"] == "performance,powersave"
    assert found["turbo"] is False
    assert found["smt_active"] is True
    assert found["virtual_machine"] is False
    assert found["hypervisor"] is None
    assert found["shootdowns_hidden"] is False
    assert found["firmware"] == "Dell Inc. PowerEdge R640"
    assert found["thp_enabled"] == "madvise"
    assert found["thp_sizes"] == {"hugepages-64kB": "never"}
    assert found["memory_total_bytes"] == 1 << 30
    assert found["hugetlb_free_count"] == 3
    assert found["swaps"][0]["size_bytes"] == 1 << 20
    assert found["numa_nodes"] == [
        {"node": 0, "cpus": "0-1", "memory_total_bytes": 512 * 1024, "distances": None},
        {"node": 1, "cpus": "2-3", "memory_total_bytes": None, "distances": None},
    ]
    assert found["clocksource"] == "tsc"


def test_arm64_is_named_by_its_numbers_and_hides_nothing_that_can_be_read(tmp_path: Path) -> None:
    found = environment.read(grow(tmp_path, ARM64))
    assert found["machine"] == "aarch64"
    assert found["cpu_model"] == "implementer 0x70 part 0x663 variant 0x1 revision 3"
    assert found["firmware"] == "Phytium D2000"
    assert found["virtual_machine"] is None
    assert found["shootdowns_hidden"] is None
    assert "another architecture" in found["shootdowns_hidden_reason"]
    assert "TLBI" in found["tlb_broadcast"]


def test_a_processor_that_flushes_by_broadcast_is_known_by_its_flag(tmp_path: Path) -> None:
    """cpuid's bit is the flag invlpgb; a kernel before 6.15 has no name for it."""
    blocks = BARE_METAL["proc/cpuinfo"]
    with_it = BARE_METAL | {"proc/cpuinfo": blocks.replace("flags\t\t: ", "flags\t\t: invlpgb ")}
    assert with_it != BARE_METAL
    assert "INVLPGB" in environment.read(grow(tmp_path / "amd", with_it))["tlb_broadcast"]
    assert environment.read(grow(tmp_path / "intel", BARE_METAL))["tlb_broadcast"] is None


def test_an_arm64_guest_is_known_by_its_firmware(tmp_path: Path) -> None:
    guest = ARM64 | {"proc/device-tree/hypervisor/compatible": "linux,kvm\0"}
    found = environment.read(grow(tmp_path, guest))
    assert (found["virtual_machine"], found["hypervisor"]) == (True, "KVM")


BOOT = "6,0,0,-;Linux version 6.18\n"


@pytest.mark.parametrize(
    ("log", "hidden"),
    [
        (BOOT + "6,9,98232,-;kvm-guest: KVM setup pv remote TLB flush\n", True),
        (BOOT + "6,9,98232,-;kvm-guest: setup PV sched yield\n", False),
        ("6,4711,99999999,-;the start is gone\n", None),
        ("", None),
    ],
)
def test_a_kvm_guest_hides_shootdowns_where_its_boot_log_says_so(
    tmp_path: Path, log: str, hidden: bool | None
) -> None:
    found = environment.read(grow(tmp_path, KVM_GUEST | {"dev/kmsg": log}))
    assert (found["virtual_machine"], found["hypervisor"]) == (True, "KVM")
    assert found["shootdowns_hidden"] is hidden
    assert found["shootdowns_hidden_reason"]


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"proc/self/cgroup": "0::/kubepods.slice/pod1\n"}, "kubernetes"),
        ({"proc/self/cgroup": "4:memory:/docker/0123\n"}, "docker"),
        ({"proc/self/cgroup": "0::/system.slice/docker.service\n"}, None),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, str], name: str | None) -> None:
    assert environment.read(grow(tmp_path, files))["container"] == name


@pytest.mark.parametrize(
    ("files", "version", "memory", "limit", "high"),
    [
        (HYBRID, "hybrid", "1", 268435456, None),
        (V2, "2", "2", 1 << 30, 1 << 29),
        ({"proc/self/mountinfo": V2_MOUNT, "proc/self/cgroup": "0::/\n"}, "2", None, None, None),
        ({}, None, None, None, None),
    ],
)
def test_cgroups(
    tmp_path: Path,
    files: dict[str, str],
    version: str | None,
    memory: str | None,
    limit: int | None,
    high: int | None,
) -> None:
    found = environment.read(grow(tmp_path, files))
    assert found["cgroup_version"] == version
    assert found["cgroup_memory_version"] == memory
    assert found["cgroup_memory_limit_bytes"] == limit
    assert found["cgroup_memory_high_bytes"] == high


def test_the_machine_id_is_never_given_away(tmp_path: Path) -> None:
    found = environment.read(grow(tmp_path, BARE_METAL))
    assert len(found["machine_id_hash"]) == 64
    assert BARE_METAL["etc/machine-id"].strip() not in json.dumps(found)


def test_garbage_is_unknown_and_never_an_exception(tmp_path: Path) -> None:
    names = BARE_METAL.keys() | ARM64.keys() | HYBRID.keys() | V2.keys() | {"dev/kmsg"}
    for garbage in ("", "\0\n", "\udcff a b\n:::\n", "9" * 5000):
        tree = tmp_path / str(len(garbage))
        for name in names:
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.fsencode(garbage))
        # Lone surrogates, which UTF-8 refuses, would show here.
        json.dumps(environment.read(tree), ensure_ascii=False).encode("utf-8")
        assert len(capabilities.read(tree)) == len(capabilities.read())


def test_unlike_says_what_differs_a_line_each(tmp_path: Path) -> None:
    metal = environment.read(grow(tmp_path / "metal", BARE_METAL))
    other = metal | {
        "kernel_release": "6.18.0",
        "cpus_online": None,
        "memory_total_bytes": metal["memory_total_bytes"] * 2,
        "mitigations": {"meltdown": "Vulnerable", "mds": "Not affected"},
        "host_name": "elsewhere",
    }
    assert environment.unlike(metal, other) == [
        "kernel_release: 6.1.0-18-amd64 and 6.18.0",
        "cpus_online: 0-3 and unknown",
        "mitigations: meltdown: Mitigation: PTI and Vulnerable",
        "memory_total_bytes: 1073741824 and 2147483648",
    ]


def test_a_guest_is_unlike_the_metal_below_it(tmp_path: Path) -> None:
    metal = environment.read(grow(tmp_path / "metal", BARE_METAL))
    guest = environment.read(grow(tmp_path / "guest", KVM_GUEST))
    assert environment.unlike(metal, guest) == [
        "virtual_machine: False and True",
        "hypervisor: unknown and KVM",
    ]


def test_a_little_less_memory_and_a_key_of_a_newer_format_are_alike() -> None:
    total = 1 << 34
    assert (
        environment.unlike({"memory_total_bytes": total}, {"memory_total_bytes": total - 1}) == []
    )
    assert environment.unlike({"thp_enabled": "always"}, {}) == []
    smaller = {"memory_total_bytes": int(total * 0.98)}
    assert len(environment.unlike({"memory_total_bytes": total}, smaller)) == 1


def test_a_user_who_may_not_read_the_kernel_log_is_on_the_same_machine() -> None:
    root, user, other = ({"shootdowns_hidden": hidden} for hidden in (True, None, False))
    assert environment.unlike(root, user) == []
    assert environment.unlike(root, other) == ["shootdowns_hidden: True and False"]


def test_nodes_are_compared_by_their_shape() -> None:
    node = {"node": 0, "cpus": "0-1", "memory_total_bytes": 1, "distances": "10"}
    a, b = {"numa_nodes": [node]}, {"numa_nodes": [node | {"memory_total_bytes": 2}]}
    assert environment.unlike(a, b) == []
    assert len(environment.unlike(a, {"numa_nodes": [node, node | {"cpus": "2-3"}]})) == 1


@pytest.mark.parametrize(
    ("model", "emulated"), [("QEMU TCG CPU version 2.5+", True), ("AMD EPYC 9R14", False)]
)
def test_a_processor_that_qemu_emulates(tmp_path: Path, model: str, emulated: bool) -> None:
    root = grow(tmp_path, {"proc/cpuinfo": f"processor\t: 0\nmodel name\t: {model}\n"})
    assert environment.read(root)["emulated_time"] is emulated


def test_emulated_and_real_times_are_unlike() -> None:
    lines = environment.unlike({"emulated_time": True}, {"emulated_time": False})
    assert lines == ["emulated_time: True and False"]


@pytest.mark.parametrize(("emulated", "lines"), [(True, 0), (False, 1), (None, 1)])
def test_the_clock_of_an_emulated_guest_makes_none_unlike(emulated: bool, lines: int) -> None:
    """Its TSC loses time on a busy host: of two boots one had tsc, the other hpet."""
    tsc, hpet = ({"emulated_time": emulated, "clocksource": clock} for clock in ("tsc", "hpet"))
    assert len(environment.unlike(tsc, hpet)) == lines


def test_another_programs_swap_makes_unlike_only_where_swap_counts() -> None:
    """It came and went between two sessions of mmap-write, whose numbers it does not move."""
    a, b = {"swap_total_bytes": 0}, {"swap_total_bytes": 2**30}
    assert environment.unlike(a, b) == ["swap_total_bytes: 0 and 1073741824"]
    assert environment.unlike(a, b, swap_counts=False) == []
    counts = [name for name in experiments.names() if experiments.load(name).host.swap_counts]
    assert counts == ["mmap-overcommit", "reclaim-or-kill"]


def test_only_a_port_of_memlabs_name_makes_a_guest(tmp_path: Path) -> None:
    """Other hypervisors have ports as well, and nothing may be risked on their guests."""
    assert not virtualization.memlab_guest(tmp_path)
    grow(tmp_path, {"sys/class/virtio-ports/vport1p1/name": "org.qemu.guest_agent.0\n"})
    assert not virtualization.memlab_guest(tmp_path)
    grow(tmp_path, {"sys/class/virtio-ports/vport2p1/name": "memlab\n"})
    assert virtualization.memlab_guest(tmp_path)
