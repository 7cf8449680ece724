"""A fit in print: the answer in sentences, then a table of the limits that were tried."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec import structs

from memlab.analysis.least import least_samples
from memlab.experiment import tried
from memlab.experiment.tried import Tried
from memlab.fit.answer import setting
from memlab.fit.documents import FitAnswer, LimitRow
from memlab.fit.trials import CHARGED_SHARE, NOT_COUNTED, FitRun, open_points
from memlab.present import words
from memlab.present.table import Cell, Column, Table
from memlab.results import Run
from memlab.text import units

LEAST = least_samples(0.95)  # runs; with fewer, a sentence gives no number
_ROWS_MAX = 14
_LONGEST = 60  # characters of a command in a sentence
_WORTH_SHARE = 0.1  # of the peak; less page cache or less to spare is not worth a word
_ENDED = {"oom-killed": "it is killed", "timeout": "it takes too long and is ended"}
_WORDS = {"fits": "fits", "slow": "too slow", "broken": "breaks", "open": "not decided"}


def sentences(fit: FitAnswer) -> Iterator[str]:
    """What holds, how sure it is, and what to set."""
    if fit.state in ("fails without a limit", "not measured"):
        yield _without_a_limit(fit)
        return
    if fit.state == "grows":
        yield f"{_grows(fit, _named(fit))}, so a longer run needs more: no limit can be named."
        headline = _headline(structs.replace(fit, command="it"))
        yield f"In runs as long as these, {headline[0].lower()}{headline[1:]}{_if_it_ends(fit)}"
    else:
        yield _headline(fit)
    if others := f"{_peak(fit)}{_fails_anyway(fit)}{_examples(fit)}".strip():
        yield others
    if single := _single_runs(fit):
        yield single
    if fit.state == "open":
        yield from _until_decided(fit)
    if fit.gate_bytes and fit.growth_bytes_per_s:
        yield f"{_grows(fit, 'It')}, so a longer run may not fit."
    elif fit.setting_bytes and not fit.gate_bytes:
        yield _advice(fit)


def _single_runs(fit: FitAnswer) -> str:
    """That the bound is that of the median run, if single runs are shown to exceed it."""
    share = units.format_percent(fit.within)
    if fit.single_runs == "differ":
        pairs = units.counted(fit.pairs, "pair")
        return (
            f"Without a limit {fit.pairs_apart} of {pairs} of runs differ by over {share} (the "
            f"median pair by {units.format_percent(fit.apart or 0.0)}), so no limit keeps each run "
            f"within {share}: limits are those of the median run."
        )
    row = next((limit for limit in fit.limits if limit.limit_bytes == fit.fits_bytes), None)
    if fit.single_runs == "exceed" and row:
        runs = units.counted(row.blocks, "run")
        return (
            f"At {_size(row.limit_bytes)} {row.over} of {runs} exceed the bound of {share}: it "
            "holds for the median run, not for 19 of 20."
        )
    return ""


def _until_decided(fit: FitAnswer) -> Iterator[str]:
    """What to set before it is decided, unless that is shown too small, and how far runs differ
    without a limit, if that is what keeps it open."""
    limit_bytes = setting(fit.peak_bytes or 0)
    if fit.peak_bytes and not fit.gate_bytes and limit_bytes > (fit.above_bytes or 0):
        limit, peak = limit_bytes >> 20, _size(fit.peak_bytes)
        of, more = f"its peak of {peak}", ""
        if fit.is_peak_summed:
            of = f"the {peak} or more that its processes took at one time"
            more = ", which has no page cache and nothing between two looks"
        yield f"Until then: memory.max={limit}M, {of} and a margin of 5 % or more{more}."
    if fit.apart is None or fit.apart <= fit.within or fit.pairs < LEAST:
        return
    share, apart = map(units.format_percent, (fit.within, fit.apart))
    differ = (
        f"Without a limit the median pair of runs differs by {apart}, over the bound of {share}."
    )
    known = fit.single_runs == "differ"  # which is a sentence that has this number
    takes = ""
    if fit.metric == "elapsed" and fit.baseline.value:
        takes = f" (one takes {units.format_quantity(fit.baseline.value, 's')})"
    yield (
        f"{'' if known else f'{differ} '}To decide it: more work per run{takes}, a quieter "
        "machine, or a larger --keep-within."
    )


def _if_it_ends(fit: FitAnswer) -> str:
    """Of a program that grows until its work is done: whether it is one, only its user knows."""
    if fit.fits_bytes is None:
        return ""
    mib = setting(fit.fits_bytes) >> 20
    return f" If no run is longer or has more to do, {mib} MiB are enough."


def _named(fit: FitAnswer) -> str:
    """The command, or what of it fits into a sentence."""
    whole = len(fit.command) <= _LONGEST
    return fit.command if whole else f"{fit.command[: _LONGEST - 3].rstrip()}..."


def _grows(fit: FitAnswer, who: str) -> str:
    rate = units.format_quantity(fit.growth_bytes_per_s or 0.0, "B/s")
    return f"{who} grew by {rate} to the end of its runs"


def remarks(run: Run) -> Iterator[str]:
    """What the numbers have to be read with: a busy machine, blocks that resemble one another."""
    if message := words.busy(run):
        yield message
    if run.sampling(FitRun(run).asked.metric)["correlation"] > 0:
        yield words.blocks_alike(run)


def _headline(fit: FitAnswer) -> str:
    keeps = f"{_named(fit)} {_remaining(fit)}"
    if fit.gate_bytes:
        limit = _size(fit.gate_bytes)
        if fit.state == "answered":
            return f"{keeps} in {limit}: {_bound(fit)}."
        if fit.state == "too small":
            return f"{_named(fit)} does not fit into {limit}: {_why(fit)}."
        return f"Not decided: whether {keeps} in {limit}."
    above, fits = fit.above_bytes, fit.fits_bytes
    if fits is not None and fit.limit_bytes is not None:
        if above is None:
            return f"{keeps} down to {_size(fits)}, the smallest limit that was tried."
        return f"{keeps} down to {_size(fit.limit_bytes)} ({_span(above, fits)})."
    shown = f", and {_size(above)} is too small" if above else ""
    row = next((limit for limit in fit.limits if limit.limit_bytes == fit.limit_bytes), None)
    if row is None or row.blocks < LEAST:
        return f"Not decided: no limit is shown to fit yet{shown}."
    return (
        f"Not decided: {_named(fit)} seems to keep {_metric(fit)} down to "
        f"{_size(row.limit_bytes)}{shown}."
    )


def _span(low: int, high: int) -> str:
    """Both ends, with one unit if it is the same."""
    ends = _size(low), _size(high)
    unit = ends[1].rpartition(" ")[2]
    return f"{ends[0].removesuffix(f' {unit}')} to {ends[1]}"


def _remaining(fit: FitAnswer) -> str:
    share = units.format_percent(fit.within)
    if fit.metric == "elapsed":
        return f"keeps its speed (elapsed within {share})"
    return f"keeps {fit.metric} within {share}"


def _metric(fit: FitAnswer) -> str:
    return "its speed" if fit.metric == "elapsed" else fit.metric


def _bound(fit: FitAnswer) -> str:
    share = units.format_percent(fit.broken_share_most or 1.0)
    runs = units.counted(_trials(fit), "run")
    return f"none of {runs} was killed or failed, so at most {share} are"


def _trials(fit: FitAnswer) -> int:
    row = next((limit for limit in fit.limits if limit.limit_bytes == fit.fits_bytes), None)
    return row.blocks if row else 0


def _why(fit: FitAnswer) -> str:
    row = next(limit for limit in fit.limits if limit.limit_bytes == fit.gate_bytes)
    return _row_says(fit, row)


def _peak(fit: FitAnswer) -> str:
    if fit.peak_bytes is None:
        return ""
    text = f"Without a limit its peak is {_size(fit.peak_bytes)}"
    if fit.is_peak_summed:
        text = (
            f"Without a limit its processes took {_size(fit.peak_bytes)} or more at one time "
            "(no peak of its cgroup is known)"
        )
    cache, parts = fit.page_cache_bytes or 0, []
    if cache >= _WORTH_SHARE * fit.peak_bytes:
        parts.append(f"it ends with {_size(cache)} of page cache")
    if fit.fits_bytes and not fit.gate_bytes:
        spare = fit.peak_bytes - fit.fits_bytes
        is_worth = spare >= _WORTH_SHARE * fit.peak_bytes
        needs = "it needs about that much"
        parts.append(f"it can do without {_size(spare)} of that" if is_worth else needs)
    text = f"{': '.join(filter(None, [text, ', and '.join(parts)]))}."
    return f"{text}{_expected(fit)}"


def _expected(fit: FitAnswer) -> str:
    """What was expected of the limit, beside what was measured."""
    if not fit.expected_bytes:
        return ""
    reused = fit.expected_reused_bytes or 0
    floor, again = fit.expected_bytes - reused, "used again in a run that is not measured"
    if fit.peak_bytes and fit.expected_bytes > (1 + CHARGED_SHARE) * fit.peak_bytes:
        what = "mapped files" if fit.swap == "none" else "memory"
        least = f" Expected: at least {_size(floor)}." if floor else ""
        return (
            f"{least} {_size(reused)} of {what} are {again}: more than is charged to it, as others "
            "brought files of it into the page cache. If it has to read these itself, it needs up "
            f"to {_size(fit.expected_bytes)}."
        )
    if fit.swap != "none":
        what = f", {again}"
    elif reused < _WORTH_SHARE * fit.expected_bytes:
        what = ", its anonymous memory"
    else:
        what = f": {_size(floor)} of anonymous memory, and {_size(reused)} of mapped files {again}"
    return f" Expected: at least {_size(fit.expected_bytes)}{what}.{_unmapped(fit)}"


def _unmapped(fit: FitAnswer) -> str:
    unmapped = fit.unmapped_cache_bytes or 0
    if unmapped <= CHARGED_SHARE * (fit.peak_bytes or 0):
        return ""
    return (
        f" Of {_size(unmapped)} of page cache it is not known whether they are used again: nothing "
        "had them mapped when this was read."
    )


def _fails_anyway(fit: FitAnswer) -> str:
    """Runs without a limit that did not end well: then a limit need not be why others did not."""
    broken = {w: n for w, n in fit.baseline.outcomes.items() if w not in NOT_COUNTED}
    if not broken:
        return ""
    words = ", ".join(f"{word} {n}" for word, n in broken.items())
    runs = sum(fit.baseline.outcomes.values())
    return f" Without a limit {sum(broken.values())} of {runs} runs did not end well ({words})."


def _examples(fit: FitAnswer) -> str:
    """The nearest limit that is too slow, and the nearest that breaks."""
    if fit.gate_bytes:
        return ""
    parts = []
    for word in ("slow", "broken"):
        rows = [limit for limit in fit.limits if limit.word == word]
        if rows:
            row = max(rows, key=lambda limit: limit.limit_bytes)
            parts.append(f"at {_size(row.limit_bytes)} {_row_says(fit, row)}")
    text = "; ".join(parts)
    return f" {text[:1].upper()}{text[1:]}." if text else ""


def _row_says(fit: FitAnswer, row: LimitRow) -> str:
    if row.word == "broken":
        broken = {word: n for word, n in row.outcomes.items() if word not in NOT_COUNTED}
        word, most = max(broken.items(), key=lambda pair: pair[1])
        ended = _ENDED.get(word, f"it ends as {word}")
        return f"{ended} ({most} of {sum(row.outcomes.values())})"
    if row.cost is None:
        return "nothing was measured"
    cost = f"{_cost(row)} times"
    text = f"it takes {cost} as long" if fit.metric == "elapsed" else f"{fit.metric} is {cost}"
    if row.refaults_per_s and row.refaults_per_s >= 1:
        text += f" ({units.format_quantity(row.refaults_per_s, 'refaults/s')})"
    return text


def _advice(fit: FitAnswer) -> str:
    mib = (fit.setting_bytes or 0) >> 20
    swap = "" if fit.swap == "none" else f", with {fit.swap} swap as measured here"
    return (
        f"Set memory.max={mib}M (docker run --memory={mib}m, systemd MemoryMax={mib}M, Kubernetes "
        f"resources.limits.memory: {mib}Mi){swap}. At {_size(fit.fits_bytes or 0)} "
        f"{_bound(fit)}{_reclaims(fit)}."
    )


def _reclaims(fit: FitAnswer) -> str:
    """How many runs reached the limit that fits, so that the kernel reclaimed."""
    row = next((limit for limit in fit.limits if limit.limit_bytes == fit.fits_bytes), None)
    if not row or not row.reached:
        return ""
    return f"; {row.reached} of them reached the limit"


def _options(fit: FitAnswer, run: Run) -> str:
    """The options and the words that asked for this fit."""
    subject: Tried = getattr(run.experiment, "subject")  # noqa: B009 - of a CommandExperiment
    options = {
        "--keep-within": f"{fit.metric}: {100 * fit.within:g}%",
        "--swap": fit.swap,
        "--serve": tried.command_line(subject.serve),
        "--ready": subject.ready,
        "--latencies": subject.latency_file,
        "--timeout": f"{subject.timeout_s:.15g}s",
    }
    if subject.latency_unit != "s":
        options["--latencies"] += f"[{subject.latency_unit}]"
    default = {"--keep-within": "elapsed: 5%", "--swap": "none", "--timeout": "600s"}
    pairs = [(name, value) for name, value in options.items() if value != default.get(name, "")]
    pairs += [
        ("--metric", tried.metric_text(metric, subject.metric_file)) for metric in subject.metrics
    ]
    return " ".join(
        [*(f"{n} {shlex.quote(v)}" for n, v in pairs), "--", tried.command_line(subject.argv)]
    )


def _without_a_limit(fit: FitAnswer) -> str:
    if fit.baseline.value == 0:
        return (
            f"{fit.metric} is 0 without a limit, so no share of it can be kept: name another "
            "metric."
        )
    if not fit.baseline.outcomes:
        return "Nothing was measured: no run without a limit had ended. Give it a larger --budget."
    if set(fit.baseline.outcomes) == {"ok"}:
        return (
            f"{fit.metric} has no value in a run of {fit.command} without a limit: it is not "
            "measured here, or rests on too few numbers (p99 takes 1,000 latencies, p999 10,000)."
        )
    ends = ", ".join(f"{word} ({n})" for word, n in fit.baseline.outcomes.items())
    detail = f": {fit.baseline.detail}" if fit.baseline.detail else ""
    return f"{fit.command} does not end well even without a limit: {ends}{detail}"


def table(fit: FitAnswer) -> Table:
    """The limits that were tried, largest first."""
    rows: list[Sequence[Cell | str]] = []
    if fit.baseline.value is not None:
        rows.append(["none", "", "1", str(fit.baseline.blocks), "", "", ""])
    for row in sorted(fit.limits, key=lambda limit: -limit.limit_bytes)[:_ROWS_MAX]:
        rates = (row.refaults_per_s, row.expected_refaults_per_s)
        rows.append(
            [
                _size(row.limit_bytes),
                _verdict(fit, row),
                _cost(row),
                str(sum(row.outcomes.values())),
                ", ".join(f"{word} {n}" for word, n in row.outcomes.items() if word != "ok"),
                *("" if rate is None else _rate(rate) for rate in rates),
            ]
        )
    heads = ["limit", "verdict", f"{fit.metric}, times", "runs", "broke", "refaults/s"]
    if any(row.expected_refaults_per_s is not None for row in fit.limits):
        heads.append("expected")
    columns = [Column(head) for head in heads]
    return Table("", columns, [row[: len(heads)] for row in rows])


def _verdict(fit: FitAnswer, row: LimitRow) -> str:
    """What is shown of a limit; of one that was tried on the way, what it seems to be."""
    if row.word != "open" or row.cost is None:
        return _WORDS[row.word]
    return "seems to fit" if row.cost <= 1 + fit.within else "seems slow"


def _cost(row: LimitRow) -> str:
    if row.cost is None:
        return ""
    cost = f"{row.cost:.3g}"
    if row.low is None or row.high is None:
        return cost
    return f"{cost} ({row.low:.3g} to {row.high:.3g})"


def _rate(per_s: float) -> str:
    return units.format_quantity(per_s if per_s >= 1 else round(per_s, 1), "1")


def _size(size_bytes: int) -> str:
    return units.format_quantity(size_bytes, "B")


def next_step(fit: FitAnswer, run: Run) -> str:
    """The command that goes on: more blocks if it is open, a larger bound if no limit is left to
    try, else the check for CI."""
    if fit.state == "open" and open_points(run):
        return run.command("sweep --resume")
    if fit.state == "open":
        return f"memlab fit {_options(structs.replace(fit, within=2 * fit.within), run)}"
    if fit.setting_bytes and not fit.gate_bytes:
        return f"memlab fit --gate {fit.setting_bytes >> 20}M {_options(fit, run)}"
    return run.command("show")
