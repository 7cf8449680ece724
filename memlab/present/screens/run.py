"""A run on a screen: what `show` prints, and what a finished sweep ends with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from rich.console import Console

from memlab.judging import costs
from memlab.present import attribution, modes, table, tables, words
from memlab.present.key_table import key_tables, shortened
from memlab.present.screens.answer import answer_lines, judged_run, last_output, open_claims
from memlab.present.screens.lines import (
    LEFT_OUT,
    Block,
    fit,
    lines_of,
    not_shown,
    of_most_rows,
    open_blocks,
    rows_taken,
    say,
    table_lines,
    unbroken,
)
from memlab.present.table import SCREEN_WITH_TABLE, Table, Text, write
from memlab.results import Run
from memlab.results import beside as published
from memlab.text import units
from memlab.text.printable import printable


def show(run: Run, *, verbose: bool = False) -> None:
    """Print a run: the answer, as its sweep ended with it; then its tables, controls, what was
    published, cost models, noise. Parts that do not fit into so many lines are named in the last
    one. With `verbose` all of them, with every metric, and each published table whole."""
    console = table.console()
    parts = [*_parts(console, run, verbose=verbose)]
    if verbose:
        opened = chain.from_iterable(open_claims(console, run))
        results = lines_of(console, [*answer_lines(console, run, verbose=True), *opened])
        console.file.write("".join([*results, *(line for part in parts for line in part.lines)]))
    else:
        _on_a_screen(console, run, parts, [])


def ended(run: Run, last: Sequence[str]) -> None:
    """Print what a finished sweep ends with, on one screen: the answer, the claims that do not
    hold, the table of its numbers, and the `last` lines. What does not fit is counted, and `memlab
    show` has it."""
    console = table.console()
    printed = last_output(run) if run.experiment.watched else ()
    part = Block(lines_of(console, map(Text, printed)))
    _on_a_screen(console, run, [part], [tables.end(run), *last])


def _on_a_screen(console: Console, run: Run, parts: Sequence[Block], last: Sequence[str]) -> None:
    """The answer, the claims that do not hold, as many tables and parts as have room, then `last`.
    The first table loses rows before it is left out."""

    def with_legend(shown: Table, rows: int) -> Table:
        result = shortened(run, shown, rows)
        legend = _legend([result])
        return replace(result, notes=[*result.notes, *([legend] if legend else [])])

    def with_rows(room: int) -> list[str]:
        return table_lines(console, of_most_rows(console, measured[0], room, with_legend))

    answer, *more = lines_of(console, answer_lines(console, run, verbose=False))
    open_ones = (lines_of(console, claim) for claim in open_claims(console, run))
    measured = key_tables(run, judged_run(run).judged) if run.measured else []
    whole = [table_lines(console, with_legend(shown, len(shown.rows))) for shown in measured]
    blocks = [
        Block([answer]),
        *(Block([line], "the rest of the answer") for line in more),
        *open_blocks(open_ones, "contradicted or inconclusive verdict"),
        *(Block(lines, "table", rank=1, shorter=with_rows) for lines in whole[:1]),
        *(Block(lines, "table", rank=1) for lines in whole[1:]),
        *parts,
    ]
    room = SCREEN_WITH_TABLE - rows_taken(last, console.width)
    shown, left = fit(blocks, room, reserved=LEFT_OUT)
    console.file.write("".join(shown))
    unbroken([*not_shown(left, run.command("show -v")), *last])


def _parts(console: Console, run: Run, *, verbose: bool) -> Iterator[Block]:
    """What follows the first lines, in the order in which it is printed."""

    def part(name: str, *shown: Table | str, dim: bool = False) -> Block:
        with console.capture() as printed:
            for item in shown:
                if isinstance(item, str):
                    say(console, Text(item, style="dim" if dim else ""))
                else:
                    write(console, item)
        return Block(printed.get().splitlines(keepends=True), name, rank=3)

    if run.experiment.watched:
        yield part("", *last_output(run))
    if run.measured:
        if verbose:
            measured = [*tables.medians(run), tables.every_metric(run)]
            yield part("", *measured)
            yield part("", _legend(measured), dim=True)
        if levels := tables.names_of_levels(run):
            yield part("what -p takes", levels, dim=True)
        for shown in tables.controls(run):
            yield part("control", shown)
    if verbose:
        results = [tables.published(run, entry) for entry in published.tables(run)]
        yield part("", *results)
        yield part("", *([tables.PUBLISHED_LEGEND] if results else []), dim=True)
    else:
        for shown in tables.published_once(run):
            yield part("published table", shown)
    yield part("", "")
    if models := costs.lines_for_show(run, every=verbose):
        yield part("the cost models", *models, "")
    if traced := [*attribution.lines(run)]:
        yield part("what the slowest operations met", *traced, "")
    flags = tables.noise(run)
    message = ", ".join(f"{row[0].text} {row[1].text}" for row in flags.cells)
    of = units.counted(len(run.samples), "sample")
    message = f"{message}, of {of}: flagged, not dropped" if message else f"none in {of}"
    yield part("", f"noise: {message}")
    if alike := words.blocks_alike(run):
        yield part("", alike)
    if two := [*modes.lines(run)]:
        yield part("the points with two modes", *two)
    how, *more = tables.ended(run, points=False)
    yield part("", how if verbose else tables.end(run), *more)
    # The sentence of each level has said how its trials ended.
    if not (run.experiment.watched and len(run.varied) == 1) and (ends := [*tables.ends(run)]):
        yield part("how trials ended that were not ok", *ends)
    yield Block([f"store: {printable(str(run.store_path))}\n"])  # whole, however long


def _legend(shown: Sequence[Table]) -> str:
    cells = (cell.text for item in shown for row in item.cells for cell in row[item.names :])
    return tables.legend(cells)
