"""Exact checks as a table: what was claimed, what was expected and seen, and whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memlab import units
from memlab.experiment import Checks, Claim, Count, Level, Outcome, Within
from memlab.judging import evidence
from memlab.judging.claims import Judged, judge
from memlab.judging.claims import as_data as judged_as_data
from memlab.present import words
from memlab.present.figures import page, style
from memlab.present.figures.page import Page
from memlab.present.figures.series import varied
from memlab.present.figures.sheet import EDGE, STEP, sheet
from memlab.results import Run

# Where the columns start, as shares of the page's inner width.
_LEVEL, _CLAIM, _SOURCE, _METRIC = 0.0, 0.145, 0.44, 0.6
_EXPECTED, _SEEN, _SIGN, _END = 0.745, 0.82, 0.88, 1.0
_HEADS = {
    _CLAIM: "claim",
    _SOURCE: "as stated in",
    _METRIC: "what was looked at",
    _EXPECTED: "expected",
    _SEEN: "seen",
}
_QUIET = (_SOURCE, _METRIC)
_GAP = 14.0  # points between a column's text and the next column
_PAD = 3.0  # points above and below a row's text
_WIDTH = 921.6
_PALE = "#f3d5c3"  # behind a row that does not hold

# Filled, crossed, open: told apart without colour, and the word stands beside.
_SIGNS: Mapping[str, Mapping[str, Any]] = {
    "reproduced": {"marker": "o", "color": style.COLOURS[0]},
    "contradicted": {"marker": "X", "color": style.COLOURS[1]},
    "inconclusive": {"marker": "o", "color": style.QUIET, "markerfacecolor": "white"},
    "not testable here": {"marker": "_", "color": style.QUIET},
}


@dataclass(frozen=True, slots=True)
class Check:
    """One claim at one setting, in words; `why` is said where there is no plain verdict."""

    judged: Judged
    expected: str
    seen: str
    why: str


@dataclass(frozen=True, slots=True)
class Row:
    """A check as the lines of its columns."""

    word: str
    columns: Mapping[float, Sequence[str]]
    why: Sequence[str]

    @property
    def height(self) -> float:
        most = max(len(lines) for at, lines in self.columns.items() if at != _CLAIM)
        return max(most, len(self.columns[_CLAIM]) + len(self.why), 1) * STEP + 2 * _PAD


@dataclass(frozen=True, slots=True)
class Group:
    """A level with its checks; one without any says so."""

    level: Sequence[str]
    rows: Sequence[Row]

    @property
    def height(self) -> float:
        return max(sum(row.height for row in self.rows), len(self.level) * STEP + 2 * _PAD)


def compose(figure: Figure, run: Run, shown: Checks) -> None:
    """Draw the checks of a run on an empty figure, and set its size."""
    found = checks(run, shown)
    groups = [_group(run, shown, level, inside) for level, inside in found.items()]
    made = sheet(
        run.experiment.question,
        finding(found),
        run,
        page.fixed(run),
        [],
        _WIDTH,
    )
    body = STEP + 6 + sum(group.height for group in groups)
    on, top = made.lay(figure, body)
    axes = _axes(on, top - body, body)
    for at, head in _HEADS.items():
        on.write(head, _x(at), top, style.SMALL, color=style.QUIET)
    top -= STEP + 4
    for group in groups:
        _write(on, axes, group, top)
        top -= group.height


def finding(found: Mapping[Level, Sequence[Check]]) -> str:
    """How many checks came out how."""
    told = Counter(check.judged.word for inside in found.values() for check in inside)
    said = ", ".join(f"{told[word]} {word}" for word in _SIGNS if told[word])
    return f"{told.total()} checks: {said}" if said else "no check is declared"


def checks(run: Run, shown: Checks) -> dict[Level, list[Check]]:
    """The checks by level of the figure's factor, in the plan's order, also where none is made."""
    grid = [point for point in run.points if point.control is None]
    found: dict[Level, list[Check]] = {point.at[shown.over]: [] for point in grid}
    for judged in judge(run):
        at = {**judged.setting, **judged.claim.where}
        if at.get(shown.over) in found:
            found[at[shown.over]].append(_check(run, judged))
    return found


def _check(run: Run, judged: Judged) -> Check:
    plain = judged.word in ("reproduced", "contradicted")
    return Check(
        judged,
        expected(run, judged.claim),
        _seen(run, judged),
        "" if plain else judged.evidence,
    )


def expected(run: Run, claim: Claim) -> str:
    """`3 VMAs`, `sigbus`, `below 2 us`; a claim of another kind says it in its sentence."""
    if isinstance(claim, Outcome):
        return claim.outcome
    if isinstance(claim, Count):
        about = f" within {100 * claim.within:.3g} %" if claim.within else ""
        return _quantity(run, claim, claim.equals) + about
    if isinstance(claim, Within):
        bounds = (("above", claim.above), ("below", claim.below))
        return " and ".join(
            f"{word} {_quantity(run, claim, bound)}" for word, bound in bounds if bound is not None
        )
    return ""


def _quantity(run: Run, claim: Claim, value: float) -> str:
    return units.format_quantity(value, run.metric(claim.metric).unit)


def _seen(run: Run, judged: Judged) -> str:
    """What there was: how the trials ended, or the smallest to the largest where they differ."""
    claim, verdict = judged.claim, judged.verdict
    if isinstance(claim, Outcome):
        behind = set(judged.samples)
        ended = Counter(sample.outcome for sample in run.samples if sample.id in behind)
        return ", ".join(ended if len(ended) == 1 else (f"{n} {w}" for w, n in ended.items()))
    if verdict.estimate is None:
        return ""
    if not isinstance(claim, Count | Within):
        return evidence.number(verdict.estimate)
    ends = (verdict.low, verdict.high) if isinstance(claim, Count) else ()
    known = [end for end in ends if end is not None] or [verdict.estimate]
    return " to ".join(_quantity(run, claim, v) for v in dict.fromkeys(known))


def _group(run: Run, shown: Checks, level: Level, found: Sequence[Check]) -> Group:
    named = run.experiment.describe_level(shown.over, level)
    return Group(
        _wrapped(named, _LEVEL, _CLAIM, "bold"), [_row(run, shown, check) for check in found]
    )


def _row(run: Run, shown: Checks, check: Check) -> Row:
    claim, setting = check.judged.claim, check.judged.setting
    others = [name for name in varied(run) if name in setting and name != shown.over]
    where = f" ({words.levels(run.experiment, setting, others)})" if others else ""
    return Row(
        check.judged.word,
        {
            _CLAIM: _wrapped(claim.text + where, _CLAIM, _SOURCE),
            _SOURCE: _wrapped(claim.published, _SOURCE, _METRIC),
            _METRIC: _wrapped(_looked_at(claim), _METRIC, _EXPECTED),
            _EXPECTED: _wrapped(check.expected, _EXPECTED, _SEEN),
            _SEEN: _wrapped(check.seen, _SEEN, _SIGN),
        },
        _wrapped(check.why, _CLAIM, _SOURCE),
    )


def _looked_at(claim: Claim) -> str:
    return "how trials ended" if isinstance(claim, Outcome) else claim.metric


def _wrapped(text: str, start: float, end: float, weight: str = "normal") -> list[str]:
    return style.wrap(text, style.SMALL, _x(end) - _x(start) - _GAP, weight)


def _x(share: float) -> float:
    return EDGE + share * (_WIDTH - 2 * EDGE)


def _axes(on: Page, bottom: float, body: float) -> Axes:
    """Axes in points, x from the page's edge and y from its foot, for lines and signs."""
    axes = on.figure.add_axes((0, bottom / on.height, 1, body / on.height))
    axes.set_xlim(0, on.width)
    axes.set_ylim(bottom, bottom + body)
    axes.set_axis_off()
    return axes


def _write(on: Page, axes: Axes, group: Group, top: float) -> None:
    axes.hlines(top, EDGE, _x(_END), color=style.FAINT, linewidth=0.8, zorder=1)
    _lines(on, group.level, _LEVEL, top, weight="bold", color=style.INK)
    if not group.rows:
        _lines(on, ["nothing is claimed here"], _CLAIM, top, color=style.QUIET)
    for row in group.rows:
        for at, lines in row.columns.items():
            _lines(on, lines, at, top, color=style.QUIET if at in _QUIET else style.INK)
        below = top - len(row.columns[_CLAIM]) * STEP
        _lines(on, row.why, _CLAIM, below, color=style.QUIET)
        if row.word == "contradicted":
            axes.fill_between(
                [_x(_CLAIM) - 4, _x(_END)], top - row.height + 1, top - 1, color=_PALE, zorder=0
            )
        middle = top - _PAD - STEP / 2
        axes.plot([_x(_SIGN)], [middle], linestyle="", markersize=6.5, zorder=3, **_SIGNS[row.word])
        hue = style.darker(_SIGNS[row.word]["color"])
        on.write(row.word, _x(_SIGN) + 10, top - _PAD, style.SMALL, color=hue, weight="bold")
        top -= row.height


def _lines(on: Page, lines: Sequence[str], at: float, top: float, **look: str) -> None:
    for i, line in enumerate(lines):
        on.write(line, _x(at), top - _PAD - i * STEP, style.SMALL, **look)


def as_data(run: Run, shown: Checks) -> list[dict[str, Any]]:
    """The sidecar's rows: every check with its verdict and the samples that it rests on."""
    hashes = {sample.id: sample.probe_hash for sample in run.samples}
    return [
        judged_as_data(check.judged)
        | {
            "kind": "check",
            "levels": {shown.over: level},
            "expected": check.expected,
            "seen": check.seen,
            "probe": run.experiment.probe,
            "probe_hashes": list(dict.fromkeys(hashes[i] for i in check.judged.samples)),
            "c_file": f"probes/{run.experiment.probe}.c",
        }
        for level, inside in checks(run, shown).items()
        for check in inside
    ]
