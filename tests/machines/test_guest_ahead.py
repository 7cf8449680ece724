"""What is said before a guest boots: wrong arguments, and the plan with what it needs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlab
from memlab import cli, experiments
from memlab.errors import BadLevels, BadRequest
from memlab.machines.guest.machine import CPUS
from memlab.observe import available
from memlab.run import kernel, plan
from memlab.run.admission import HEADROOM
from memlab.text.units import GiB, MiB

Asked = Callable[..., tuple[int, str, str]]


@pytest.fixture
def asked(
    guest_kernel: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Asked:
    """`memlab sweep ARGUMENTS --dry-run` in a guest of some settings: exit code, stdout, stderr."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def run(settings: str, *arguments: str) -> tuple[int, str, str]:
        guest = f"guest,kernel={guest_kernel},{settings}"
        words = ["memlab", "sweep", *arguments, "--dry-run", "--in", guest]
        monkeypatch.setattr(sys, "argv", words)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert sorted(tmp_path.rglob("*")) == before
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_the_plan_and_its_guest(
    asked: Asked, guest_kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(available, "disk", lambda _: 3 * GiB)  # others write to it meanwhile
    arguments = ["mmap-write", "-p", "file_size=1m", "--dir", tmp_path]
    code, out, err = asked("memory=512m", *map(str, arguments), "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    declared = experiments.load("mmap-write")
    expected = plan.build(declared, "quick", {"file_size": [MiB]}).points
    assert [point["levels"] for point in found["points"]] == [dict(p.at) for p in expected]
    # In the guest: its /var/tmp is a disk of its own, and --dir is where that lies on the host.
    assert found["disk_bytes"] == {"/var/tmp": 3 * MiB}  # a file of each state
    guest = found["guest"]
    release = kernel.read(Path(guest_kernel)).release
    assert (guest["kernel"], guest["kernel_release"]) == (guest_kernel, release)
    assert (guest["memory_bytes"], guest["append"]) == (512 * MiB, "")
    assert guest["cpus"] == CPUS[guest["accelerator"]]
    assert guest["directory"] == str(tmp_path)
    assert guest["disk_bytes"] == int(3 * GiB / 1.25) // MiB * MiB


def test_in_words(asked: Asked, guest_kernel: str) -> None:
    code, out, _ = asked("memory=512m,cpus=3", "vma-lock")
    assert code == 0
    release = kernel.read(Path(guest_kernel)).release
    assert f"guest    {release}, 3 CPUs, 512 MiB, " in out
    assert "not known before it boots:\n         how much of its memory is free" in out


def test_a_size_that_the_preset_chose_is_halved_until_the_guest_could_hold_it(
    asked: Asked,
) -> None:
    _, out, _ = asked("memory=256m", "mmap-write", "--json")
    found = json.loads(out)
    assert found["scaled"] == {"file_size": "32 MiB instead of 64 MiB"}
    assert 32 * MiB < found["memory_bytes"] <= 256 * MiB / HEADROOM


def test_what_no_guest_of_that_size_could_hold_is_refused(asked: Asked) -> None:
    code, out, err = asked("memory=512m", "mmap-write", "-p", "file_size=300m")
    assert (code, out) == (3, "")
    assert "of free memory, and the guest has 512 MiB with all of it free" in err


def test_a_disk_that_is_too_small_is_refused(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "disk", lambda _: 100 * MiB)
    levels = ["-p", "file_size=100m", "-p", "file_state=cached_4k"]
    code, _, err = asked("memory=512m", "mmap-write", *levels)
    assert code == 3
    assert "needs 125 MiB of free disk, and the guest has 80 MiB by what --dir has free" in err


def test_a_disk_that_has_nowhere_to_lie(asked: Asked) -> None:
    code, _, err = asked("memory=512m", "vma-lock", "--dir", "/proc/none")
    assert code == 3
    assert err == "memlab: /proc/none is not a directory; name another directory with --dir\n"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"memory": "1m"}, "comes up with 256 MiB or more"),
        ({"memory": "1q"}, "'1q' is not a size"),
        ({"cpus": 0}, "1 to 255 CPUs, not 0"),
        ({"append": "a='b"}, "No closing quotation"),
        ({"append": "a='b'"}, "a quote cannot be passed on"),
    ],
)
def test_a_guest_that_could_not_be(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        memlab.Guest(**wrong)


def test_what_is_wrong_with_a_sweep_is_said_before_its_guest_boots(store_path: Path) -> None:
    guest = memlab.Guest("/no/vmlinuz")
    with pytest.raises(BadLevels, match="has no factor 'chnks'"):
        memlab.sweep("page-fault", guest=guest, chnks=1)
    with pytest.raises(BadRequest, match=r"Guest\(directory=\) says where it lies"):
        memlab.sweep("page-fault", guest=guest, directory="/tmp")
    with pytest.raises(BadRequest, match="no kernel at /no/vmlinuz"):
        memlab.sweep("page-fault", guest=guest)
    assert not store_path.exists()
