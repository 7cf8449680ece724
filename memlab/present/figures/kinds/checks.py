"""Exact checks as a table: what was claimed, what was expected and seen, and whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from memlab.experiment import Checks, Claim, Count, Outcome, Within
from memlab.judging import evidence
from memlab.judging.claims import Judged, judge
from memlab.present import words
from memlab.present.figures import frame, scales, style, tables
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import Page
from memlab.present.figures.tables import FigureCell
from memlab.results import Run
from memlab.text import units

# A verdict's sign and colour; contradicted first.
_SIGNS: Mapping[str, tuple[str, str]] = {
    "contradicted": ("✖", style.CONTRADICTED),
    "inconclusive": ("○", style.QUIET),
    "not testable here": ("-", style.QUIET),
    "reproduced": ("●", style.darker(style.COLOURS[0])),
}
_HEADS = ("", "claim", "as stated in", "what was read", "expected", "seen", "verdict")
LISTED_MAX = 40  # checks that a picture of a page's height lists one by one
_COLUMNS = 3  # of a picture of more
_WIDTHS = (0.145, 0.295, 0.16, 0.135, 0.075, 0.075, 0.13)


def title(run: Run, shown: Checks) -> str:
    of = scales.factor(run.experiment, shown.over)
    return "exact checks" if of == "check" else f"exact checks, by {of}"


def rows(run: Run, shown: Checks) -> Rows:
    """A row per claim and setting, by level of the figure's factor, in the plan's order."""
    from memlab.present.documents import plain
    from memlab.present.documents.claims import JudgedClaim

    levels = list(dict.fromkeys(point.at[shown.over] for point in frame.grid(run)))
    marks: list[Mark] = []
    for judged in judge(run):
        level = {**judged.setting, **judged.claim.where}.get(shown.over)
        if level not in levels:
            continue
        others = [n for n in run.varied if n in judged.setting and n != shown.over]
        cells = plain(JudgedClaim.made_of(judged)) | {
            "panel": {},
            "kind": "check",
            "series": judged.claim.text,
            "levels": {**judged.setting, shown.over: level},
            "expected": _expected(run, judged.claim),
            "seen": _observed(run, judged),
            "_where": words.labels(run.named, judged.setting, others),
            "_order": levels.index(level),
            "_read": _read(run, judged.claim),
        }
        marks.append(cells)
    return frame.rows(sorted(marks, key=lambda mark: int(mark["_order"])))


def _read(run: Run, claim: Claim) -> str:
    if isinstance(claim, Outcome):
        return "how trials ended"
    return run.metric(claim.metric).label or claim.metric


def _expected(run: Run, claim: Claim) -> str:
    within = claim.within if isinstance(claim, Count) else 0.0
    return words.expected(run, claim) + (f" within {100 * within:.3g} %" if within else "")


def _quantity(run: Run, claim: Claim, value: float) -> str:
    return units.format_quantity(value, run.metric(claim.metric).unit)


def _observed(run: Run, judged: Judged) -> str:
    """What there was: how the trials ended, or the smallest to the largest where they differ."""
    claim, verdict = judged.claim, judged.verdict
    if isinstance(claim, Outcome):
        behind = np.isin(run.samples.taken("id"), list(judged.samples))
        ended = run.samples[behind].outcomes
        return ", ".join(ended if len(ended) == 1 else (f"{n} {w}" for w, n in ended.items()))
    if verdict.estimate is None:
        return ""
    if not isinstance(claim, Count | Within):
        return evidence.number(verdict.estimate)
    ends = (verdict.low, verdict.high) if isinstance(claim, Count) else ()
    known = [end for end in ends if end is not None] or [verdict.estimate]
    return " to ".join(_quantity(run, claim, v) for v in dict.fromkeys(known))


def finding(run: Run, shown: Checks, rows: Rows) -> str:
    """How many checks came out how."""
    count = Counter(mark["verdict"] for mark in frame.marks(rows))
    text = ", ".join(f"{count[word]} {word}" for word in _SIGNS if count[word])
    return f"{units.counted(count.total(), 'check')}: {text}" if text else "no check is declared"


def draw(page: Page, shown: Checks, rows: Rows) -> None:
    """A row per check, contradicted ones first; of many checks a line per level."""
    run, order = page.run, list(_SIGNS)
    result = frame.marks(rows)
    claimed = {mark["levels"][shown.over] for mark in result}
    levels = dict.fromkeys(point.at[shown.over] for point in frame.grid(run))
    bare = [level for level in levels if level not in claimed]
    names = ", ".join(words.label(run.named, shown.over, level) for level in bare)
    page.notes += [f"nothing is claimed of {names}"] if names else []
    if len(result) > LISTED_MAX:
        _draw_levels(page, shown, result)
        return
    result.sort(key=lambda mark: order.index(mark["verdict"]))
    created, before = [], ""
    for mark in result:
        level = words.label(run.named, shown.over, mark["levels"][shown.over])
        word = mark["verdict"]
        sign, hue = _SIGNS[word]
        fill = tables.RED if word == "contradicted" else ""
        where = f" ({mark['_where']})" if mark["_where"] else ""
        plain = word in ("reproduced", "contradicted")
        created.append(
            [
                FigureCell([level] if level != before else [], bold=True),
                FigureCell([mark["text"] + where], [] if plain else [mark["evidence"]], fill),
                FigureCell(quiet=[mark["published"]], fill=fill),
                FigureCell(quiet=[mark["_read"]], fill=fill),
                FigureCell([mark["expected"]], fill=fill),
                FigureCell([mark["seen"]], fill=fill),
                FigureCell([f"{sign} {word}"], fill=fill, bold=True, hue=hue),
            ]
        )
        before = level
    tables.draw(page, _HEADS, _WIDTHS, created)


def _draw_levels(page: Page, shown: Checks, marks: Sequence[Mark]) -> None:
    """A line per level with a sign per check, in columns; what does not hold is said below."""
    parts = frame.split(sorted(marks, key=lambda mark: int(mark["_order"])), "_order")
    parts.sort(key=lambda part: min(list(_SIGNS).index(mark["verdict"]) for mark in part))
    cells = [_level(page.run, shown, part) for part in parts]
    deep = -(-len(cells) // _COLUMNS)
    cells += [(FigureCell(), FigureCell())] * (deep * _COLUMNS - len(cells))
    created = [[cell for pair in cells[row::deep] for cell in pair] for row in range(deep)]
    for mark in marks:
        sign, _ = _SIGNS[mark["verdict"]]
        level = words.label(page.run.named, shown.over, mark["levels"][shown.over])
        text = f"{sign} {level}: {mark['text']}: expected {mark['expected']}"
        text += f", seen {mark['seen']}" if mark["seen"] else f", {mark['verdict']}"
        page.notes += [text] if mark["verdict"] != "reproduced" else []
    met = {mark["verdict"] for mark in marks}
    signs = ", ".join(f"{sign} {word}" for word, (sign, _) in _SIGNS.items() if word in met)
    page.notes.append(f"a sign per check: {signs}")
    heads = ("check", "as claimed") * _COLUMNS
    tables.draw(page, heads, (0.22, 0.11) * _COLUMNS, created)


def _level(run: Run, shown: Checks, part: Sequence[Mark]) -> tuple[FigureCell, FigureCell]:
    """A level, and a sign for each of its checks."""
    count = sum(mark["verdict"] == "reproduced" for mark in part)
    fill = tables.RED if any(mark["verdict"] == "contradicted" for mark in part) else ""
    hue = _SIGNS["contradicted" if fill else "reproduced"][1]
    signs = "".join(_SIGNS[mark["verdict"]][0] for mark in part)
    name = words.label(run.named, shown.over, part[0]["levels"][shown.over])
    of = f"{count} of {len(part)}" if count < len(part) else f"{count}"
    here = FigureCell([f"{signs} {of}"], fill=fill, hue=hue)
    return FigureCell([name], fill=fill, bold=True), here
