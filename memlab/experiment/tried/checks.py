"""What a command cannot be asked for: a duet, a service or a time that make no sense."""

from __future__ import annotations

import math
import re
from urllib.parse import urlsplit

from memlab.errors import BadRequest
from memlab.experiment.tried.metrics import check_pattern
from memlab.experiment.tried.policies import POLICIES
from memlab.experiment.tried.subject import Tried


def check_for(subject: Tried) -> None:
    """BadRequest if a command cannot be run for so long."""
    if not subject.for_s or not 0 < subject.for_s < math.inf:
        raise BadRequest(f"--for: {subject.for_s:g} s is not how long a command can run; write 20s")
    if subject.serve or subject.duet or subject.trace:
        raise BadRequest("--for ends a command: without --serve, --duet and a trace")


# Each of a duet has these of its own: all others it would share, or change by them what it shares.
_OF_A_DUET = ("lock", "stack", "nofile", "aslr")


def check_duet(subject: Tried) -> None:
    """BadRequest where two levels cannot run beside each other, or not be distinguished so."""
    points = math.prod(map(len, subject.levels.values())) if subject.levels else 1
    if points != 2:
        raise BadRequest(f"--duet is of two levels of one policy, not of {points}: see -p")
    if subject.serve or subject.metrics or subject.latency_file or subject.trace:
        raise BadRequest(
            "--duet compares the processor time of a command: without --serve, --metric, "
            "--latencies and a trace"
        )
    for name in subject.levels:
        if name in POLICIES and name not in _OF_A_DUET:
            raise BadRequest(
                f"--duet: both run at the same time, and would share {name}; it takes "
                f"{', '.join(_OF_A_DUET)}, env.NAME and what is in the command"
            )


_PORT_MAX = 65_535


def check_ready(subject: Tried) -> None:
    """BadRequest if --ready does not say when a service is ready."""
    kind, _, address = subject.ready.partition(":")
    if not subject.serve:
        if subject.ready:
            raise BadRequest("--ready is of a service: name it with --serve")
        return
    if kind not in ("tcp", "unix", "http", "line") or not address:
        raise BadRequest(
            "say when the service is ready: --ready tcp:{port}, unix:PATH, "
            "http://127.0.0.1:{port}/PATH, or line:REGEX by what it prints"
        )
    if kind == "http" and not _is_url(subject.ready.replace("{port}", "1")):
        raise BadRequest(f"--ready {subject.ready}: write http://127.0.0.1:{{port}}/PATH")
    is_port = re.fullmatch("[0-9]{1,5}", address) and 0 < int(address) <= _PORT_MAX
    if kind == "tcp" and address != "{port}" and not is_port:
        raise BadRequest(
            f"--ready {subject.ready}: a port is 1 to {_PORT_MAX}, or {{port}} for a free one"
        )
    if kind == "line":
        check_pattern(address, f"--ready {subject.ready!r}")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
