"""What stands beside the times of a machine that is not as most are."""

from collections.abc import Callable
from pathlib import Path

import pytest
import report_runs
import stored_runs

from memlab.judging.compare import compare_runs
from memlab.present import words
from memlab.results import Run


@pytest.fixture
def on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """A run whose files lie on a device that reads so far ahead; None: an older run's."""

    def made(kib: int | None, filesystem: str = "dir") -> Run:
        place = {"path": "/var/tmp", "type": "ext4"}
        places = stored_runs.ENVIRONMENT["filesystems"] | {  # type: ignore[operator]
            "dir": place if kib is None else place | {"readahead_kib": kib}
        }
        environment = stored_runs.ENVIRONMENT | {"filesystems": places}
        monkeypatch.setattr(stored_runs, "ENVIRONMENT", environment)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return stored_runs.stored(folder, filesystem=[filesystem])

    return made


@pytest.mark.parametrize(
    ("filesystem", "kib", "said"),
    [
        ("dir", 8192, "readahead is 8 MiB at /var/tmp, not Linux's 128 KiB"),
        ("dir", 0, "readahead is 0 B at /var/tmp"),
        ("dir", 128, ""),
        ("dir", None, ""),
        ("tmpfs", 8192, ""),  # no point has a file there
    ],
)
def test_another_readahead_than_the_default_is_said(
    filesystem: str, kib: int | None, said: str, on_a_device: Callable[..., Run]
) -> None:
    found = [*words.machine_remarks(on_a_device(kib, filesystem))]
    assert len(found) == bool(said)
    assert not said or found[0].startswith(said)


@pytest.mark.parametrize(("base", "new", "count"), [(128, 8192, 1), (8192, 8192, 0), (None, 0, 0)])
def test_runs_on_devices_that_read_ahead_otherwise_are_compared_and_it_is_said(
    base: int | None, new: int, count: int, on_a_device: Callable[..., Run]
) -> None:
    remarks = compare_runs(on_a_device(base), on_a_device(new)).remarks
    said = [line for line in remarks if "readahead" in line]
    assert len(said) == count
    assert all("dir is 128 KiB in run" in line and "8192 KiB in run" in line for line in said)


def test_a_claim_that_was_judged_in_a_guest_is_not_said_of_this_machine(tmp_path: Path) -> None:
    run = report_runs.stored(tmp_path, blocks=1, request={"guest": {"kernel": "6.1"}})
    assert words.place([run]) == f"in a guest of this machine ({words.machine(run)})"
    (tmp_path / "host").mkdir()
    assert words.place([report_runs.stored(tmp_path / "host", blocks=1)]) == "on this machine"
