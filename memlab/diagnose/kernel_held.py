"""Memory of the kernel that a process holds beside its sockets: data in pipes (pipe(7)), messages
in queues, BPF maps and programs (bpf(2)), and files that it passes and nobody has taken (unix(7),
SCM_RIGHTS).

None of it is in a process's resident memory.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import re
import stat
import termios
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from memlab.diagnose import memory_held_open, message_queues
from memlab.observe import files, process
from memlab.observe.proc import ROOT

_PIPES_MAX = 1000
_SOCKETS_MAX = 200  # whose fdinfo is read, at some 10 us each
_OBJECT = {
    kind: re.compile(rf"(?ms)^memlock:\s+(\d{{1,19}})$.{{0,400}}^{kind}_id:\s+(\d{{1,10}})$")
    for kind in ("map", "prog")
}
_FIFOS_MAX = 500  # paths that are looked at, at some 7 us each
_NO_FIFO = ("/dev/", "/memfd:", "/proc/", "/sys/")
_INOTIFY_MAX, _WATCHES_BYTES = 16, 1 << 20  # of text, some 10,000 watches
_RINGS_MAX = 1000
_RING = re.compile(
    r"^SqMask:\s+0x([0-9a-f]{1,8})$.{0,200}?^CqMask:\s+0x([0-9a-f]{1,8})$", re.M | re.S
)
_SUBMISSION_BYTES, _COMPLETION_BYTES = 64, 16  # include/uapi/linux/io_uring.h
_IN_FLIGHT = re.compile(r"^scm_fds:\s+(\d{1,9})$", re.M)


@dataclass(frozen=True, slots=True)
class KernelHeld:
    """What it holds in the kernel."""

    pipe_count: int
    pipe_bytes: int
    """Data that nobody has read, in all pipes that were read."""
    pipe_room_bytes: int
    """What these pipes can hold."""
    map_count: int
    map_bytes: int
    """Of BPF maps."""
    in_flight: int
    """Files in the queues of its Unix sockets; what they hold is not shown."""
    unread: str = ""
    """Why pipes were not read."""
    queue_count: int = 0
    """Message queues: POSIX ones that it holds open, and those of System V that it used last."""
    message_bytes: int = 0
    """The text of messages that nobody has received."""
    system_v_bytes: int = 0
    """Of it in queues of System V, which stay when the process ends."""
    queues_unread: int = 0
    """Files that may be POSIX queues, whose file system could not be looked at."""
    watches: int = 0
    """Of inotify, at least: what each keeps in the kernel is not shown."""
    rings: int = 0
    """Of io_uring."""
    ring_bytes: int = 0
    """Of their entries; what else they keep in the kernel is not shown."""
    program_count: int = 0
    program_bytes: int = 0
    """Of BPF programs."""
    packet_count: int = 0
    packet_bytes: int = 0
    """Of pipes in packet mode (O_DIRECT, pipe(2)): what their packets may take beyond their data,
    because each has pages of its own."""
    filled_count: int = 0
    """Pipes that hold data."""

    @property
    def pipes(self) -> PipeData:
        count = f"{self.filled_count:,} pipes" if self.filled_count != 1 else "pipe"
        of_bpf = self.map_bytes + self.program_bytes
        return PipeData(
            self.pipe_bytes, f"the {count} of this process", not self.unread, bpf_bytes=of_bpf
        )

    @property
    def bytes(self) -> int:
        return self.pipe_bytes + self.map_bytes + self.message_bytes + self.program_bytes


@dataclass(frozen=True, slots=True)
class PipeData:
    """Data that nobody has read in pipes of some processes, and their BPF objects. The group of a
    writer, and of who made an object, is charged."""

    bytes: int = 0
    place: str = ""
    """Whose pipes they are."""
    is_whole: bool = True
    """Whether all pipes of these processes were read."""
    sockets: int = 0
    """That these processes have open."""
    has_more: bool = False
    """Of a process with very many descriptors only the first are read."""
    bpf_bytes: int = 0
    """Of BPF maps and programs that they hold open."""

    @property
    def stays_bytes(self) -> int:
        """What is not dropped when memory is short, or a little less: the kernel's number of a BPF
        object is an estimate that may be above its charge."""
        return self.bytes + self.bpf_bytes * 19 // 20


def read(pid: int, held: Mapping[int, str]) -> KernelHeld | None:
    """Of a process and its descriptors; None of one that has none of these."""
    pipes = {link: number for number, link in held.items() if link.startswith("pipe:")}
    pipes |= dict(_fifos(pid, held))
    maps, programs = (dict(_objects(pid, held, kind)) for kind in _OBJECT)
    flying = in_flight(pid, held)
    messages = message_queues.read(pid, held)
    watches = sum(_watches(pid, held))
    rings = list(_rings(pid, held))
    if not (pipes or maps or flying or messages.queues or messages.unread or watches or rings
            or programs):  # fmt: skip
        return None
    data, room, filled_count, unread = 0, 0, 0, ""
    packets: list[int] = []
    try:
        with process.handle(pid) as take:
            for number in list(pipes.values())[:_PIPES_MAX]:
                filled, size, is_of_packets = _pipe(take, number)
                data, room = data + filled, room + size
                filled_count += filled > 0
                packets += [size - filled] if filled and is_of_packets else []
    except OSError as error:
        unread = error.strerror or str(error)
    if len(pipes) > _PIPES_MAX and not unread:
        unread = f"beyond the first {_PIPES_MAX:,}"
    return KernelHeld(
        len(pipes), data, room, len(maps), sum(maps.values()), flying, unread,
        messages.queues, messages.bytes, messages.system_v_bytes, messages.unread, watches,
        len(rings), sum(rings), len(programs), sum(programs.values()),
        len(packets), sum(packets), filled_count,
    )  # fmt: skip


def in_pipes(descriptors: Mapping[int, Mapping[int, str]]) -> tuple[dict[int, int], bool]:
    """Data in the pipes of these processes, each pipe once, by the process in which it was met
    first; and whether all pipes were read."""
    met: set[str] = set()
    sizes: dict[int, int] = {}
    is_whole = True
    for pid, held in descriptors.items():
        pipes = {link: number for number, link in held.items() if link.startswith("pipe:")}
        new = {link: number for link, number in pipes.items() if link not in met}
        is_whole &= len(met) + len(new) <= _PIPES_MAX
        if not new or len(met) >= _PIPES_MAX:
            continue
        try:
            with process.handle(pid) as take:
                for link, number in list(new.items())[: _PIPES_MAX - len(met)]:
                    sizes[pid] = sizes.get(pid, 0) + _pipe(take, number)[0]
                    met.add(link)
        except ProcessLookupError:
            continue  # it ended
        except OSError:
            is_whole = False
    return sizes, is_whole


def of_group(descriptors: Mapping[int, Mapping[int, str] | None]) -> PipeData:
    """In the pipes of these processes, and their BPF objects, each once; by process its
    descriptors, None of one that may not be read."""
    sizes, is_whole = in_pipes({pid: held for pid, held in descriptors.items() if held})
    objects = {
        (kind, number): size for pid, held in descriptors.items() for kind in _OBJECT
        for number, size in _objects(pid, held or {}, kind)
    }  # fmt: skip
    most = max(sizes, key=lambda pid: sizes[pid], default=0)
    hidden = any(held is None and (ROOT / f"proc/{pid}").exists()
                 for pid, held in descriptors.items())  # fmt: skip
    place = f"pipes of its processes, most of {most} ({process.command(most, ROOT)})"
    sockets = {
        link for held in descriptors.values() for link in (held or {}).values()
        if link.startswith("socket:")
    }  # fmt: skip
    cut = any(len(held or {}) >= process.DESCRIPTORS_READ for held in descriptors.values())
    return PipeData(
        sum(sizes.values()), place if most else "", is_whole and not hidden, len(sockets), cut,
        sum(objects.values()),
    )  # fmt: skip


def in_flight(pid: int, held: Mapping[int, str]) -> int:
    """Files that lie in the queues of its sockets (since Linux 5.9)."""
    texts = _infos(pid, held, "socket:", _SOCKETS_MAX)
    return sum(int(count[1]) for text in texts if (count := _IN_FLIGHT.search(text)))


def _infos(pid: int, held: Mapping[int, str], begin: str, most: int | None = None) -> Iterator[str]:
    """What fdinfo says of the descriptors whose link begins so."""
    numbers = [number for number, link in held.items() if link.startswith(begin)]
    for number in numbers[:most]:
        yield files.text(ROOT / f"proc/{pid}/fdinfo/{number}") or ""


def _watches(pid: int, held: Mapping[int, str]) -> Iterator[int]:
    numbers = [number for number, link in held.items() if link == "anon_inode:inotify"]
    for number in numbers[:_INOTIFY_MAX]:
        with suppress(OSError), (ROOT / f"proc/{pid}/fdinfo/{number}").open("rb") as text:
            yield text.read(_WATCHES_BYTES).count(b"inotify wd:")


def watch_bytes() -> int:
    """Of one watch: its mark, and the connector of the inode, which other watches of that share
    (fs/notify/inotify/inotify_user.c, fs/notify/mark.c); 0 if they were not read."""
    sizes = [
        files.number(ROOT / f"sys/kernel/slab/{name}/object_size")
        for name in ("inotify_inode_mark", "fsnotify_mark_connector")
    ]
    return sum(size or 0 for size in sizes) if all(sizes) else 0


def _rings(pid: int, held: Mapping[int, str]) -> Iterator[int]:
    """What the entries of each io_uring take."""
    for text in _infos(pid, held, "anon_inode:[io_uring]", _RINGS_MAX):
        if about := _RING.search(text):
            submissions, completions = (int(mask, 16) + 1 for mask in about.groups())
            yield submissions * _SUBMISSION_BYTES + completions * _COMPLETION_BYTES


def _objects(pid: int, held: Mapping[int, str], kind: str) -> Iterator[tuple[str, int]]:
    """The number of each object of BPF of a kind, and what it holds."""
    for text in _infos(pid, held, f"anon_inode:bpf-{kind}"):
        if about := _OBJECT[kind].search(text):
            yield about[2], int(about[1])


def _fifos(pid: int, held: Mapping[int, str]) -> Iterator[tuple[str, int]]:
    """Pipes that have a name in a folder (fifo(7)), once each."""
    paths = [(number, link) for number, link in held.items() if link.startswith("/")
             and not link.startswith(_NO_FIFO)][:_FIFOS_MAX]  # fmt: skip
    mounts = memory_held_open.mounts(pid) if paths else {}
    for number, link in paths:
        if memory_held_open.may_wait(link, mounts):
            continue
        about = files.known((ROOT / f"proc/{pid}/fd/{number}").stat)
        if about is not None and stat.S_ISFIFO(about.st_mode):
            yield f"{about.st_dev}:{about.st_ino}", number


def _pipe(pidfd: int, number: int) -> tuple[int, int, bool]:
    """What a pipe has and can have, and whether it is written to in packets, by a descriptor of our
    own for some microseconds."""
    try:
        fd = process.take_descriptor(pidfd, number)
    except OSError as error:
        if error.errno == errno.EBADF:  # it was closed meanwhile
            return 0, 0, False
        raise
    try:
        filled = array.array("i", [0])
        fcntl.ioctl(fd, termios.FIONREAD, filled)
        is_of_packets = bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)
        return filled[0], fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ), is_of_packets
    except OSError:  # another file has its number now
        return 0, 0, False
    finally:
        os.close(fd)
