"""What a reader may decide by a run's claims: `so: ...`.

A clause is said if the whole interval lies in the range that it is about. An interval that allows
both clauses gives no advice, however the claim itself is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from memlab import recorded
from memlab.experiment import Count, Crossover, Decision
from memlab.judging import summary
from memlab.judging.claims import Judged
from memlab.present import words
from memlab.present.verdicts import number
from memlab.results import Run
from memlab.results.crossing import crossings

Clause = Literal["holds", "fails", "between", ""]
_SPREAD = 4  # times the lower end: a number that is known no better gives no advice
_ALONE = {"reproduced": "holds", "contradicted": "is contradicted"}
_NAMED = 2  # settings that are named, if a clause is about some of them


def lines(run: Run, judged: Sequence[Judged]) -> list[str]:
    """A line per decision that the experiment declares and the run has samples for."""
    claims = {item.claim.id: item for item in summary.by_claim(judged)}
    decided, open_ones, untestable = [], [], 0
    for decision in run.experiment.so:
        claim = claims.get(decision.claim)
        measured = [item for item in claim.judged if item.verdict.n] if claim else []
        untestable += claim is not None and claim.overall == "not testable here"
        if claim is None or claim.overall == "not testable here" or not measured:
            continue
        if message := _sentence(run, decision, measured, claim.judged):
            decided.append(message)
        else:
            open_ones.append(claim.claim.text + _open_number(run, measured))
    if decided:
        return [f"so: {'; '.join(decided)}"]
    if open_ones:
        return [f"so: not decided here yet: {'; '.join(open_ones)}"]
    name = run.experiment.name
    if untestable and name in recorded.names() and not recorded.ships(run.store_path):
        return [f"so: not testable here; on another machine: memlab claims example:{name}"]
    return []


def clause(decision: Decision, judged: Judged) -> Clause:
    """Which clause the number of one setting allows; empty if none."""
    verdict = judged.verdict
    if verdict.low is None or verdict.high is None or judged.fallen:
        return ""
    low, high = verdict.low, verdict.high
    if isinstance(judged.claim, Count):
        if judged.word == "reproduced" and _within(decision.if_holds, low, high):
            return "holds"
        is_fail = judged.word == "contradicted" and _within(decision.if_fails, low, high)
        return "fails" if is_fail else ""
    holds, fails = decision.if_holds, decision.if_fails
    if holds is None or fails is None:
        return ""
    gap = min(holds[1], fails[1]), max(holds[0], fails[0])
    message: dict[Clause, tuple[tuple[float, float], str]] = {
        "holds": (holds, decision.holds),
        "fails": (fails, decision.fails),
        "between": (gap, decision.between),
    }
    for name, (wanted, text) in message.items():
        is_known = "{number}" not in text or low <= 0 or high <= _SPREAD * low
        if text and is_known and _within(wanted, low, high):
            return name
    return ""


def _within(wanted: tuple[float, float] | None, low: float, high: float) -> bool:
    return wanted is None or wanted[0] <= low <= high <= wanted[1]


def _sentence(
    run: Run, decision: Decision, measured: Sequence[Judged], settings: Sequence[Judged]
) -> str:
    """What each measured setting allows, not only the one nearest to a study's: a reader chooses
    for the settings of this machine. The settings are named where not all of them allow it."""
    again = _cross_again(run, measured)
    by_clause: dict[Clause, list[Judged]] = {}
    for item in measured:
        if item not in again:
            by_clause.setdefault(clause(decision, item), []).append(item)
    texts: dict[Clause, str] = {"holds": decision.holds, "fails": decision.fails}
    parts = []
    for name, text in {**texts, "between": decision.between}.items():
        if several := by_clause.get(name):
            closest = min(several, key=lambda verdict: verdict.clearance or 0.0)
            shown = number(run, closest).removeprefix("x")
            parts.append(text.format(number=shown) + _where(run, settings, several))
    if not parts:
        return ""
    advice = f"it depends: {'; or '.join(parts)}" if len(parts) > 1 else parts[0]
    if undecided := by_clause.get(""):
        advice += f"; not decided yet{_where(run, settings, undecided)}"
    if again:
        over = run.experiment.factor(run.experiment.figure.over).label
        place = _where(run, settings, again)
        advice += f"; it depends on the {over}{place}: lines cross several times"
    return f"{advice}; {decision.always}" if decision.always else advice


def _cross_again(run: Run, measured: Sequence[Judged]) -> list[Judged]:
    """The settings whose lines are shown to cross back: what holds at the last level does not hold
    at all levels before."""
    if not any(isinstance(item.claim, Crossover) for item in measured):
        return []
    panels = [crossed.panel for crossed in crossings(run) if crossed.found.crosses_back]
    return [item for item in measured if any(p.items() <= item.setting.items() for p in panels)]


def _where(run: Run, settings: Sequence[Judged], several: Sequence[Judged]) -> str:
    """In which settings it was seen, if not in all."""
    if len(several) == len(settings):
        return ""
    varied = [
        name
        for name in settings[0].setting
        if len({item.setting.get(name) for item in settings}) > 1
    ]
    if len(several) > _NAMED:
        return f" (in {len(several)} of {len(settings)} settings)"
    named = (words.labels(run.named, item.setting, varied) for item in several)
    return f" ({'; '.join(named)})"


def _open_number(run: Run, measured: Sequence[Judged]) -> str:
    """The number of the setting that is least known, with its interval."""
    known = [item for item in measured if item.verdict.low is not None]
    if not known:
        return ""
    shown = f" ({number(run, max(known, key=_width)).removeprefix('x')})"
    if all(item.fallen for item in known):
        known_words = {item.verdict.word for item in known}
        verdict = (
            _ALONE.get(known_words.pop(), "is undecided")
            if len(known_words) == 1
            else summary.DIFFERS
        )
        shown += (
            f": by itself it {verdict}; corrected for the run's other claims it needs more blocks"
        )
    return shown


def _width(judged: Judged) -> float:
    low, high = judged.verdict.low or 0.0, judged.verdict.high or 0.0
    return high / low if low > 0 else high


def page(run: Run, judged: Sequence[Judged]) -> Iterator[str]:
    """The same for a page."""
    for line in lines(run, judged):
        yield from ("", line.replace("so: ", "**So:** ", 1) + ".")
