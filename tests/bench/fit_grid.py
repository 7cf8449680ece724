"""`memlab fit` beside a full grid of `memlab try -p memory_max=`, and its advice tried, on real
programs.

`python -m tests.bench.fit_grid --folder DIR [PROGRAM...] [--blocks 20] [--budget 3h]` measures
each program in turn: `fit`; then the advised limit, so many runs; then limits in steps of 5 % from
the unlimited peak down to two steps below the answer, as many blocks of each. What a stopped one
has measured lies in DIR, and the same command goes on with it. The table is printed at the end and
by `--table`. It takes a quiet machine, and root or a memory cgroup of its own.

A grid's answer is the smallest limit from which up no run is killed and every median is within the
bound. Only its limits are measured in the time that is compared; the real one would begin lower.
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memlab.analysis.intervals import ratio_interval
from memlab.errors import MemlabError
from memlab.fit.answer import answer
from memlab.fit.documents import FitAnswer
from memlab.fit.search import STEP
from memlab.results import Run
from memlab.store import Store

WITHIN = 0.05
MIB = 1 << 20
FIT_S, LEAST_S = 600.0, 5.0  # of one fit; less is not worth beginning with
FIT_SHARE = 0.25  # of a program's time


@dataclass(frozen=True)
class Program:
    """A command, with the options that fit and try share, and what makes its files."""

    words: str
    options: str = ""
    keep: str = "elapsed: 5%"
    make: Callable[[Path], None] = lambda folder: None


def _lines(folder: Path) -> None:
    drawn = random.Random(1)
    with (folder / "lines.txt").open("w") as file:
        file.writelines(f"{drawn.getrandbits(128):032x} {n}\n" for n in range(1_500_000))


def _database(folder: Path) -> None:
    drawn = random.Random(2)
    with sqlite3.connect(folder / "rows.db") as database:
        database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INT, c TEXT)")
        rows = ((n, drawn.randrange(10**6), f"{drawn.getrandbits(160):040x}") for n in range(10**6))
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        database.execute("CREATE INDEX ib ON t (b)")


def _source(folder: Path) -> None:
    body = "int f{0}(int a){{int s=0;for(int i=0;i<a;i++)s+=i*{0}%({0}+3)^s;return s;}}\n"
    (folder / "made.c").write_text("".join(body.format(n) for n in range(1, 4000)))


def _mapped(folder: Path) -> None:
    drawn = random.Random(3)
    with (folder / "data").open("wb") as file:
        for _ in range(256):
            file.write(drawn.randbytes(MIB))
    (folder / "mapped.c").write_text(
        "#include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/stat.h>\n"
        "int main(int n, char **w) { int f = open(w[1], O_RDONLY); struct stat s; fstat(f, &s);\n"
        "const volatile char *p = mmap(0, s.st_size, PROT_READ, MAP_SHARED, f, 0); long t = n;\n"
        "for (int r = 0; r < 4; r++) for (long i = 0; i < s.st_size; i += 64) t += p[i];\n"
        "return t == 7; }\n"
    )
    subprocess.run(["cc", "-O1", "-o", folder / "mapped", folder / "mapped.c"], check=True)


def _load(folder: Path) -> None:
    """Of 60,000 values of 400 bytes the first thousands are asked for again."""
    (folder / "load.py").write_text(
        "import random, socket, sys\n"
        "server = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "answers, value = server.makefile('rb'), b'v' * 400\n"
        "for k in range(0, 60000, 100):\n"
        "    server.sendall(b''.join(b'set %d 0 0 400\\r\\n%s\\r\\n' % (k + i, value) "
        "for i in range(100)))\n"
        "    assert all(answers.readline() == b'STORED\\r\\n' for _ in range(100))\n"
        "r = random.Random(4)\n"
        "for k in range(1500):\n"
        "    keys = [min(59999, int(r.paretovariate(1)) * 7) for _ in range(100)]\n"
        "    server.sendall(b''.join(b'get %d\\r\\n' % key for key in keys))\n"
        "    for key in keys:\n"
        "        assert answers.readline() == b'VALUE %d 0 400\\r\\n' % key\n"
        "        assert answers.read(407) == value + b'\\r\\nEND\\r\\n'\n"
    )


def _repository(folder: Path) -> None:
    here = Path(__file__).parents[2]
    subprocess.run(["git", "clone", "-q", "--bare", str(here), folder / "bare.git"], check=True)


_PYTHON = (
    "import collections, random; r = random.Random(3); d = collections.defaultdict(list)\n"
    "for k in range(10**6): d[r.randrange(5000)].append(r.random())\n"
    "print(sum(sum(v) / len(v) for v in d.values()))"
)
_NODE = (
    "const m = new Map(); for (let i = 0; i < 2e6; i++) "
    "{ const k = i * 7919 % 200003; m.set(k, {v: (m.get(k)?.v ?? 0) + i}); } console.log(m.size)"
)
_QUERY = "SELECT b % 1000 AS k, count(*), max(c) FROM t GROUP BY k ORDER BY 2 LIMIT 5"

PROGRAMS = {
    "sort": Program("sort -S 64M lines.txt -o /dev/null", make=_lines),
    "sqlite3": Program(f"sqlite3 rows.db '{_QUERY}'", make=_database),
    "python": Program(shlex.join(["python3", "-c", _PYTHON])),
    "gcc": Program("gcc -O1 -c made.c -o /dev/null", make=_source),
    "git": Program("git -C bare.git repack -adfq --threads=1", make=_repository),
    "redis": Program(
        "redis-benchmark -p {port} -t set,get -n 100000 -r 100000 -d 200 -q",
        "--serve 'redis-server --port {port} --save \"\"' --ready tcp:{port} "
        "--metric 'rate[1/s]=GET: ([0-9.]+) requests per second'",
        "rate: 5%",
    ),
    "memcached": Program(
        "python3 load.py {port}",
        "--serve 'memcached -u nobody -m 64 -t 1 -p {port}' --ready tcp:{port}",
        make=_load,
    ),
    "node": Program(shlex.join(["node", "-e", _NODE])),
    "mapped": Program("./mapped data", make=_mapped),
}


class Bench:
    """The programs in a folder, with one store for all of them."""

    def __init__(self, folder: Path, blocks: int) -> None:
        self.folder, self.blocks, self.until = folder, blocks, 0.0
        self.store = folder / "results.db"

    def run(self, name: str) -> Run | None:
        """The newest run of that name."""
        if not self.store.exists():
            return None
        try:
            with Store(self.store) as opened:
                return Run(opened.find(name), self.store)
        except MemlabError:
            return None

    def left_s(self) -> float:
        return self.until - time.monotonic()

    def memlab(self, *words: str) -> None:
        """In the folder, within what is left of the budget."""
        command = [sys.executable, "-m", "memlab", "--store", str(self.store.absolute()), *words]
        sys.stderr.write(f"{shlex.join(command[2:])[:200]}\n")
        subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, check=False)

    def make(self, name: str) -> bool:
        """Its files; whether it is there at all."""
        one = PROGRAMS[name]
        starts = [shlex.split(one.words)[0]]
        starts += [shlex.split(shlex.split(one.options)[1])[0]] if one.options else []
        if any("/" not in word and not shutil.which(word) for word in starts):
            return False
        if not (mark := self.folder / f".made-{name}").exists():
            one.make(self.folder)
            mark.touch()
        return True

    def fit(self, name: str) -> FitAnswer | None:
        """Ended or begun before, or measured now."""
        one, run_name = PROGRAMS[name], f"fit-{name}"
        budget = ["--budget", f"{min(FIT_S, FIT_SHARE * self.left_s()):.0f}s"]
        found = self.run(run_name)
        if found is None and self.left_s() > LEAST_S:
            words = ["--keep-within", one.keep, *shlex.split(one.options)]
            before = self.run("last")
            self.memlab("fit", *budget, *words, "--", *shlex.split(one.words))
            if (now := self.run("last")) and (before is None or now.id != before.id):
                self.memlab("runs", "--rename", now.id, run_name)  # it measured something
        elif found and self.left_s() > LEAST_S and answer(found).state == "open":
            self.memlab("sweep", *budget, "--resume", found.id)
        found = self.run(run_name)
        return answer(found) if found else None

    def grid(self, name: str, found: FitAnswer) -> Run | None:
        """The limits in steps, from the peak on down to two below the answer, else to half."""
        if not found.peak_bytes:
            return None
        limits = [found.peak_bytes]
        lowest = (found.limit_bytes or found.above_bytes or found.peak_bytes // 2) / STEP**2
        while limits[-1] > lowest > 0:
            limits.append(int(limits[-1] / STEP))
        return self.tried(f"grid-{name}", name, limits)

    def advised(self, name: str, found: FitAnswer) -> Run | None:
        if not found.setting_bytes:
            return None
        return self.tried(f"advised-{name}", name, [found.setting_bytes])

    def tried(self, run_name: str, name: str, limits: Sequence[int]) -> Run | None:
        one, found = PROGRAMS[name], self.run(run_name)
        if found and found.blocks >= self.blocks:
            return found
        if self.left_s() <= LEAST_S:
            return found
        budget = ["--budget", f"{self.left_s():.0f}s", "-q"]
        if found:
            self.memlab("sweep", *budget, "--resume", found.id)
        else:
            levels = ",".join(["none", *(str(limit & ~4095) for limit in limits)])
            policies = ["-p", f"memory_max={levels}", "-p", "swap=none", "-p", "page_cache=dropped"]
            words = ["--name", run_name, "--blocks", str(self.blocks), *policies]
            options = shlex.split(one.options)
            self.memlab("try", *budget, *words, *options, "--", *shlex.split(one.words))
        return self.run(run_name)


def judged(run: Run, metric: str) -> Iterator[tuple[int, bool, str, float | None]]:
    """Of each limit, largest first: its size, whether it fits, its outcomes and its cost."""
    base = next(point for point in run.points if point.at["memory_max"] == "none")
    unlimited, lower = run.by_block(metric, base), run.metric(metric).lower_is_better
    limited = [point for point in run.points if point is not base]
    for point in sorted(limited, key=lambda one: -int(one.at["memory_max"])):
        outcomes = run.by_point[point.index].outcomes
        values = run.by_block(metric, point)
        ratios = values / unlimited if lower else unlimited / values
        ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
        cost = ratio_interval(ratios, np.ones_like(ratios)).estimate if ratios.size else None
        fits = set(outcomes) == {"ok"} and cost is not None and cost <= 1 + WITHIN
        words = ", ".join(f"{word} {n}" for word, n in sorted(outcomes.items()))
        yield int(point.at["memory_max"]), fits, words, cost


def grid_answer(run: Run, metric: str) -> int | None:
    """The smallest limit from which up all fit."""
    smallest = None
    for limit, fits, _, _ in judged(run, metric):
        if not fits:
            break
        smallest = limit
    return smallest


def seconds(run: Run | None) -> float:
    return sum(session.wall_s for session in run.sessions) if run else 0.0


def mib(size: int | float | None) -> str:
    return "" if size is None else f"{size / MIB:.1f}"


def row(bench: Bench, name: str) -> str:
    """A line of the table."""
    run = bench.run(f"fit-{name}")
    if run is None:
        return f"| {name} | not measured |"
    found, grid = answer(run), bench.run(f"grid-{name}")
    whole = bool(grid and grid.blocks >= bench.blocks)
    exact = grid_answer(grid, found.metric) if grid and whole else None
    span = f"{mib(found.above_bytes)} to {mib(found.fits_bytes)}"
    ratio = f"{found.limit_bytes / exact:.3f}" if exact and found.limit_bytes else ""
    share = f"{seconds(run) / seconds(grid):.2f}" if whole else ""
    rss = run.valued("peak_rss", next(p for p in run.points if p.at["memory_max"] == "none"))
    resident = rss.column("peak_rss").max() if len(rss) else None
    advised = bench.run(f"advised-{name}")
    kept = ""
    if advised:
        (_, fits, words, cost) = next(judged(advised, found.metric))
        kept = f"{words}; {cost:.3f} times" if cost else words
        kept += "" if fits else " (not kept)"
    vpa = None if found.peak_bytes is None else 1.15 * found.peak_bytes
    cells = [name, found.state, mib(found.limit_bytes), span, mib(exact), ratio]
    cells += [f"{seconds(run):.0f}", f"{seconds(grid):.0f}", share, mib(found.setting_bytes), kept]
    return "| " + " | ".join([*cells, mib(found.peak_bytes), mib(resident), mib(vpa)]) + " |"


HEADS = ["program", "state", "fit MiB", "interval", "grid MiB", "fit / grid", "fit s", "grid s"]
HEADS += ["share", "advised MiB", "at it, each run", "peak MiB", "peak RSS MiB", "1.15 peak MiB"]


def table(bench: Bench, names: Sequence[str]) -> Iterator[str]:
    yield "| " + " | ".join(HEADS) + " |"
    yield "| " + " | ".join("---" for _ in HEADS) + " |"
    yield from (row(bench, name) for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--folder", type=Path, required=True, help="for files and results")
    parser.add_argument("--blocks", type=int, default=20, help="of each limit of the grid")
    parser.add_argument("--budget", type=float, default=10800.0, metavar="SECONDS")
    parser.add_argument("--table", action="store_true", help="print what is measured already")
    asked = parser.parse_args()
    names = asked.programs or list(PROGRAMS)
    if wrong := set(names) - set(PROGRAMS):
        parser.error(f"no program {min(wrong)!r}: choose from {', '.join(PROGRAMS)}")
    asked.folder.mkdir(parents=True, exist_ok=True)
    bench, end_s = Bench(asked.folder, asked.blocks), time.monotonic() + asked.budget
    for number, name in enumerate(() if asked.table else names):
        now_s = time.monotonic()
        bench.until = now_s + (end_s - now_s) / (len(names) - number)
        if not bench.make(name):
            sys.stderr.write(f"{name}: not installed\n")
            continue
        if found := bench.fit(name):
            bench.advised(name, found)
            bench.grid(name, found)
    print("\n".join(table(bench, names)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
