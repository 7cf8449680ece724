"""`memlab try --duet` beside one after the other: pairs needed for 3 % in processor time, and
whether the one that starts first or the first level has an advantage. Shown, held to nothing.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import memlab
from memlab.analysis.intervals import median_interval, paired_log_ratios

pytestmark = pytest.mark.bench

SECONDS = float(os.environ.get("MEMLAB_BENCH_SECONDS", "40"))  # of each program, each way
WANTED = 0.03
PYTHON = [sys.executable, "-I", "-S", "-c"]
# {n} is a word that changes nothing: both levels do the same.
PROGRAMS = {
    "python3 imports four modules": [*PYTHON, "import decimal, json, re, email.message; '{n}'"],
    "sha256sum of 50 MB": ["sha256sum", "{n}"],
    "python3 adds": [*PYTHON, "sum(range(10_000_000)), '{n}'"],
    "python3 fills 12 MB, 60 times": [
        *PYTHON,
        "for _ in range(60): x = bytearray(12_000_000); sum(range(400_000)); '{n}'",
    ],
    "sort of 3,000,000 lines": ["sort", "--parallel=1", "-S", "500M", "-o", "/dev/null", "{n}"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("duet")
    for name in ("50a", "50b"):
        (made / name).write_bytes(os.urandom(1 << 20) * 50)
    lines = "".join(f"{n * 7919 % 3_000_017:x}\n" for n in range(3_000_000))
    for name in ("linesa", "linesb"):
        (made / name).write_text(lines)
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_pairs_for_3_percent(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    levels = {"sha256sum of 50 MB": ["50a", "50b"], "sort of 3,000,000 lines": ["linesa", "linesb"]}
    said: list[str] = []
    for duet in (False, True, False, True):  # in turns: the machine moves
        began = time.perf_counter()
        run = memlab.trial(
            PROGRAMS[name],
            n=levels.get(name, ["a", "b"]),
            duet=duet,
            precision=1e-6,
            budget=SECONDS / 2,
            store=tmp_path / "results.db",
            progress=False,
        )
        took_s = time.perf_counter() - began
        first, second = (run.values("cpu_time", point) for point in run.points)
        both = np.isfinite(first) & np.isfinite(second)  # the budget can end inside the last pair
        logs = paired_log_ratios(second[both], first[both])
        spread = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
        # A median of n normal values has 1.2533 of the error of their mean.
        needed = max(6, int(np.ceil((1.96 * 1.2533 * spread / WANTED) ** 2)))
        each_s = took_s / len(logs)
        said.append(
            f"{'duet' if duet else 'one after the other'}: {np.nanmedian(first):.3g} s, a pair's "
            f"ratio varies by {spread:.2%} (deviation {np.std(logs):.2%}), {needed} pairs, "
            f"{needed * each_s:.1f} s, for {WANTED:.0%}; the levels' ratio "
            f"{np.exp(np.median(logs)):.4f}"
        )
        if duet:
            at_first = {s.block: s.point for s in run.samples if s.position == 0}
            signs = [1 if at_first[b] == run.points[0].index else -1 for b in sorted(at_first)]
            later = median_interval(np.array(signs[: len(logs)]) * logs)
            said[-1] += (
                f"; what starts second takes {later.estimate:+.2%} "
                f"({later.low:+.2%} to {later.high:+.2%})"
            )
    print(f"\n{name}\n  " + "\n  ".join(said))
