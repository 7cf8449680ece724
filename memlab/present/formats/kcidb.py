"""KCIDB reports: the verdicts on claims as Linux' CI systems exchange results.

https://github.com/kernelci/kcidb-io has the schema; this is version 5.3. A submitter replaces the
origin and names the build that was booted: here it is the kernel's release.
"""

from __future__ import annotations

import json
import re
from typing import Any

from memlab.present.formats.cases import Case, Cases

ORIGIN = "memlab"
_STATUS = {
    "reproduced": "PASS",
    "contradicted": "FAIL",
    "inconclusive": "DONE",  # it was measured, and says nothing of the claim
    "not testable here": "SKIP",
}


def text(found: Cases) -> str:
    tests = [_test(found, case) for case in found.cases]
    version = {"major": 5, "minor": 3}
    return json.dumps({"version": version, "tests": tests}, indent=2, allow_nan=False)


def _test(found: Cases, case: Case) -> dict[str, Any]:
    path, _, setting = case.name.partition(" ")
    test: dict[str, Any] = {
        "id": f"{ORIGIN}:{found.run}:{case.name}",
        "origin": ORIGIN,
        "build_id": f"{ORIGIN}:{found.kernel}",
        "path": re.sub(r"[^.a-zA-Z0-9_-]", "_", f"{ORIGIN}.{path.replace('/', '.')}"),
        "status": _STATUS.get(case.word, "ERROR"),
        "comment": case.text.replace("\0", ""),
        "start_time": found.measured_at,
        "environment": {"comment": found.machine},
    }
    misc: dict[str, Any] = {"verdict": case.word, "setting": setting.strip("()")}
    for name, measure in case.measures.items():
        test["number"] = {"value": measure.value}
        misc |= {"number_is": name, "low": measure.low, "high": measure.high}
    return test | {"misc": {key: value for key, value in misc.items() if value is not None}}
