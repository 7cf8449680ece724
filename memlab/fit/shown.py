"""A fit in print: the answer in sentences, then a table of the limits that were tried."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec import structs

from memlab.experiment import tried
from memlab.experiment.tried import Tried
from memlab.fit.answer import setting
from memlab.fit.documents import FitAnswer, LimitRow
from memlab.fit.trials import CHARGED_SHARE, NOT_COUNTED, FitRun
from memlab.present import words
from memlab.present.table import Cell, Column, Table
from memlab.present.words import count
from memlab.results import Run
from memlab.text import units

_ROWS_MAX = 14
_LONGEST = 60  # characters of a command in a sentence
_WORTH_SHARE = 0.1  # of the peak; less page cache or less to spare is not worth a word
_ENDED = {"oom-killed": "it is killed", "timeout": "it takes too long and is ended"}
_WORDS = {"fits": "fits", "slow": "too slow", "broken": "breaks", "open": "not decided"}


def sentences(found: FitAnswer) -> Iterator[str]:
    """What holds, how sure it is, and what to set."""
    if found.state in ("fails without a limit", "not measured"):
        yield _without_a_limit(found)
        return
    if found.state == "grows":
        yield f"{_grows(found, _named(found))}, so a longer run needs more: no limit can be named."
        headline = _headline(structs.replace(found, command="it"))
        yield f"In runs as long as these, {headline[0].lower()}{headline[1:]}{_if_it_ends(found)}"
    else:
        yield _headline(found)
    if others := f"{_peak(found)}{_fails_anyway(found)}{_examples(found)}".strip():
        yield others
    if found.gate_bytes and found.grows_bytes_per_s:
        yield f"{_grows(found, 'It')}, so a longer run may not fit."
    elif found.setting_bytes and not found.gate_bytes:
        yield _advice(found)


def _if_it_ends(found: FitAnswer) -> str:
    """Of a program that grows until its work is done: whether it is one, only its user knows."""
    if found.fits_bytes is None:
        return ""
    mib = setting(found.fits_bytes) >> 20
    return f" If no run is longer or has more to do, {mib} MiB are enough."


def _named(found: FitAnswer) -> str:
    """The command, or what of it fits into a sentence."""
    whole = len(found.command) <= _LONGEST
    return found.command if whole else f"{found.command[: _LONGEST - 3].rstrip()}..."


def _grows(found: FitAnswer, who: str) -> str:
    rate = units.format_quantity(found.grows_bytes_per_s or 0.0, "B/s")
    return f"{who} grew by {rate} to the end of its runs"


def remarks(run: Run) -> Iterator[str]:
    """What the numbers have to be read with: a busy machine, blocks that resemble one another."""
    if said := words.busy(run):
        yield said
    if run.sampling(FitRun(run).asked.metric)["correlation"] > 0:
        yield words.blocks_alike(run)


def _headline(found: FitAnswer) -> str:
    keeps = f"{_named(found)} {_kept(found)}"
    if found.gate_bytes:
        limit = _size(found.gate_bytes)
        if found.state == "answered":
            return f"{keeps} in {limit}: {_bound(found)}."
        if found.state == "too small":
            return f"{_named(found)} does not fit into {limit}: {_why(found)}."
        return f"Not decided: whether {keeps} in {limit}."
    above, fits = found.above_bytes, found.fits_bytes
    if fits is not None and found.limit_bytes is not None:
        if above is None:
            return f"{keeps} down to {_size(fits)}, the smallest limit that was tried."
        return f"{keeps} down to {_size(found.limit_bytes)} ({_span(above, fits)})."
    shown = f", and {_size(above)} is too small" if above else ""
    if found.limit_bytes is None:
        return f"Not decided: no limit is shown to fit yet{shown}."
    return (
        f"Not decided: {_named(found)} seems to keep {_metric(found)} down to "
        f"{_size(found.limit_bytes)}{shown}."
    )


def _span(low: int, high: int) -> str:
    """Both ends, with one unit if it is the same."""
    ends = _size(low), _size(high)
    unit = ends[1].rpartition(" ")[2]
    return f"{ends[0].removesuffix(f' {unit}')} to {ends[1]}"


def _kept(found: FitAnswer) -> str:
    share = units.format_percent(found.within)
    if found.metric == "elapsed":
        return f"keeps its speed (elapsed within {share})"
    return f"keeps {found.metric} within {share}"


def _metric(found: FitAnswer) -> str:
    return "its speed" if found.metric == "elapsed" else found.metric


def _bound(found: FitAnswer) -> str:
    share = units.format_percent(found.broken_share_most or 1.0)
    return f"none of {count(_trials(found), 'run')} was killed or failed, so at most {share} are"


def _trials(found: FitAnswer) -> int:
    row = next((one for one in found.limits if one.limit_bytes == found.fits_bytes), None)
    return row.blocks if row else 0


def _why(found: FitAnswer) -> str:
    row = next(one for one in found.limits if one.limit_bytes == found.gate_bytes)
    return _row_says(found, row)


def _peak(found: FitAnswer) -> str:
    if found.peak_bytes is None:
        return ""
    text = f"Without a limit its peak is {_size(found.peak_bytes)}"
    cache, parts = found.page_cache_bytes or 0, []
    if cache >= _WORTH_SHARE * found.peak_bytes:
        parts.append(f"it ends with {_size(cache)} of page cache")
    if found.fits_bytes and not found.gate_bytes:
        spare = found.peak_bytes - found.fits_bytes
        is_worth = spare >= _WORTH_SHARE * found.peak_bytes
        needs = "it needs about that much"
        parts.append(f"it can do without {_size(spare)} of that" if is_worth else needs)
    text = f"{': '.join(filter(None, [text, ', and '.join(parts)]))}."
    return f"{text}{_expected(found)}"


def _expected(found: FitAnswer) -> str:
    """What was expected of the limit, beside what was measured."""
    if not found.expected_bytes:
        return ""
    reused = found.expected_reused_bytes or 0
    floor, again = found.expected_bytes - reused, "used again in a run that is not measured"
    if found.peak_bytes and found.expected_bytes > (1 + CHARGED_SHARE) * found.peak_bytes:
        what = "mapped files" if found.swap == "none" else "memory"
        least = f" Expected: at least {_size(floor)}." if floor else ""
        return (
            f"{least} {_size(reused)} of {what} are {again}: more than is charged to it, as others "
            "brought files of it into the page cache. If it has to read these itself, it needs up "
            f"to {_size(found.expected_bytes)}."
        )
    if found.swap != "none":
        what = f", {again}"
    elif reused < _WORTH_SHARE * found.expected_bytes:
        what = ", its anonymous memory"
    else:
        what = f": {_size(floor)} of anonymous memory, and {_size(reused)} of mapped files {again}"
    return f" Expected: at least {_size(found.expected_bytes)}{what}.{_unmapped(found)}"


def _unmapped(found: FitAnswer) -> str:
    unmapped = found.unmapped_cache_bytes or 0
    if unmapped <= CHARGED_SHARE * (found.peak_bytes or 0):
        return ""
    return (
        f" Of {_size(unmapped)} of page cache it is not known whether they are used again: nothing "
        "had them mapped when this was read."
    )


def _fails_anyway(found: FitAnswer) -> str:
    """Runs without a limit that did not end well: then a limit need not be why others did not."""
    broken = {w: n for w, n in found.baseline_outcomes.items() if w not in NOT_COUNTED}
    if not broken:
        return ""
    words = ", ".join(f"{word} {n}" for word, n in broken.items())
    runs = sum(found.baseline_outcomes.values())
    return f" Without a limit {sum(broken.values())} of {runs} runs did not end well ({words})."


def _examples(found: FitAnswer) -> str:
    """The nearest limit that is too slow, and the nearest that breaks."""
    if found.gate_bytes:
        return ""
    said = []
    for word in ("slow", "broken"):
        rows = [one for one in found.limits if one.word == word]
        if rows:
            row = max(rows, key=lambda one: one.limit_bytes)
            said.append(f"at {_size(row.limit_bytes)} {_row_says(found, row)}")
    text = "; ".join(said)
    return f" {text[:1].upper()}{text[1:]}." if text else ""


def _row_says(found: FitAnswer, row: LimitRow) -> str:
    if row.word == "broken":
        broken = {word: n for word, n in row.outcomes.items() if word not in NOT_COUNTED}
        word, most = max(broken.items(), key=lambda pair: pair[1])
        ended = _ENDED.get(word, f"it ends as {word}")
        return f"{ended} ({most} of {sum(row.outcomes.values())})"
    if row.cost is None:
        return "nothing was measured"
    cost = f"{units.format_quantity(row.cost, '1')} times"
    text = f"it takes {cost} as long" if found.metric == "elapsed" else f"{found.metric} is {cost}"
    if row.refaults_per_s and row.refaults_per_s >= 1:
        text += f" ({units.format_quantity(row.refaults_per_s, 'refaults/s')})"
    return text


def _advice(found: FitAnswer) -> str:
    mib = (found.setting_bytes or 0) >> 20
    swap = "" if found.swap == "none" else f", with {found.swap} swap as measured here"
    return (
        f"Set memory.max={mib}M (docker run --memory={mib}m, systemd MemoryMax={mib}M, Kubernetes "
        f"resources.limits.memory: {mib}Mi){swap}. At {_size(found.fits_bytes or 0)} "
        f"{_bound(found)}{_reclaims(found)}."
    )


def _reclaims(found: FitAnswer) -> str:
    """Reclaim at the limit that fits, which was not felt."""
    row = next((one for one in found.limits if one.limit_bytes == found.fits_bytes), None)
    if not row or not row.reached:
        return ""
    return f", and {row.reached} reached the limit and did not feel it"


def _asked(found: FitAnswer, run: Run) -> str:
    """The options and the words that asked for this fit."""
    subject: Tried = getattr(run.experiment, "subject")  # noqa: B009 - of a CommandExperiment
    options = {
        "--keep-within": f"{found.metric}: {100 * found.within:g}%",
        "--swap": found.swap,
        "--serve": tried.command_line(subject.serve),
        "--ready": subject.ready,
        "--latencies": subject.latency_file,
    }
    if subject.latency_unit != "s":
        options["--latencies"] += f"[{subject.latency_unit}]"
    default = {"--keep-within": "elapsed: 5%", "--swap": "none"}
    asked = [(name, value) for name, value in options.items() if value != default.get(name, "")]
    asked += [
        ("--metric", tried.metric_text(metric, subject.metric_file)) for metric in subject.metrics
    ]
    return " ".join(
        [*(f"{n} {shlex.quote(v)}" for n, v in asked), "--", tried.command_line(subject.argv)]
    )


def _without_a_limit(found: FitAnswer) -> str:
    if found.baseline == 0:
        return (
            f"{found.metric} is 0 without a limit, so no share of it can be kept: name another "
            "metric."
        )
    if found.state == "not measured":
        return "Nothing was measured: the budget ended before the first run without a limit."
    if set(found.baseline_outcomes) == {"ok"}:
        return (
            f"{found.metric} has no value in a run of {found.command} without a limit: it is not "
            "measured here, or rests on too few numbers (p99 takes 1,000 latencies, p999 10,000)."
        )
    ends = ", ".join(f"{word} ({n})" for word, n in found.baseline_outcomes.items())
    detail = f": {found.baseline_detail}" if found.baseline_detail else ""
    return f"{found.command} does not end well even without a limit: {ends}{detail}"


def table(found: FitAnswer) -> Table:
    """The limits that were tried, largest first."""
    rows: list[Sequence[Cell | str]] = []
    if found.baseline is not None:
        rows.append(["none", "", "1", str(found.baseline_blocks), "", "", ""])
    for row in sorted(found.limits, key=lambda one: -one.limit_bytes)[:_ROWS_MAX]:
        rates = (row.refaults_per_s, row.expected_refaults_per_s)
        rows.append(
            [
                _size(row.limit_bytes),
                _verdict(found, row),
                _cost(row),
                str(sum(row.outcomes.values())),
                ", ".join(f"{word} {n}" for word, n in row.outcomes.items() if word != "ok"),
                *("" if rate is None else _rate(rate) for rate in rates),
            ]
        )
    heads = ["limit", "verdict", f"{found.metric}, times", "runs", "broke", "refaults/s"]
    if any(row.expected_refaults_per_s is not None for row in found.limits):
        heads.append("expected")
    columns = [Column(head) for head in heads]
    return Table("", columns, [row[: len(heads)] for row in rows])


def _verdict(found: FitAnswer, row: LimitRow) -> str:
    """What is shown of a limit; of one that was tried on the way, what it seems to be."""
    if row.word != "open" or row.cost is None:
        return _WORDS[row.word]
    return "seems to fit" if row.cost <= 1 + found.within else "seems slow"


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


def next_step(found: FitAnswer, run: Run) -> str:
    """The command that goes on: more blocks where it is open, else the check for CI."""
    if found.state == "open":
        return run.command("sweep --resume")
    if found.setting_bytes and not found.gate_bytes:
        return f"memlab fit --gate {found.setting_bytes >> 20}M {_asked(found, run)}"
    return run.command("show")
