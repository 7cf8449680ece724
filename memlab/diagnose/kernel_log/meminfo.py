"""What the machine had: the part of a report that show_mem() prints."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ZONES = ("DMA", "DMA32", "Normal", "HighMem", "Movable", "Device")
_ZONE = re.compile(
    r"(?:Node (\d{1,4}) )?(DMA32|DMA|Normal|HighMem|Movable|Device) free:(\d{1,16})kB"
)
_LIST = re.compile(r"(DMA32|DMA|Normal|HighMem|Movable|Device): \d")
_NODE = re.compile(r"Node (\d{1,4}) active_anon:")
_BALLOON = re.compile(r"\bBalloon:(\d{1,16})kB")
_RESERVE = re.compile(r"lowmem_reserve\[\]:((?: \d{1,12}){1,8})")
# Behind a number is its end, or a logger's mark of one: a number that is cut is another.
_PAGES = re.compile(
    r"([A-Za-z][a-z_]{1,39}(?:\(\w{2,8}\))?):(\d{1,15})(?=[\s;|<]|,(?!\d)|\^[JM]|#01[25]|\\[nrt]|$)"
)
_BLOCKS = re.compile(r"(?<![\d,])(\d{1,12})\*(\d{1,10})kB(?: {1,3}\(([A-Z]{1,8})\))?")
_KILOBYTES = re.compile(r"([a-z_]{2,40}):(\d{1,20})kB")
_SWAP = re.compile(r"(Free|Total) swap {0,3}= {0,3}(\d{1,16})kB")
_COUNT = re.compile(
    r"(?<![\d,.])(\d{1,15}) (?:pages (?:of )?(RAM|reserved|HighMem|HIGHMEM)|(reserved) pages)"
)
_HUGE = re.compile(r"hugepages_total=(\d{1,12}) .{1,80}hugepages_size=(\d{1,12})kB")
_SLAB = re.compile(r"([\w.:-]{1,48}) {1,40}(\d{1,14})KB {1,20}(\d{1,14})KB")
_COUNTER_WORDS = (
    "_anon:", "_file:", "Active:", "unevictable:", "slab", "pagetables:", "free:", "misc"
)  # fmt: skip
FILES = {"active_file", "inactive_file"}
_GLOBAL_MAX = 64  # of the counters of all nodes
_BLOCKS_MAX = 1 << 31
_ZONES_MAX = 5 * 1024  # of as many nodes as a kernel may have
_SLABS_MAX = 10_000
# The rest of a line of a zone that a mail broke.
_REST = re.compile(
    r"[\s>|]{0,40}(?:[a-z_]{3,24}(?:\([a-z]{4}\))?:\d{1,16}kB|all_unreclaimable\?)", re.I
)


@dataclass(slots=True)
class Zone:
    """A zone of a node, in bytes."""

    node: int
    name: str
    free: int
    least: int
    """The watermark below which only the kernel's own emergencies get memory."""
    high: int
    cma: int
    """Free, but only for pages that can be moved."""
    present: int
    reserve: tuple[int, ...] = ()
    """In pages: what is kept from requests of each higher class."""
    files: int | None = None
    """Page cache in it, of which `unwritten` has to be written before it can be dropped. None if
    the kernel does not print it by zone."""
    unwritten: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    """All that its line has."""
    is_before_4_2: bool = False
    """By the fields of the line. Until 4.3 the kernel kept a share of the large blocks, too."""

    @property
    def rank(self) -> int:
        """The place of the zone."""
        return rank(self.name)

    def count(self, numbers: dict[str, int]) -> None:
        """Take what a line of the zone, or a part of one, has; and add up its page cache."""
        self.numbers |= numbers
        for name in ("active_file", "inactive_file"):
            if name in numbers:
                self.files = (self.files or 0) + numbers[name]
        for name in ("writepending", "dirty", "writeback"):
            self.unwritten += numbers.get(name, 0)


@dataclass(slots=True)
class Blocks:
    """The free blocks of a zone, by their size in bytes."""

    zone: str
    counts: dict[int, int] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    """Sizes of which all blocks are for CMA, for a reserve or isolated."""

    @property
    def free(self) -> int:
        """What they hold, in bytes."""
        return sum(size * count for size, count in self.counts.items())

    def free_of(self, least: int) -> int:
        """What blocks hold that are of this size or larger, and not kept."""
        sizes = self.counts.items()
        return sum(size * n for size, n in sizes if size >= least and size not in self.kept)


def rank(zone: str) -> int:
    """The place of a zone: a request takes from its class and from lower ones."""
    return _ZONES.index(zone)


@dataclass(slots=True)
class MemInfo:
    """Free memory, watermarks, swap and what held the rest."""

    zones: list[Zone] = field(default_factory=list)
    pages: dict[str, int] = field(default_factory=dict)
    """Counters of all nodes, in pages."""
    kernel_stack: int = 0
    """In bytes."""
    balloon: int | None = None
    """In bytes; None if it is not printed."""
    ram_pages: int | None = None
    reserved_pages: int = 0
    high_pages: int = 0
    swap_total: int | None = None
    swap_free: int | None = None
    huge: int = 0
    """In bytes."""
    blocks: list[Blocks] = field(default_factory=list)
    slabs: dict[str, int] = field(default_factory=dict)
    """Unreclaimable caches, in bytes."""
    _ranks: tuple[int, set[int]] = (-1, set())
    _read: set[object] = field(default_factory=set)
    """Nodes and zones whose lines were read: a second one is a copy, or of another report."""
    _is_slab_table: bool = False
    _is_in_zone: bool = False
    _is_in_node: bool = False

    def read(self, text: str) -> bool:
        """Read a line, wherever its prefix ends; whether it was one of these."""
        if "free:" in text and (zone := _ZONE.search(text)):
            if len(self.zones) < _ZONES_MAX and zone.group(1, 2) not in self._read:
                self._read.add(zone.group(1, 2))
                self._zone(zone, text)
        elif self._zone_rest(text) or self._node_rest(text):
            return True
        elif "lowmem_reserve[]" in text and self.zones:
            if reserve := _RESERVE.search(text):
                self.zones[-1].reserve = tuple(int(pages) for pages in reserve[1].split())
        elif "active_anon:" in text and (node := _NODE.search(text)):
            if node[1] not in self._read and len(self._read) < _ZONES_MAX:
                self._read.add(node[1])
                self._node(text)
                self._is_in_node = "all_unreclaimable?" not in text
        elif "kB" in text and "*" in text and (blocks := _BLOCKS.findall(text)):
            self._blocks(text, blocks)
        elif " swap" in text and (swap := _SWAP.search(text)):
            self._swap(swap[1], int(swap[2]) << 10)
        elif " pages" in text and (count := _COUNT.search(text)):
            self._count(count[2] or count[3], int(count[1]))
        elif "hugepages_total=" in text and (huge := _HUGE.search(text)):
            self.huge += int(huge[1]) * int(huge[2]) << 10
        elif "Unreclaimable slab info" in text:
            self._is_slab_table = True
        elif self._is_slab_table and (slab := _SLAB.search(text)):
            if len(self.slabs) < _SLABS_MAX:
                self.slabs[slab[1]] = int(slab[3]) << 10
        else:
            return self._counters(text)
        return True

    def _node(self, text: str) -> None:
        stack = _KILOBYTES.search(text, text.find("kernel_stack:"))
        self.kernel_stack += int(stack[2]) << 10 if stack and "kernel_stack:" in text else 0
        if balloon := _BALLOON.search(text):
            self.balloon = (self.balloon or 0) + (int(balloon[1]) << 10)

    def _node_rest(self, text: str) -> bool:
        """The next line of a node; whether it is one."""
        self._is_in_node = self._is_in_node and _REST.match(text) is not None
        if self._is_in_node:
            self._node(text)
        return self._is_in_node

    def _zone(self, match: re.Match[str], text: str) -> None:
        numbers = {m[1]: int(m[2]) << 10 for m in _KILOBYTES.finditer(text, match.start(3) - 5)}
        least = numbers.get("min", 0)
        self.zones.append(
            Zone(
                int(match[1] or 0), match[2], numbers.get("free", 0), least,
                numbers.get("high", 2 * least), numbers.get("free_cma", 0),
                numbers.get("managed") or numbers.get("present") or 0,
            )
        )  # fmt: skip
        self.zones[-1].count(numbers)
        self.kernel_stack += numbers.get("kernel_stack", 0)
        self._is_in_zone = "pages_scanned:" not in text and "free_cma:" not in text
        self.zones[-1].is_before_4_2 = "pages_scanned:" in text and "free_pcp:" not in text

    def _zone_rest(self, text: str) -> bool:
        """The next line of a zone; whether it is one."""
        if not self._is_in_zone or not _REST.match(text):
            self._is_in_zone = False
            return False
        numbers = {m[1]: int(m[2]) << 10 for m in _KILOBYTES.finditer(text)}
        zone = self.zones[-1]
        zone.count(numbers)
        zone.high = numbers.get("high", zone.high)
        zone.cma = numbers.get("free_cma", zone.cma)
        zone.present = numbers.get("managed") or numbers.get("present") or zone.present
        self.kernel_stack += numbers.get("kernel_stack", 0)
        return True

    def _blocks(self, text: str, blocks: list[tuple[str, str, str]]) -> None:
        """A list of free blocks; a mail breaks it, and the rest has no zone."""
        if (name := _LIST.search(text)) and len(self.blocks) < _ZONES_MAX:
            self.blocks.append(Blocks(name[1]))
        if self.blocks:
            listed = self.blocks[-1]
            for count, size, types in blocks:
                if 0 <= int(count) < _BLOCKS_MAX:  # before 2.6.12 some are below 0
                    listed.counts.setdefault(int(size) << 10, int(count))
                if types and not types.strip("CHI"):
                    listed.kept.add(int(size) << 10)

    def _swap(self, word: str, size: int) -> None:
        if word == "Free":
            self.swap_free = size
        else:
            self.swap_total = size

    def _count(self, word: str, pages: int) -> None:
        if word == "RAM":
            self.ram_pages = pages
        elif word == "reserved":
            self.reserved_pages = pages
        else:
            self.high_pages = pages

    def _counters(self, text: str) -> bool:
        """The lines behind "Mem-Info:", in pages."""
        if ":" not in text or not any(word in text for word in _COUNTER_WORDS):
            return False
        counters = _PAGES.findall(text)
        for name, number in counters:
            if len(self.pages) < _GLOBAL_MAX:
                self.pages.setdefault(name.lower(), int(number))
        return bool(counters)

    @property
    def is_counted(self) -> bool:
        """Whether the counters have both lists of anonymous memory, and not one of two of files: a
        line may be cut. Before 2.6.28 there are two lists of all kinds."""
        kinds = self.pages.keys()
        is_cut = len(FILES & kinds) == 1
        both = {"active_anon", "inactive_anon"} <= kinds and not is_cut
        return both or {"active", "inactive"} <= kinds

    @property
    def ranks(self) -> set[int]:
        """The places of all zones that are printed, and of Normal."""
        if self._ranks[0] != len(self.zones):
            places = {zone.rank for zone in self.zones} | {rank("Normal")}
            self._ranks = len(self.zones), places
        return self._ranks[1]

    @property
    def high(self) -> str:
        """The zone that a request for low memory cannot use: HighMem, or that of movable pages;
        empty if the machine has none."""
        zones = {blocks.zone for blocks in self.blocks}
        if self.high_pages or "HighMem" in zones:
            return "HighMem"
        return "Movable" if "Movable" in zones else ""

    @property
    def lacks_zone(self) -> bool:
        """Whether the line of a zone is missing: there is HighMem, or a list of free blocks of it.
        A report of a limited request leaves out both lines of other nodes' zones."""
        is_high = any(zone.rank >= rank("HighMem") for zone in self.zones)
        return (bool(self.high) and not is_high) or len(self.blocks) > len(self.zones)

    @property
    def ends_in_zones(self) -> bool:
        """Whether the report stops after the lines of zones, some of which may be missing."""
        return not self.blocks and self.swap_total is None and self.ram_pages is None

    @property
    def free(self) -> int | None:
        """What is free in all that is printed, in bytes."""
        if self.zones:
            return sum(zone.free for zone in self.zones)
        return sum(blocks.free for blocks in self.blocks) if self.blocks else None

    @property
    def smallest_block(self) -> int | None:
        """The size of a page, by the lists of free blocks."""
        sizes = [size for blocks in self.blocks for size in blocks.counts]
        return min(sizes, default=None)

    def total(self, page: int) -> int | None:
        """The memory that the kernel manages, in bytes."""
        if self.ram_pages is None:
            return None
        return max(0, self.ram_pages - self.reserved_pages) * page
