"""What the controls beside a claim say of its explanation, in a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlab.analysis.least import least_samples
from memlab.experiment import At, Claim, Control, Explanation
from memlab.experiment.needs import settings
from memlab.judging.finding import VerdictFinding
from memlab.judging.kinds import find
from memlab.results import Run


def says(run: Run, claim: Claim, setting: At) -> str:
    """What the claim's controls say at its setting, a line each; empty where it names none."""
    controls = [c for c in run.experiment.controls if c.name in claim.controls]
    at = {**claim.where, **setting}
    return "\n".join(sentence for c in controls for sentence in _sentences(run, c, at))


def answers(run: Run, explanations: Sequence[Explanation]) -> Iterator[str]:
    """What is found of each explanation at its first setting; nothing if it has no fact, or one of
    fewer samples than an interval takes."""
    for explanation in explanations:
        for setting in settings(run.points, explanation.predicts)[:1]:
            result = find(run, explanation.predicts, setting)
            if result.facts and _is_known(result):
                yield _sentence(explanation, result)


def _sentences(run: Run, control: Control, at: At) -> Iterator[str]:
    """One sentence for each explanation of a control that has points to go with `at`."""
    for explanation in control.explanations:
        setting = _nearest(settings(run.points, explanation.predicts), control, at)
        if setting is not None:
            result = find(run, explanation.predicts, setting)
            yield f"Control {control.name}: {_sentence(explanation, result)}."


def _nearest(places: Sequence[At], control: Control, at: At) -> At | None:
    """The setting that is the claim's own, but for factors whose levels the control replaces."""
    fitting = [
        setting
        for setting in places
        if all(n in control.levels or at.get(n, level) == level for n, level in setting.items())
    ]
    alike = [sum(at.get(n) == level for n, level in setting.items()) for setting in fitting]
    return fitting[alike.index(max(alike))] if fitting else None


def _is_known(finding: VerdictFinding) -> bool:
    """Whether its numbers have an interval, or no chance in them."""
    return finding.verdict.p == 0 or finding.verdict.n >= least_samples(0.95)


def _sentence(explanation: Explanation, finding: VerdictFinding) -> str:
    """The sentence for what was found; the evidence itself where no fact could be had."""
    if (
        not finding.facts
        or not _is_known(finding)
        or finding.verdict.word not in ("reproduced", "contradicted", "inconclusive")
    ):
        return finding.evidence
    return explanation.sentence(finding.verdict.word).format_map(finding.facts)
