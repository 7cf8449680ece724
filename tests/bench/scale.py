"""Large stores that no machine measured, and what the commands that read them cost.

    python -m tests.bench.scale [FOLDER [SHAPES [PAGE]]]

makes the stores in FOLDER once and prints a table in Markdown: wall seconds, in brackets the
processor's, and the peak of resident memory (ru_maxrss, which the kernel keeps). SHAPES are digits,
0123 for all, of which 3 is the quick run that ships with memlab; PAGE, README.md in this folder,
takes the table in between its marks. Of the smaller run only `show` is measured: how it grows.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from memlab import experiments, recorded
from memlab.store import PointRow, RunRow, SampleRow, Store

EXPERIMENT = "mmap-write"
SEED = 7
_BATCH = 10_000  # samples of one transaction


@dataclass(frozen=True)
class Shape:
    """A store: how many runs, how many points each, how many blocks."""

    name: str
    runs: int
    points: int
    blocks: int

    @property
    def samples(self) -> int:
        return self.runs * self.points * self.blocks


SHAPES = (
    Shape("10,000 in one run", 1, 1000, 10),
    Shape("100,000 in one run", 1, 1000, 100),
    Shape("10,000 runs of 100", 10_000, 10, 10),
)


def make(shape: Shape, path: Path) -> None:
    """A store with copies of the recorded run's samples, their times spread by 5 %."""
    with Store(recorded.store(EXPERIMENT)) as store:
        base = store.find(EXPERIMENT)
        first = store.points(base.id)[0].levels
        model = next(s for s in store.samples(base.id) if s.outcome == "ok")
    rng = random.Random(SEED)
    methods = ("mmap", "write")
    points = [
        PointRow(i, {**first, "method": methods[i % 2], "size": 16 * (i // 2 + 1)}, None)
        for i in range(shape.points)
    ]
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with Store(part, create=True) as store:
        for number in range(shape.runs):
            day = f"{2020 + number // 8784:04}-{number // 732 % 12 + 1:02}"
            hour = f"{number // 24 % 28 + 1:02}T{number % 24:02}:{number // 672 % 60:02}:00+00:00"
            run = replace(base, id=f"{number:08x}", name=None, created_at=f"{day}-{hour}")
            store.add_run(run, points)
            _fill(store, run, points, shape.blocks, model, rng)
    part.rename(path)


def _fill(
    store: Store,
    run: RunRow,
    points: Sequence[PointRow],
    blocks: int,
    model: SampleRow,
    rng: random.Random,
) -> None:
    session = store.begin_session(run.id)
    rows = _samples(points, blocks, model, rng)
    while batch := _first(rows, _BATCH):
        store.add_sample(run.id, session, 0.0, *batch)
    store.end_session(run.id, session, len(points) * blocks * model.trial_s, "complete")


def _samples(
    points: Sequence[PointRow], blocks: int, model: SampleRow, rng: random.Random
) -> Iterator[SampleRow]:
    raw: Mapping[str, Any] = model.raw or {}
    for block in range(blocks):
        for position, point in enumerate(rng.sample(points, len(points))):
            window = dict(raw["window"])
            slower = 1 + point.point / 1000 + rng.gauss(0, 0.05)
            window["elapsed_ns"] = int(window["elapsed_ns"] * slower)
            yield replace(
                model,
                id=None,
                point=point.point,
                block=block,
                position=position,
                started_at=1.7e9 + block,
                raw={**raw, "window": window},
            )


def _first(rows: Iterator[SampleRow], count: int) -> list[SampleRow]:
    return list(islice(rows, count))


_MEMLAB = Path(sys.executable).with_name("memlab")
IMPORTS = ["imports"]  # of a show: no command
_IMPORTS = (
    "import memlab.cli.show, memlab.api, memlab.experiments.mmap_write, memlab.present.screens.run"
)


def commands(shape: Shape, path: Path, folder: Path) -> dict[str, Sequence[str]]:
    """By name."""
    store = ["--store", str(path)]
    if shape.runs > 1:
        return {
            "runs": [*store, "runs"],
            "runs --json": [*store, "runs", "--json"],
            "completion": ["show", "000003"],
            "show": [*store, "show", "last"],
        }
    if shape.samples < SHAPES[1].samples:
        return {"show": [*store, "show", "last"]}
    out = str(folder / "out")
    return {
        "runs": [*store, "runs"],
        "completion": ["show", "0000"],
        "show": [*store, "show", "last"],
        "claims": [*store, "claims", "last"],
        "compare": [*store, "compare", "last", "--baseline", "method=write"],
        "report": [*store, "report", "last", "-o", f"{out}.html"],
        "export": [*store, "export", "last", "--format", "parquet", "-o", f"{out}.parquet"],
    }


def cost(command: Sequence[str], path: Path, cache: Path) -> tuple[float, float, float, int]:
    """Wall seconds, processor seconds, peak MB and exit code of a memlab command."""
    env = {**os.environ, "MEMLAB_STORE": str(path), "XDG_CACHE_HOME": str(cache)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed memlab is compiled once, not each time
    start = time.monotonic()
    if command == ["show", "000003"] or command == ["show", "0000"]:  # what a shell would ask
        env |= {
            "_MEMLAB_COMPLETE": "zsh_complete",
            "COMP_WORDS": f"memlab {' '.join(command)}",
            "COMP_CWORD": "2",
        }
        command = []
    memlab = [sys.executable, "-c", _IMPORTS] if command == IMPORTS else [_MEMLAB, *command]
    child = subprocess.Popen(memlab, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = used.ru_utime + used.ru_stime
    return time.monotonic() - start, cpu_s, used.ru_maxrss / 1024, child.returncode


HEAD = "| store | command | s | peak, MB |\n| --- | --- | ---: | ---: |"
BEGIN, END = "<!-- scale: python -m tests.bench.scale writes this -->", "<!-- end of scale -->"


def write(page: Path, table: str) -> None:
    """Put the table between the page's marks."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", "utf-8")


def main(folder: Path, wanted: str = "", page: str = "") -> None:
    """Measure, and print each line as it comes."""
    lines = [HEAD]
    print(HEAD)
    for line in _measured(folder, wanted):
        lines.append(line)
        print(line, flush=True)
    if page:
        write(Path(page), "\n".join(lines))


def _measured(folder: Path, wanted: str) -> Iterator[str]:
    experiments.load(EXPERIMENT)
    folder.mkdir(parents=True, exist_ok=True)
    for number, shape in enumerate(SHAPES):
        if wanted and str(number) not in wanted:
            continue
        path = folder / f"{shape.samples}-{shape.runs}.db"
        if not path.exists():
            make(shape, path)
        for name, command in commands(shape, path, folder).items():
            yield _line(shape.name, name, command, path)
    if not wanted or "3" in wanted:
        example = ["show", f"example:{EXPERIMENT}"]
        for name, command in (("show", example), ("its imports", IMPORTS)):
            yield _line("a quick run", name, command, folder / "none.db")


def _line(store: str, name: str, command: Sequence[str], path: Path) -> str:
    cache = path.with_name(f"cache-{time.monotonic_ns()}")
    wall, cpu, peak, code = cost(command, path, cache)
    failed = f" (exit {code})" if code else ""
    return f"| {store} | {name}{failed} | {wall:.2f} ({cpu:.2f}) | {peak:.0f} |"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/scale"), *sys.argv[2:4])
