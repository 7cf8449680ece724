"""Numbers in words: medians with their intervals, levels, panels."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import ROUND_DOWN, Context
from functools import partial
from itertools import groupby

from memlab import recorded
from memlab.analysis.compare import MOST_BLOCKS, Comparison, bound
from memlab.analysis.correlation import Correlation
from memlab.analysis.crossover import CrossingPoint
from memlab.analysis.exact import most_correlated
from memlab.analysis.intervals import Interval
from memlab.analysis.least import least_samples
from memlab.experiment import At, Claim, Count, Experiment, Level, Outcome, Within
from memlab.experiment.points import level_label, short_label
from memlab.judging import evidence, summary
from memlab.judging.compare import DISTURBED_SHARE, Compared
from memlab.judging.effects import Effect, Extreme, LevelChange
from memlab.judging.reproduce import Reproduced
from memlab.judging.summary import HERE, SettingGroup
from memlab.observe.environment import EMULATED
from memlab.present.machine import machine_of
from memlab.results import Run
from memlab.results.crossing import Crossing
from memlab.text import units


def machine(run: Run) -> str:
    """`AMD EPYC, Linux 6.18.44-generic`: where a run was measured."""
    return machine_of(run.environment)


def place(runs: Sequence[Run]) -> str:
    """Where runs were measured: here, unless they ship with memlab, or are of other hosts or of a
    guest."""
    origins = list(dict.fromkeys(run.row.origin or "" for run in runs))
    if any(origins):
        named = [f"on {item}" if item else HERE for item in origins]
        of = f" ({machine(runs[0])})" if len(named) == 1 else ""
        return f"{' and '.join(named)}{of}"
    for run in runs:
        if recorded.ships(run.store_path):
            version = re.match(r".*? Linux [0-9]+\.[0-9]+|.*", machine(run))
            return f"on the machine of the recorded run ({version[0] if version else ''})"
    if all(run.row.request.get("guest") for run in runs):
        return f"in a guest of this machine ({machine(runs[0])})"
    return HERE


def headline(studies: Sequence[Reproduced]) -> list[str]:
    """How many claims hold, then each contradicted one; first of all whether anything was
    measured."""
    runs = [item.run for item in studies if item.run]
    if runs and not any(run.measured for run in runs):
        return [nothing_measured(runs[0])]
    claims = [s for r in studies for s in summary.by_claim(r.judged)]
    return summary.sentence(claims, place(runs), study([r.experiment for r in studies]))


def study(experiments: Iterable[Experiment]) -> str:
    """Whose claims they test: `miao-2021`, `the studies`; empty where no study is named."""
    sources = {source for experiment in experiments for source in experiment.sources}
    return "the studies" if len(sources) > 1 else "".join(sources)


def nothing_measured(run: Run, shorten: Callable[[str], str] = str) -> str:
    """Why no sample of a run has a value: the reason of the most points, and how many others."""
    reasons = Counter(detail for s in run.summaries for detail in map(reason, s.details))
    if not reasons:
        return "nothing was measured: the sweep ended before its first sample"
    (first, _), *others = reasons.most_common()
    shown = f"`{run.command('show')}`"
    more = f" ({units.counted(len(others), 'other reason')} in {shown})" if others else ""
    next_step = "`memlab doctor` says what runs here"
    if run.experiment.watched and any((s.raw or {}).get("output") for s in run.samples):
        next_step = f"{shown} has its last output"
    elif run.experiment.watched and any(s.raw for s in run.samples):
        next_step = f"{shown} has how each trial ended"
    return f"nothing was measured: {shorten(first)}{more}; {next_step}"


def reason(detail: str) -> str:
    """What a trial's refusal says, without the probe's name and line."""
    text = re.sub(r"^probe \w+: ((unavailable|error): )?", "", detail)
    return re.sub(r"(: E[A-Z0-9]+)? at \S+\.(c|h|py):\d+$", "", text)


def cause(text: str) -> str:
    """What is in the way, in short, of what is known before the first trial: a sweep begins with
    the whole, and with the remedy."""
    head, _, rest = text.partition(", ")
    is_need = head.startswith("needs ") and rest.startswith("and ")
    is_limit = " is " in head and " needed (" in rest and rest.endswith(")")
    return head if is_need or is_limit else text


def not_testable(run: Run) -> list[str]:
    """How many points cannot be measured here and why, a line per reason."""
    reasons = Counter(
        cause(reason(detail))
        for result in run.summaries
        if set(result.outcomes) == {"unavailable"}
        for detail in result.details[:1]
    )
    of = units.counted(len(run.points), "point")
    return [f"{n} of {of} not testable here: {why}" for why, n in reasons.most_common()]


def shared_reason(evidence: str) -> str:
    """Why a claim is open, without the point, so that claims which share a reason are seen to."""
    _, unavailable, detail = evidence.partition(" is unavailable: ")
    if unavailable:
        return f"unavailable: {reason(detail)}"
    evidence = re.sub(r"^.* (has no \w+ here: its counter is refused)", r"\1", evidence)
    return re.sub(r"^no sample yet of [^;]*; ", "no sample yet; ", evidence)


_BUSY_SHARE = 0.25  # of a run's samples, above which its first lines say so


def busy(run: Run) -> str:
    """That other CPUs were busy beside so many samples, and what that may do to the numbers; empty
    if the machine was quiet, and of exact counts, which are the same beside any load."""
    claims = run.experiment.claims
    if claims and all(isinstance(claim, Count | Outcome) for claim in claims):
        return ""
    flagged = sum((s.noise for s in run.summaries), Counter[str]())["other CPUs busy"]
    if flagged <= _BUSY_SHARE * len(run.samples):
        return ""
    share = units.format_percent(run.others_busy or 0.0)
    return (
        f"busy machine: the other CPUs were busy for {share} of the time, beside {flagged} of "
        f"{len(run.samples)} samples; times may be longer and vary more than on a quiet machine: "
        "repeat it when quiet"
    )


def blocks_alike(run: Run) -> str:
    """How much a block resembles the one before it, and what that does to intervals; empty if the
    run has too few blocks to say."""
    result = run.correlations(run.metrics[0].name)
    if result.medians is None:
        return ""
    words = f"from block to block: correlation {_correlation(result.medians)} of values"
    if result.ratios:
        words += f", {_correlation(result.ratios)} of ratios"
    wider = [
        name
        for name, by in (("medians", result.of_medians), ("ratios", result.of_ratios))
        if by > 0
    ]
    if not wider:
        return words
    words += f"; intervals of {' and '.join(wider)} are wider by it"
    if result.of_medians > most_correlated(run.blocks, 0.95, run.sequential):
        words += f", at most their range, which holds less than 95 % with {run.blocks} blocks"
    return words


def _correlation(correlation: Correlation) -> str:
    return f"{correlation.estimate:.2f} ± {correlation.error:.2f}"


READAHEAD_KIB = 128  # VM_READAHEAD_PAGES, include/linux/mm.h


def machine_remarks(run: Run) -> Iterator[str]:
    """What has to stand beside every time that was measured on such a machine."""
    if run.environment.get("emulated_time"):
        yield f"emulated: {EMULATED}"
    file = run.experiment.file
    used = {point.at[file.filesystem] for point in run.points} if file else ()
    for level, result in run.environment.get("filesystems", {}).items():
        kib = result.get("readahead_kib", READAHEAD_KIB)
        if level in used and kib != READAHEAD_KIB:
            size, usual = (units.format_size(kib << 10) for kib in (kib, READAHEAD_KIB))
            yield (
                f"readahead is {size} at {result['path']}, not Linux's {usual}: page faults on "
                "files that are not in the page cache take other times"
            )


def quantity(value: float, unit: str) -> str:
    return units.format_quantity(value, unit)


def tick(value: float, unit: str) -> str:
    """A value beside an axis whose label says the unit: `20k` of threads/s, `4 KiB` of B/thread;
    a rate of bytes keeps its own, `8 GiB/s`."""
    base, _, per = unit.partition("/")
    if unit == "s/s":  # CPUs in use, say
        return units.format_quantity(value, "1")
    if base in ("s", "B"):
        return units.format_quantity(value, unit if per == "s" else base)
    if per == "s":
        return units.format_quantity(value, "1/s").removesuffix("/s")
    return units.format_quantity(value, "1")


def median(interval: Interval | None, unit: str, *, extrapolated: bool = False) -> str:
    """`~2.48 s ±1.2 %`: ± is half the 95 % interval, ~ is more than was measured."""
    if interval is None:
        return "-"
    width = interval.halfwidth_relative
    spread = f"n={interval.n}" if width is None else f"±{units.format_percent(width)}"
    if interval.is_lopsided:
        low, high = interval.low or 0.0, interval.high or 0.0
        spread = f"({units.span(low, high, partial(quantity, unit=unit))})"
    return f"{'~' if extrapolated else ''}{quantity(interval.estimate, unit)} {spread}"


def empty_program(run: Run) -> Iterator[str]:
    """What starting any program costs by itself in this run, if each point has samples enough for
    an interval."""
    medians = [s.medians["empty_elapsed"] for s in run.summaries if s.medians]
    if run.is_emulated_time("empty_elapsed"):
        return
    if not medians or min(median.n for median in medians) < least_samples(0.95):
        return
    results = [median.estimate for median in medians]
    least, most = (quantity(end, "s") for end in (min(results), max(results)))
    span = least if least == most else f"{least} to {most}"
    yield f"a program that does nothing takes {span} under these policies"


def p_value(comparison: Comparison) -> str:
    """Of the test for the verdict: `0.0031`, `under 0.0001`."""
    p = comparison.same_p if comparison.word == "same" else comparison.beyond_p
    return f"{p:.2g}" if p >= 1e-4 else "under 0.0001"


def blocks_missing(comparison: Comparison) -> str:
    """`7`, `over 1,000`; nothing where the point is decided."""
    if comparison.word != "inconclusive":
        return ""
    many = comparison.blocks_missing > MOST_BLOCKS
    return f"over {MOST_BLOCKS:,}" if many else f"{comparison.blocks_missing}"


def blocks_in_all(comparison: Comparison) -> str:
    """How many blocks decide a point, with those that it has: `7`, `over 1,000`."""
    missing = comparison.blocks_missing
    return f"over {MOST_BLOCKS:,}" if missing > MOST_BLOCKS else f"{comparison.n + missing:,}"


def change(result: LevelChange) -> str:
    """`+38 % (34 to 41)`, `2.1 times (2 to 2.2)`, `unchanged (-2 to 1 %)`, `0 B instead of 4 KiB`,
    or that nothing is shown yet, and what would. Without an interval, no number is given."""
    compared = result.comparison
    if result.is_emulated:
        return "not judged (a time in an emulated guest)"
    if result.too_coarse:
        return f"not judged (under {quantity(result.too_coarse, result.metric.unit)} in a replay)"
    if result.equal_blocks >= least_samples(0.95):
        return f"the same in all {units.counted(result.equal_blocks, result.unit)}"
    if result.has_few_blocks:
        least = blocks_in_all(compared) if compared else str(least_samples(0.95))
        of = f"{result.blocks} of the {least} {result.unit}s"
        return f"not decided: {of} that the interval of a change takes"
    if compared is None:
        # A noun that the label has not is the command's own.
        base_unit = result.metric.unit.partition("/")[0]
        unit = (
            cell_unit(result.metric.unit)
            if base_unit in result.metric.label
            else result.metric.unit
        )
        new, base = (quantity(value, unit) for value in (result.new, result.base))
        return f"{new} instead of {base}"
    ratio = compared.ratio
    times = not 0.5 <= ratio.estimate <= 2
    between = f"{_times_span(ratio)} times" if times else f"{_percent_span(ratio)} %"
    if compared.word == "same":
        return f"unchanged ({'equal in most blocks' if ratio.low == ratio.high else between})"
    if compared.word == "inconclusive":
        span = between if times else _signed_span(ratio)
        about = "" if compared.blocks_missing > MOST_BLOCKS else "about "
        takes = f"a verdict takes {about}{blocks_in_all(compared)} {compared.unit}s"
        return f"{_bound(ratio, times=times)} ({span}; {takes})"
    if times:
        return f"{evidence.number(ratio.estimate)} times ({_times_span(ratio)})"
    return f"{_signed(ratio.estimate)} ({_percent_span(ratio)})"


def _signed(ratio: float) -> str:
    """`+38 %`."""
    return f"{'+' if ratio > 1 else ''}{_percent(ratio)} %"


def _bound(ratio: Interval, *, times: bool) -> str:
    """What the interval shows by itself: `at least 40 times`, `+2 % or more`; that nothing is
    decided if 1 lies in it."""
    low, high = ratio.low or 0.0, ratio.high or math.inf
    if low <= 1 <= high:
        return "not decided"
    end = low if low > 1 else high
    if times:
        return f"{bound(end)} times"
    change = Context(prec=2, rounding=ROUND_DOWN).create_decimal(f"{100 * (end - 1):.12g}")
    return f"{'+' if low > 1 else ''}{change:f} % or more"


def _times_span(ratio: Interval) -> str:
    return f"{evidence.number(ratio.low or 0.0)} to {evidence.number(ratio.high or math.inf)}"


def _percent_span(ratio: Interval) -> str:
    """`34 to 41`, `-2 to 1`: how far from 1 it may be."""
    return f"{_percent(ratio.low or 0.0)} to {_percent(ratio.high or math.inf)}"


def _signed_span(ratio: Interval) -> str:
    """`-18 to +62 %`."""
    ends = _percent(ratio.low or 0.0), _percent(ratio.high or math.inf)
    return f"{' to '.join(end if end[0] in '-0' else f'+{end}' for end in ends)} %"


def _percent(ratio: float) -> str:
    change = 100 * (ratio - 1)
    return f"{change:.0f}" if abs(change) >= 10 else f"{change:.2g}" if abs(change) >= 0.01 else "0"


def effect(experiment: Experiment, measured: Effect) -> str:
    """`lock=future: elapsed time +38 % (34 to 41); peak resident memory unchanged (...)`."""
    level = level_label(experiment, measured.factor, measured.level)
    changes: dict[str, list[str]] = {}  # what is the same of several metrics is said once
    for item in measured.changes:
        changes.setdefault(change(item), []).append(item.metric.label)
    parts = [f"{', '.join(labels)} {how}" for how, labels in changes.items()]
    total = measured.summary.outcomes.total()
    bad = [(word, n) for word, n in measured.summary.outcomes.items() if word != "ok"]
    ends = [word if n == total == 1 else f"{word} {n} of {total} times" for word, n in bad]
    if ends:
        parts.append(f"{', '.join(ends)}: {'; '.join(map(reason, measured.summary.details[:1]))}")
    if measured.only_outcome and total:
        if not ends:
            parts.append(f"ended well {total} of {total} times")
        parts.append(f"no more is reported, because {measured.only_outcome}")
    if not parts and not total:
        parts.append("not measured yet")
    if not parts:
        base = level_label(experiment, measured.factor, measured.baseline)
        parts.append(f"not compared: {base} did not end well")
    return f"{level}: {'; '.join(parts)}"


def extreme(experiment: Experiment, least: Extreme, most: Extreme) -> str:
    """`page faults, all combinations: least with lock=future, n=2, 0 instead of 184; most with the
    first levels`."""

    def name(place: Extreme) -> str:
        where = _where(experiment, place.at)
        return f"{where}, {change(place.change)}" if where else "the first levels"

    label = least.change.metric.label
    return f"{label}, all combinations: least with {name(least)}; most with {name(most)}"


def refused_calls(run: Run) -> Iterator[str]:
    """A line if a level has calls refused that are not refused without it: a replay goes on."""
    if not run.experiment.copied:  # no trace
        return
    results = [one for one in run.summaries if one.medians and "refused" in one.medians]
    if not results:
        return
    least, most = (
        end(results, key=lambda one: one.medians["refused"].estimate) for end in (min, max)
    )
    more = most.medians["refused"].estimate - least.medians["refused"].estimate
    if more >= 1:
        where = _where(run.experiment, most.point.at) or "the first levels"
        yield (
            f"{int(more)} more {'call is' if int(more) == 1 else 'calls are'} refused with "
            f"{where}: a replay goes on, and the program may act otherwise or end itself"
        )


def _where(experiment: Experiment, at: At) -> str:
    """The levels that are not the first ones."""
    names = [name for name in at if at[name] != experiment.factor(name).quick[0]]
    return ", ".join(level_label(experiment, name, at[name]) for name in names)


def unfelt_limit(run: Run) -> Iterator[str]:
    """A line for each limit of memory that lies below what the program had resident and that it
    yet ran under: its limit was not felt in full."""
    words: dict[Level, str] = {}
    for result in run.summaries:
        limit = result.point.at.get("memory_max", "none")
        if limit == "none" or not result.medians or "peak_rss" not in result.medians:
            continue
        peak = result.medians["peak_rss"].estimate
        if peak > int(limit):
            of = run.experiment.describe_level("memory_max", limit)
            dropped = result.point.at.get("page_cache") == "dropped" or run.experiment.copied
            more = "" if dropped else "; -p page_cache=dropped takes its files out before a trial"
            words.setdefault(limit, (
                f"memory_max={of}: not felt in full: {quantity(peak, 'B')} were resident, so some "
                "of it is charged to another group, as pages of a file are to who read them first"
                f"{more}"
            ))  # fmt: skip
    yield from words.values()


def counts(compared: Compared) -> str:
    """`34 points: 30 same within 5 %, 3 inconclusive, 1 with too few blocks for a verdict; one
    session each; disturbed: 56 of 56`."""
    texts = {
        "slower": "slower",
        "faster": "faster",
        "same": f"same within {100 * compared.threshold:.3g} %",
        "inconclusive": "inconclusive",
    }
    numbers = {**compared.counts}
    if few := compared.too_few:
        texts["too few"] = f"with too few {compared.unit}s for a verdict"
        numbers |= {"inconclusive": numbers["inconclusive"] - few, "too few": few}
    each = (f"{numbers[w]} {text}" for w, text in texts.items() if numbers.get(w))
    points = units.counted(len(compared.points), "point")
    words = f"{points}: {', '.join(each)}{_detectable(compared)}"
    return "; ".join([words, *_reservations(compared)])


def _reservations(compared: Compared) -> Iterator[str]:
    """What the words leave out: the next session, and samples that others disturbed."""
    if compared.one_session_each:
        yield "one session each"
    many = [side for side in compared.disturbed if side.count > DISTURBED_SHARE * side.of]
    if many:
        text = " and ".join(f"{side.count} of {side.of}" for side in compared.disturbed)
        yield f"samples that others disturbed: {text}"


def _detectable(compared: Compared) -> str:
    """`; a change over 8 % would have shown (at every point: over 15 %)`, if none did. Of many
    points the first is of the interval of median width, the second of the widest twenty."""
    if compared.fails("difference"):
        return ""
    points = [point.comparison for point in compared.points]
    middle: list[float] = []
    if len(points) > _DRAWN_POINTS:
        points.sort(key=_width)
        middle, points = _shown(points[len(points) // 2 :][:1]), points[-_WIDEST:]
    result = _shown(points)
    if not result:
        return ""
    if not middle and (blind := len(points) - len(result)):
        shown = units.format_percent(result[len(result) // 2])
        return (
            f"; a change over {shown} would have shown at {len(result)} of {len(points)} points; "
            f"{blind} {'has' if blind == 1 else 'have'} too few blocks to show any"
        )
    ends = (middle or result[len(result) // 2 :])[0], result[-1]
    typical, worst = map(units.format_percent, ends)
    every = f" (at every point: over {worst})" if worst != typical else ""
    return f"; a change over {typical} would have shown{every}"


def _shown(points: Iterable[Comparison]) -> list[float]:
    return sorted(change for point in points if (change := point.detectable) is not None)


_WIDEST = 20  # intervals, of which one is of the point that could show the least
_DRAWN_POINTS = 100  # up to which what each could have shown is drawn: some milliseconds a point


def _width(comparison: Comparison) -> float:
    low, high = comparison.ratio.low, comparison.ratio.high
    return math.inf if low is None or high is None else math.log(high / low)


def cell_unit(unit: str) -> str:
    """The unit of a table's cells: a noun (`threads/s`) stands once above, not in every cell;
    seconds and bytes change scale from cell to cell and stay, and an errno is its name."""
    if unit == "errno" or unit.partition("/")[0] in ("s", "B"):
        return unit
    return "1/s" if unit.endswith("/s") else "1"


def levels(experiment: Experiment, at: At, names: Iterable[str]) -> str:
    """`write, tmpfs, 4 KiB`: only levels if they speak for themselves."""
    return ", ".join(
        (short_label(experiment, name, level) or _level(experiment, name, at))
        if isinstance(level := at[name], str)
        else f"{name} {_level(experiment, name, at)}"
        for name in names
    )


def long_levels(experiment: Experiment, at: Iterable[At]) -> list[str]:
    """What the short labels of these points' levels stand for: `GLIBC_TUNABLES set: glibc...`."""
    results = {
        (name, level): None for levels in at for name, level in levels.items() if level != ""
    }
    return [
        f"{label}: {experiment.describe_level(name, level)}"
        for name, level in results
        if (label := short_label(experiment, name, level))
    ]


def label(experiment: Experiment, name: str, level: Level) -> str:
    """What figures and tables call a level: its label where it has one, else `free write` of
    free_write."""
    factor = experiment.factor(name)
    if text := factor.level_labels.get(level):
        return text
    text = experiment.describe_level(name, level)
    return text.replace("_", " ") if factor.kind.levels and text.islower() else text


def labels(experiment: Experiment, at: At, names: Iterable[str]) -> str:
    """`write(2), 4 KiB, readers 1, thp 64K`: what a figure calls levels. One of a choice of names,
    or with a label, says by itself what it is."""
    return ", ".join(
        text
        if at[name] in factor.level_labels
        or (factor.kind.levels is not None and isinstance(at[name], str))
        else f"{name.replace('_', ' ')} {text}"
        for name in names
        for factor in [experiment.factor(name)]
        for text in [label(experiment, name, at[name])]
    )


def named_levels(experiment: Experiment, at: At) -> str:
    """Every level with its factor's name: `size 4 KiB, method write`."""
    return ", ".join(f"{name} {_level(experiment, name, at)}" for name in at)


def expected(run: Run, claim: Claim, unit: Callable[[str], str] = str) -> str:
    """`3 VMAs`, `sigbus`, `above 0.5`, in a `unit` made of the metric's; a claim of another kind
    says it in its sentence."""
    if isinstance(claim, Outcome):
        return claim.outcome
    if not isinstance(claim, Count | Within):
        return ""
    named = partial(quantity, unit=unit(run.metric(claim.metric).unit))
    if isinstance(claim, Count):
        return named(claim.equals)
    bounds = (("above", claim.above), ("below", claim.below))
    return " and ".join(f"{word} {named(bound)}" for word, bound in bounds if bound is not None)


def _level(experiment: Experiment, name: str, at: At) -> str:
    factor = experiment.factor(name)
    special = "" if factor.kind.levels else factor.level_labels.get(at[name])  # of a number: 0
    return special or experiment.describe_level(name, at[name])


def crossing(experiment: Experiment, crossed: Crossing) -> str:
    """`write cheaper from 2.3 KiB (2.1 to 2.6 KiB)`, or which one is cheaper throughout, or as far
    as the interval shows it; that it is not known yet if the samples have no interval."""
    of, to = sides(experiment, crossed)
    result, name = crossed.found, level_words(experiment)
    if not crossed.known:
        least = least_samples(result.level)
        why = (
            f"{result.n} of {least} samples"
            if result.n < least
            else f"no interval from {result.n} blocks"
        )
        return f"{of} or {to}, not known yet: {why}"
    if result.estimate == -math.inf:
        return _throughout(experiment, of, to, result.high, result.estimate, "from {} on")
    if result.estimate == math.inf and not result.crossings:
        return _throughout(experiment, to, of, result.low, result.estimate, "up to {}")
    if result.crossings > 1 and (result.estimate == math.inf or not crossed.decided):
        return _by_level(experiment, crossed)
    if result.estimate == math.inf and crossed.decided:
        return f"{of} not cheaper at {name(result.largest)}"
    if not crossed.decided:
        return _undecided(experiment, crossed)
    last = f", the last of {result.crossings} crossings" if result.crossings > 1 else ""
    return f"{of} cheaper from {name(result.estimate)} ({_span(result, name)}){last}"


def _undecided(experiment: Experiment, crossed: Crossing) -> str:
    """Of a crossing whose interval runs out of the levels: what it shows at the levels before."""
    of, to = sides(experiment, crossed)
    result, name = crossed.found, level_words(experiment)
    low, high = result.low or -math.inf, result.high or math.inf
    if math.isfinite(high):
        return f"{of} cheaper from {name(high)} on, not decided at the others"
    if math.isinf(low):
        return f"{of} or {to}: the {experiment.figure.over} where they cross is not decided"
    return f"{to} cheaper up to {name(low)}, not decided at the others"


def _by_level(experiment: Experiment, crossed: Crossing) -> str:
    """Of lines that cross several times: `mmap cheaper at 1 B to 4 KiB, 10 KiB; write at 8 KiB`."""
    of, to = sides(experiment, crossed)
    sizes, cheaper = crossed.found.cheaper_at()
    name = level_words(experiment)
    places: dict[bool | None, list[str]] = {False: [], True: [], None: []}
    for is_of_cheaper, group in groupby(zip(cheaper, sizes, strict=True), lambda pair: pair[0]):
        first, *rest = (name(size) for _, size in group)
        places[is_of_cheaper].append(f"{first} to {rest[-1]}" if rest else first)
    lines = [(side, places[is_of]) for side, is_of in ((to, False), (of, True)) if places[is_of]]
    if not lines:
        return f"{of} or {to}, not decided at any {experiment.figure.over}"
    parts = [
        f"{side}{' cheaper' if i == 0 else ''} at {', '.join(at)}"
        for i, (side, at) in enumerate(lines)
    ]
    return "; ".join([*parts, *(["not decided at the others"] if places[None] else [])])


def _throughout(
    experiment: Experiment, line: str, other: str, end: float | None, estimate: float, part: str
) -> str:
    """Of a line that is cheaper by its median at every level: as far as the interval, which ends
    at `end`, shows it."""
    over = experiment.figure.over
    if end == estimate:
        return f"{line} cheaper at every {over}"
    if end is None or math.isinf(end):
        return f"{line} or {other}, not decided at any {over}"
    shown = part.format(level_words(experiment)(end))
    return f"{line} cheaper {shown}, not decided at the others"


def _span(crossing_point: CrossingPoint, name: Callable[[float], str]) -> str:
    assert crossing_point.low is not None
    assert crossing_point.high is not None
    low = (
        f"below {name(crossing_point.smallest)}"
        if math.isinf(crossing_point.low)
        else name(crossing_point.low)
    )
    high = (
        f"above {name(crossing_point.largest)}"
        if math.isinf(crossing_point.high)
        else name(crossing_point.high)
    )
    number, _, unit = low.partition(" ")
    if math.isfinite(crossing_point.low) and high.endswith(f" {unit}"):
        low = number
    return f"{low} to {high}"


def sides(experiment: Experiment, crossed: Crossing) -> tuple[str, str]:
    """The two lines of a crossing by what tells them apart."""
    of, to = crossed.of, crossed.to
    apart = [name for name in of if name in to and of[name] != to[name]]
    return levels(experiment, of, apart), levels(experiment, to, apart)


def level_words(experiment: Experiment) -> Callable[[float], str]:
    """How a value between the levels of the figure's axis is written: `2.3 KiB`."""
    unit = experiment.factor(experiment.figure.over).kind.unit
    return lambda level: units.format_quantity(level, unit)


def where(experiment: Experiment, group: SettingGroup) -> str:
    """A group's setting in words: `dir, size 1 B to 4 KiB, 3 levels; the closest, 4 KiB`."""
    at = labels(experiment, group.at, group.at)
    if group.span is None:
        return at
    over = experiment.figure.over
    first, last = (experiment.describe_level(over, level) for level in group.span)
    closest = experiment.describe_level(over, group.closest.setting[over])
    if experiment.factor(over).kind.levels is not None:  # words have no order to span
        each = (experiment.describe_level(over, j.setting[over]) for j in group.members)
        span = f"{over} {', '.join(each)}; the closest, {closest}"
        return f"{at}, {span}" if at else span
    span = f"{over} {first} to {last}, {len(group.members)} levels; the closest, {closest}"
    return f"{at}, {span}" if at else span
