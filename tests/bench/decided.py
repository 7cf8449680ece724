"""What a quick sweep decides, and on what it spends its time: by the rule of before, every median
to 2 %, and by the default, every claim decided. The two take turns; `--rule now` takes one.

`python -m tests.bench.decided [EXPERIMENT...] [--rounds N] [--budget 60s] >> rows.jsonl` prints a
line per sweep; `python -m tests.bench.decided --table rows.jsonl` prints Markdown from lines, and
`--spent rows.jsonl` where the time of the default's sweeps went.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from memlab import experiments
from memlab.api import Run
from memlab.judging.claims import judge
from memlab.measure import sweep
from memlab.request import PRECISION, Request
from memlab.run.watch import Silent
from memlab.text import units

RULES: dict[str, float | None] = {"before": PRECISION, "now": None}


def spent(run: Run) -> dict[str, float]:
    """Seconds of the sessions, by what they were spent on."""
    wall_s = sum(session.wall_s for session in run.sessions)
    inside_s = (run.window_share or 0.0) * wall_s
    trials_s = float(run.samples.taken("trial_s").sum())
    return {"windows": inside_s, "trials": trials_s - inside_s, "between": wall_s - trials_s}


def measured(name: str, rule: str, folder: Path, budget_s: float | None) -> dict[str, Any]:
    """One sweep as it is by default, but for the rule that ends it."""
    store = folder / "results.db"
    began = time.monotonic()
    row = sweep(Request(name, precision=RULES[rule], budget_s=budget_s), store, Silent())
    wall_s = time.monotonic() - began
    run = Run(row, store)
    words = Counter(one.word for one in judge(run))
    return {
        "experiment": name,
        "rule": rule,
        "words": dict(words),
        "open": sorted({one.claim.id for one in judge(run) if one.word == "inconclusive"}),
        "blocks": run.blocks,
        "samples": len(run.samples),
        "ended": run.sessions[-1].ended,
        "wall_s": wall_s,
        "spent_s": spent(run),
    }


def rows(
    names: Sequence[str], rules: Sequence[str], rounds: int, budget_s: float | None
) -> Iterator[dict[str, Any]]:
    for number in range(rounds):
        for name in names:
            for rule in rules if number % 2 == 0 else rules[::-1]:
                with tempfile.TemporaryDirectory() as folder:
                    yield measured(name, rule, Path(folder), budget_s)


def table(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    by: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        by[one["experiment"]][one["rule"]].append(one)
    heads = ["experiment", "sweeps", "decided, before", "now", "time, before", "now", "in windows"]
    yield f"| {' | '.join([*heads, 'beside'])} |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    total: Counter[str] = Counter()
    for name in sorted(by):
        before, now = by[name]["before"], by[name]["now"]
        cells = [name, str(len(now))]
        for rule, ones in (("before", before), ("now", now)):
            undecided = sum(one["words"].get("inconclusive", 0) for one in ones)
            decided = sum(
                one["words"].get(word, 0) for one in ones for word in ("reproduced", "contradicted")
            )
            total[f"{rule} decided"] += decided
            total[f"{rule} open"] += undecided
            cells.append(f"{decided} of {decided + undecided}")
        for ones in (before, now):
            cells.append(units.format_duration(median([one["wall_s"] for one in ones])))
        parts: Counter[str] = Counter()
        for one in now:
            parts.update(one["spent_s"])
        share = {part: 100 * of / sum(parts.values()) for part, of in parts.items()}
        cells.append(f"{share['windows']:.0f} %")
        cells.append(f"trials {share['trials']:.0f} %, between {share['between']:.0f} %")
        yield f"| {' | '.join(cells)} |"
    yield f"\nIn all: {dict(total)}"


def spent_table(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| experiment | samples | in windows | beside, ms a trial | between, ms a trial |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for one in sorted(found, key=lambda one: str(one["experiment"])):
        if one["rule"] == "now":
            parts, samples = one["spent_s"], one["samples"]
            beside, between = (1e3 * parts[part] / samples for part in ("trials", "between"))
            share = 100 * parts["windows"] / sum(parts.values())
            numbers = f"{samples} | {share:.0f} % | {beside:.1f} | {between:.1f}"
            yield f"| {one['experiment']} | {numbers} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("experiments", nargs="*")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--budget", type=units.parse_duration)
    parser.add_argument("--rule", choices=RULES, action="append")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--spent", type=Path)
    asked = parser.parse_args()
    for path, made in ((asked.table, table), (asked.spent, spent_table)):
        if path:
            print("\n".join(made([json.loads(line) for line in path.read_text().splitlines()])))
            return
    names = asked.experiments or list(experiments.names())
    for row in rows(names, asked.rule or list(RULES), asked.rounds, asked.budget):
        print(json.dumps(row), flush=True)
        print(row["experiment"], row["rule"], row["words"], row["ended"], file=sys.stderr)


if __name__ == "__main__":
    main()
