"""What the kernel's log says of a program that it ended: the fault of one that ended by SIGSEGV,
the call that a seccomp filter refused, and a kill for want of memory.

The kernel writes a line of a fault that nobody handles, with the number of the thread
(arch/x86/mm/fault.c, show_signal_msg(); kernel.traps: arch/x86/kernel/traps.c), if
debug.exception-trace is 1 and it has not written too many. Numbers of other architectures are not
read here.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from memlab.observe import files, proc, system_calls
from memlab.text import units
from memlab.text.printable import printable

_FAULT = re.compile(
    r"\[(\d{1,10})\]: segfault at ([0-9a-f]{1,16}) ip [0-9a-f]{1,16} sp ([0-9a-f]{1,16}) "
    r"error ([0-9a-f]{1,8})(?: in ([^\n]{1,80}?)\[)?"
)
_GENERAL = re.compile(r"\[(\d{1,10})\] general protection fault ip:")
_KILLED = re.compile(r"Killed process (\d{1,10}) \(")
_FILTERED = re.compile(
    r"audit: type=1326 [^\n]{0,200}? pid=(\d{1,10}) comm=[^\n]{1,400} sig=31 arch=([0-9a-f]{1,8}) "
    r"syscall=(\d{1,9}) compat="
)
_ARCHES = {"x86_64": "c000003e", "aarch64": "c00000b7", "riscv64": "c00000f3"}  # linux/audit.h
_I386 = "40000003"
_PRESENT, _WRITES, _EXECUTES = 1, 2, 16  # X86_PF_, arch/x86/include/asm/trap_pf.h
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NULL_BELOW = 64 << 10  # vm.mmap_min_addr as it is by default
_BELOW_STACK = 64 << 10  # a call or a large frame begins so far below the stack pointer
_KERNELS_FROM = 1 << 63  # of these the kernel always says that a page is there
_RECORDS_MAX = 20_000
_DEVICE = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt
_BEHIND_MAX_BYTES = 1 << 40
_LONGEST_STACK_BYTES = 1 << 30  # what lies farther below is another stack
MAP_FAILED = "a pointer that is -1, as of a mmap(2) that failed"
STACK_FULL = "its stack is full"
_NO_ADDRESS = (
    "an address that no program has, or an instruction that it may not execute "
    "(general protection fault)"
)
_UNREADABLE = "the kernel's log (/dev/kmsg) may not be read here, or has other PIDs (container)"
_INITIAL_PIDS = 0xEFFFFFFC  # PROC_PID_INIT_INO: the PID namespace whose numbers the log has


@dataclass(frozen=True, slots=True)
class Stack:
    """That of a main thread, as far as it was read."""

    end: int = 0
    """From where it grows down; 0 if it was not read."""
    limit_bytes: int | None = None
    """RLIMIT_STACK, as it was when the program ended; None if it was not read."""


NO_STACK = Stack()


class FaultLog:
    """The kernel's log from here on."""

    def __init__(self) -> None:
        self._fd = -1
        with suppress(OSError):
            about = (proc.ROOT / "dev/kmsg").stat()  # a container may have its terminal there
            if not (stat.S_ISCHR(about.st_mode) and about.st_rdev == _DEVICE and _has_its_pids()):
                return
            self._fd = os.open(proc.ROOT / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def why(
        self,
        pid: int,
        number: int,
        launch: Sequence[str],
        locked: tuple[int, int] | None = None,
        stack: Stack = NO_STACK,
    ) -> str:
        """Why this process was ended by this signal, or what was not read of it; empty of other
        signals. `launch` has the limit of its stack, if it has another than this process; `locked`
        what it had locked, and its RLIMIT_MEMLOCK."""
        if number == signal.SIGKILL:
            killed = any(int(m[1]) == pid for line in self._lines() for m in _KILLED.finditer(line))
            what = "by the kernel, for want of memory (memlab diagnose --last-kill)"
            return what if killed else ""
        if number == signal.SIGSYS:
            return self._filtered(pid)
        if number != signal.SIGSEGV:
            return ""
        lines = self._lines()
        for line in reversed(lines):
            if (fault := _FAULT.search(line)) and int(fault[1]) == pid:
                return self._fault(fault, launch, locked, stack)
            if (fault := _GENERAL.search(line)) and int(fault[1]) == pid:
                return _NO_ADDRESS
        return self._of_another(pid, lines, launch, locked)

    def why_child(self, number: int, launch: Sequence[str]) -> str:
        """Why a process that it started was ended by this signal, of which a shell has only the
        number; empty of other signals."""
        if number == signal.SIGSYS:
            return self._filtered(None)
        if number != signal.SIGSEGV:
            return ""
        return self._of_another(None, self._lines(), launch, None)

    def _filtered(self, pid: int | None) -> str:
        """Which call a seccomp filter refused (kernel/auditsc.c, audit_seccomp()), of this process
        or of any one since then."""
        status = files.known(lambda: proc.status(root=proc.ROOT)) or {}
        whose = "the command" if status.get("Seccomp") == "0" else "the command or this container"
        for line in reversed(self._lines()):
            refused = _FILTERED.search(line)
            if refused and pid in (None, int(refused[1])):
                arch, number = refused[2], int(refused[3])
                call = f"system call {number}"
                if arch in (_I386, _ARCHES.get(os.uname().machine)):
                    call = system_calls.name(number, is_narrow=arch == _I386)
                of = "" if pid else f" of process {refused[1]}, if that was started by it"
                return (
                    f"a seccomp filter refused {call}{of}: allow it in the filter that {whose} sets"
                )
        why = (
            "the kernel's log has no line of it (an audit daemon takes them; many are dropped; "
            "SECCOMP_RET_TRAP writes none)"
        )
        why = why if self._fd >= 0 else _UNREADABLE
        who = "a seccomp filter sends it, or a process by kill(2): who did, and which call was "
        return f"{who}refused, was not read: {why}"

    def _of_another(
        self,
        pid: int | None,
        lines: Sequence[str],
        launch: Sequence[str],
        locked: tuple[int, int] | None,
    ) -> str:
        """The kernel writes the number of the thread, not that of its process, and of a shell's
        child the number is not known: of one fault the thread is named, if it has ended as well."""
        unread = f"which address it touched was not read: {self._unread(pid)}"
        faults = {
            int(fault[1]): (line, fault)
            for line in lines
            if (fault := _FAULT.search(line) or _GENERAL.search(line))
        }
        if len(faults) != 1:
            return unread
        ((number, (line, fault)),) = faults.items()
        if (proc.ROOT / f"proc/{number}").exists():
            return unread
        name = printable(line[: fault.start()].partition(";")[2].removeprefix("traps: "))[:16]
        kind, was = ("thread", "of this process") if pid else ("process", "started by it")
        is_general = fault.re is _GENERAL
        what = f"it used {_NO_ADDRESS}" if is_general else self._fault(fault, launch, locked)
        return f"if {kind} {number} ({name}), which has ended too, was {was}, {what}"

    def _lines(self) -> list[str]:
        """Of each record since then the first line."""
        result = []
        for _ in range(_RECORDS_MAX if self._fd >= 0 else 0):
            try:
                record = os.read(self._fd, 8192)
            except BrokenPipeError:  # overwritten meanwhile: the next read goes on
                continue
            except OSError:
                break
            if not record:
                break
            result.append(record.decode("utf-8", "replace").partition("\n")[0])
        return result

    def _unread(self, pid: int | None) -> str:
        if self._fd < 0:
            return _UNREADABLE
        if os.uname().machine != "x86_64":
            return "lines of faults are read only on x86-64"
        if files.number(proc.ROOT / "proc/sys/debug/exception-trace") != 1:
            return "debug.exception-trace is not 1"
        if pid is None:
            return "the kernel's log has no fault, or several, since it began"
        return (
            f"the kernel's log has no fault of thread {pid}: a process sent the signal, it is of "
            "another thread, or too many faults were logged"
        )

    def _fault(
        self,
        fault: re.Match[str],
        launch: Sequence[str],
        locked: tuple[int, int] | None,
        stack: Stack = NO_STACK,
    ) -> str:
        address, pointer, error = (int(fault[i], 16) for i in (2, 3, 4))
        code = f", in code of {printable(fault[5])}" if fault[5] else ""
        does = "executes" if error & _EXECUTES else "writes to" if error & _WRITES else "reads"
        if address < _NULL_BELOW:
            near = f"a pointer that is null or nearly so{_behind_failed(address, 8)}"
            return f"it {does} address {address:#x}: {near}{code}"
        if address >= _KERNELS_FROM:
            return (
                f"it {does} {address:#x}, where no program has memory: {MAP_FAILED}, or damaged"
                f"{code}"
            )
        if error & _PRESENT:
            return f"it {does} {address:#x}: a page is there, and does not allow that{code}"
        if -_BELOW_STACK <= address - pointer < _PAGE:
            return (
                f"it {does} {address:#x}, where its stack pointer is and no page may be: "
                f"{_of_stack(address, launch, locked, stack)}, or that pointer is "
                f"damaged{code}"
            )
        return (
            f"it {does} {address:#x}, where no page of it is: whether a mapping without that right "
            f"lies there was not read{_behind_failed(address, _PAGE)}{code}"
        )


def _has_its_pids() -> bool:
    return (proc.ROOT / "proc/self/ns/pid").stat().st_ino == _INITIAL_PIDS


def _behind_failed(address: int, aligned: int) -> str:
    """A multiple of the alignment behind -1, where few programs have anything else."""
    behind = address + 1
    if behind % aligned or not 0 < behind < _BEHIND_MAX_BYTES:
        return ""
    return f", or {units.format_quantity(behind, 'B')} behind {MAP_FAILED}"


def _of_stack(
    address: int, launch: Sequence[str], locked: tuple[int, int] | None, stack: Stack
) -> str:
    """Why a stack does not grow to this address. The kernel compares its length to RLIMIT_STACK,
    and then, if it is locked (MCL_FUTURE), all that is locked to RLIMIT_MEMLOCK
    (acct_stack_growth(), mm/vma.c)."""
    most = _stack_limit(launch) if stack.limit_bytes is None else stack.limit_bytes
    limit = "unlimited" if most == resource.RLIM_INFINITY else units.format_size(most)
    length = stack.end // _PAGE * _PAGE + _PAGE - address
    if not 0 < length < max(most, _LONGEST_STACK_BYTES):
        return f"{STACK_FULL} (RLIMIT_STACK: {limit}; of a thread by its own size)" + (
            f", or may not grow: {_locked(locked)}" if locked else ""
        )
    long = units.format_size(length // _PAGE * _PAGE)
    if most != resource.RLIM_INFINITY and length > most - _PAGE:
        return f"{STACK_FULL}, {long} long (RLIMIT_STACK: {limit})"
    below = f"its stack, {long} long, may not grow, below RLIMIT_STACK ({limit})"
    return f"{below}: {_locked(locked)}" if locked else below


def _locked(locked: tuple[int, int]) -> str:
    held, most = (units.format_quantity(value, "B") for value in locked)
    return f"{held} were locked, and RLIMIT_MEMLOCK is {most}"


def _stack_limit(launch: Sequence[str]) -> int:
    limits = [word.removeprefix("stack=") for word in launch if word.startswith("stack=")]
    return int(limits[-1]) if limits else resource.getrlimit(resource.RLIMIT_STACK)[0]
