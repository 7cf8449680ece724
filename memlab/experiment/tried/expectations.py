"""`--expect`: a sentence about metrics and levels, as a claim."""

from __future__ import annotations

import re
from typing import Any

from memlab.errors import BadRequest, nearest
from memlab.experiment.claims import Claim, Count, Ratio, Within
from memlab.experiment.kinds import Level
from memlab.experiment.metric import Metric
from memlab.experiment.vocabulary import Experiment
from memlab.text import units

_EXPECTATION = re.compile(
    r"\s*(?P<metric>[\w.-]+)\s*(?::\s*(?P<of>\S+?)\s*(?:\s/\s+(?P<to>\S+?)\s*)?)?"
    r"\s(?P<sign><=|>=|==|<|>)\s*(?P<value>\S+)\s*"
)


def claim(experiment: Experiment, number: int, text: str) -> Claim:
    """`elapsed: lock=future / lock=off < 1.05`, or `peak_rss: lock=off < 100M`, as a claim."""
    match = _EXPECTATION.fullmatch(text)
    if not match:
        raise BadRequest(
            f"--expect {text!r}: write METRIC: FACTOR=LEVEL / FACTOR=LEVEL < NUMBER, or "
            "METRIC: FACTOR=LEVEL < VALUE"
        )
    names = [metric.name for metric in experiment.metrics]
    if match["metric"] not in names:
        hint = nearest(match["metric"], names)
        raise BadRequest(f"--expect: no metric {match['metric']!r}; {hint}")
    metric = experiment.metric(match["metric"])
    fields: dict[str, Any] = {"metric": metric.name, "text": text.strip(), "id": f"expect-{number}"}
    try:
        value = float(match["value"]) if match["to"] else _number(metric, match["value"])
    except ValueError as error:
        raise BadRequest(f"--expect {text!r}: {error}") from None
    of = _point(experiment, match["of"])
    bound: dict[str, Any] = {"below": value} if match["sign"][0] == "<" else {"above": value}
    if match["sign"] == "==":
        if match["to"]:
            raise BadRequest(f"--expect {text!r}: a ratio is compared with < or >")
        return Count(**fields, where=of, equals=int(value))
    if match["to"]:
        return Ratio(**fields, of=of, to=_point(experiment, match["to"]), **bound)
    return Within(**fields, where=of, **bound)


def _number(metric: Metric, text: str) -> float:
    if metric.unit == "B":
        return float(units.parse_size(text))
    return units.parse_duration(text) if metric.unit == "s" else float(text)


def _point(experiment: Experiment, text: str | None) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for part in filter(None, (text or "").split(",")):
        name, _, level = part.partition("=")
        known = {factor.name: factor for factor in experiment.factors}
        if name not in known:
            raise BadRequest(
                f"--expect: this run does not vary {name!r}; it varies {', '.join(known)}"
            )
        try:
            levels[name] = known[name].kind.parse(level)
        except ValueError as error:
            raise BadRequest(f"--expect: {name}: {error}") from None
        if levels[name] not in known[name].quick:
            measured = ", ".join(map(known[name].kind.format, known[name].quick))
            raise BadRequest(f"--expect: {name}={level} is not measured; its levels: {measured}")
    return levels
