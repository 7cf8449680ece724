"""One table as text, HTML and Markdown."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from report_runs import stored
from rich.console import Console

from memlab.measure.progress import Live
from memlab.present import report, table, tables
from memlab.present.table import Cell, Column, Table, Text, markdown, write
from memlab.results.beside import tables as published

SIZES = Table(
    "sizes",
    [
        Column("size", "left"),
        *(Column(f"{m}\nreaders {n}", group=m) for m in ("touch", "free") for n in (0, 1)),
    ],
    [["4 KiB", "1 ns", "2 ns", Cell("3 ns", "quiet", "printed: 3ns"), "4 ns"]],
    ["a note"],
)


def lines(shown: Table, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    write(console, shown)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """`[tmpfs]` was swallowed, and `[/x]` ended the command."""
    shown = Table("[old]", [Column("[tmpfs]", "left"), Column("b")], [["[/x]", "[red]2"]])
    assert lines(shown, 60) == ["", "[old]", "[tmpfs]       b", "─" * 15, "[/x]     [red]2"]
    table.console().print(Text("store: /d/[old]/r.db"))
    live = Live()
    live.warned("[/x]")
    live._console.print(Text("[tmpfs]"))
    said = capsys.readouterr()
    assert said.out == "store: /d/[old]/r.db\n"
    assert said.err == "memlab: [/x]\n[tmpfs]\n"


def test_what_fits_is_one_grid() -> None:
    assert lines(SIZES, 60) == [
        "",
        "sizes",
        "           touch      touch       free       free",
        "size   readers 0  readers 1  readers 0  readers 1",
        "─" * 49,
        "4 KiB       1 ns       2 ns       3 ns       4 ns",
        "a note",
    ]


def test_what_does_not_fit_is_split_between_groups_and_rows_are_named_again() -> None:
    text = lines(SIZES, 40)
    assert [line.split() for line in text if "KiB" in line] == [
        ["4", "KiB", "1", "ns", "2", "ns"],
        ["4", "KiB", "3", "ns", "4", "ns"],
    ]
    assert max(map(len, text)) <= 40


@pytest.mark.parametrize("width", [18, 20, 30])
def test_a_group_that_does_not_fit_is_split_too(width: int) -> None:
    text = lines(SIZES, width)
    assert max(map(len, text)) <= width
    assert {f"{n} ns" for n in range(1, 5)} <= {
        " ".join(pair)
        for line in text
        for pair in zip(line.split(), line.split()[1:], strict=False)
    }


def test_a_long_name_is_broken_between_words_and_prose_where_it_may_be() -> None:
    name = "dontneed, pages 16, readers 1, processes"
    prose = Column("verdict", "left", wrap=12)
    shown = Table("", [Column("point", "left"), prose], [[name, "inconclusive: 9 more blocks"]])
    text = lines(shown, 30)
    assert max(map(len, text)) <= 30
    assert {*name.split(), "inconclusive:"} <= set(" ".join(text).split())


def test_markdown_escapes_what_would_end_a_cell() -> None:
    shown = Table("", [Column("a\nb"), Column("c")], [["x | y", "< z"]])
    assert [*markdown(shown)] == ["| a<br>b | c |", "| --- | --- |", "| x \\| y | &lt; z |"]


@pytest.mark.seconds
def test_a_published_number_is_in_the_metrics_unit_and_as_printed_above_it(tmp_path: Path) -> None:
    run = stored(tmp_path, blocks=6, size=[1, 1024], method=["mmap", "write"])
    (table,) = {t.table.id: t for t in published(run)}.values()
    shown = tables.published(run, table)
    assert [row[0].text for row in shown.cells] == ["1 B", "1 KiB"]
    assert shown.cells[1][1] == Cell("2.48 s", "quiet", "printed: 2.48s")
    assert shown.notes[0] == "6 of 8 published rows have no point in this run"
    html = report.html([run])
    assert '<td class="quiet" title="printed: 2.48s">2.48 s</td>' in html
    assert "6 of 8 published rows have no point in this run" in html
