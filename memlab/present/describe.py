"""An experiment's declaration in words: what `memlab describe` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from memlab import published as studies
from memlab.experiment import PRESETS, Claim, Experiment, Expression, Factor, turns
from memlab.present import table
from memlab.present.answer import Block, Part, Sentence, fit, not_shown, put, say
from memlab.published import load

_BEGINS = re.compile("Window: |Excluded: ")  # a line of a comment that is a part of its own
_OPENING = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*)*", re.DOTALL)  # before any code
_MOST = 96  # characters of a line that are easy to read


def probe_comment(experiment: Experiment) -> str:
    """The opening comment of the probe's file: what the timed window holds."""
    path = probe_source(experiment)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".c":
        opening = _OPENING.match(text)
        comments = re.findall(r"/\*(.*?)\*/", opening[0] if opening else "", re.DOTALL)
        # A line with the file's name, or a licence, may come before it.
        comment = next((one for one in comments if "Window: " in one), "".join(comments[:1]))
    else:
        comment = text.partition('"""')[2].partition('"""')[0]
    lines = (line.strip().removeprefix("*").removeprefix(" ") for line in comment.splitlines())
    return "\n".join(line.rstrip() for line in lines)


def probe_source(experiment: Experiment) -> Path:
    """The probe's file: a C file is installed beside the compiled module, or in the checkout."""
    package = Path(__file__).parents[1]
    places = (
        package / "probe_sources" / f"{experiment.probe}.c",
        package.parent / experiment.probe_file,
    )
    return next(path for path in places if path.exists())


def in_full(experiment: Experiment) -> None:
    """Print all of it."""
    say(_parts(experiment), _MOST)


def on_a_screen(experiment: Experiment, in_full: str) -> None:
    """Print on one screen what is varied and what stays, the window's first sentence, names, as
    many claims as have room, and the command that prints all of it."""
    console = table.console()
    console.width = min(console.width, _MOST)
    claims = [Block([_named("claim", claim.text)], "claim") for claim in experiment.claims]
    shown, left = fit(console, [Block([*_in_short(experiment)]), *claims], table.SCREEN - 1)
    put(console, shown, not_shown(left, in_full, "what each of these is"))


def _in_short(experiment: Experiment) -> Iterator[Sentence]:
    yield _item(f"{experiment.name}: {experiment.question}", 0)
    for factor in experiment.factors:
        levels = [factor.kind.format(level) for level in factor.levels(PRESETS[0])]
        if len(levels) > 1:
            yield _named("varied", f"-p {factor.name}: {_some(levels)}")
    fixed = [f for f in experiment.factors if len(f.levels(PRESETS[0])) == 1]
    if fixed:
        message = (f"{f.name}={f.kind.format(f.levels(PRESETS[0])[0])}" for f in fixed)
        yield _named("constant", _some([*message]))
    yield _named("timed", first_sentence(window(experiment)))
    first, *more = (metric.name for metric in experiment.metrics)
    also = f"; also {_some(more)}" if more else ""
    yield _named("metrics", f"{first}, {experiment.metrics[0].help}{also}")
    if experiment.controls:
        yield _named("controls", _some([control.name for control in experiment.controls]))
    if experiment.sources:
        yield _named("studies", ", ".join(experiment.sources))
    yield _named("budget", ", ".join(f"{p} {experiment.budget_s[p]:g} s" for p in PRESETS))


def _named(name: str, text: str) -> Sentence:
    return _item(text, 0, _NAME, f"{name:<{_NAME}}")


def _item(text: str, indent: int, more: int = 2, begin: str = "") -> Sentence:
    """A declared text may have lines of its own."""
    return Sentence(" ".join(text.split()), lead=" " * indent + begin, under=indent + more)


_NAME = 10  # characters
_FEW = 8


def _some(names: Sequence[str]) -> str:
    """The first of them, and how many there are."""
    more = f", ... ({len(names)} in all)" if len(names) > _FEW + 1 else ""
    return ", ".join(names[:_FEW] if more else names) + more


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text)[0]


def window(experiment: Experiment) -> str:
    """What is timed, as the probe's opening comment says it."""
    first, named, text = probe_comment(experiment).strip().partition("Window: ")
    paragraph = (text if named else first).partition("\n\n")[0]
    return " ".join(paragraph.split()).partition(" Excluded: ")[0]


def _windows(experiment: Experiment) -> str:
    if experiment.turns is None:
        return "Taken: a trial is one window."
    text = (experiment.turns.__doc__ or "").strip().rstrip(".")
    return (
        "Taken: a trial is one window. With --design turns: "
        f"{turns.said()}, without the machine's stalls. {text}."
    )


def _parts(experiment: Experiment) -> Iterator[Part]:
    yield _item(f"{experiment.name}: {experiment.question}", 0)
    yield ""
    yield "FACTORS, set with -p name=levels"
    for factor in experiment.factors:
        named, levels = _factor(factor)
        yield _item(named, 2)
        yield _item(levels, 6)
    for exclude in experiment.excludes:
        yield _item(f"left out: {exclude.why}", 2)
    yield ""
    yield f"THE TIMED WINDOW, {experiment.probe_file}"
    for paragraph in _paragraphs(probe_comment(experiment)):
        yield _item(paragraph, 2 + _depth(paragraph), 0) if paragraph else ""
    yield ""
    yield _item(_windows(experiment), 2, 0)
    yield ""
    yield "METRICS, from each sample; the first decides when a point is done"
    units = "A field that ends in _ns is read in seconds; at. has the levels of the sample's point."
    yield _item(units, 2, 0)
    longest = max(len(metric.name) for metric in experiment.metrics)
    for metric in experiment.metrics:
        named = f"{metric.name:<{longest}}  "
        yield _item(f"{metric.help} ({metric.unit})", 2, len(named), named)
        if isinstance(metric.of, Expression):
            yield _item(f"= {metric.of}", 2 + len(named), 2)
    yield ""
    yield "CONTROLS, points beside the grid that test an explanation"
    if not experiment.controls:
        yield "  none"
    for control in experiment.controls:
        where = "" if len(control.presets) == len(PRESETS) else f" ({', '.join(control.presets)})"
        yield _item(f"{control.name}{where}: {control.description}", 2)
    yield ""
    yield "STUDIES whose claims it tests"
    if not experiment.sources:
        yield "  none: its claims name where they are from"
    for source in experiment.sources:
        yield _item(f"{source}: {studies.load(source).reference}", 2)
    yield ""
    yield "CLAIMS, with what they rest on"
    for claim in experiment.claims:
        yield _item(f"{claim.id}: {claim.text}{_basis(claim)}", 2)
    for claim in experiment.changes:
        words = f"{claim.id}: {claim.text}{_basis(claim)}; since {claim.since}"
        yield _item(f"{words}, by `memlab kernels ladder`", 2)
    for published in experiment.published:
        yield _item(f"table: {published.source}, {published.table}. {published.note}".strip(), 2)
        unsure = load(published.source).tables[published.table].unsure
        if unsure:
            yield _item(f"unsure in the source: {'; '.join(unsure)}", 4)
    yield ""
    yield "BUDGET  " + ", ".join(f"{p} {experiment.budget_s[p]:g} s" for p in PRESETS)


def _paragraphs(comment: str) -> list[str]:
    """A comment's paragraphs, a line each, and the indented items in them; an empty line is one."""
    results: list[str] = []
    for line in comment.strip().splitlines():
        last = results[-1] if results else ""
        depth, of_last = _depth(line), _depth(last)
        goes_on = not _BEGINS.match(line) and (depth > of_last if of_last else not depth)
        if line and last and goes_on:
            results[-1] += f" {line.strip()}"
        else:
            results.append(line)
    return results


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _factor(factor: Factor) -> tuple[str, str]:
    """What it is, and its levels by preset, those of several presets once."""
    good = f": {', '.join(factor.kind.levels)}" if factor.kind.levels else ""
    good = good or (f", {factor.bounds}" if factor.bounds else "")
    shown: dict[str, str] = {}
    for preset in PRESETS:
        levels = ", ".join(factor.kind.format(level) for level in factor.levels(preset))
        if levels not in shown.values():
            shown[preset] = levels
    named = f"{factor.name} ({factor.kind.noun}{good}): {factor.help}"
    return named, "; ".join(f"{preset} {levels}" for preset, levels in shown.items())


def _basis(claim: Claim) -> str:
    return f" [basis: {claim.published}]" if claim.published else ""
