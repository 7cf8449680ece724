"""What one sample of a thread says, where /proc is a folder of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memlab.diagnose import timing, waits
from memlab.observe import process

from .looks import look, rates

PID = 4711
MSYNC = {"x86_64": "26", "aarch64": "227"}.get(os.uname().machine, "none")
PWRITE = {"x86_64": "18", "aarch64": "68"}.get(os.uname().machine, "none")


@pytest.mark.parametrize(
    ("function", "syscall", "kind"),
    [
        ("folio_wait_bit", f"{MSYNC} 0x7f 0x20 0x4 0x0 0x0 0x0 0x7ffe 0x7f", "fsync"),
        ("folio_wait_bit", f"{PWRITE} 0x7f 0x20 0x4 0x0 0x0 0x0 0x7ffe 0x7f", "writeback"),
        ("folio_wait_bit", "-1 0x7ffe 0x7f", "a page of a file"),  # a page fault waits
        # It slept when its function was read, and runs when its call is: no wait for a file.
        ("folio_wait_bit", "running", None),
        ("rq_qos_wait", "running", None),
        ("0", "running", None),
    ],
)
def test_a_sample_is_of_the_moment_at_which_its_call_is_read(
    function: str, syscall: str, kind: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tmp_path / f"proc/{PID}/task/{PID}"
    task.mkdir(parents=True)
    (task / "wchan").write_text(function)
    (task / "syscall").write_text(syscall + "\n")
    monkeypatch.setattr(waits, "ROOT", tmp_path)
    monkeypatch.setattr(process, "tasks", lambda _: [PID])
    sampler = waits.WaitSampler([PID], 7)
    for _ in range(7):
        sampler.sample()
    sampler.close()
    found = sampler.result()
    assert found.samples == 7
    assert found.by_kind == ({kind: 7} if kind else {})
    assert found.running == (0 if kind else 7)
    assert found.idle == 0


@pytest.mark.parametrize(("sleeps", "said"), [(0.2, False), (20.0, True), (None, True)])
def test_one_long_wait_for_the_lock_of_mappings_is_not_many(
    sleeps: float | None, said: bool
) -> None:
    """Five samples of one wait, where sleeps are counted."""
    kind = "a kernel semaphore, as the mmap_lock"
    seen = look(
        waits=waits.Waits(100, 95, {kind: 5}, 0, {"__vm_munmap": 5}, 1.0, None),
        per_s=rates(munmap=1000.0, lock_sleeps=sleeps),
    )
    assert ([one.name for one in timing.findings(seen)] == ["waits-for-mappings"]) == said
