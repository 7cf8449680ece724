"""What a trial needs of its host: a cgroup, swap, CPUs, an environment, settings, a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memlab.experiment.kinds import At


@dataclass(frozen=True, slots=True)
class Containment:
    """The memory cgroup that a trial runs in, and the swap it may use.

    `limit` is in bytes; None runs the trial outside of any group. Where the host offers no
    group, a trial that is `required` to have one is `unavailable`; others run without, since
    admission has seen that the host has room for them. Swap belongs to the run: made for it,
    journaled, removed when it ends.

    `depth` groups lie one inside the other, each with the limit, and the worker is in the
    innermost. `members` groups, named 0, 1, ..., lie beside one another in it, each with
    `member_limit`: then the worker stays outside, and the probe's processes enter them. With
    `pass_group` the probe finds the innermost group's folder in its param `group`, "" outside of
    any.

    With `top` a trial outside of any group runs at the top of the hierarchy, where this user may
    move there, and every sample says in `depth_count` how many groups it was in, one in the other.

    `fresh` groups are new for each trial: what one arms in its group, such as a threshold,
    the kernel takes back long after the trial has ended. With `keep_cache` the page cache that a
    trial was charged for stays in memory: a command's own files are then as warm as they were.

    `processes` bounds how many may live at once in the group, where the host has the pids
    controller; the probe enters its group as it enters the members, and `pass_group` names it.

    `counted` is what admission wants to be free, in bytes, where that is less than the limit: one
    that only protects the host is nothing that a trial needs.
    """

    limit: Callable[[At], int | None]
    swap: Callable[[At], str] = lambda _: "none"  # none, file, zram
    swap_bytes: int = 0  # the size of the swap area
    required: Callable[[At], bool] = lambda _: True
    depth: Callable[[At], int] = lambda _: 1
    members: Callable[[At], int] = lambda _: 0
    member_limit: Callable[[At], int] = lambda _: 0
    pass_group: bool = False
    top: bool = False
    fresh: bool = False
    keep_cache: bool = False
    processes: int = 0
    counted: Callable[[At], int | None] | None = None


@dataclass(frozen=True, slots=True)
class Malloc:
    """Whose malloc the worker runs under, from its start on, and how it is set.

    `setting` is one of those that observe/allocators.py translates for the library's version.
    The probe must see for itself that malloc is that library's.
    """

    allocator: str  # glibc, jemalloc, tcmalloc, mimalloc, or other, which is named by its path
    setting: str = "default"
    library: str = ""  # its path; "" for the one that the dynamic linker finds
    otherwise: str = "-p library=PATH"  # what names its file, where it is not found


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """The virtual machine that a trial starts under QEMU. The probe finds QEMU's command line, a
    word a line, in its param `command`, and in `booted_sign` what the console says then.

    The guest of a kernel is an init that says one line and sleeps; without a kernel only the
    firmware boots. A device is passed through if vfio-pci has one already.
    """

    memory_bytes: int
    mem_lock: bool = False  # QEMU's -overcommit mem-lock
    nic: str = "none"  # none, virtio, passed_through
    kernel: str | None = None  # a path, or FOUND: the newest in /boot


@dataclass(frozen=True, slots=True)
class ReservedMemory:
    """Memory reserved from the kernel, which the worker opens once a guard permits the range. The
    probe finds the descriptor in its param `reserved_fd`, and the physical range in
    `range_start_bytes` and `range_bytes`."""

    range: str  # START+LENGTH in hexadecimal, or "" for the largest one
    size_bytes: int
    uncached: bool


@dataclass(frozen=True, slots=True)
class Host:
    """What is set up on the host for a point's trials, and taken back.

    `cpus` are those that a trial may use where the user names none: one, all, or how many.
    `environ` is the worker's, from its start, and so is `malloc`, where it is not the system's;
    `libc` is the folder of the C library that it runs under, "" for the system's.
    `settings` are host files and their values; "+8" is 8 more than before, for what others may use
    as well. `readahead` is how many bytes the kernel reads ahead on the device of the trial's file.
    `tmpfs` is the bytes that a trial's own files take there, in a folder of the run.
    `needs` is what the probe itself asks of the host: capabilities by the names that `doctor`
    prints, "memory cgroup v2", or files that must exist. `locks` is the most bytes that one process
    of a trial has locked at once, and `tasks` the most processes and threads that live at once in
    it: limits of the user may be lower. A trial that `endangers` all that runs on
    its machine runs only in a guest of memlab's.

    `kept` names what a trial may leave running, "" for nothing. The trials of a block with one name
    follow each other, in one worker and without a preparation between them, as long as a trial's
    result says that it is `kept`; the worker ends before whatever comes next.
    """

    containment: Containment | None = None
    cpus: Literal["one", "all"] | Callable[[At], int] = "one"
    environ: Callable[[At], Mapping[str, str]] = lambda _: {}
    malloc: Callable[[At], Malloc] | None = None
    libc: Callable[[At], str] = lambda _: ""
    settings: Callable[[At], Mapping[str, str]] = lambda _: {}
    readahead: Callable[[At], int] | None = None
    tmpfs: Callable[[At], int] | None = None
    virtual_machine: Callable[[At], VirtualMachine] | None = None
    reserved: Callable[[At], ReservedMemory | None] | None = None
    swap_counts: bool = False
    needs: Callable[[At], Sequence[str]] = lambda _: ()
    locks: Callable[[At], int] = lambda _: 0
    tasks: Callable[[At], int] = lambda _: 0
    endangers: Callable[[At], bool] = lambda _: False
    kept: Callable[[At], str] = lambda _: ""
