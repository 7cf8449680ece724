"""The metrics of every experiment read what its probe returns, for each tiny point."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import needs
import pytest
from quick import mostly_quick

from memlab import experiments
from memlab.experiment import Experiment
from memlab.experiment.window import WINDOW_METRICS, noise
from memlab.run import plan
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus

pytestmark = pytest.mark.changes_host

TAKE_SECONDS = (
    "advice-reclaim",
    "coop-reclaim",
    "locked-latency",
    "memcg-notify",
    "memcpy",
    "mmap-lock",
    "mmap-overcommit",
)


def all_measured(declared: Experiment, folder: Path) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """What the probe returns for each tiny point, measured here and now as a sweep does."""
    refusal, any_measured = "", False
    with LocalExecutor("0123abcd", declared, Directories(folder), default_cpus(declared)) as bench:
        for point in plan.build(declared, "quick", declared.tiny).points:
            reply = bench.trial(point)
            if reply["outcome"] == "ok":
                any_measured = True
                yield point.at, reply["result"] | reply["context"]
            else:
                refusal = reply["detail"]
                # Whoever may lock any amount is refused nothing that is here.
                limited = needs.lacking("lock any amount") and "RLIMIT_MEMLOCK" in refusal
                assert reply["outcome"] == "unavailable" or limited, reply
    if not any_measured:
        pytest.skip(refusal)


@pytest.mark.seconds(but="load-latency")
@pytest.mark.parametrize("name", mostly_quick(experiments.names(), *TAKE_SECONDS))
def test_metrics_read_what_the_probe_returns(name: str, tmp_path: Path) -> None:
    declared = experiments.load(name)
    for at, raw in all_measured(declared, tmp_path):
        assert isinstance(noise(raw), list)
        value = declared.metrics[0].of(raw, at)
        assert value is not None
        assert value > 0
        for metric in (*declared.metrics, *WINDOW_METRICS):
            for read in (metric.of, metric.baseline_loop):
                found = None if read is None else read(raw, at)
                assert found is None or (math.isfinite(found) and found >= 0), metric.name
            if metric.extrapolated is not None:
                assert metric.extrapolated(raw, at) in (0, 1)
