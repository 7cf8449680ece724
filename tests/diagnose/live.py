"""The programs under diagnosis: compiled here from C, run, and ended with the test."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import needs
import pytest

from memlab.observe import allocators

Compiled = Callable[[str], Path]

SOURCES = Path(__file__).parent / "programs"


def compiled(name: str, folder: Path) -> Path:
    """The program of this name."""
    binary = folder / Path(name).name
    if not binary.exists():
        warnings = ["-Wall", "-Wextra", "-Werror"]
        source = SOURCES / f"{name}.c"
        command = ["cc", "-O2", *warnings, "-pthread", "-o", binary, source]
        subprocess.run(command, check=True)
    return binary


def library(name: str) -> str:
    """The file of an allocator; the test is skipped where it is missing."""
    needs.of(name)
    return str(allocators.find(name))


def first_on_a_cpu() -> list[str]:
    """What a command begins with that other tests are not to keep waiting, where that is allowed:
    a look is about what the program does, and one that waits does less of it."""
    return ["nice", "-n", "-20"] if os.geteuid() == 0 else []


def kept_waiting_s(pid: int) -> float:
    """How long the program and its children have waited for a CPU (proc(5), /proc/pid/schedstat),
    and the machine for its own CPUs, which another has (steal in /proc/stat)."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            total_ns += int((task / "schedstat").read_text().split()[1])
            for child in (task / "children").read_text().split():
                total_ns += round(kept_waiting_s(int(child)) * 1e9)
    stolen = int(Path("/proc/stat").read_text().split()[8])
    return total_ns * 1e-9 + stolen / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)


def await_rest(pid: int) -> None:
    """Wait until the program reads from what nobody writes to: until then its heap may change."""
    for _ in range(10_000):
        if Path(f"/proc/{pid}/syscall").read_text().split()[1:2] == ["0x0"]:
            return
        time.sleep(0.01)
    pytest.fail(f"{pid} does not read its standard input")


@contextmanager
def running(
    *command: str | Path, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The program, once it has said that it is ready."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environ or {})},
        text=True,
    )
    assert process.stdout
    assert process.stderr
    try:
        if process.stdout.readline() != "ready\n":
            process.wait(timeout=300)
            pytest.skip(f"{Path(command[0]).name} cannot run here: {process.stderr.read().strip()}")
        yield process
    finally:
        process.kill()
        process.communicate()
