"""Where a process stands in its cgroups: on a host, in a container, outside its namespace."""

from pathlib import Path

import pytest

from memlab.observe import cgroup

from .trees import HYBRID, V2, grow

DIVIDES = "\r\x0b\x0c\x1c\x85\u2028"  # where str.splitlines divides, and the kernel does not
OWN_GROUP_ONLY = {
    "proc/self/mountinfo": "35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw - cgroup c memory\n",
    "proc/self/cgroup": "4:memory:/docker/ab/sub\n",
    "sys/fs/cgroup/memory/sub/memory.stat": "hierarchical_memory_limit 9223372036854771712\n",
}


def test_membership_is_by_controller() -> None:
    text = "9:name=systemd:/init\n2:cpu,cpuacct:/a:b\n0::/v2\n"
    assert cgroup.parse_membership(text) == {
        "name=systemd": "/init",
        "cpu": "/a:b",
        "cpuacct": "/a:b",
        "": "/v2",
    }


def test_on_a_hybrid_host_the_tree_with_the_controller_is_chosen(tmp_path: Path) -> None:
    groups = cgroup.locate(grow(tmp_path, HYBRID))
    assert (groups.version, groups.memory_version) == ("hybrid", "1")
    assert groups.memory_dir == tmp_path / "sys/fs/cgroup/memory/batch/job"
    assert cgroup.v1_dir("memory", tmp_path) == groups.memory_dir
    assert cgroup.v1_dir("pids", tmp_path) is None


def test_a_mount_of_any_name_hides_no_controller(tmp_path: Path) -> None:
    """memcg-notify said that no controller was mounted."""
    odd = "".join(f"{n} 31 0:{n} / /mnt/a{c}b rw - tmpfs t rw\n" for n, c in enumerate(DIVIDES, 90))
    files = HYBRID | {"proc/self/mountinfo": odd + HYBRID["proc/self/mountinfo"] + odd}
    assert cgroup.locate(grow(tmp_path, files)).memory_version == "1"


def test_a_v2_limit_is_the_least_of_the_group_and_those_above(tmp_path: Path) -> None:
    tight = V2 | {"sys/fs/cgroup/user.slice/app.scope/memory.max": "4096\n"}
    assert cgroup.memory_limit_bytes(cgroup.locate(grow(tmp_path / "v2", V2))) == 1 << 30
    assert cgroup.memory_limit_bytes(cgroup.locate(grow(tmp_path / "tight", tight))) == 4096


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    groups = cgroup.locate(grow(tmp_path, OWN_GROUP_ONLY))
    assert groups.memory_dir == tmp_path / "sys/fs/cgroup/memory/sub"
    assert cgroup.memory_limit_bytes(groups) is None


@pytest.mark.parametrize("path", ["/elsewhere", "/docker/abc", "/../outside", "/docker/ab/gone"])
def test_a_group_that_the_mount_does_not_show_is_unknown(tmp_path: Path, path: str) -> None:
    files = OWN_GROUP_ONLY | {"proc/self/cgroup": f"4:memory:{path}\n"}
    groups = cgroup.locate(grow(tmp_path, files))
    assert groups.memory_version == "1"
    assert groups.memory_dir is None
    assert cgroup.memory_limit_bytes(groups) is None
