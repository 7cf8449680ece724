"""`memlab diagnose` on programs of Debian, as a table: what is found, what should be, what is not.

    python tests/diagnose/real_programs.py [NAME...]

Needs root, for the counters, and: apt install stress-ng redis-server redis-tools memcached sqlite3
nodejs netcat-openbsd. What a row expects is this project's judgement of what its program does,
made from its arguments and the name of the stressor, and not a measurement.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECONDS = 4
_PORT = 21731


@dataclass(frozen=True)
class Case:
    """A program under a load, and the findings that are true of it, any of each group."""

    name: str
    command: str
    load: str = ""
    expected: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    """True as well where its rate is above the bound on the machine."""


BYTEARRAYS = """
import threading
def churn():
    while True:
        kept = [bytearray(2_000_000) for _ in range(20)]
for _ in range(3):
    threading.Thread(target=churn).start()
"""
SERVICE = f"""
from http.server import ThreadingHTTPServer, BaseHTTPRequestHandler
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"x" * 1000)
    def log_message(self, *_): pass
ThreadingHTTPServer(("127.0.0.1", {_PORT}), Answer).serve_forever()
"""
ASK = f"""
import urllib.request
while True: urllib.request.urlopen("http://127.0.0.1:{_PORT}").read()
"""
SORT = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) "
    "SELECT count(*) FROM (SELECT i FROM n ORDER BY random());"
)
NODE = "setInterval(() => { globalThis.a = Array.from({length: 1e5}, (_, i) => ({i})) }, 5)"
_REDIS = "redis-server --save '' --appendonly no"
_STRESS = "stress-ng --quiet --timeout 60"
CASES = (
    Case("redis-server, GET and SET", f"{_REDIS} --port {_PORT}",
         f"redis-benchmark -p {_PORT} -l -q -t get,set"),
    Case("memcached, GET and SET", f"memcached -u root -p {_PORT}",
         "while :; do printf 'set a 0 0 3\\r\\nabc\\r\\nget a\\r\\nquit\\r\\n' | "
         f"nc 127.0.0.1 {_PORT}; done"),
    Case("sqlite3, sorts in memory", f"yes '{SORT}' | sqlite3 :memory:",
         may=("glibc-trims", "gives-back-large-pieces", "gives-memory-back")),
    Case("node, short-lived objects", f"node -e '{NODE}'",
         may=("gives-memory-back", "gives-back-large-pieces", "page-faults")),
    Case("python3, a thread per request", f"python3 -c '{SERVICE}'", f"python3 -c '{ASK}'",
         expected=("makes-threads",)),
    Case("python3, 2 MB in three threads", f"python3 -c '{BYTEARRAYS}'",
         expected=("gives-back-large-pieces|gives-memory-back|glibc-trims",)),
    Case("stress-ng --vm", f"{_STRESS} --vm 1 --vm-bytes 64m",
         expected=("page-faults|gives-memory-back|gives-back-large-pieces",)),
    Case("stress-ng --fork", f"{_STRESS} --fork 1", expected=("copies-after-fork",)),
    Case("stress-ng --mmap", f"{_STRESS} --mmap 1 --mmap-bytes 16m",
         expected=("gives-memory-back|gives-back-large-pieces",), may=("page-faults",)),
    Case("stress-ng --mlock", f"{_STRESS} --mlock 1", expected=("mappings-limit-nears",),
         may=("gives-memory-back",)),
    Case("stress-ng --malloc", f"{_STRESS} --malloc 1 --malloc-bytes 64m",
         expected=("glibc-trims|gives-memory-back|gives-back-large-pieces",)),
    Case("stress-ng --pthread", f"{_STRESS} --pthread 1", expected=("makes-threads",),
         may=("gives-memory-back",)),
    Case("stress-ng --tlb-shootdown", f"{_STRESS} --tlb-shootdown 2",
         expected=("shootdowns|gives-memory-back",)),
    Case("stress-ng --cpu", f"{_STRESS} --cpu 1"),
)  # fmt: skip


@contextmanager
def started(command: str) -> Iterator[int]:
    """A shell command in a session of its own, which ends with it."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def busiest(session: int, program: str) -> int:
    """The process of a session, with the program's name, that has used most CPU time."""
    found: list[tuple[int, int]] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            name = (entry / "comm").read_text().strip()
        except OSError:
            continue
        if int(fields[3]) == session and name.startswith(program[:9]):
            found.append((int(fields[11]) + int(fields[12]), int(entry.name)))
    return max(found)[1]


def diagnosed(pid: int) -> list[dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-m", "memlab", "diagnose", str(pid), "--seconds", str(SECONDS), "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return [{"name": done.stderr.strip(), "severity": "refused"}]
    findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]
    return findings


def judged(case: Case) -> str:
    """A row of the table."""
    program = case.command.split("|")[-1].split()[0]
    if shutil.which(program) is None:
        return f"| {case.name} | not installed | | | |"
    with started(case.command) as session:
        time.sleep(2)
        with started(case.load or "sleep 60"):
            time.sleep(1)
            found = diagnosed(busiest(session, program))
    names = [one["name"] for one in found]
    groups = [set(group.split("|")) for group in case.expected]
    true = set().union(*groups, case.may)
    missed = [" or ".join(sorted(group)) for group in groups if not group & set(names)]
    said = ", ".join(f"{one['name']} ({one['severity']})" for one in found) or "nothing"
    false = [name for name in names if name not in true]
    counts = len(names) - len(false), ", ".join(false) or 0, ", ".join(missed) or 0
    return f"| {case.name} | {said} | " + " | ".join(map(str, counts)) + " |"


def main() -> None:
    print("| program | found | true | false | missed |\n| --- | --- | --- | --- | --- |")
    for case in CASES:
        if len(sys.argv) == 1 or any(word in case.name for word in sys.argv[1:]):
            print(judged(case), flush=True)


if __name__ == "__main__":
    main()
