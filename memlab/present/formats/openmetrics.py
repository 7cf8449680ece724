"""OpenMetrics text, for a host that is measured every night: a file for the textfile collector of
Prometheus' node_exporter, or whatever reads the format.

https://github.com/prometheus/OpenMetrics has the specification. Values are in base units. There is
no time stamp, as the collector refuses one.
"""

from __future__ import annotations

from memlab.present.formats.cases import Cases, Measure

_STANDINGS = {"good": 1, "bad": 0, "open": -1}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def text(found: Cases) -> str:
    """Two gauges: how each case stands, and its numbers with their intervals."""
    lines = [
        "# TYPE memlab_standing gauge",
        "# HELP memlab_standing 1 good, 0 bad (contradicted, slower), -1 not decided.",
    ]
    for case in found.cases:
        at = {"suite": found.suite, "case": case.name}
        lines.append(f"memlab_standing{_labels(at)} {_STANDINGS[case.standing]}")
    lines += [
        "# TYPE memlab_measure gauge",
        "# HELP memlab_measure A number of a case, in base units, and the ends of its interval.",
    ]
    for case in found.cases:
        for name, measure in case.measures.items():
            at = {"suite": found.suite, "case": case.name, "measure": name}
            lines += [
                f"memlab_measure{_labels(at | {'end': end})} {value!r}"
                for end, value in _ends(measure).items()
            ]
    return "\n".join([*lines, "# EOF"])


def _ends(measure: Measure) -> dict[str, float]:
    ends = {"estimate": measure.value, "low": measure.low, "high": measure.high}
    return {end: float(value) for end, value in ends.items() if value is not None}


def _labels(of: dict[str, str]) -> str:
    return (
        "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in of.items()) + "}"
    )
