"""What `memlab diagnose --if` predicts of programs of Debian, beside what `memlab try` measures, as
a table: misses included.

    python -m tests.diagnose.predictions [--blocks N] [--thp] [NAME...]

Needs root, and: apt install redis-server redis-tools sqlite3 gcc. It takes a quarter of an hour.
--thp adds `thp=always`, which changes the setting of the whole machine while it is measured.

Peak memory is what is added to it, in MiB; page faults and processor time are ratios: predicted
over the value at present; measured over the baseline's, with the 95 % interval over blocks. A
prediction holds if the two, with a margin of 5 % of the baseline, have a point in common.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import memlab
from memlab.analysis.intervals import median_interval
from memlab.diagnose.api import diagnose_process
from memlab.diagnose.prediction import Predicted, Prediction
from memlab.judging.compare_levels import shared_values

from .real_programs import busiest, started

_PORT = 21733
_WARM_S, _SECONDS = 0.7, 1.5  # a look begins so long after the start, and takes so long
_MARGIN = 0.05
_METRICS = ("peak_rss", "faults", "cpu_time")


@dataclass(frozen=True)
class Case:
    """A program that runs for some seconds, or a service under a load that does."""

    name: str
    program: str
    command: str
    load: str = ""
    looked: str = ""
    """A longer run of the same, for the look."""
    never: tuple[str, str, str] = ("malloc", "system", "glibc/never")
    """A malloc that gives nothing back, as a policy of `try` with the baseline."""
    limits: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


CHURN = """
import sys
for _ in range(int(sys.argv[1])):
    kept = [bytearray(n) for n in (10_000_000, 200_000, 40_000_000, 3000)]
    del kept
"""
SQL = """
CREATE TABLE t (a INTEGER, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {0})
INSERT INTO t SELECT i * 7919 % ({0} + 1), 'row ' || i FROM n;
CREATE INDEX u ON t (b);
SELECT count(*) FROM (SELECT b FROM t ORDER BY a % 1000, b);
SELECT count(*) FROM t x JOIN t y ON x.b = y.b WHERE x.a % 3 = 0;
"""


def lines(count: int) -> str:
    return "".join(f"{number * 7919 % count:x} {number}\n" for number in range(count))


def functions(count: int) -> str:
    one = """int f{0}(int a, int *b) {{
        int s = {0};
        for (int i = 0; i < a; i++) s += b[i] * (s ^ i);
        return s % 7 ? s : f{1}(a, b);
    }}
    """
    return "".join(one.format(number, max(0, number - 1)) for number in range(count))


CASES = (
    Case(
        "redis", "redis-server", f"redis-server --port {_PORT} --save ''",
        f"redis-benchmark -p {_PORT} -t set -n 60000 -r 30000 -d 512 --csv",
        never=("env.MALLOC_CONF", "", "dirty_decay_ms:-1,muzzy_decay_ms:-1"),
        limits=("1G", "16M"),
    ),
    Case("python3", "python3", "/usr/bin/python3 churn.py 40",
         looked="/usr/bin/python3 churn.py 1000", files={"churn.py": CHURN},
         limits=("1G", "24M")),
    Case("sort", "sort", "sort --parallel=1 -S 48M -o /dev/null lines.txt",
         looked=f"cat {'lines.txt ' * 9} | sort --parallel=1 -S 48M -o /dev/null",
         files={"lines.txt": lines(1_000_000)}, limits=("64M", "24M")),
    Case("sqlite3", "sqlite3", "sqlite3 :memory: '.read query.sql'",
         looked="sqlite3 :memory: '.read long.sql'", limits=("1G", "32M"),
         files={"query.sql": SQL.format(900_000), "long.sql": SQL.format(3_000_000)}),
    Case("gcc", "cc1", "gcc -O2 -c -o /dev/null big.c", limits=("1G", "32M"),
         looked="gcc -O2 -c -o /dev/null bigger.c",
         files={"big.c": functions(400), "bigger.c": functions(4000)}),
)  # fmt: skip


def policies(case: Case, *, thp: bool) -> Iterator[tuple[str, list[str], list[str]]]:
    """A policy of `try`, its levels, and what is asked of `--if` for each but the first."""
    yield "lock", ["off", "future_onfault", "future"], ["lock=future_onfault", "lock=future"]
    name, base, never = case.never
    yield name, [base, never], ["decay=-1"]
    yield "memory_max", ["none", *case.limits], [f"memory_max={size}" for size in case.limits]
    if thp:
        yield "thp", ["inherit", "always"], ["thp=always"]


def predicted(case: Case, folder: Path, asked: Sequence[str]) -> tuple[Prediction, ...]:
    with contextlib.ExitStack() as running:
        session = running.enter_context(started(f"cd {folder}; {case.looked or case.command}"))
        if case.load:
            time.sleep(0.3)
            running.enter_context(started(f"while :; do {case.load}; done"))
        time.sleep(_WARM_S)
        return diagnose_process(
            busiest(session, case.program), _SECONDS, policies=asked
        ).predictions


def measured(case: Case, folder: Path, name: str, levels: list[str], blocks: int) -> memlab.Run:
    serve, words = ([], shlex.split(case.command))
    if case.load:
        serve, words = words, shlex.split(case.load)
    with contextlib.chdir(folder):
        return memlab.trial(
            words,
            serve=serve,
            ready=f"tcp:{_PORT}" if serve else "",
            blocks=blocks,
            store=folder / "runs.db",
            progress=False,
            **{name: levels},
        )


def row(
    run: memlab.Run, name: str, level: str, base: str, said: Prediction
) -> tuple[list[str], int]:
    """The cells of a prediction, and how many of its metrics miss."""
    at = {str(point.at[name]): point for point in run.points}
    kind = run.experiment.factor(name).kind
    points = tuple(at[str(kind.parse(text))] for text in (base, level))
    ended = {s.outcome for s in run.samples if s.point == points[1].index}
    if ended & {"error", "failed", "unavailable"}:
        raise RuntimeError(f"{level}: {next(s.detail for s in run.samples if s.outcome != 'ok')}")
    if ended != {"ok"} or not said.metrics:
        died, foretold = ended <= {"oom-killed"}, not said.metrics
        text = f"{'killed' if foretold else 'lives'}; {', '.join(sorted(ended))}"
        return [text + ("" if died == foretold else " **miss**"), "", ""], int(died != foretold)
    cells, misses = [], 0
    for metric in said.metrics:
        values = shared_values(run, run.metric(metric.metric), points)
        text, miss = cell(metric, *values)
        cells.append(text)
        misses += miss
    return cells, misses


def cell(said: Predicted, base: np.ndarray, new: np.ndarray) -> tuple[str, bool]:
    """`1 to 1.2; 1.1 (1.05 to 1.15)`, and whether these are apart."""
    if not said.now or not base.all():
        return "none at present", False
    if said.metric == "peak_rss":
        low, high = ((end - said.now) / 2**20 for end in (said.low, said.high))
        found, margin = (
            median_interval((new - base) / 2**20),
            _MARGIN * float(np.median(base)) / 2**20,
        )
        form = "{:+.1f}"
    else:
        low, high = said.low / said.now, said.high / said.now
        found, margin = median_interval(new / base), _MARGIN
        form = "{:.2f}"
    least, middle, most = found.low, found.estimate, found.high
    least, most = middle if least is None else least, middle if most is None else most
    miss = most + margin < low or least - margin > high
    span = " to ".join(dict.fromkeys(map(form.format, (low, high))))
    between = " to ".join(map(form.format, (least, most)))
    return f"{span}; {form.format(middle)} ({between}){' **miss**' * miss}", miss


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--blocks", type=int, default=8)
    asked.add_argument("--thp", action="store_true")
    asked.add_argument("names", nargs="*")
    given = asked.parse_args()
    print("| program | if | peak memory | page faults | processor time |")
    print("| --- | --- | --- | --- | --- |")
    missed = total = 0
    for case in CASES:
        if given.names and case.name not in given.names:
            continue
        if shutil.which(case.command.split()[0]) is None:
            print(f"| {case.name} | not installed | | | |")
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for name, text in case.files.items():
                (folder / name).write_text(text)
            varied = list(policies(case, thp=given.thp))
            asked_of = [question for *_, questions in varied for question in questions]
            said = {one.policy: one for one in predicted(case, folder, asked_of)}
            for name, levels, questions in varied:
                run = measured(case, folder, name, levels, given.blocks)
                for question, level in zip(questions, levels[1:], strict=True):
                    cells, misses = row(run, name, level, levels[0], said[question])
                    print(f"| {case.name} | {question} | {' | '.join(cells)} |", flush=True)
                    missed, total = missed + misses, total + len(said[question].metrics or [1])
    print(f"\n{missed} of {total} predictions miss.")


if __name__ == "__main__":
    main()
