"""The published tables against the printed text, typed here a second time from the source."""

import pytest

from memlab import published
from memlab.published import Cell

# As the article prints them, row by row: bytes a call, mmap, write.
WRITE = """
1 22.14s >300s
100 2.84s 22.86s
512 2.51s 5.43s
1024 2.48s 3.48s
2048 2.47s 2.34s
4096 2.48s 1.74s
8192 2.48s 1.74s
10240 2.49s 1.65s
"""
READ = """
1 8215.4ms >300s
100 86.4ms 8100.9ms
512 16.14ms 1851.45ms
1024 8.11ms 992.71ms
2048 4.09ms 636.85ms
4096 2.07ms 558.10ms
8192 1.06ms 558.10ms
10240 867.88µs 475.28ms
"""
# scenario, number, mapping, and whether: mmap fails, the OOM killer comes, writing goes on
OVERCOMMIT = [
    ("A", 1, "MAP_PRIVATE", "mmap fails"),
    ("A", 2, "MAP_PRIVATE + MAP_NORESERVE", "OOM killer"),
    ("A", 3, "MAP_SHARED", "writing goes on"),
    ("B", 4, "MAP_PRIVATE", "OOM killer takes one process"),
    ("B", 5, "MAP_PRIVATE + MAP_NORESERVE", "OOM killer takes one process"),
    ("B", 6, "MAP_SHARED", "writing goes on"),
]
LOGSTORE = published.load("logstore-mmap")


@pytest.mark.parametrize(
    ("table", "columns", "printed"),
    [("write", ("size", "mmap", "write"), WRITE), ("read", ("size", "mmap", "read"), READ)],
)
def test_timings_are_digit_for_digit(table: str, columns: tuple[str, ...], printed: str) -> None:
    rows = [tuple(str(row[column]) for column in columns) for row in LOGSTORE.tables[table].rows]
    assert rows == [tuple(line.split()) for line in printed.strip().splitlines()]


def test_overcommit_outcomes() -> None:
    rows = LOGSTORE.tables["overcommit"].rows
    found = [(row["scenario"], row["case"], row["mapping"]) for row in rows]
    assert found == [case[:3] for case in OVERCOMMIT]
    for row, (*_, outcome) in zip(rows, OVERCOMMIT, strict=True):
        assert outcome in row["outcome"]


def test_what_the_text_leaves_unsure_is_said() -> None:
    assert all(table.unsure for table in LOGSTORE.tables.values())


@pytest.mark.parametrize(
    ("printed", "value", "bound"),
    [
        ("22.14s", 22.14, ""),
        (">300s", 300.0, ">"),
        ("<1ms", 1e-3, "<"),
        ("8215.4ms", 8.2154, ""),
        ("867.88µs", 867.88e-6, ""),
        ("14,173us", 14173e-6, ""),
        ("5,020,288", 5020288.0, ""),
        ("17ns", 17e-9, ""),
    ],
)
def test_cell_in_base_units(printed: str, value: float, bound: str) -> None:
    cell = Cell.read(printed)
    assert (cell.printed, cell.value, cell.bound) == (printed, pytest.approx(value), bound)


@pytest.mark.parametrize("printed", ["", "fast", "12 parsecs", "3kg", "--", "1s 2s"])
def test_cell_that_is_no_number_is_refused(printed: str) -> None:
    with pytest.raises(ValueError, match="is no number with a known unit"):
        Cell.read(printed)


@pytest.mark.parametrize("source", published.ids())
def test_every_source_loads_and_is_named_by_its_file(source: str) -> None:
    loaded = published.load(source)
    assert loaded.id == source
    assert loaded.title
    assert loaded.host
    for name, table in loaded.tables.items():
        assert table.id == name
        levels = [row[table.rows_are] for row in table.rows]
        assert len(set(levels)) == len(levels) > 0


def test_no_such_source() -> None:
    with pytest.raises(KeyError, match="nosuch"):
        published.load("nosuch")
