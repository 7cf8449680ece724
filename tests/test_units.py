"""Units are parsed exactly, printed to what a reader needs, and refused in one useful line."""

import math
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlab.text import units
from memlab.text.units import GiB, KiB, MiB, TiB

# The same examples every time, no clock in the verdict, and nothing written beside the tests.
repeatable = settings(derandomize=True, deadline=None, database=None)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("100 B", 100),
        ("100B", 100),
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("4 KiB", 4096),
        (" 4k ", 4096),
        ("1.5M", 3 * MiB // 2),
        ("0.5k", 512),
        ("1.5", None),
        ("10g", 10 * GiB),
        ("2TiB", 2 * TiB),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_sizes_are_powers_of_two_and_exact(text: str, size_bytes: int | None) -> None:
    if size_bytes is None:
        with pytest.raises(ValueError, match="whole number of bytes"):
            units.parse_size(text)
    else:
        assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (100, "100 B"),
        (1536, "1536 B"),
        (4096, "4 KiB"),
        (10240, "10 KiB"),
        (MiB, "1 MiB"),
        (1536 * MiB, "1536 MiB"),
        (2048 * TiB, "2048 TiB"),
    ],
)
def test_a_size_prints_exactly(size_bytes: int, text: str) -> None:
    assert units.format_size(size_bytes) == text


@repeatable
@given(st.integers(0, 2**63 - 1) | st.integers(0, 2**23).map(lambda n: n * KiB))
def test_every_size_survives_printing_and_parsing(size_bytes: int) -> None:
    assert units.parse_size(units.format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0.0", 0.0),
        ("0s", 0.0),
        ("5ns", 5e-9),
        ("500us", 500e-6),
        ("10ms", 0.01),
        ("10 ms", 0.01),
        ("1s", 1.0),
        ("1.5s", 1.5),
        ("35µs", 35e-6),
        ("2m", 120.0),
        ("2min", 120.0),
        ("1h", 3600.0),
    ],
)
def test_durations_are_the_nearest_float(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0123, "1.2 %"), (1.3, "130 %"), (0.35, "35 %"), (0, "0 %"), (math.inf, "over 1000 %")],
)
def test_a_percentage_has_two_digits_and_no_exponent(share: float, text: str) -> None:
    assert units.format_percent(share) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.2e-9, "1.2 ns"),
        (4e-10, "0.4 ns"),
        (999.4e-9, "999 ns"),
        (999.6e-9, "1 µs"),
        (1 / 3, "333 ms"),
        (90, "90 s"),
        (12345.678, "12346 s"),
        (-0.0123, "-12.3 ms"),
        (math.inf, "inf s"),
        (math.nan, "nan s"),
    ],
)
def test_a_duration_prints_three_digits(seconds: float, text: str) -> None:
    assert units.format_duration(seconds) == text


@repeatable
@given(st.floats(1e-9, 1e6))
def test_a_printed_duration_is_within_half_a_third_digit(seconds: float) -> None:
    printed = units.parse_duration(units.format_duration(seconds))
    assert printed == pytest.approx(seconds, rel=5.01e-3)


@repeatable
@given(st.integers(0, 10**9), st.sampled_from(["ns", "us", "ms", "s"]))
def test_whole_durations_parse_to_the_nearest_float(count: int, unit: str) -> None:
    per_second = {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1}[unit]
    assert units.parse_duration(f"{count}{unit}") == count / per_second


@pytest.mark.parametrize(
    ("text", "share"), [("2%", 0.02), ("0.5 %", 0.005), ("0%", 0), ("150%", 1.5)]
)
def test_percentages(text: str, share: float) -> None:
    assert units.parse_percent(text) == share


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", (0,)), ("0-3,5", (0, 1, 2, 3, 5)), ("5, 0-1", (0, 1, 5)), ("1,1-2", (1, 2))],
)
def test_cpu_lists(text: str, cpus: tuple[int, ...]) -> None:
    assert units.parse_cpus(text) == cpus


@repeatable
@given(st.sets(st.integers(0, 4095), min_size=1, max_size=40))
def test_any_set_of_cpus_is_read_back(cpus: set[int]) -> None:
    assert units.parse_cpus(",".join(map(str, cpus))) == tuple(sorted(cpus))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0174, "s/call", "17.4 ms/call"),
        (1.2e-9, "s", "1.2 ns"),
        (6.01 * GiB, "B/s", "6.01 GiB/s"),
        (1023.9999 * KiB, "B", "1 MiB"),
        (0.5, "B/call", "0.5 B/call"),
        (29467, "1/s", "29.5 k/s"),
        (0, "1/s", "0 /s"),
        (5, "1/s", "5 /s"),
        (0.25, "1/s", "0.25 /s"),
        (27720, "threads/s", "27.7 k threads/s"),
        (3.2e9, "1/s", "3.2 G/s"),
        (5_020_288, "count", "5,020,288"),
        (2_008_002.0, "faults", "2,008,002 faults"),
        (422.31, "faults/thread", "422 faults/thread"),
        (0.0012345, "1", "0.00123"),
        (2.3456, "1", "2.35"),
        (-2.3456, "1", "-2.35"),
        (math.inf, "B/s", "inf B/s"),
        (math.nan, "1", "nan"),
    ],
)
def test_quantities_choose_a_prefix(value: float, unit: str, text: str) -> None:
    assert units.format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("7", [7]),
        ("1,2,4", [1, 2, 4]),
        ("1..16*2", [1, 2, 4, 8, 16]),
        ("1..20*2", [1, 2, 4, 8, 16]),
        ("0..10+2", [0, 2, 4, 6, 8, 10]),
        ("0..9+2", [0, 2, 4, 6, 8]),
        ("5..5*2", [5]),
        ("1, 4..8+4 ,1", [1, 4, 8]),
    ],
)
def test_levels_of_counts(text: str, levels: list[int]) -> None:
    assert units.expand(text, units.parse_count) == levels


def test_levels_of_sizes_durations_and_words() -> None:
    assert units.expand("4k..1M*4", units.parse_size) == [
        4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, MiB,
    ]  # fmt: skip
    assert units.expand("4k..12k+4k", units.parse_size) == [4 * KiB, 8 * KiB, 12 * KiB]
    assert units.expand("1ms..10ms+1ms", units.parse_duration) == [n / 1000 for n in range(1, 11)]
    assert units.expand("1us..1s*10", units.parse_duration) == [
        1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0,
    ]  # fmt: skip
    assert units.expand("off,future,../disk", str) == ["off", "future", "../disk"]


@repeatable
@given(st.integers(1, 10**6), st.integers(0, 12), st.integers(2, 9))
def test_a_geometric_range_is_exact(first: int, steps: int, factor: int) -> None:
    last = first * factor**steps
    levels = units.expand(f"{first}..{last}*{factor}", units.parse_count)
    assert levels == [first * factor**i for i in range(steps + 1)]


BAD_INPUTS = [
    (units.parse_size, ""),
    (units.parse_size, "k"),
    (units.parse_size, "-4k"),
    (units.parse_size, "+4k"),
    (units.parse_size, "4kb"),
    (units.parse_size, "4KB"),
    (units.parse_size, "4ki"),
    (units.parse_size, "4  k"),
    (units.parse_size, "4x"),
    (units.parse_size, "1e3"),
    (units.parse_size, "0x1000"),
    (units.parse_size, "1_000"),
    (units.parse_size, "1,5k"),
    (units.parse_size, ".5k"),
    (units.parse_size, "0.3k"),
    (units.parse_size, "\N{ARABIC-INDIC DIGIT FOUR}k"),
    (units.parse_size, "9" * 5000),
    (units.parse_size, "8388608T"),
    (units.parse_size, "nan"),
    (units.parse_duration, ""),
    (units.parse_duration, "10"),
    (units.parse_duration, "-1s"),
    (units.parse_duration, "1 hour"),
    (units.parse_duration, "1M"),
    (units.parse_duration, "inf"),
    (units.parse_percent, "2"),
    (units.parse_percent, "0.02"),
    (units.parse_percent, "-2%"),
    (units.parse_percent, "%"),
    (units.parse_count, "1.5"),
    (units.parse_count, "-1"),
    (units.parse_count, "1k"),
    (units.parse_cpus, ""),
    (units.parse_cpus, "0-"),
    (units.parse_cpus, "3-0"),
    (units.parse_cpus, "0,,1"),
    (units.parse_cpus, "a"),
    (units.parse_cpus, "0-99999999"),
]


@pytest.mark.parametrize(("parse", "text"), BAD_INPUTS)
def test_a_bad_token_is_named_with_a_good_one(parse, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"such as|write") as failure:
        parse(text)
    message = str(failure.value)
    assert "\n" not in message
    assert re.search(r"'[^']*'", message), "the token is quoted"
    assert text.split(",")[0] in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty level"),
        ("1,", "empty level"),
        ("1..16", "write its step"),
        ("1..16*", "write its step"),
        ("16..1*2", "does not rise"),
        ("0..16*2", "does not rise"),
        ("1..16*1", "does not rise"),
        ("1..16+0", "does not rise"),
        ("1..16*1.5", "'1.5' is not a count"),
        ("1..x*2", "'x' is not a count"),
        ("0..100000+1", "over 1024 levels"),
    ],
)
def test_a_bad_level_list_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        units.expand(text, units.parse_count)


def test_words_have_no_range() -> None:
    with pytest.raises(ValueError, match="without an order"):
        units.expand("1a..1z+1", str)


def test_importing_units_imports_nothing_heavy() -> None:
    code = "import memlab.text.units, sys; print([m for m in sys.modules if m in %r])"
    heavy = ("numpy", "pandas", "scipy", "matplotlib", "click", "rich", "decimal", "fractions")
    done = subprocess.run(
        [sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(35, "35 s"), (119, "119 s"), (180, "3 min"), (7200, "2 h"), (31_968_000, "370 days")],
)
def test_a_time_of_days_is_said_in_days(seconds: float, text: str) -> None:
    assert units.format_long(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(12, "ENOMEM (12)"), (0, "0"), (4000, "4,000")])
def test_an_errno_has_its_name(number: int, text: str) -> None:
    assert units.format_quantity(number, "errno") == text


def test_a_bare_number_is_in_seconds_where_a_wait_or_a_budget_is_meant() -> None:
    given = {"5": 5.0, "1.5": 1.5, "2m": 120.0, "0": 0.0}
    assert {text: units.parse_seconds(text) for text in given} == given
    for wrong in ("", ".", "5 5", "soon", "-1"):
        with pytest.raises(ValueError, match="is not a duration"):
            units.parse_seconds(wrong)


def test_counts_from_the_least_to_the_most() -> None:
    assert units.from_to([8, 6, 12]) == "6 to 12"
    assert units.from_to([7, 7]) == "7"


@pytest.mark.parametrize(
    ("words", "most", "text"),
    [
        ("", None, ""), ("a", None, "a"), ("ab", None, "a and b"), ("abca", None, "a, b and c"),
        ("abcd", 3, "a, b, c and d"), ("abcde", 3, "a, b, c and 2 more"),
    ],
)  # fmt: skip
def test_words_are_enumerated_once_each(words: str, most: int | None, text: str) -> None:
    assert units.enumerated(words, most) == text
