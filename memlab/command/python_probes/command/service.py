"""The service that a load is put on."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Any

from memlab.command.python_probes.command.group import TrialGroup
from memlab.command.python_probes.command.launcher import Launched, attend, count, in_force_of
from memlab.command.python_probes.command.outcome import bounded, how_it_ended, timed_out
from memlab.command.python_probes.command.output import Output, last_lines
from memlab.command.python_probes.command.sampler import taken_by

_DYING_S = 0.05  # after the counters are read, so that no metric has it
_READY_EVERY_S, _READY_WITHIN_S = 0.001, 60.0
_ANSWER_WITHIN_S = 1.0  # to be ready by HTTP


class Service:
    """The service that a load is put on: it has the policies, and it is what is measured."""

    def __init__(
        self,
        spec: dict[str, Any],
        launch: Sequence[str],
        environ: dict[str, str],
        group: TrialGroup,
    ) -> None:
        with socket.socket() as free:  # closed before the service binds it
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])
        self._spec, self._group = spec, group
        ready = self._filled([spec["ready"]])[0]
        self._kind, _, self._address = ready.partition(":")
        if self._kind == "http":
            self._address = ready
        self._output = Output({}, self._address if self._kind == "line" else None)
        words, locks = self._filled(spec["serve"]), bool(spec["preload"])
        in_force = in_force_of(spec, group)
        self.launched = Launched(
            launch, words, environ, spec["cwd"], self._output, in_force, locks=locks
        )
        self._ready_ns: int | None = None
        self.usage: dict[str, Any] = {"counters": {}}
        self._handled: list[tuple[int, int]] = []
        self._load: dict[str, Any] | None = None

    def _filled(self, words: Sequence[str]) -> list[str]:
        return [word.replace("{port}", self._port) for word in words]

    def under(
        self, launch: Sequence[str], environ: dict[str, str], output: Output
    ) -> dict[str, str] | None:
        """Put the load on it once it is ready, then end it. An outcome if that went wrong."""
        try:
            outcome = self._await() or self._loaded(launch, environ, output)
        finally:
            if not self.launched.ended:
                self.launched.terminate()
                self.launched.stop(self._group)
        self._measure()
        return outcome

    def _await(self) -> dict[str, str] | None:
        service, within_s = self.launched, min(self._spec["timeout_s"], _READY_WITHIN_S)
        if not attend([service], lambda: service.ended or self._ready(), within_s, _READY_EVERY_S):
            return self._wrong("not-ready", f"not ready after {within_s:g} s")
        if service.ended:
            return self._wrong("not-ready", self._how_it_ended(" before it was ready"))
        self._ready_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        return None

    def _loaded(
        self, launch: Sequence[str], environ: dict[str, str], output: Output
    ) -> dict[str, str] | None:
        service, spec = self.launched, self._spec
        self._count()
        load = Launched(launch, self._filled(spec["argv"]), environ, spec["cwd"], output)
        if spec["reads_used"]:
            service.used.start()
        timely = attend([service, load], lambda: load.ended or service.ended, spec["timeout_s"])
        service.used.stop()
        self._count()
        # A load that loses its service may end before the service's own end is reported.
        died = service.ended or attend([service], lambda: service.ended, _DYING_S)
        load.stop(self._group)
        self._load = load.report
        if died:
            return self._wrong("service-ended", self._how_it_ended(" under the load"))
        return None if timely else timed_out(spec, output, self._group)

    def _how_it_ended(self, when: str) -> str:
        group, policies = self._group, self._spec["policies"]
        how = how_it_ended(
            self.launched.report,
            last_lines(self._output.tail, 3),
            when,
            policies,
            group.oom_kills(),
        )
        return f"{how}{bounded(self._spec, group)}"

    def _wrong(self, outcome: str, how: str) -> dict[str, str]:
        detail = f"the service: {how}{last_lines(self._output.tail, 3)}"
        return {"outcome": outcome, "detail": detail}

    def _ready(self) -> bool:
        if self._kind == "line":
            return self._output.ready
        if self._kind == "http":
            return _answers(self._address)
        unix = self._kind == "unix"
        with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as asking:
            asking.settimeout(_READY_EVERY_S)
            try:
                asking.connect(self._address if unix else ("127.0.0.1", int(self._address)))
            except OSError:
                return False
        return True

    def _count(self) -> None:
        self._handled.append(self._group.handled() or taken_by(self.launched.pid)[:2])
        count(self.launched)

    def _measure(self) -> None:
        """The window: the service's counters while the load ran."""
        both = [line["events"] for line in self.launched.counters]
        if len(both) != 2 or self._load is None:
            return
        handled, major = (b - a for a, b in zip(*self._handled, strict=True))
        events: dict[str, Any] = {
            name: {"count": after["count"] - before["count"], "errno": after["errno"]}
            for (name, before), after in zip(both[0].items(), both[1].values(), strict=True)
        }
        self.usage = {
            "elapsed_ns": self._load["elapsed_ns"],
            "user_ns": events["cpu"]["count"],  # and system's: perf's task clock has both
            "system_ns": 0,
            "minor_fault_count": handled - major,
            "major_fault_count": major,
            **self.launched.usage_beside(events),
        }

    def result(self) -> dict[str, Any]:
        """What the sample keeps of it beside what a command's has."""
        began_ns = self.launched.report["started_ns"]
        return {
            "load": self._load,
            "ready_ns": None if self._ready_ns is None else self._ready_ns - began_ns,
            "service_output": self._output.tail,
        }


def _answers(url: str) -> bool:
    """Whether a GET has a status of 200 to 399; what it redirects to is not asked."""
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    asking = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_ANSWER_WITHIN_S)
    try:
        asking.request("GET", parts._replace(scheme="", netloc="").geturl() or "/")
        return 200 <= asking.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asking.close()
