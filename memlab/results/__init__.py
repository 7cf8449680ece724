"""A stored run, read: metrics from raw samples, medians with intervals, tables beside ours."""

from memlab.results.run import PointSummary, Run

__all__ = ["PointSummary", "Run"]
