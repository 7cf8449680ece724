"""Sizes, durations, shares, CPU lists and level lists: text to base units and back.

Sizes are powers of two throughout: ``4k``, ``4K`` and ``4KiB`` are all 4096 B. Values inside
memlab are in base units (s, B, 1/s); only the functions named ``format_*`` choose a prefix.
Every parser raises `ValueError` with one line that names the bad token and gives a good one.
"""

import errno
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

KiB = 1 << 10
MiB = 1 << 20
GiB = 1 << 30
TiB = 1 << 40

LEVELS_MAX = 1024
"""How many levels one list may expand to: a typing slip must not fill memory."""

_SIZE_MAX = (1 << 63) - 1  # off_t, and what SQLite stores as an integer
_CPU_MAX = 65535  # above every kernel's NR_CPUS; stops "0-99999999" from filling memory

_BINARY = (("TiB", TiB), ("GiB", GiB), ("MiB", MiB), ("KiB", KiB), ("B", 1))
_SI = (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
_TIME = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))

_SIZE_FACTORS = {"": 1, "k": KiB, "m": MiB, "g": GiB, "t": TiB}
# Numerator and denominator, so that "10ms" is the float nearest to 0.01 and not a product.
_DURATION_FACTORS = {
    "ns": (1, 10**9),
    "us": (1, 10**6),
    "µs": (1, 10**6),
    "ms": (1, 10**3),
    "s": (1, 1),
    "m": (60, 1),
    "min": (60, 1),
    "h": (3600, 1),
}

# Only ASCII digits: \d also matches other scripts. 19 digits hold 2**63.
_DECIMAL = r"(?P<whole>[0-9]{1,19})(?:\.(?P<part>[0-9]{1,18}))?"
_SIZE = re.compile(_DECIMAL + r" ?(?:(?P<prefix>[kKmMgGtT])(?:[iI][bB])?|[bB])?")
_DURATION = re.compile(_DECIMAL + r" ?(?P<unit>[a-zµ]+)?")
_PERCENT = re.compile(_DECIMAL + r" ?%")
_CPUS = re.compile(r"(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?")
_RANGE = re.compile(
    r"(?P<first>(?:(?!\.\.).)+)\.\.(?P<last>[^*+]+)(?P<operator>[*+])(?P<step>[^*+]+)"
)


def parse_size(text: str) -> int:
    """Bytes from ``4k``, ``4KiB``, ``1.5M``, ``100`` or ``100 B``; exact, or `ValueError`."""
    token = text.strip()
    match = _SIZE.fullmatch(token)
    if match is None:
        raise ValueError(
            f"{token!r} is not a size: write bytes, or a number with k, M, G or T "
            "(powers of two), such as 4096, 4k or 1.5MiB"
        )
    digits, scale = _digits(match)
    size_bytes, rest = divmod(digits * _SIZE_FACTORS[(match["prefix"] or "").lower()], scale)
    if rest:
        raise ValueError(
            f"{token!r} is not a whole number of bytes: write one such as 1536 or 1.5k"
        )
    if size_bytes > _SIZE_MAX:
        raise ValueError(f"{token!r} is larger than any file or mapping: write a size such as 4G")
    return size_bytes


def parse_duration(text: str) -> float:
    """Seconds from ``500us``, ``10ms``, ``1.5s``, ``2m``, ``1h`` or a bare ``0``."""
    token = text.strip()
    match = _DURATION.fullmatch(token)
    factors = _DURATION_FACTORS.get(match["unit"] or "") if match else None
    if match and match["unit"] is None and _digits(match)[0] == 0:
        return 0.0
    if match is None or factors is None:
        raise ValueError(
            f"{token!r} is not a duration: write a number with ns, us, ms, s, m or h, "
            "such as 10ms or 2m"
        )
    digits, scale = _digits(match)
    return digits * factors[0] / (scale * factors[1])


def parse_seconds(text: str) -> float:
    """The same; a bare number is in seconds, as in Python."""
    bare = text.isascii() and text.replace(".", "", 1).isdecimal()
    return parse_duration(f"{text}s" if bare else text)


def parse_percent(text: str) -> float:
    """A share from ``2%``: 0.02."""
    token = text.strip()
    match = _PERCENT.fullmatch(token)
    if match is None:
        raise ValueError(f"{token!r} is not a percentage: write one such as 2% or 0.5%")
    digits, scale = _digits(match)
    return digits / (scale * 100)


def parse_count(text: str) -> int:
    """A whole number from ``1000``."""
    token = text.strip()
    if not re.fullmatch(r"[0-9]{1,18}", token):
        raise ValueError(f"{token!r} is not a count: write a whole number such as 16")
    return int(token)


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers, ascending and once each, from the kernel's list format: ``0-3,5``."""
    cpus: set[int] = set()
    for token in text.strip().split(","):
        match = _CPUS.fullmatch(token.strip())
        if match is None:
            raise ValueError(f"{token!r} is not a CPU list: write one such as 0-3,5")
        first = int(match["first"])
        last = int(match["last"] or first)
        if last < first:
            raise ValueError(f"{token!r} is not a CPU list: its range falls; write one such as 0-3")
        if last > _CPU_MAX:
            raise ValueError(f"{token!r} is not a CPU list: no machine has CPU {last}; write 0-3,5")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def expand(text: str, parse_one: Callable[[str], T]) -> list[T]:
    """Levels from ``1,2,4``, ``1..16*2`` (geometric) and ``0..10+2`` (arithmetic), mixed freely.

    The elements are whatever `parse_one` reads: ``4k..1M*4`` with `parse_size`. The last value of
    a range belongs to it where a step lands on it. Levels keep their order; repeats are dropped.
    """
    levels: dict[T, None] = {}
    for token in (part.strip() for part in text.split(",")):
        if not token:
            raise ValueError(f"{text!r} has an empty level: write a list such as 1,2,4")
        # A digit first, so that a directory with ".." in its name can be a level.
        if ".." in token and token[0].isdigit():
            levels.update(dict.fromkeys(_expand_range(token, parse_one)))
        else:
            levels[parse_one(token)] = None
    if len(levels) > LEVELS_MAX:
        raise ValueError(
            f"{text!r} gives over {LEVELS_MAX} levels: take larger steps, such as 1..1024*2"
        )
    return list(levels)


def format_size(size_bytes: int) -> str:
    """Exact: the largest unit that divides it, ``10 KiB`` for 10240, else bytes, ``100 B``."""
    unit, factor = next(
        (unit, factor)
        for unit, factor in _BINARY
        if size_bytes % factor == 0 and (size_bytes or factor == 1)
    )
    return f"{size_bytes // factor} {unit}"


def format_duration(seconds: float) -> str:
    """Three significant digits: ``1.2 ns``, ``35 µs``, ``90 s``."""
    value, prefix = _scaled(seconds, _TIME)
    return f"{value} {prefix}"


def format_long(seconds: float) -> str:
    """The same of what may last for days: ``35 s``, ``90 min``, ``12 h``, ``370 days``."""
    longer = ((86400, "days", 2), (3600, "h", 2), (60, "min", 2))
    for factor, name, least in longer:
        if seconds >= least * factor:
            return f"{seconds / factor:.0f} {name}"
    return f"{seconds:.0f} s"


def format_percent(share: float) -> str:
    """Two significant digits, never an exponent: ``1.2 %``, ``130 %``."""
    return f"{float(f'{100 * share:.2g}'):.10g} %" if math.isfinite(share) else "over 1000 %"


def format_quantity(value: float, unit: str) -> str:
    """A value in a base unit, for people, to three significant digits.

    ``s`` and ``s/...`` become ns, µs, ms; ``B`` and ``B/...`` become KiB, MiB, GiB; rates
    (``1/s``, ``threads/s``) take k, M, G; whole numbers of anything else stay exact, since a
    count is evidence. The units ``1`` and ``count`` print no name; one of ``errno`` prints its own,
    ``ENOMEM (12)``.
    """
    if unit == "errno" and value in errno.errorcode:
        return f"{errno.errorcode[int(value)]} ({value:.0f})"
    base, slash, per = unit.partition("/")
    if base == "s":
        number, prefix = _scaled(value, _TIME)
        return f"{number} {prefix}{slash}{per}"
    if base == "B":
        number, prefix = _scaled(value, _BINARY)
        return f"{number} {prefix}{slash}{per}"
    if per == "s":
        number, prefix = _scaled(value, _SI)
        name = "" if base == "1" else f" {base}"
        return f"{number}{' ' if prefix or not name else ''}{prefix}{name}/s"
    exact = _is_whole(value) or 1000 <= abs(value) < math.inf
    number = f"{value:,.0f}" if exact else _three_digits(value)
    return number if unit in ("1", "count", "errno") else f"{number} {unit}"


def _digits(match: re.Match[str]) -> tuple[int, int]:
    """The decimal of a match as an exact fraction: ``1.5`` is (15, 10)."""
    part = match["part"] or ""
    return int(match["whole"] + part), 10 ** len(part)


def _expand_range(token: str, parse_one: Callable[[str], Any]) -> Iterator[Any]:
    match = _RANGE.fullmatch(token)
    if match is None:
        raise ValueError(f"{token!r} is not a range: write its step too, as in 1..16*2 or 0..10+2")
    first, last = parse_one(match["first"]), parse_one(match["last"])
    if not isinstance(first, int | float):
        raise ValueError(f"{token!r} is a range of things without an order: list them, as in a,b")
    geometric = match["operator"] == "*"
    step = parse_count(match["step"]) if geometric else parse_one(match["step"])
    if last < first or (geometric and (first <= 0 or step < 2)) or step <= 0:
        raise ValueError(f"{token!r} is a range that does not rise: write 1..16*2 or 0..10+2")
    every = (first * step**i if geometric else first + i * step for i in range(LEVELS_MAX + 1))
    return itertools.takewhile(lambda value: value <= last, map(_tidy, every))


def _tidy(value: float) -> float:
    """Without the last bits that repeated steps leave: 0.010000000000000002 is 0.01."""
    return value if isinstance(value, int) else float(f"{value:.15g}")


def _scaled(value: float, prefixes: tuple[tuple[str, float], ...]) -> tuple[str, str]:
    """The number and the prefix under the largest factor that it reaches once rounded."""
    if value == 0 or not math.isfinite(value):
        return _three_digits(value), next(prefix for prefix, factor in prefixes if factor == 1)
    numbers = ((_three_digits(value / factor), prefix) for prefix, factor in prefixes)
    smallest = _three_digits(value / prefixes[-1][1]), prefixes[-1][0]
    return next((pair for pair in numbers if abs(float(pair[0])) >= 1), smallest)


def _three_digits(value: float) -> str:
    """Three significant digits, never an exponent, no trailing zeros; whole above 1000."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    number = f"{value:.{places}f}"
    return number.rstrip("0").rstrip(".") if "." in number else number


def span(low: float, high: float, name: Callable[[float], str]) -> str:
    """`1.54 to 2.02 KiB`: the unit once where both have the same."""
    first, last = name(low), name(high)
    number, _, unit = first.partition(" ")
    return f"{number if unit and last.endswith(f' {unit}') else first} to {last}"


def counted(count: int, unit: str = "block") -> str:
    """`20 blocks`, `1 session`, `2 processes`."""
    plural = "es" if unit.endswith("s") else "s"
    return f"{count} {unit}{'' if count == 1 else plural}"


def enumerated(words: Iterable[str], most: int | None = None) -> str:
    """`a`, `a and b`, `a, b and c`: each word once. If there are more than `most` + 1, the
    first `most` and the number of the others: `a, b and 4 more`."""
    names = list(dict.fromkeys(words))
    if most is not None and len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def from_to(counts: Collection[int]) -> str:
    """`6 to 12`, or `6` if all are alike."""
    return " to ".join(str(n) for n in dict.fromkeys((min(counts), max(counts))))


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and value == int(value)


def finite(value: float | None) -> float | None:
    """None for an end that is open or unknown: JSON has neither infinity nor nan."""
    return value if value is not None and math.isfinite(value) else None


def version_order(release: str) -> list[tuple[int, str]]:
    """A kernel's release as what sorts: 6.1.0-56 comes after 6.1.0-9."""
    return [(int(n or 0), word) for n, word in re.findall(r"(\d{1,18})|([a-z]+)", release)]
