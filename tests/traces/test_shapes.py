"""Programs of many shapes, recorded: what is said of them beside what smaps counted."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import needs
import pytest

from memlab.command import request
from memlab.errors import BadLevels
from memlab.trace import account, file, shown

from .made import PAGE, replay

pytestmark = pytest.mark.needs("traces", "recording")
SOURCE = Path(__file__).with_name("shapes.c")
# The kernel itself writes the first pages of a stack (copy_strings, fs/exec.c): no fault tells.
OF_KERNEL = 4


class Recorded(NamedTuple):
    counts: dict[str, list[int]]  # what the program said
    said: str
    path: Path
    found: account.TraceAccount

    @property
    def trace(self) -> file.Trace:
        return file.read(self.path)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for words in (["-o", "dynamic"], ["-static", "-o", "static"]):
        command = ["cc", "-O1", *words, str(SOURCE), "-pthread"]
        subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.fixture
def recorded(programs: Path, tmp_path: Path) -> Callable[..., Recorded]:
    def record(shape: str, program: str = "dynamic", *options: str, status: int = 0) -> Recorded:
        path = tmp_path / f"{shape}-{program}.trace"
        words = ["record", *options, "-o", str(path), "--", str(programs / program), shape]
        command = [sys.executable, "-m", "memlab", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == status, done
        counts: dict[str, list[int]] = {}
        for line in done.stdout.splitlines():
            name, _, value = line.partition(" ")
            if value.isdecimal():
                counts.setdefault(name, []).append(int(value))
        return Recorded(counts, done.stdout, path, account.of(file.read(path)))

    return record


def is_replayed(path: Path) -> bool:
    done = replay(path)
    return (done.status, done.refused) == (0, 0)


@pytest.mark.seconds(but="shared-static")
@pytest.mark.parametrize("program", ["dynamic", "static"])
@pytest.mark.parametrize("shape", ["shared", "memfd"])
def test_shared_memory_is_what_its_object_has(
    shape: str, program: str, recorded: Callable[..., Recorded]
) -> None:
    """However many processes have it mapped, and though the one that touched it has ended."""
    counts, _, path, found = recorded(shape, program)
    assert found.peak["shared"] == counts["object"][0] == 810
    assert found.copied["shared"] == 0
    assert (counts["child"], counts["parent"]) == ([503], [408])
    assert is_replayed(path)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["dynamic", "static"])
def test_pages_after_a_fork_are_the_kernels(
    program: str, recorded: Callable[..., Recorded]
) -> None:
    """Of the mapping and all else that either process writes after the fork."""
    counts, _, path, found = recorded("common", program)
    pages = counts["parent"][0] + counts["child"][0]
    assert pages == 1009 + 211 + 206
    assert 0 <= found.copied["anonymous"] - 211 - 206 <= 16  # what smaps is read into
    assert is_replayed(path)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["spawned", "thread"])
def test_a_program_that_another_begins_has_its_own_peak(
    shape: str, recorded: Callable[..., Recorded]
) -> None:
    counts, _, path, found = recorded(shape)
    assert found.calls["exec"] == 1
    small = min(counts["anonymous"])
    peaks = sorted(one.anonymous for one in found.by_process)
    assert peaks[-1] >= 2003
    if shape == "spawned":
        assert abs(peaks[0] - small) <= OF_KERNEL
    assert is_replayed(path)


@pytest.mark.seconds(but="small-static")
@pytest.mark.parametrize("program", ["dynamic", "static"])
@pytest.mark.parametrize("shape", ["moved", "offered", "zeros", "small"])
def test_the_anonymous_memory_is_that_of_smaps(
    shape: str, program: str, recorded: Callable[..., Recorded]
) -> None:
    counts, _, path, found = recorded(shape, program)
    (one,) = found.by_process
    *_, last = one.course or [(one.anonymous, 0, 0)]
    expected = {
        "moved": {"moved": [701], "kept": [101]},
        "offered": {"resident": [701, 600]},
        "zeros": {"resident": [103]},
        "small": {},
    }[shape]
    assert {name: counts[name] for name in expected} == expected
    # What is resident at its end; at its peak there may have been more.
    resident = last[0] if shape in ("moved", "offered") else one.anonymous
    assert abs(resident - counts["anonymous"][0]) <= OF_KERNEL
    assert found.offered_pages == (307 if shape == "offered" else 0)
    assert found.outside <= 1  # of the vdso
    assert is_replayed(path)


@pytest.mark.slow
def test_pages_without_a_fault_are_said(recorded: Callable[..., Recorded]) -> None:
    needs.of("lock any amount")
    counts, _, path, found = recorded("populated")
    assert counts["resident"] == [503]
    assert found.populated_bytes == (503 + 101) * PAGE
    said = "\n".join(shown.lines(file.read(path), found))
    assert "its own calls brought in up to 2.36 MiB at once (MAP_POPULATE, mlock)" in said
    assert is_replayed(path)


def test_what_a_fork_leaves_out_is_not_in_its_child(recorded: Callable[..., Recorded]) -> None:
    counts, _, path, found = recorded("left")
    child = next(one for one in found.by_process if one.task == 1)
    assert abs(child.anonymous - counts["anonymous"][0]) <= OF_KERNEL
    assert is_replayed(path)


@pytest.mark.slow
def test_short_processes_are_not_answered_for(recorded: Callable[..., Recorded]) -> None:
    """31 of some 40 ms each, and one that only waits for them: which of their pages are used again
    is not known, and a memory limit is answered by how a replay ends."""
    _, said, path, found = recorded("short")
    trace = file.read(path)
    if not trace.used_again:  # a host so busy that there were not two looks
        return
    assert found.looked_pages < found.touched_pages
    if found.looked_share >= account.LEAST_SHARE:  # a host so busy that they were not short
        return
    assert "a memory limit is answered by how a replay ends" in said
    subject = request.command([str(path)], {"memory_max": ["none", "64M"]}).subject or {}
    assert subject["knows_reuse"] is False
    with pytest.raises(BadLevels, match=r"a lock is in force for .* under half"):
        request.command([str(path)], {"lock": ["off", "future"]})


@pytest.mark.slow
def test_a_daemon_still_runs(recorded: Callable[..., Recorded]) -> None:
    _, said, path, _ = recorded("daemon")
    assert "1 process still ran: memlab record -o dynamic.trace " in said
    assert file.read(path).running == 1


# write(2) to no descriptor, 61 pages written, exit(2): none has the number of a mapping call.
ABI_32 = """
.globl _start
_start:
	mov $61, %ecx
	mov $memory, %edx
1:	movb $1, (%edx)
	add $4096, %edx
	dec %ecx
	jnz 1b
	mov $1, %eax
	xor %ebx, %ebx
	int $0x80
.bss
.lcomm memory, 61 * 4096
"""


@pytest.mark.needs("32-bit programs")
def test_a_32_bit_program_that_maps_nothing_is_said_too(tmp_path: Path) -> None:
    (tmp_path / "a.s").write_text(ABI_32)
    for command in (["as", "--32", "-o", "a.o", "a.s"], ["ld", "-m", "elf_i386", "-o", "a", "a.o"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    words = ["record", "--json", "-o", "a.trace", "--", "sh", "-c", "./a; true"]
    done = subprocess.run(
        [sys.executable, "-m", "memlab", *words], cwd=tmp_path, capture_output=True, check=True
    )
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["incomplete"] == "the calls of a 32-bit program were not seen"
    needs.of("recording")
