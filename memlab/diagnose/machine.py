"""The whole machine: what MemTotal is made of, and who holds it.

The kernel's counters are in /proc/meminfo. Three more are elsewhere: pages on the free lists of
CPUs (/proc/zoneinfo), zram's (/sys/block/zram*/mm_stat), and a balloon's, which lies in MemTotal
only where the guest may take it back (virtio's DEFLATE_ON_OOM, feature 2). Sources:
fs/proc/meminfo.c, mm/vmstat.c, mm/vmalloc.c, drivers/virtio/virtio_balloon.c.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memlab.diagnose import (
    kernel_held,
    memory_held_open,
    message_queues,
    removed_groups,
    room,
    sockets,
    sysvipc,
    tmpfs_files,
)
from memlab.diagnose.account import Part
from memlab.diagnose.kernel_numbers import descriptors, sysctl, target_of
from memlab.diagnose.memory_files import PAGE
from memlab.diagnose.removed_groups import RemovedGroups
from memlab.diagnose.room import TmpfsUse
from memlab.diagnose.unlooked import Unlooked
from memlab.errors import CannotLook
from memlab.observe import files, proc, process
from memlab.observe.proc import ROOT

_PROCESSES_MAX = 64  # whose proportional memory is read
_RESIDENT_BYTES_MAX = 4 << 30  # of all of those: some 60 ms of page tables
_READ_S = 2.0  # for what another user's process or mount can make wait
_WORTH_BYTES = 64 << 20  # of a tmpfs, whose files are looked for in all processes
_NAMED = 8  # caches, callers, mounts
_SPACES_MAX = 16  # mount namespaces whose tmpfs is read
_USERS_MAX = 400  # processes, of which it is read whether they use a file: some 0.2 ms each
_HOLDERS_MAX = 200  # processes whose open files are read for memory without a name
_INITIAL_PIDS = 0xEFFFFFFC  # PROC_PID_INIT_INO: the inode of the first PID namespace
_OF_FILE = re.compile(
    rb" ([0-9a-f]+):([0-9a-f]+) (\d+) +/(?:.*/)?([^/\n]*?)(?: \(deleted\))?$", re.M
)
"""A line of /proc/PID/maps: the device, the inode and the name."""
_RECLAIMABLE = re.compile(r"inode_cache|dentry|radix_tree_node|buffer_head|extent_status|-rcl-")
_OF_STACKS = re.compile(r"clone|fork|copy_process|dup_task|thread_stack")
"""Functions that make a thread, whatever the compiler joined: a line of the account has stacks."""
_DEFLATES = 2  # VIRTIO_BALLOON_F_DEFLATE_ON_OOM


@dataclass(frozen=True, slots=True)
class MachineProcess:
    """A process of the machine."""

    pid: int
    command: str
    resident_bytes: int
    proportional_bytes: int | None
    """With what is shared in parts (PSS); None where not read."""
    anonymous_bytes: int
    """Of the proportional memory, else of the resident."""

    @property
    def counted_bytes(self) -> int:
        """The proportional memory, else the resident."""
        known = self.proportional_bytes
        return self.resident_bytes if known is None else known


@dataclass(frozen=True, slots=True)
class MachineLook:
    """What is seen of the machine between two moments."""

    seconds: float
    total_bytes: int
    available_bytes: int
    counters: Mapping[str, int]
    """Of /proc/meminfo at the end, in bytes; HugePages_* are counts."""
    growth_bytes: Mapping[str, int]
    """Of the same counters over the look, those of at least 1 MiB."""
    cpu_lists_bytes: int | None
    """Free pages on lists of CPUs, which MemFree does not count; None where not seen."""
    zram_bytes: int
    balloon_bytes: int
    """Of a balloon that lies in MemTotal."""
    vmalloc_bytes: int | None
    """Without kernel stacks; None where this kernel does not count it."""
    socket_bytes: int | None
    """Charged to queues of sockets: in slab, and in pages that no counter has."""
    processes: int
    resident_sum_bytes: int
    """Of all processes: what they share counts in each."""
    proportional_sum_bytes: int
    """Of all processes: of those that were not read the resident memory."""
    anonymous_sum_bytes: int
    members: tuple[MachineProcess, ...]
    """At most 64: those that hold most first."""
    slab: tuple[Part, ...]
    """The largest caches that the kernel drops when memory is short."""
    fixed_slab: tuple[Part, ...]
    """The largest of the other caches."""
    vmalloc: tuple[Part, ...]
    """The largest callers."""
    tmpfs: tuple[TmpfsUse, ...]
    shared: tuple[Part, ...]
    """System V segments, and unnamed memory files (memfd_create(2))."""
    not_looked_at: tuple[Unlooked, ...]
    pipe_bytes: int = 0
    """Data that nobody has read in pipes: pages that no counter has."""
    pipes_of: str = ""
    """The process that holds most of it."""
    pipes_whole: bool = True
    """Whether all pipes were read."""
    zram_holds_bytes: int = 0
    """What lies compressed in zram, as it was."""
    message_bytes: int = 0
    """The text of messages in queues of System V and of mqueue, which lie in slab."""
    ring_bytes: int = 0
    """Rings of packet sockets: pages that no counter has."""
    sockets_whole: bool = True
    """Whether the sockets of all processes were read."""
    min_free_bytes: int = 0
    """vm.min_free_kbytes, by which the kernel's reserve is made; 0 if it was not read."""
    removed_groups: RemovedGroups | None = None
    """None without memory cgroups, or if they were not counted."""

    def bytes(self, name: str) -> int:
        return self.counters.get(name, 0)

    @property
    def used_bytes(self) -> int:
        """As free(1) says it since procps 4: the total less what is available."""
        return self.total_bytes - self.available_bytes

    @property
    def reserve_bytes(self) -> int:
        """Free, or to be dropped, and not available: the kernel keeps it (watermarks)."""
        names = ("MemFree", "Cached", "Buffers", "SReclaimable")
        return sum(map(self.bytes, names)) - self.bytes("Shmem") - self.available_bytes


def at(seconds: float) -> MachineLook:
    """Look for so long. Raises `CannotLook`."""
    _check()
    before, began = proc.meminfo(), time.monotonic()
    time.sleep(seconds)
    lists, now = _cpu_lists(), proc.meminfo()
    elapsed = time.monotonic() - began
    held = _processes()
    read, unread = held[:_PROCESSES_MAX], held[_PROCESSES_MAX:]
    members: list[MachineProcess] = []
    found: dict[int, tuple[int, TmpfsUse]] = {}
    slow = not _in_time(lambda: _members(read, members))
    pids = [one.pid for one in held]
    slow_mounts = not _in_time(lambda: found.update(_tmpfs(pids)))
    mounts = dict(found)  # a thread that is left behind may still add to the other
    members = _complete(read, members)
    anonymous = sum(one.anonymous_bytes for one in (*members, *unread))
    callers, vmalloc = _vmalloc(now)
    zram, in_zram = _zram()
    growth = {
        name: value - before.get(name, 0) for name, value in now.items() if name[:4] != "Huge"
    }
    slab = [(_drops(one.name), one) for one in _slab()]
    links = {pid: descriptors(pid) for pid in pids[:_HOLDERS_MAX]}
    pipes, whole = kernel_held.in_pipes(links)
    most = max(pipes, key=lambda pid: pipes[pid], default=0)
    counted, listed = sockets.counted_bytes(), sockets.of_machine((os.getpid(), *pids))
    removed, uncounted = removed_groups.read()
    whole &= len(pids) <= _HOLDERS_MAX and (not os.geteuid() or all(links.values()))
    for device, (pid, use) in list(mounts.items())[:1]:  # the largest
        mounts[device] = pid, _with_unheld(pid, use, pids, links)
    return MachineLook(
        seconds=elapsed,
        total_bytes=now["MemTotal"],
        available_bytes=now.get("MemAvailable", _available(now)),
        counters=now,
        growth_bytes={name: more for name, more in growth.items() if abs(more) >= 1 << 20},
        cpu_lists_bytes=lists,
        zram_bytes=zram,
        zram_holds_bytes=in_zram,
        balloon_bytes=_balloon(now),
        vmalloc_bytes=vmalloc,
        socket_bytes=None if counted is None else counted + listed.queue_bytes,
        ring_bytes=listed.ring_bytes,
        sockets_whole=counted is not None and not listed.why,
        processes=len(held),
        resident_sum_bytes=sum(member.resident_bytes for member in (*members, *unread)),
        proportional_sum_bytes=sum(member.counted_bytes for member in (*members, *unread)),
        anonymous_sum_bytes=anonymous,
        members=tuple(members),
        slab=tuple([one for drops, one in slab if drops][:_NAMED]),
        fixed_slab=tuple([one for drops, one in slab if not drops][:_NAMED]),
        vmalloc=tuple(callers[:_NAMED]),
        tmpfs=tuple(use for _, use in mounts.values()),
        shared=tuple(_shared(links, mounts)),
        pipe_bytes=sum(pipes.values()),
        pipes_of=f"{most} ({process.command(most, ROOT)})" if most else "",
        pipes_whole=whole,
        not_looked_at=(
            *_unlooked(now, lists, members, known=bool(slab), vmalloc=vmalloc),
            *([Unlooked("some sockets", listed.why, None, None)] if listed.why else []),
            *([Unlooked("removed memory cgroups", uncounted, None, None)] if uncounted else []),
            *_stuck(slow=slow, slow_mounts=slow_mounts),
        ),
        message_bytes=message_queues.of_machine(),
        min_free_bytes=next(iter(sysctl("vm/min_free_kbytes")), 0) << 10,
        removed_groups=removed,
    )


def _available(now: Mapping[str, int]) -> int:
    """About what kernels before 3.14 do not say."""
    names = ("MemFree", "Cached", "Buffers", "SReclaimable")
    return sum(now.get(name, 0) for name in names) - now.get("Shmem", 0)


def _check() -> None:
    """A container may show a meminfo of its own (lxcfs)."""
    mounts = files.known(proc.mounts) or []
    if any(one.mount_point == "/proc/meminfo" for one in mounts):
        raise CannotLook(
            "--machine: /proc/meminfo is the container's (lxcfs): run memlab outside of it, or "
            "diagnose --group self"
        )


def _cpu_lists() -> int | None:
    """`count` of each CPU and zone; since 4.14 MemFree is without these pages everywhere."""
    text = files.text(ROOT / "proc/zoneinfo")
    if text is None:
        return None
    counts = re.findall(r"^[ \t]+cpu: \d+\s+count:[ \t]+(\d+)", text, re.M)
    return sum(map(int, counts)) * PAGE if counts else None


def _zram() -> tuple[int, int]:
    """What zram takes, and what it holds compressed: orig_data_size and mem_used_total."""
    taken = holds = 0
    for name in files.names(ROOT / "sys/block"):
        if name.startswith("zram"):
            words = (files.text(ROOT / f"sys/block/{name}/mm_stat") or "").split()
            if len(words) > 2:
                holds, taken = holds + int(words[0]), taken + int(words[2])
    return taken, holds


def _balloon(now: Mapping[str, int]) -> int:
    held = now.get("Balloon", 0)
    drivers = ROOT / "sys/bus/virtio/drivers/virtio_balloon"
    bits = [files.text(drivers / f"{name}/features") or "" for name in files.names(drivers)]
    return held if any(one[_DEFLATES : _DEFLATES + 1] == "1" for one in bits) else 0


def _processes() -> list[MachineProcess]:
    """All that have memory, those that hold most first. Of each one small file is read; only those
    that are named get their name."""
    processes = []
    for pid in process.ids(ROOT):
        # A path object for each of thousands would cost more than the read.
        words = proc.read_small(f"{ROOT}/proc/{pid}/statm").split()
        if len(words) > 2 and words[0] != b"0":  # of a kernel thread all numbers are 0
            resident, others = int(words[1]) * PAGE, int(words[2]) * PAGE
            processes.append(MachineProcess(pid, "", resident, None, max(0, resident - others)))
    processes.sort(key=lambda one: -one.resident_bytes)
    named = processes[:_PROCESSES_MAX]
    for i, one in enumerate(named):
        named[i] = replace(one, command=process.command(one.pid, ROOT))
    return [*named, *processes[_PROCESSES_MAX:]]


def _in_time(work: Callable[[], object]) -> bool:
    """Whether it ended soon. A process of another user may hold the lock that a read of its /proc
    takes, or a folder above a mount may never answer: then the thread is left behind."""
    ended = threading.Event()

    def run() -> None:
        work()
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    return ended.wait(_READ_S)


def _members(held: Sequence[MachineProcess], read: list[MachineProcess]) -> None:
    """Fills `read` with those whose proportional memory may be read."""
    left = _RESIDENT_BYTES_MAX
    for one in held:
        if one.resident_bytes > left:
            continue  # the others may be read all the same
        left -= one.resident_bytes
        sums = files.known(process.rollup, one.pid)
        if sums and "Pss" in sums:
            anonymous = sums.get("Pss_Anon", one.anonymous_bytes)
            resident = sums.get("Rss", one.resident_bytes)  # exact; of statm the kernel is behind
            read.append(MachineProcess(one.pid, one.command, resident, sums["Pss"], anonymous))


def _complete(
    held: Sequence[MachineProcess], read: Sequence[MachineProcess]
) -> list[MachineProcess]:
    """With those that were not read and have not ended since."""
    known = {one.pid: one for one in read}
    found = [
        known.get(one.pid, one)
        for one in held
        if one.pid in known or (ROOT / f"proc/{one.pid}").exists()
    ]
    return sorted(found, key=lambda one: -one.counted_bytes)


def _stuck(*, slow: bool, slow_mounts: bool) -> Iterator[Unlooked]:
    why = f"a read took over {_READ_S:g} s"
    if slow:
        yield Unlooked("what all processes share", why, None, None)
    if slow_mounts:
        yield Unlooked("which mounts of tmpfs hold it", why, None, None)


def _slab() -> list[Part]:
    """What each cache holds, full or not; none to an ordinary user."""
    found = []
    for words in files.rows(ROOT / "proc/slabinfo")[2:]:
        if "slabdata" in words and len(words) > words.index("slabdata") + 2:
            slabs = int(words[words.index("slabdata") + 2])
            found.append(Part(words[0], slabs * int(words[5]) * PAGE))
    return sorted(found, key=lambda one: -one.bytes)


def _drops(cache: str) -> bool:
    """Whether the cache is reclaimable: sysfs says it, else its name."""
    said = files.flag(ROOT / f"sys/kernel/slab/{cache}/reclaim_account")
    return bool(_RECLAIMABLE.search(cache)) if said is None else said


def _vmalloc(now: Mapping[str, int]) -> tuple[list[Part], int | None]:
    """By caller, and in all without kernel stacks, which are vmalloc's too (CONFIG_VMAP_STACK)."""
    sums: Counter[str] = Counter()
    for words in files.rows(ROOT / "proc/vmallocinfo"):
        pages = next((word[6:] for word in words if word.startswith("pages=")), "")
        if pages.isdigit() and "vmap" not in words and len(words) > 2:
            sums[words[2].partition("+")[0]] += int(pages) * PAGE
    callers = [Part(*one) for one in sums.most_common() if not _OF_STACKS.search(one[0])]
    counted = now.get("VmallocUsed", 0) or sum(sums.values())  # 0 from Linux 4.4 to 5.2
    stacks = now.get("KernelStack", 0)
    if not counted:
        return callers, None
    return callers, counted - stacks if counted >= stacks else counted


def _tmpfs(pids: Sequence[int]) -> Mapping[int, tuple[int, TmpfsUse]]:
    """Of each mount namespace that a process shows, each file system once, by its device, with that
    process."""
    seen: set[str] = set()
    mounts: dict[int, tuple[int, TmpfsUse]] = {}
    for pid in (os.getpid(), *pids):
        space = target_of(ROOT / f"proc/{pid}/ns/mnt")
        if space is None or space in seen or len(seen) >= _SPACES_MAX:
            continue
        seen.add(space)
        for one in room.tmpfs(pid):
            path = ROOT / f"proc/{pid}/root" / one.path.lstrip("/")
            about = files.known(path.stat)
            if about is not None:
                mounts.setdefault(about.st_dev, (pid, one))
    return dict(sorted(mounts.items(), key=lambda one: -one[1][1].used_bytes)[:_NAMED])


def _with_unheld(
    pid: int, use: TmpfsUse, pids: Sequence[int], read_before: Mapping[int, Mapping[int, str]]
) -> TmpfsUse:
    """With what of a mount, as this process sees it, none of all processes has open or maps; of an
    ordinary user, in a container and of very many processes that is not looked at."""
    if use.used_bytes < _WORTH_BYTES:
        return use
    unread_use = replace(use, unheld=tmpfs_files.UNREAD)
    if os.geteuid() or not _sees_all() or len(pids) > _USERS_MAX:
        return unread_use
    listed = tmpfs_files.listed(f"{ROOT}/proc/{pid}/root/{use.path.lstrip('/')}")
    in_use: set[tuple[int, int]] = set()
    unread: set[int] = set()

    def read() -> None:
        links = {pid: read_before.get(pid) or descriptors(pid) for pid in pids}
        in_use.update(_opened(links, listed or {}))
        unread.update(pid for pid, of in links.items() if len(of) >= process.DESCRIPTORS_READ)
        unread.update(_mapped(pids, listed or {}, in_use))

    if not listed or not _in_time(read):
        return unread_use
    return replace(use, unheld=tmpfs_files.unheld(listed, in_use, len(unread)))


def _sees_all() -> bool:
    """Whether this program is in the first PID namespace, or the kernel has no PID namespaces."""
    about = files.known((ROOT / "proc/self/ns/pid").stat)
    return about is None or about.st_ino == _INITIAL_PIDS


def _opened(
    held: Mapping[int, Mapping[int, str]], listed: tmpfs_files.Files
) -> Iterator[tuple[int, int]]:
    """Files with the names of these that processes have open: a mount has other paths elsewhere."""
    named, devices = _by_name(listed)
    for pid, links in held.items():
        for number, link in links.items():
            name = link.rpartition("/")[2]
            if link.startswith("/") and name in named:
                about = files.known((ROOT / f"proc/{pid}/fd/{number}").stat)
                if about is not None:
                    yield about.st_dev, about.st_ino
                    if about.st_dev not in devices and not os.major(about.st_dev):
                        yield from named[name]


def _by_name(
    listed: tmpfs_files.Files,
) -> tuple[Mapping[str, Sequence[tuple[int, int]]], Container[int]]:
    """The files by name, and their devices. What a process uses through an overlay has a device
    without a number of its own (major 0), and may have another inode: then a name is enough."""
    named: dict[str, list[tuple[int, int]]] = {}
    for key, (path, _) in listed.items():
        named.setdefault(path.rpartition("/")[2], []).append(key)
    return named, {device for device, _ in listed}


def _mapped(
    pids: Iterable[int], listed: tmpfs_files.Files, in_use: set[tuple[int, int]]
) -> Iterator[int]:
    """Adds those that these processes map; yields each process that may not be read."""
    named, devices = _by_name(listed)
    for pid in pids:
        text = files.known((ROOT / f"proc/{pid}/maps").read_bytes)
        if text is None and (ROOT / f"proc/{pid}").exists():
            yield pid
        for major, minor, inode, name in _OF_FILE.findall(text or b""):
            device = os.makedev(int(major, 16), int(minor, 16))
            if device in devices:
                in_use.add((device, int(inode)))
            elif not int(major, 16):
                in_use.update(named.get(os.fsdecode(name), ()))


def _shared(held: Mapping[int, Mapping[int, str]], devices: Container[int]) -> Iterator[Part]:
    """Shared memory that no mount of these devices shows."""
    segments = 0
    for words in sysvipc.rows(os.getpid(), "shm") or ():
        segments += int(words[14]) if len(words) > 14 else 0
    if segments:
        yield Part("System V segments", segments)
    sizes: dict[tuple[int, int], int] = {}
    for pid, links in held.items():
        sizes.update(memory_held_open.nameless(memory_held_open.read(pid, links)))
    unshown = sum(size for (device, _), size in sizes.items() if device not in devices)
    if unshown:
        yield Part("open memfds and deleted files of tmpfs", unshown)


def _unlooked(
    now: Mapping[str, int], lists: int | None, members: Sequence[MachineProcess],
    *, known: bool, vmalloc: int | None,
) -> Iterator[Unlooked]:  # fmt: skip
    def left_out(what: str, why: str) -> Unlooked:
        return Unlooked(what, why, None, None)

    if not _sees_all():
        yield left_out("processes of other PID namespaces", "this program is in a container")
    hides = re.compile(r"hidepid=([1-4]|noaccess|invisible|ptraceable)")
    mounts = [one for one in files.known(proc.mounts) or [] if one.filesystem == "proc"]
    if os.geteuid() and any(hides.fullmatch(o) for one in mounts for o in one.super_options):
        yield left_out("processes of other users", "/proc hides them (hidepid)")
    without = [one for one in members if one.proportional_bytes is None]
    if without:
        why = f"{'it' if len(without) == 1 else 'they'} may not be read" + (
            ": run as root" if os.geteuid() else ""
        )
        if sum(one.resident_bytes for one in members) > _RESIDENT_BYTES_MAX:
            why = f"to read over {_RESIDENT_BYTES_MAX >> 30} GiB takes too long, or {why}"
        yield left_out(f"what {len(without)} of {len(members)} processes share", why)
    if not known:
        yield left_out("which caches the slab is", "/proc/slabinfo may not be read: run as root")
    if vmalloc is None:
        yield left_out("vmalloc", "this kernel counts it for root only")
    if lists is None:
        yield left_out("free lists of CPUs", "/proc/zoneinfo may not be read")
    if "Percpu" not in now:
        yield left_out("per-CPU memory", "this kernel does not count it (Linux 4.20)")
