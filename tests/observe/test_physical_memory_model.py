"""The guard before /dev/mem on this host, and on any maps beside a model in Python."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from . import physical_maps
from .physical_maps import LEGACY, LOWEST, PAGE, RAM, RESERVED, Entry, Maps, asked
from .qemu_maps import TOP

GIB = 2**30


def test_one_file_alone_opens_dev_mem_and_asks_the_guard_before() -> None:
    root = Path(__file__).parents[2]
    sources = [*(root / "probes").rglob("*.[ch]"), *(root / "memlab").rglob("*.py")]
    texts = {path.name: path.read_text() for path in sources}
    opening = {name: text for name, text in texts.items() if 'open("/dev/mem"' in text}
    assert list(opening) == ["physical_memory.py"]
    guarded = opening["physical_memory.py"].split("def opened")[1].split("\n\n\n")[0]
    assert guarded.index('judge("", start, length)') < guarded.index('os.open("/dev/mem"')


def test_this_host_permits_what_its_command_line_tells_and_nothing_else() -> None:
    """Without mem= or memmap= there is nothing, whoever asks."""
    told = [word for word in Path("/proc/cmdline").read_text().split() if word.startswith("mem")]
    if not told:
        assert physical_maps.largest("") is None
    tried = 0
    for line in Path("/proc/iomem").read_text().splitlines():
        first, _, last = line.split(" : ")[0].strip().partition("-")
        start = int(first, 16) // PAGE * PAGE
        for length in (PAGE, (int(last, 16) - start) // PAGE * PAGE + PAGE):
            if not told or "System RAM" in line:
                assert not asked("", start, length)["permitted"]
                tried += 1
    assert tried


# Some edges lie in the middle of a page, some at the ends of everything.
BASE = LOWEST - 3 * PAGE
UNITS = 24
edges = st.one_of(
    st.integers(0, 2 * UNITS).map(lambda half: BASE + half * PAGE // 2),
    st.sampled_from([0, PAGE, LOWEST, 2**63, TOP]),
)
spans = st.tuples(edges, edges).map(lambda ends: (min(ends), max(max(ends) - 1, min(ends))))
KINDS = [RAM, RAM, RESERVED, LEGACY, "ACPI Tables", "PCI Bus 0000:00"]
entries = st.lists(
    st.tuples(spans, st.sampled_from(KINDS)).map(lambda pair: (*pair[0], pair[1])), max_size=6
)
# Always one, far away, so that it is a true map.
anchors = st.just((2**40, 2**40 + 1, RAM))


def told_words(told: list[tuple[int, int]]) -> str:
    return " ".join(f"memmap=0x{last - first + 1:x}$0x{first:x}" for first, last in told)


@given(entries, entries, anchors, st.lists(spans, max_size=3), st.lists(spans, max_size=12))
def test_the_guard_agrees_with_a_model(
    firmware: list[Entry],
    iomem: list[Entry],
    anchor: Entry,
    told: list[tuple[int, int]],
    ranges: list[tuple[int, int]],
) -> None:
    iomem = [entry for entry in iomem if entry[1] > 0]  # else it is a hidden one
    told = [(first, last) for first, last in told if last - first + 1 < 2**64]
    maps = Maps([*firmware, (2**41, 2**41, RESERVED)], [*iomem, anchor], told_words(told), told)
    with tempfile.TemporaryDirectory(prefix="memlab-test-") as folder:
        root = maps.write(Path(folder))
        pages = [BASE // PAGE * PAGE + unit * PAGE for unit in range(UNITS + 2)]
        for first, last in ranges:
            start = first // PAGE * PAGE
            length = (last - start) // PAGE * PAGE + PAGE
            for at, size in ((first, last - first + 1), (start, length), (start, PAGE)):
                if at <= TOP and size <= TOP:
                    assert asked(root, at, size)["permitted"] == maps.may(at, size)
        largest = physical_maps.largest(root)
        if largest is None:
            assert maps.largest(pages) is None
        else:
            assert maps.may(*largest)
            small = maps.largest(pages)
            assert small is None or small[1] <= largest[1]
            if largest[0] + largest[1] <= pages[-1]:
                assert largest == small
