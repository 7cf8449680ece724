"""A run on a screen: what `show` prints, and what a finished sweep ends with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from memlab.judging import costs, reproduce
from memlab.judging.reproduce import Reproduced
from memlab.present import attribution, modes, table, tables, words
from memlab.present.answer import (
    Block,
    Part,
    Sentence,
    Verbatim,
    of_most_rows,
    open_blocks,
    say,
    write,
)
from memlab.present.key_table import key_tables, shortened
from memlab.present.screens.answer import last_output, open_claims, sentences
from memlab.present.table import SCREEN_WITH_TABLE, Table
from memlab.results import Run
from memlab.text import units


def show(run: Run, *, verbose: bool = False) -> None:
    """Print a run: the answer, as its sweep ended with it; then its tables, controls, what was
    published, cost models, noise. Parts that do not fit into so many lines are named in the last
    one. With `verbose` all of them, with every metric, and each published table whole."""
    study = reproduce.of_run(run)
    blocks = [*_blocks(run, study, verbose=verbose)]
    if not verbose:
        _on_a_screen(run, study, blocks, [])
        return
    say(sentences(study, verbose=True))
    say(chain.from_iterable(open_claims(study)))
    say(part for block in blocks for part in block.parts)


def ended(run: Run, last: Sequence[str]) -> None:
    """Print what a finished sweep ends with, on one screen: the answer, the claims that do not
    hold, the table of its numbers, and the `last` lines. What does not fit is counted, and `memlab
    show` has it."""
    printed = Block([*last_output(run)] if run.experiment.watched else [])
    _on_a_screen(run, reproduce.of_run(run), [printed], [tables.end(run), *last])


def _on_a_screen(run: Run, study: Reproduced, blocks: Sequence[Block], last: Sequence[str]) -> None:
    """The answer, the claims that do not hold, as many tables and blocks as have room, then `last`.
    The first table loses rows before it is left out."""
    console = table.console()

    def with_legend(shown: Table, rows: int) -> Table:
        result = shortened(run, shown, rows)
        legend = _legend([result])
        return replace(result, notes=[*result.notes, *([legend] if legend else [])])

    def with_rows(room: int) -> list[Part]:
        return [of_most_rows(console, measured[0], room, with_legend)]

    first, *more = sentences(study, verbose=False)
    measured = key_tables(run, study.judged) if run.measured else []
    whole = [with_legend(shown, len(shown.rows)) for shown in measured]
    parts = [
        Block([first]),
        *(Block([sentence], "the rest of the answer") for sentence in more),
        *open_blocks(console, open_claims(study), "contradicted or inconclusive verdict"),
        *(Block([shown], "table", rank=1, shorter=with_rows) for shown in whole[:1]),
        *(Block([shown], "table", rank=1) for shown in whole[1:]),
        *blocks,
    ]
    write(console, parts, SCREEN_WITH_TABLE, run.command("show -v"), last)


def _blocks(run: Run, study: Reproduced, *, verbose: bool) -> Iterator[Block]:
    """What follows the first lines, in the order in which it is printed. A block without a name is
    on each screen."""

    def optional(name: str, *parts: Part) -> Block:
        return Block(parts, name, rank=3)

    if run.experiment.watched:
        yield Block([*last_output(run)])
    if run.measured:
        if verbose:
            measured = [*tables.medians(run), tables.every_metric(run)]
            yield Block([*measured, Sentence(_legend(measured), "dim")])
        if levels := tables.names_of_levels(run):
            yield optional("what -p takes", Sentence(levels, "dim"))
        for shown in tables.controls(run):
            yield optional("control", shown)
    if verbose and study.tables:
        published = [tables.published(run, entry) for entry in study.tables]
        yield Block([*published, Sentence(tables.PUBLISHED_LEGEND, "dim")])
    if not verbose:
        for shown in tables.published_once(run, study.tables):
            yield optional("published table", shown)
    yield Block([""])
    if models := costs.lines_for_show(run, every=verbose):
        yield optional("the cost models", *models, "")
    if traced := [*attribution.lines(run)]:
        yield optional("what the slowest operations met", *traced, "")
    flags = tables.noise(run)
    message = ", ".join(f"{row[0].text} {row[1].text}" for row in flags.cells)
    of = units.counted(len(run.samples), "sample")
    message = f"{message}, of {of}: flagged, not dropped" if message else f"none in {of}"
    yield Block([f"noise: {message}"])
    if alike := words.blocks_alike(run):
        yield Block([alike])
    if two := [*modes.lines(run)]:
        yield optional("the points with two modes", *two)
    how, *more = tables.ended(run, points=False)
    yield Block([how if verbose else tables.end(run), *more])
    # The sentence of each level has said how its trials ended.
    if not (run.experiment.watched and len(run.varied) == 1) and (ends := [*tables.ends(run)]):
        yield optional("how trials ended that were not ok", *ends)
    yield Block([Verbatim(f"store: {run.store_path}")])


def _legend(shown: Sequence[Table]) -> str:
    cells = (cell.text for item in shown for row in item.cells for cell in row[item.names :])
    return tables.legend(cells)
