"""What lies beside malloc has a name where it was read: pools, a Java heap, stacks, sockets."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import socket
import struct
import sys
import sysconfig
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import needs
import pytest

from memlab.diagnose import heap, inner_heap, inside, mapped_forms, pages, sockets, stacks, stock
from memlab.diagnose.finding import Finding
from memlab.diagnose.heap import Heap
from memlab.diagnose.inner_heap import CLASSES, JAVA, PYTHON, InnerHeap
from memlab.diagnose.memory_files import PAGE
from memlab.diagnose.sockets import Sockets
from memlab.diagnose.stacks import Stacks
from memlab.observe import process
from memlab.observe.process import Mapping

from .live import Compiled, running
from .looks import MiB, look, memory
from .looks import heap as heap_of

GUARDED = "import sys; print('ready', flush=True); sys.stdin.read()"


def mapped(pid: int) -> tuple[list[Mapping], dict[int, int]]:
    mappings = process.maps(pid)
    if lacking := needs.lacking("scans of page tables"):
        pytest.skip(lacking)
    return mappings, pages.read(pid, mappings, detailed=False)[0].by_mapping


@contextmanager
def python(code: str) -> Iterator[int]:
    with running(sys.executable, "-c", f"{code}\n{GUARDED}") as program:
        yield program.pid


def pools(code: str) -> InnerHeap:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has mimalloc in place of pools")
    with python(code) as pid:
        found = inner_heap.read(pid, *mapped(pid))
    (one,) = [one for one in found if one.name == PYTHON]
    return one


def test_what_is_free_in_pools_of_python_is_told_from_objects() -> None:
    """48 objects of 336 bytes fit into a pool of 16 KiB; of 40 of them one lives on."""
    without = pools("")
    kept, freed, twice = (
        pools(f"k = [bytes(300) for _ in range({count})]; k = k[::{step}]")
        for count, step in ((96_000, 1), (96_000, 40), (192_000, 40))
    )
    size = 96_000 / 48 * 16384
    assert kept.resident_bytes - without.resident_bytes == pytest.approx(size, rel=0.02)
    assert kept.used_bytes - without.used_bytes == pytest.approx(96_000 * 336, rel=0.02)
    assert freed.free_bytes - without.free_bytes == pytest.approx(size - 2400 * 336, rel=0.02)
    more = twice.free_bytes - freed.free_bytes
    assert more == pytest.approx(freed.free_bytes - without.free_bytes, rel=0.02)
    # Objects of over 512 bytes are malloc's.
    beside = pools("k = [bytes(3000) for _ in range(10_000)]; k = k[::40]")
    assert beside.resident_bytes < without.resident_bytes + 2 * MiB


def test_a_heap_that_a_fork_has_split_is_read_as_one() -> None:
    code = (
        "import os; k = [bytes(600) for _ in range(20_000)]; p = os.getpid()\n"
        "if os.fork() == 0:\n"
        "    k += [bytes(600) for _ in range(20_000)]\n"
        "    print(os.getpid(), flush=True); sys.stdin.read(); os._exit(0)\n"
    )
    with running(sys.executable, "-c", f"import sys; print('ready', flush=True)\n{code}"
                 "sys.stdin.read()") as program:  # fmt: skip
        assert program.stdout
        child = int(program.stdout.readline())
        mappings = process.maps(child)
        assert len([one for one in mappings if one.path == "[heap]"]) > 1, "it was not split"
        found, unlooked = heap.read(child, mappings, "glibc", swapped=False)
    assert (unlooked, found is not None) == ((), True)
    assert found is not None
    assert found.held_bytes - found.free_bytes > 40_000 * 600


def _perf(counters: dict[str, int]) -> bytes:
    """A file as a JVM writes it, little end first."""
    entries = b""
    for name, value in counters.items():
        word = name.encode() + b"\0"
        word += b"\0" * (-len(word) % 8)
        size = 24 + len(word) + 8
        entries += struct.pack("<3i4si4x", size, 24, 0, b"J\0\0\0", 24 + len(word)) + word
        entries += struct.pack("<q", value)
    count = len(counters)
    head = struct.pack(">I", 0xCAFEC0C0) + bytes((1, 2, 0, 1))
    return head + struct.pack("<iiqii", 32 + len(entries), 0, 0, 32, count) + entries


COUNTERS = {
    "sun.gc.generation.0.maxCapacity": 96 * MiB,
    "sun.gc.generation.0.capacity": 16 * MiB,
    "sun.gc.generation.0.space.0.used": 8 * MiB,
    "sun.gc.generation.1.maxCapacity": 32 * MiB,
    "sun.gc.generation.1.capacity": 24 * MiB,
    "sun.gc.generation.1.space.0.used": 20 * MiB,
}


def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> InnerHeap | None:
    return next(iter(of_jvm(tmp_path, monkeypatch, content)), None)


def of_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> tuple[InnerHeap, ...]:
    file = tmp_path / "hsperfdata_me" / "7"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    monkeypatch.setattr(process, "files_of", lambda *_: iter([file]))
    mappings = [
        Mapping(64 * MiB, 80 * MiB, "rw-p", ""), Mapping(80 * MiB, 160 * MiB, "---p", ""),
        Mapping(160 * MiB, 184 * MiB, "rw-p", ""), Mapping(184 * MiB, 192 * MiB, "---p", ""),
        Mapping(300 * MiB, 301 * MiB, "rw-s", str(file)),
    ]  # fmt: skip
    resident = {64 * MiB: 12 * MiB, 160 * MiB: 24 * MiB, 200 * MiB: 20 * MiB}
    return inner_heap.read(7, [*mappings, Mapping(200 * MiB, 264 * MiB, "rw-p", "")], resident)


def test_a_java_heap_is_where_the_counters_of_its_jvm_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = java(tmp_path, monkeypatch, _perf(COUNTERS))
    assert found == InnerHeap(JAVA, 36 * MiB, 28 * MiB, "of 40 MiB committed, dead objects too")
    other = COUNTERS | {"sun.gc.generation.1.maxCapacity": 40 * MiB}  # no range is so long
    assert java(tmp_path, monkeypatch, _perf(other)) is None


METASPACE = {
    "sun.gc.metaspace.capacity": 16 * MiB,
    "sun.gc.metaspace.used": 12 * MiB,
    "java.cls.loadedClasses": 9000,
    "java.cls.sharedLoadedClasses": 500,
    "java.cls.unloadedClasses": 100,
}


def test_metadata_of_classes_are_what_the_jvm_counts_and_no_part_of_its_heap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "counted at its last collection; 9,400 classes are loaded now"
    for times in (1, 2):
        counters = METASPACE | {name: times * METASPACE[name] for name in METASPACE
                                if "metaspace" in name}  # fmt: skip
        heap, classes = of_jvm(tmp_path, monkeypatch, _perf(COUNTERS | counters))
        assert heap.name == JAVA
        held = times * 16 * MiB
        assert classes == InnerHeap(CLASSES, held, times * 12 * MiB, note)
    counters = METASPACE | {"sun.gc.metaspace.capacity": 1 << 60}
    (_, classes) = of_jvm(tmp_path, monkeypatch, _perf(COUNTERS | counters))
    assert classes.resident_bytes == 56 * MiB, "no more than what is anonymous"
    for wrong in (0, -(1 << 60)):
        counters = METASPACE | {"sun.gc.metaspace.capacity": wrong}
        (heap,) = of_jvm(tmp_path, monkeypatch, _perf(COUNTERS | counters))
        assert heap.name == JAVA


def test_numbers_that_no_jvm_counts_are_never_below_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    least, wrong = -(1 << 63), COUNTERS | METASPACE
    wrong |= {name: least for name in wrong if name.endswith("used")}
    wrong |= {"java.cls.unloadedClasses": 20_000, "sun.gc.generation.1.capacity": least}
    heap, classes = of_jvm(tmp_path, monkeypatch, _perf(wrong))
    assert (heap.used_bytes, classes.used_bytes) == (0, 0)
    assert heap.note == "of 16 MiB committed, dead objects too"
    assert classes.note.endswith("; 0 classes are loaded now")


def test_what_is_free_in_metadata_of_classes_is_the_jvms_to_keep() -> None:
    held = memory(resident_bytes=210 * MiB, anonymous_bytes=200 * MiB)
    for name, names in ((CLASSES, []), (PYTHON, ["retained-inside"])):
        seen = look(memory=held, heap=HEAP, inner_heaps=(InnerHeap(name, 100 * MiB, 10 * MiB),))
        found = [one.name for one in inside.findings(seen)]
        assert [one for one in found if one == "retained-inside"] == names


def test_a_damaged_file_of_counters_is_no_heap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _perf(COUNTERS)
    for end in range(0, len(whole), 7):
        java(tmp_path, monkeypatch, whole[:end])
        java(tmp_path, monkeypatch, whole[:end] + b"\xff" * (len(whole) - end))


def stacks_of(binary: Compiled, *arguments: str) -> Stacks | None:
    with running(binary("stacks"), *arguments) as program:
        return stacks.read(program.pid, *mapped(program.pid))


def test_stacks_of_threads_are_those_that_a_stack_pointer_lies_in(binary: Compiled) -> None:
    one, twice = stacks_of(binary, "20", "1024"), stacks_of(binary, "40", "1024")
    assert one is not None
    assert twice is not None
    assert (one.count, twice.count) == (20, 40)
    assert one.resident_bytes == pytest.approx(20 * MiB, rel=0.02)
    assert twice.resident_bytes == pytest.approx(2 * one.resident_bytes, rel=0.02)
    assert stacks_of(binary, "20", "1024", "guards") is None
    mixed = stacks_of(binary, "20", "1024", "both")
    assert mixed is not None
    assert (mixed.count, mixed.resident_bytes) == (20, pytest.approx(20 * MiB, rel=0.02))
    pool = stacks_of(binary, "20", "1024", "pool")  # as Go's heap, in which its threads run
    assert pool == Stacks(0, 0, 0, 20)


@pytest.mark.needs("variables of threads")
def test_variables_that_are_local_to_threads_are_told_from_calls(binary: Compiled) -> None:
    with running(binary("local_variables"), "20") as program:
        found = stacks.read(program.pid, *mapped(program.pid))
    called = stacks_of(binary, "20", "1024")
    assert found is not None
    assert called is not None
    assert found.resident_bytes >= 20 * MiB
    assert 20 * MiB <= found.local_bytes <= min(found.resident_bytes, 20 * (MiB + 4 * PAGE))
    assert called.local_bytes <= 20 * 4 * PAGE


def test_a_table_of_local_variables_that_leads_nowhere_is_not_followed() -> None:
    """What a stack holds is another's to write."""
    with mmap.mmap(-1, 8 * PAGE) as memory, stacks._StackReader(os.getpid()) as reader:
        start = ctypes.addressof(held := ctypes.c_char.from_buffer(memory))
        mapping = Mapping(start, start + 8 * PAGE, "rw-p", "")
        block = start + 7 * PAGE + 64
        for table in (0, 8, start + 3, start + 4 * PAGE, (1 << 64) - 16):
            memory[7 * PAGE + 64 : 7 * PAGE + 80] = struct.pack("=2Q", block, table)
            assert reader.local_variables(mapping) is None
        memory[:PAGE] = struct.pack("=2Q", start + 2 * PAGE + 8, 0) * (PAGE // 16)
        memory[7 * PAGE + 64 : 7 * PAGE + 80] = struct.pack("=2Q", block, start)
        expected = (start + 2 * PAGE, start + 7 * PAGE) if stacks._IS_KNOWN else None
        assert reader.local_variables(mapping) == expected
        del held


@pytest.mark.needs("glibc")
@pytest.mark.parametrize(("kind", "least", "most"), [("between", 0.8, 1), ("pinned", 0, 0.25)])
def test_of_what_malloc_holds_free_only_whole_pages_can_be_trimmed(
    kind: str, least: float, most: float, binary: Compiled
) -> None:
    with running(binary("keeps"), kind) as program:
        found, unlooked = heap.read(
            program.pid, process.maps(program.pid), "glibc", swapped=False
        )  # fmt: skip
    assert unlooked == ()
    assert found is not None
    assert found.whole_pages_bytes is not None
    assert found.retained_bytes > 30 * MiB
    assert least <= found.whole_pages_bytes / found.retained_bytes <= most


def test_no_trim_is_advised_that_gives_nothing_back() -> None:
    def setting(**changes: int) -> str:
        held = memory(resident_bytes=210 * MiB, anonymous_bytes=200 * MiB)
        seen = look(memory=held, heap=heap_of(retained_bytes=100 * MiB, ends_bytes=0, **changes))
        (one,) = stock._retained(seen)
        return f"{one.title}; {one.setting}"

    assert "malloc_trim(0) after the peak" in setting()
    assert "malloc_trim(0) after the peak" in setting(whole_pages_bytes=90 * MiB)
    pinned = setting(whole_pages_bytes=2 * MiB)
    assert "back: 2 MiB of it in whole pages, the rest beside objects that live; " in pinned
    assert "gives back whole pages only, 2 MiB: " in pinned


def test_stacks_side_by_side_are_told_apart_by_guards_within_their_mapping(
    binary: Compiled,
) -> None:
    """As of glibc 2.42. A kernel whose pagemap does not show such guards has no stack to count."""
    seen = []
    for count in (20, 40):
        with running(binary("stacks"), str(count), "1024", "pages") as program:
            found = stacks.read(program.pid, *mapped(program.pid))
            is_shown = has_guard(program.pid)
        assert found is not None
        assert (found.count, found.elsewhere) == ((count, 0) if is_shown else (0, count))
        seen.append(found.resident_bytes)
        assert seen[-1] == (pytest.approx(count * MiB, rel=0.03) if is_shown else 0)
    assert seen[1] == pytest.approx(2 * seen[0], rel=0.02)


def has_guard(pid: int) -> bool:
    """Whether an entry of its page tables is marked as one (bit 58, since Linux 6.15)."""
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as table:
        for one in process.maps(pid):
            if one.permissions == "rw-p" and not one.path:
                table.seek(8 * (one.start // 4096))
                entries = table.read(8 * (one.size_bytes // 4096))
                if any(entry >> 58 & 1 for (entry,) in struct.iter_unpack("Q", entries)):
                    return True
    return False


def test_a_control_block_is_its_own_address_at_the_end_of_a_stack() -> None:
    """Of a mapping of ours: with a word that is its own address, with one that is another's."""
    with mmap.mmap(-1, 8 * PAGE) as memory, stacks._StackReader(os.getpid()) as reader:
        at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        memory[:] = b"\1" * len(memory)
        assert not reader.has_control_block(at + len(memory))
        for place, value, expected in ((6, 0, True), (6, 8, False), (2, 0, False)):
            memory[:] = b"\1" * len(memory)
            memory[place * PAGE : place * PAGE + 8] = struct.pack("Q", at + place * PAGE + value)
            assert reader.has_control_block(at + len(memory)) == expected


QUEUES = """
import socket, struct
s = socket.create_server(("127.0.0.1", 0)); k = []; total = 0
for _ in range({count}):
    c = socket.create_connection(s.getsockname()); c.setblocking(False)
    try:
        while True: c.send(b"x" * 65536)
    except BlockingIOError: pass
    k += [c, s.accept()[0]]
import time; time.sleep(0.3)  # until what is under way has arrived
for one in k:  # SO_MEMINFO: received, sent or queued, ahead, options, backlog
    m = struct.unpack("8I", one.getsockopt(1, 55, 32))
    total += m[0] + max(m[2], m[5]) + m[4] + m[6] + m[7]
"""


def test_queues_of_sockets_hold_what_the_kernel_charges_to_each() -> None:
    sums = []
    for count in (4, 8):
        code = QUEUES.format(count=count) + "import sys; sys.stderr.write(f'{total}\\n')"
        with running(sys.executable, "-c", f"{code}\n{GUARDED}") as program:
            assert program.stderr
            expected = int(program.stderr.readline())
            found = sockets.read(program.pid, process.descriptors(program.pid))
        assert found is not None
        assert (found.count, found.read, found.why) == (2 * count + 1, 2 * count + 1, "")
        assert found.bytes == pytest.approx(expected, rel=0.02)
        assert found.bytes > 10 * max(1, found.other_bytes)
        sums.append(found.bytes)
    assert sums[1] == pytest.approx(2 * sums[0], rel=0.25)  # the kernel tunes each buffer


RAW = """
import socket
r = socket.socket(socket.AF_INET, socket.SOCK_RAW, 253); r.setsockopt(1, 33, 64 << 20)
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 253)
for _ in range(300): s.sendto(b"x" * 32768, ("127.0.0.1", 0))
import struct, sys
sys.stderr.write(f"{struct.unpack('8I', r.getsockopt(1, 55, 32))[0]}\\n")
"""


@pytest.mark.needs("root")
def test_a_raw_socket_that_nobody_reads_is_seen_without_a_module_for_it() -> None:
    with running(sys.executable, "-c", f"{RAW}\n{GUARDED}") as program:
        assert program.stderr
        expected = int(program.stderr.readline())
        found = sockets.read(program.pid, process.descriptors(program.pid))
    assert found is not None
    assert found.read == 2
    assert expected > 300 * 32768
    assert found.receiving_bytes >= expected


def test_a_socket_that_is_bound_to_nothing_is_in_no_table_and_is_read() -> None:
    code = "import socket; k = [socket.socket() for _ in range(3)]"
    with python(code) as pid:
        found = sockets.read(pid, process.descriptors(pid))
    assert found is not None
    assert (found.count, found.read, found.bytes, found.why) == (3, 3, 0, "")


@pytest.mark.parametrize(
    "family",
    [socket.AF_INET, pytest.param(socket.AF_INET6, marks=pytest.mark.needs("IPv6"))],
)
def test_connections_that_wait_at_a_socket_are_its_own(family: socket.AddressFamily) -> None:
    """Of TCP; another socket listens beside it."""
    sums = []
    for count in (4, 8):
        with ExitStack() as stack:
            first, other = (stack.enter_context(socket.socket(family)) for _ in range(2))
            for one in (first, other):
                one.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
                one.listen(64)
            for listener in [first] * count + [other] * 3:
                client = stack.enter_context(socket.socket(family))
                client.connect(listener.getsockname())
                client.sendall(b"x" * 20_000)
                while fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)) != bytes(4):
                    time.sleep(0.001)  # until all has arrived
            held = {first.fileno(): f"socket:[{os.fstat(first.fileno()).st_ino}]"}
            found = sockets.read(os.getpid(), held)
            expected = 0
            for _ in range(count):
                with first.accept()[0] as one:
                    m = struct.unpack("8I", one.getsockopt(1, 55, 32))
                    expected += m[0] + max(m[2], m[5]) + m[4] + m[6] + m[7]
        assert found is not None
        assert (found.unaccepted_count, found.unaccepted_bytes) == (count, expected)
        sums.append(found.unaccepted_bytes)
    assert sums[1] > 1.5 * sums[0] > 1.5 * 4 * 20_000


def test_connections_that_wait_at_the_nearer_address_of_another_are_not_its_own() -> None:
    """Both listen on one port (SO_REUSEPORT), the other one on the address of the connections."""
    with ExitStack() as stack:
        mine, other, client = (stack.enter_context(socket.socket()) for _ in range(3))
        for one in (mine, other):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        mine.bind(("", 0))
        other.bind(("127.0.0.1", mine.getsockname()[1]))
        counts = []
        for listener in (other, mine):
            listener.listen(8)
            client.connect(("127.0.0.1", mine.getsockname()[1]))
            client.sendall(b"x")
            while fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)) != bytes(4):
                time.sleep(0.001)  # until it has arrived
            for asked in (mine, other):
                held = {asked.fileno(): f"socket:[{os.fstat(asked.fileno()).st_ino}]"}
                found = sockets.read(os.getpid(), held)
                assert found is not None
                counts.append(found.unaccepted_count)
            client.close()
            client = stack.enter_context(socket.socket())
            other.accept()[0].close()
    assert counts == [0, 1, 0, 1]


def test_sockets_that_were_never_bound_or_connected_are_in_no_table() -> None:
    with ExitStack() as stack:
        those = [stack.enter_context(socket.socket()) for _ in range(sockets._ALONE_MAX + 1)]
        held = {one.fileno(): f"socket:[{os.fstat(one.fileno()).st_ino}]" for one in those}
        found = sockets.read(os.getpid(), held)
        assert found is not None
        assert found.read < found.count == len(those)
        assert "in no table of the kernel (never bound or connected, or of another" in found.why
        found = sockets.read(os.getpid(), dict([*held.items()][:1]))
    assert found is not None
    assert (found.count, found.read, found.why) == (1, 1, "")


def test_connections_that_wait_at_a_unix_socket_are_counted(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as other:
        for one, name in ((first, "first"), (other, "other")):
            one.bind(str(tmp_path / name))
            one.listen(64)
        for listener in [first] * 5 + [other] * 3:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(listener.getsockname())
        held = {first.fileno(): f"socket:[{os.fstat(first.fileno()).st_ino}]"}
        found = sockets.read(os.getpid(), held)
    assert found is not None
    assert found.unix_waiting == 5


@pytest.mark.needs("packet sockets")
@pytest.mark.parametrize("blocks", [4, 8])
def test_rings_of_packet_sockets_are_read_and_what_is_mapped_is_not_counted_twice(
    blocks: int,
) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as ring:
        ring.setsockopt(263, 5, struct.pack("4I", MiB, blocks, 2048, blocks * 512))
        held = {ring.fileno(): f"socket:[{os.fstat(ring.fileno()).st_ino}]"}
        found = sockets.read(os.getpid(), held)
    assert found is not None
    assert found.ring_bytes == blocks * MiB
    for mapped_mib, rest in ((0, blocks), (blocks - 1, 1), (blocks + 1, 0)):
        form = mapped_forms.MappedForm(
            mapped_forms.SOCKET_RINGS, mapped_mib * MiB, 1, of_files=True
        )
        assert inside.ring_line(look(sockets=found, forms=(form,))).value == rest * MiB


HEAP = Heap(1, 4 * MiB, 1 * MiB, 1 * MiB, 0)


def said(**changes: object) -> list[Finding]:
    held = memory(resident_bytes=210 * MiB, anonymous_bytes=200 * MiB)
    return list(inside.findings(look(memory=held, heap=HEAP, **changes)))


def test_each_part_that_is_large_has_a_sentence_and_a_small_one_has_none() -> None:
    python_heap = InnerHeap(PYTHON, 190 * MiB, 20 * MiB)
    (found,) = said(inner_heaps=(python_heap,))
    assert (found.name, found.measured) == ("retained-inside", 170 * MiB)
    # PYTHONMALLOC=malloc holds as much, and tests nothing that would give it back.
    assert found.policies is None
    assert found.setting.startswith("no setting gives it back: ")
    assert said(inner_heaps=(InnerHeap(PYTHON, 190 * MiB, 170 * MiB),)) == []
    (found,) = said(stacks=Stacks(40, 320 * MiB, 160 * MiB))
    assert (found.name, found.policies) == ("stacks", None)
    assert "which its deepest calls touched" in found.title
    assert "less on the stack" in found.setting
    (found,) = said(stacks=Stacks(40, 320 * MiB, 160 * MiB, local_bytes=80 * MiB))
    assert "4 MiB each, of which 2 MiB are variables that are local to a thread" in found.title
    assert "less on the stack" not in found.setting
    assert said(stacks=Stacks(40, 320 * MiB, 8 * MiB)) == []
    (found,) = said(sockets=Sockets(81, 81, 5 * MiB, 147 * MiB, 0))
    assert found.name == "sockets-hold"
    assert "147 MiB written by it and not taken by the other side" in found.title
    assert "received" not in found.title
    assert said(sockets=Sockets(81, 81, 1 * MiB, 2 * MiB, 0)) == []


def test_what_sockets_reserve_is_said_not_to_be_in_a_queue() -> None:
    (found,) = said(sockets=Sockets(2, 2, 30 * MiB, 0, 2 * MiB))
    assert "30 MiB received and not read by it, 2 MiB reserved for what comes next" in found.title


@pytest.mark.parametrize(
    ("threads", "whose"),
    [(41, "40 threads"), (31, "30 threads, and 10 or more that are kept for new ones")],
)
def test_stacks_have_the_addresses_that_virtual_size_counts(threads: int, whose: str) -> None:
    """Of a thread that could not begin the stack is kept too: that it had one is not said."""
    seen = look(stacks=Stacks(40, 320 * MiB, 160 * MiB), thread_count=threads)
    (line,) = [one for one in inside.lines(seen) if one.name == "stacks of threads"]
    assert line.note == f"of {whose}; 320 MiB of addresses"
    (found,) = said(stacks=Stacks(40, 320 * MiB, 160 * MiB), thread_count=threads)
    assert f"are the stacks of {whose}: 4 MiB each" in found.title


def test_stacks_of_newer_threads_are_not_said_to_be_kept() -> None:
    """Threads are counted before their stacks."""
    seen = look(stacks=Stacks(40, 320 * MiB, 160 * MiB), thread_count=31, new_threads=1)
    (line,) = [one for one in inside.lines(seen) if one.name == "stacks of threads"]
    whose = "30 threads, and 10 or more that are of newer threads or kept for new ones"
    assert line.note == f"of {whose}; 320 MiB of addresses"


def test_memory_on_guards_is_stacks_if_each_of_a_few_has_a_control_block() -> None:
    """One holds its own address."""
    block_pages = stacks._CONTROL_BLOCK_PAGES
    held = mmap.mmap(-1, 2 * block_pages * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(held))
    first, second = start + block_pages * PAGE, start + 2 * block_pages * PAGE
    at = block_pages * PAGE - 256
    held[at : at + 8] = struct.pack("Q", start + at)
    assert stacks.guarded(os.getpid(), [first] * 100) == 100
    assert stacks.guarded(os.getpid(), [first, second]) == 0
    assert stacks.guarded(os.getpid(), [second]) == 0
    assert stacks.guarded(os.getpid(), []) == 0


def test_parts_of_what_is_beside_malloc_add_up_to_it() -> None:
    held = memory(resident_bytes=210 * MiB, anonymous_bytes=200 * MiB)
    seen = look(
        memory=held, heap=HEAP, stacks=Stacks(4, 32 * MiB, 16 * MiB),
        inner_heaps=(InnerHeap(PYTHON, 100 * MiB, 40 * MiB),),
    )  # fmt: skip
    lines = stock.of(seen).lines
    parts = [one.value for one in lines if one.part_of == "beside malloc"]
    assert sum(parts) == inside.beside_malloc(seen) == 196 * MiB
    assert [one.value for one in lines if one.name == "other mappings"] == [80 * MiB]


@pytest.mark.parametrize("grown", [0, 10])
def test_a_part_has_its_whole_though_the_heaps_are_read_later_than_it_was(grown: int) -> None:
    """Of a process that grows: 194 MiB of memory, of which malloc has 196 when it is read."""
    held = memory(resident_bytes=210 * MiB, anonymous_bytes=194 * MiB)
    of_malloc = heap_of(held_bytes=(186 + grown) * MiB, free_bytes=0, retained_bytes=0)
    seen = look(
        memory=held, heap=of_malloc, stacks=Stacks(4, 32 * MiB, 6 * MiB),
        growth_bytes_per_s=4.0 * MiB,
    )  # fmt: skip
    lines = {one.name: one for one in stock.of(seen).lines}
    assert lines["stacks of threads"].part_of == "beside malloc"
    assert lines["beside malloc"].value == (8 if not grown else 6) * MiB
    is_later = "read a moment later" in lines["in malloc's objects"].note
    assert is_later == (186 + grown > 194)


@pytest.mark.parametrize(
    ("guarded", "words"),
    [(356, "356 stacks of threads that have ended"), (0, "as stacks of coroutines or an")],
)
def test_stacks_of_threads_that_have_ended_are_no_coroutines(guarded: int, words: str) -> None:
    form = mapped_forms.MappedForm(mapped_forms.GUARDED, 8 * MiB, 356)
    (line,) = [one for one in stock.of(look(forms=(form,), guarded_stacks=guarded)).lines
               if one.name == mapped_forms.GUARDED]  # fmt: skip
    assert words in line.note


@pytest.mark.parametrize(
    ("mapped", "anonymous", "unread"),
    [
        (193.0, 194.0, True), (98, 194, True), (97, 194, False), (20, 194, False),
        (1.5, 2, True), (0.9, 1, False),
    ],
)  # fmt: skip
def test_blocks_that_hold_most_and_whose_inside_nobody_reads_are_said_so(
    *, mapped: float, anonymous: float, unread: bool
) -> None:
    """A runtime may have its heap in them, as OCaml's has."""
    blocks = heap_of(mapped_count=38, mapped_bytes=int(mapped * MiB), held_bytes=0, free_bytes=0,
                  retained_bytes=0)  # fmt: skip
    seen = look(heap=blocks, memory=memory(anonymous_bytes=int(anonymous * MiB)))
    (line,) = [one for one in stock.of(seen).lines if one.name == "in malloc's objects"]
    assert "in 38 mapped alone" in line.note
    assert line.note.endswith(": what lies in them was not read") == unread
