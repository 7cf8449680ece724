"""A probe in a process of its own: no stack that an earlier call left in glibc's cache, an
environment from its start, limits of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

_CALL = """
import json, resource, sys
from memlab import probe
name, params, limits = json.loads(sys.argv[1])
for limit, headroom in limits.items():
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(getattr(resource, limit), (used + headroom, used + headroom))
try:
    print(json.dumps(probe.call(name, params)))
except probe.ProbeError as failure:
    print(json.dumps({"failure": str(failure)}))
"""


def start(
    name: str,
    params: Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    headroom: Mapping[str, int] | None = None,
) -> subprocess.Popen[str]:
    """The process; `headroom` limits a resource, as RLIMIT_AS, to what is used and so much."""
    asked = json.dumps([name, dict(params), dict(headroom or {})])
    return subprocess.Popen(
        [sys.executable, "-c", _CALL, asked],
        env=os.environ | dict(environ or {}),
        stdout=subprocess.PIPE,
        text=True,
    )


def call(name: str, params: Mapping[str, Any], **how: Any) -> dict[str, Any]:
    """The probe's result, or {"failure": what ProbeError says}."""
    with start(name, params, **how) as process:
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    result: dict[str, Any] = json.loads(out)
    return result
