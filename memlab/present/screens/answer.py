"""The answer of a run in words: what `show` prints first, and what a sweep ends with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from memlab.judging import summary
from memlab.judging.effects import effects, extremes
from memlab.judging.reproduce import Reproduced
from memlab.judging.sight import REFUSED
from memlab.present import decisions, remarks, tables, words
from memlab.present.answer import OPEN, Sentence, in_columns
from memlab.present.verdicts import crossing, verdicts
from memlab.results import Run
from memlab.results.crossing import crossings
from memlab.store import SampleRow
from memlab.text import units

_REASONS = 2  # why points cannot be measured here, on the first screen
_PRINTED = 8  # lines of a command's output


def sentences(study: Reproduced, *, verbose: bool) -> Iterator[Sentence]:
    """The question, the answer with its interval per setting, what disturbed it in the third line,
    how many claims hold, and what was measured."""
    run = study.run
    assert run is not None
    has_claims = bool(run.experiment.claims) and run.measured
    if not run.measured:
        yield Sentence(words.nothing_measured(run), "bold")
    name = f" ({run.row.name})" if run.row.name else ""
    yield Sentence(f"run {run.id}{name}: {run.experiment.question}")
    results = [*_results(run, verbose=verbose)]
    if is_counted := not results and has_claims:
        results = [_counted(study)]
    if not results and run.measured and not any(summary.medians for summary in run.summaries):
        results = [*tables.ends(run)]  # no number: how it ended is the answer
    busy = words.busy(run)
    yield from (Sentence(line, "bold") for line in results[:1])
    yield from [Sentence(busy, "bold yellow")] if busy else []
    yield from (Sentence(line, "bold") for line in results[1:])
    if run.measured and run.experiment.so:
        yield from (Sentence(text, "bold") for text in decisions.lines(run, study.judged))
    if has_claims and not is_counted:
        yield Sentence(_counted(study), "bold")
    yield from map(Sentence, _measured(run))
    if run.measured:
        yield from map(Sentence, words.not_testable(run)[:_REASONS])
        yield from map(Sentence, _uncounted(study))


def _uncounted(study: Reproduced) -> Iterator[str]:
    """How many claims need a counter that this user may not read."""
    refused = Counter(
        match[1]
        for item in summary.by_claim(study.judged)
        if item.overall == summary.OVERALL["not testable here"]
        if (match := REFUSED.search(item.judged[0].verdict.reason))
    )
    for why, number in refused.items():
        counted, whose = units.counted(number, "claim"), "its" if number == 1 else "their"
        remedy = ": `memlab doctor -v` has the remedy" if why in ("EACCES", "EPERM") else ""
        yield f"{counted} not testable here: {whose} counter is refused ({why}){remedy}"


def _counted(study: Reproduced) -> str:
    """How many claims hold. Of one that holds what it says: those that do not follow below."""
    line = words.headline([study])[0]
    claims = summary.by_claim(study.judged)
    if len(claims) == 1 and claims[0].overall == summary.OVERALL["reproduced"]:
        return f"{line.rstrip('.')}: {claims[0].claim.text}"
    return line


def _results(run: Run, *, verbose: bool) -> Iterator[str]:
    """A line per setting: where one side becomes the cheaper one, or what a policy changes."""
    result = crossings(run)
    for crossed in result:
        where = words.labels(run.named, crossed.panel, crossed.panel)
        if crossed.known:
            text = crossing(run, crossed)
            yield f"{where}: {text}" if where else text
    if unknown := [crossed for crossed in result if not crossed.known]:
        text = crossing(run, min(unknown, key=lambda crossing_point: crossing_point.found.n))
        yield text if len(result) == 1 else f"{text} (in {len(unknown)} of {len(result)} settings)"
    yield from _effects(run, verbose=verbose)


def _measured(run: Run) -> Iterator[str]:
    counts = [result.outcomes.total() for result in run.summaries]
    each = units.from_to(counts)
    yield (
        f"{units.counted(len(run.points), 'point')}, "
        f"{each} sample{'' if each == '1' else 's'} each{', in turns' if run.turns else ''}, "
        f"seed {run.row.seed}; "
        f"{words.machine(run)}"
    )
    if run.note:
        yield f"note: {run.note}"
    yield from words.machine_remarks(run)


def open_claims(study: Reproduced) -> Iterator[list[Sentence]]:
    """Each claim and setting that is not shown to hold, though it was measured. Why is in `memlab
    claims`."""
    run = study.run
    assert run is not None
    shown = verdicts(run, summary.deciding(study.judged)) if run.measured else []
    return in_columns(
        (verdict.word, f"{claim.text}{f' ({verdict.where})' if verdict.where else ''}")
        for claim in shown
        for verdict in claim.verdicts
        if verdict.samples and verdict.word in OPEN
    )


def _effects(run: Run, *, verbose: bool) -> Iterator[str]:
    """What each policy changes for a user's command, a sentence per level."""
    if not run.experiment.watched or not run.samples:
        return
    for result in effects(run, run.experiment.watched):
        yield words.effect(run.experiment, result)
    for least, most in extremes(run, run.experiment.watched):
        yield words.extreme(run.experiment, least, most)
    if len(run.points) == 1:  # no level whose sentence says how its trials ended
        yield from tables.ends(run)
    yield from remarks.lines(run)
    yield from words.empty_program(run)
    yield from _not_measured(run, verbose=verbose)


def _not_measured(run: Run, *, verbose: bool) -> Iterator[str]:
    """A line per reason, of the metrics that no sample has; of those that are shown."""
    read = run.samples.read(_missing, "why metrics are missing")
    missing: Mapping[str, str] = next((m for m in read if m is not None), {})
    labels: dict[str, list[str]] = {}
    for name, why in missing.items():
        shown = verbose or name in tables.of_command(run)
        if shown and not any(name in summary.medians for summary in run.summaries):
            labels.setdefault(why, []).append(run.metric(name).label)
    for why, several in labels.items():
        yield f"not measured here: {', '.join(several)}: {why}"


def _missing(sample: SampleRow) -> Mapping[str, str] | None:
    if not sample.raw:
        return None
    result: Mapping[str, Any] = sample.raw.get("missing", {})
    return {name: str(why) for name, why in result.items()}


def last_output(run: Run) -> Iterator[str]:
    """The end of what a user's command, or its service, printed in the first trial of each outcome
    that is not `ok`."""
    first = {sample.outcome: sample for sample in reversed(run.samples) if sample.outcome != "ok"}
    for outcome, sample in first.items():
        for name, whose in (("service_output", "the service"), ("output", "the command")):
            lines = str((sample.raw or {}).get(name) or "").splitlines()[-_PRINTED:]
            if lines:
                yield f"the last output of {whose}, {outcome}:"
            yield from (f"  {line}" for line in lines)
