"""The published tables against the printed text, typed here a second time from the source."""

from pathlib import Path

import pytest

from memlab import experiments, published
from memlab.experiment import Claim
from memlab.published import PrintedCell, Statement

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
# As the paper prints them: processes, off, current, future, and the two ratios to off.
THREADS = """
1 89,525 88,570 87,038 0.99 0.97
2 138,753 140,054 123,039 1.01 0.89
4 156,696 157,321 95,180 1.00 0.61
8 142,348 146,581 50,431 1.03 0.35
16 104,230 145,429 4,541 1.40 0.04
"""
LOGSTORE = published.load("logstore-mmap")
MIAO = published.load("miao-2021")
MADVISE = published.load("jemalloc-madvise")
PHYTIUM = published.load("phytium-reserved")
CHEN = published.load("chen-2014")
# As the article prints them, line by line and cell by cell.
MBW = """
memcpy 3624.776 MiB/s
dumb 1052.553 MiB/s
mcblock 3614.032 MiB/s
"""
COPIES = [
    ("first-copy", "malloc", "14173.000000 us"),
    ("first-copy", "mlocked", "7110.000000 us"),
    ("cache", "uncached", "364115.000000 us"),
    ("cache", "cached", "17313.000000 us"),
    ("cache", "cached_cleaned", "43951.000000 us"),
]
RATES = {
    "rate": [
        ("mbw", "3.6MB/ms", None),
        ("memcpy", "2.28MB/ms", "14MS"),
        ("memcpy+mlock of dst", "4.56MB/ms", "7MS"),
    ],
    "cache-rate": [
        ("off", "90KB/ms", "364MS"),
        ("on", "1.88MB/ms", "17MS"),
        ("on, and cleaned", "745KB", "44MS"),
    ],
}


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


def test_thread_creation_is_digit_for_digit() -> None:
    columns = ("processes", "off", "current", "future", "a", "b")
    rows = [tuple(str(row[column]) for column in columns) for row in MIAO.tables["5"].rows]
    assert rows == [tuple(line.split()) for line in THREADS.strip().splitlines()]


@pytest.mark.parametrize(("ratio", "column"), [("a", "current"), ("b", "future")])
def test_printed_ratios_follow_from_the_printed_counts(ratio: str, column: str) -> None:
    table = MIAO.tables["5"]
    for row in table.rows:
        quotient = table.cell(row, column).value / table.cell(row, "off").value
        assert quotient == pytest.approx(table.cell(row, ratio).value, abs=0.005)


def test_page_faults_are_digit_for_digit() -> None:
    (row,) = MIAO.tables["6"].rows
    assert row == {
        "allocated": "20GB",
        "future": "5,020,288",
        "off": "20,263",
        "ratio": "0.004",
    }


def test_guest_memory_is_digit_for_digit() -> None:
    table = MIAO.tables["2"]
    found = [
        (row["case"], row["device"], row["mlock"], table.cell(row, "occupied").value)
        for row in table.rows
    ]
    gib = 2.0**30
    assert found == [
        (1, "Virtio", "on", 10 * gib),
        (2, "Virtio", "off", 900 * 2.0**20),
        (3, "PCI", "on", 10 * gib),
        (4, "PCI", "off", 10 * gib),
    ]


def test_tables_in_words() -> None:
    assert [row["function"].split("(")[0] for row in MIAO.tables["1"].rows] == [
        "int mlock",
        "int munlock",
        "int mlockall",
        "int munlockall",
    ]
    faults = {row["mlock"]: (row["faults"], row["time"]) for row in MIAO.tables["3"].rows}
    assert faults == {"on": ("1", "low"), "off": ("many", "high")}
    stacks = {row["mlock"]: (row["mapped"], row["time"]) for row in MIAO.tables["4"].rows}
    assert stacks == {"on": ("10M B", "high"), "off": ("1M B", "low")}


def test_the_states_of_a_mapping() -> None:
    rows = MADVISE.tables["states"].rows
    assert [(row["state"], row["call"]) for row in rows] == [
        (0, "none"),
        (1, "first access"),
        (2, "madvise(0x800000, 8192, MADV_DONTNEED)"),
        (3, "munmap(0x800000, 16384)"),
    ]
    assert "page fault" in rows[2]["next_access"]
    assert "signal 11" in rows[3]["next_access"]


def test_settings_of_jemalloc_are_letter_for_letter() -> None:
    found = {row["version"]: row["malloc_conf"] for row in MADVISE.tables["settings"].rows}
    assert found == {
        "5.0": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
        "4.2.0": "purge:decay,decay_time:-1",
    }
    assert "4.2.0-0-gf70a254d44c8d30af2cd5d30531fb18fdabaae6d" in MADVISE.host["allocator"]


def test_the_service_is_as_printed() -> None:
    rows = {row["quantity"]: row for row in MADVISE.tables["service"].rows}
    jitter, use = rows["jitter of CPU"], rows["use of CPU"]
    assert (jitter["before"], jitter["after"]) == ("about 6%", "below 4%")
    assert use["change"] == "about 2% less"


def test_mbw_is_digit_for_digit() -> None:
    (row,) = PHYTIUM.tables["mbw"].rows
    printed = dict(line.split(maxsplit=1) for line in MBW.strip().splitlines())
    assert row == {"array": "5000"} | printed


@pytest.mark.parametrize(("table", "column", "printed"), COPIES)
def test_copies_are_digit_for_digit(table: str, column: str, printed: str) -> None:
    (row,) = PHYTIUM.tables[table].rows
    assert (row["copied"], row[column]) == ("32M", printed)


@pytest.mark.parametrize("table", RATES)
def test_rates_of_copies_are_digit_for_digit(table: str) -> None:
    found = PHYTIUM.tables[table]
    rows = [(row[found.rows_are], row["rate"], row.get("time")) for row in found.rows]
    assert rows == RATES[table]


def test_locked_memory_is_digit_for_digit() -> None:
    rows = {row["memory"]: row for row in PHYTIUM.tables["locked"].rows}
    assert rows["malloc"]["vm_locked"] == "32772 kB"
    assert rows["reserved, through mmap"]["vm_locked"] == "0 kB"
    assert {row["vm_size"] for row in rows.values()} == {"198540 kB"}


def test_expected_bandwidths_are_digit_for_digit() -> None:
    rows = [tuple(row.values()) for row in PHYTIUM.tables["expected"].rows]
    assert rows == [
        ("With Cache", "10-20 GB/s", "2000-5000 MB/s"),
        ("No Cache", "1-5% of peak", "50-200 MB/s"),
    ]
    latency = PHYTIUM.tables["uncached-why"].rows[0]["effect"]
    assert "~10ns (L1 Cache) to ~100ns" in latency


@pytest.mark.parametrize("source", published.ids())
def test_what_the_text_leaves_unsure_is_said(source: str) -> None:
    assert all(table.unsure for table in published.load(source).tables.values())


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
        ("10G B", 10 * 2.0**30, ""),
        ("900M B", 900 * 2.0**20, ""),
        ("20GB", 20 * 2.0**30, ""),
        ("64KB", 65536.0, ""),
        ("1052.553 MiB/s", 1052.553 * 2.0**20, ""),
    ],
)
def test_cell_in_base_units(printed: str, value: float, bound: str) -> None:
    cell = PrintedCell.read(printed)
    assert (cell.printed, cell.value, cell.bound) == (printed, pytest.approx(value), bound)


@pytest.mark.parametrize(
    "printed", ["", "fast", "12 parsecs", "3kg", "--", "1s 2s", "10 gb", "5 G"]
)
def test_cell_that_is_no_number_is_refused(printed: str) -> None:
    with pytest.raises(ValueError, match="is not a number with a known unit"):
        PrintedCell.read(printed)


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


def test_the_containers_of_figure_3_are_as_printed() -> None:
    """Its numbers are in an image that the scan does not hold; the text names these."""
    source = (Path(published.__file__).parent / "chen-2014.toml").read_text()
    assert 'setup = { groups = 16, memory_each = "1.5 GB", load = "Unixbench" }' in source
    assert [row["mean"] for row in CHEN.tables["figure-3"].rows] == ["higher", "lower"]


def test_who_pays_is_said_of_four_cases() -> None:
    said = {row["case"]: row["charged_to"] for row in CHEN.tables["accounting"].rows}
    assert said["page shared by several groups"] == "the group that touched it first"
    assert said["threads of one process in several groups"] == "the group of the main thread"
    assert len(said) == 4


def claim(name: str) -> Claim:
    experiment, id = name.split(":")
    (found,) = (one for one in experiments.load(experiment).claims if one.id == id)
    return found


@pytest.mark.parametrize("source", published.ids())
def test_every_statement_is_judged_by_what_there_is(source: str) -> None:
    """A claim of the study is one that the study makes; a check rests on other grounds."""
    statements = published.load(source).statements
    assert len(statements) > 20
    for one in statements.values():
        assert one.judgment  # reading refuses a statement without one
        assert all([one.place, one.text]), one.id
        for name in one.judged_by:
            experiment = experiments.load(name.split(":")[0])
            its_own = claim(name).of_study and source in experiment.sources
            assert its_own == bool(one.claims), (one.id, name)


@pytest.mark.parametrize("source", published.ids())
def test_every_claim_of_a_study_belongs_to_a_statement(source: str) -> None:
    """No claim is counted as the study's that is of none of its statements. Exact checks are
    several to a statement: one of each check is enough."""
    judged = {n for one in published.load(source).statements.values() for n in one.claims}
    checks = {(n.split(":")[0], str(claim(n).where.get("check"))) for n in judged}
    loose = [
        f"{name}:{one.id}"
        for name in experiments.names()
        if source in experiments.load(name).sources
        for one in experiments.load(name).claims
        if one.of_study
        and f"{name}:{one.id}" not in judged
        and (name, str(one.where.get("check"))) not in checks - {(name, "None")}
    ]
    assert loose == []


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        ({}, "has none"),
        ({"corrected": ""}, "has none"),
        ({"claims": ["a:b"], "open": "later"}, "has claims and open"),
    ],
)
def test_a_statement_without_one_judgment_is_refused(judged: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=f"statement new: needs one of claims, .* {said}"):
        Statement.read("new", {"place": "p", "text": "t", **judged})
