"""A fit in print: the answer in sentences, then a table of the limits that were tried."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from memlab.fit.documents import FitAnswer, LimitRow
from memlab.present.table import Cell, Column, Table
from memlab.present.words import count
from memlab.results import Run
from memlab.text import units

_ROWS_MAX = 14
_WORDS = {"fits": "fits", "slow": "too slow", "broken": "breaks", "open": "not decided"}


def sentences(found: FitAnswer) -> Iterator[str]:
    """What holds, how sure it is, and what to set."""
    if found.state in ("fails without a limit", "not measured"):
        yield _without_a_limit(found)
        return
    yield _headline(found)
    yield f"{_peak(found)}{_examples(found)}"
    if found.grows_bytes_per_s:
        rate = units.format_quantity(found.grows_bytes_per_s, "B/s")
        yield (
            f"It grew by {rate} to the end of every run, so a longer run needs more: no limit can "
            "be advised."
        )
    elif found.setting_bytes and not found.gate_bytes:
        yield _advice(found)


def _headline(found: FitAnswer) -> str:
    keeps = f"{found.command} {_kept(found)}"
    if found.gate_bytes:
        limit = _size(found.gate_bytes)
        return {
            "answered": f"{keeps} in {limit}: {_bound(found)}.",
            "too small": f"{found.command} does not fit into {limit}: {_why(found)}.",
        }.get(found.state, f"Not decided: whether {keeps} in {limit}.")
    above, fits = found.above_bytes, found.fits_bytes
    if fits is not None and found.limit_bytes is not None:
        if above is None:
            return f"{keeps} down to {_size(fits)}, the smallest limit that was tried."
        return f"{keeps} down to {_size(found.limit_bytes)} ({_size(above)} to {_size(fits)})."
    if found.limit_bytes is None:
        shown = f": {_size(above)} is too small" if above else ""
        return f"Not decided: no limit is shown to fit yet{shown}."
    shown = f", and {_size(above)} is too small" if above else ""
    return (
        f"Not decided: {found.command} seems to keep {_metric(found)} down to "
        f"{_size(found.limit_bytes)}{shown}."
    )


def _kept(found: FitAnswer) -> str:
    share = units.format_percent(found.within)
    if found.metric == "elapsed":
        return f"keeps its speed (elapsed within {share})"
    return f"keeps {found.metric} within {share}"


def _metric(found: FitAnswer) -> str:
    return "its speed" if found.metric == "elapsed" else found.metric


def _bound(found: FitAnswer) -> str:
    share = units.format_percent(found.broken_share_most or 1.0)
    return f"none of {count(_trials(found), 'run')} broke, so at most {share} do"


def _trials(found: FitAnswer) -> int:
    row = next((one for one in found.limits if one.limit_bytes == found.fits_bytes), None)
    return sum(row.outcomes.values()) if row else 0


def _why(found: FitAnswer) -> str:
    row = next(one for one in found.limits if one.limit_bytes == found.gate_bytes)
    return _row_says(found, row)


def _peak(found: FitAnswer) -> str:
    if found.peak_bytes is None:
        return ""
    text = f"Without a limit its peak is {units.format_quantity(found.peak_bytes, 'B')}"
    resident = found.resident_peak_bytes
    if resident is not None and resident < 0.9 * found.peak_bytes:
        rest = units.format_quantity(found.peak_bytes - resident, "B")
        text += f": {rest} of it are page cache and kernel memory, beside its processes"
    return f"{text}."


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
        broken = {word: n for word, n in row.outcomes.items() if word != "ok"}
        word, most = max(broken.items(), key=lambda pair: pair[1])
        ended = "it is killed" if word == "oom-killed" else f"it ends as {word}"
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
        f"resources.limits.memory: {mib}Mi){swap}; at {_size(found.fits_bytes or 0)} "
        f"{_bound(found)}."
    )


def _without_a_limit(found: FitAnswer) -> str:
    if found.state == "not measured":
        return "Nothing was measured: the budget ended before the first run without a limit."
    words = ", ".join(f"{word} ({n})" for word, n in found.baseline_outcomes.items())
    detail = f": {found.baseline_detail}" if found.baseline_detail else ""
    return f"{found.command} does not end well without a limit either: {words}{detail}"


def table(found: FitAnswer) -> Table:
    """The limits that were tried, largest first."""
    rows: list[Sequence[Cell | str]] = []
    if found.baseline is not None:
        rows.append(["none", "", "1", str(found.baseline_blocks), "", ""])
    for row in sorted(found.limits, key=lambda one: -one.limit_bytes)[:_ROWS_MAX]:
        rate = row.refaults_per_s
        rows.append(
            [
                _size(row.limit_bytes),
                _WORDS[row.word],
                _cost(row),
                str(sum(row.outcomes.values())),
                ", ".join(f"{word} {n}" for word, n in row.outcomes.items() if word != "ok"),
                "" if rate is None else units.format_quantity(rate, "1"),
            ]
        )
    heads = ["limit", "verdict", f"{found.metric}, times", "runs", "broke", "refaults/s"]
    return Table("", [Column(head) for head in heads], rows)


def _cost(row: LimitRow) -> str:
    if row.cost is None:
        return ""
    cost = f"{row.cost:.3g}"
    if row.low is None or row.high is None:
        return cost
    return f"{cost} ({row.low:.3g} to {row.high:.3g})"


def _size(size_bytes: int) -> str:
    return units.format_quantity(size_bytes, "B")


def next_step(found: FitAnswer, run: Run) -> str:
    """The command that goes on: more blocks where it is open, else the check for CI."""
    if found.state == "open":
        return run.command("fit --resume")
    if found.setting_bytes and not found.gate_bytes:
        words = shlex.join(getattr(run.experiment, "subject").argv)  # noqa: B009
        return f"memlab fit --gate {found.setting_bytes >> 20}M -- {words}"
    return run.command("show")
