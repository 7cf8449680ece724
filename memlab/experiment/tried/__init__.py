"""A user's own command as an experiment: policies, variables and placeholders are its factors.

It is declared from a `Tried`, which the run's request holds, so that a stored run is read and
resumed like any other. What runs and times the command is memlab/command/python_probes/command.
"""

from memlab.experiment.tried.checks import check_ready
from memlab.experiment.tried.experiment import NAME, CommandExperiment, command_line, declare
from memlab.experiment.tried.metrics import metric_text, named_metric, read_latencies, read_metrics
from memlab.experiment.tried.policies import check_policies, fill, programs, read_policies
from memlab.experiment.tried.subject import OwnMetric, Tried

__all__ = [
    "NAME",
    "CommandExperiment",
    "OwnMetric",
    "Tried",
    "check_policies",
    "check_ready",
    "command_line",
    "declare",
    "fill",
    "metric_text",
    "named_metric",
    "programs",
    "read_latencies",
    "read_metrics",
    "read_policies",
]
