"""hyperfine and pyperf on the question that test_sensitivity asks: is B slower than A?

Each is asked as its documentation says, with the same time, and answers in its own words.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Command = Sequence[str]


def hyperfine(a: Command, b: Command, runs: int, folder: Path) -> bool:
    """Whether hyperfine says that b is slower: its `1.03 ± 0.02 times` lies above 1.

    It runs all of a, then all of b; its ± is the standard deviation carried over to the ratio.
    """
    out = folder / "hyperfine.json"
    words = ["hyperfine", "-N", "--warmup", "3", "--runs", str(runs), "--export-json", str(out)]
    subprocess.run([*words, " ".join(a), " ".join(b)], check=True, capture_output=True)
    first, second = json.loads(out.read_text())["results"]
    ratio = second["mean"] / first["mean"]
    relative = [side["stddev"] / side["mean"] for side in (first, second)]
    return bool(ratio - ratio * sum(r * r for r in relative) ** 0.5 > 1)


def pyperf(a: Command, b: Command, runs: int, folder: Path) -> bool:
    """Whether pyperf says that b is slower: `compare_to` calls it significant (a t-test)."""
    files = []
    for name, command in (("a", a), ("b", b)):
        out = folder / f"{name}.json"
        out.unlink(missing_ok=True)
        options = ["--name", "task", "--processes", str(runs // 3), "--values", "3"]
        options += ["--warmups", "1", "--loops", "1", "--copy-env", "-q", "-o", str(out)]
        words = [sys.executable, "-m", "pyperf", "command", *options, "--", *command]
        subprocess.run(words, check=True, capture_output=True)
        files.append(str(out))
    words = [sys.executable, "-m", "pyperf", "compare_to", *files]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return "slower" in said
