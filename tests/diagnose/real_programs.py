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

SECONDS, LOOKS = 3, 2
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
CACHE = """
import time
kept = []
while True:
    kept.extend(str(i) * 20 for i in range(2000)); time.sleep(0.05)
"""
PEAK = """
import time
kept = [str(i) * 3 for i in range(2_000_000)][::50]
while True: time.sleep(1)
"""
# Each worker reads on: what it has read once it shares no more, since to read counts references.
POOL = """
import multiprocessing, time
data = [str(i) for i in range(300_000)]
def work(at):
    while True:
        for x in data[at:at + 400]: len(x)
        time.sleep(0.05)
        at = (at + STEP) % len(data)
for n in range(3): multiprocessing.get_context("fork").Process(target=work, args=(n,)).start()
while True: time.sleep(1)
"""
SAME_DATA, ONWARDS = POOL.replace("STEP", "0"), POOL.replace("STEP", "400")
SUBPROCESSES = """
import subprocess
kept = bytearray(300 << 20)
while True: subprocess.run(["true"], close_fds=True, preexec_fn=lambda: None)
"""
SORT = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) "
    "SELECT count(*) FROM (SELECT i FROM n ORDER BY random());"
)
INSERTS = "create table if not exists t (a); insert into t values (randomblob(100));"
NODE = "setInterval(() => { globalThis.a = Array.from({length: 1e5}, (_, i) => ({i})) }, 5)"
NODE_IDLE = 'require("http").createServer((q, r) => r.end("x")).listen(0)'
_REDIS = "redis-server --save '' --appendonly no"

_STRESS = "stress-ng --quiet --timeout 60"
_GIVES = ("glibc-trims", "gives-memory-back", "gives-back-large-pieces", "malloc-gives-back")
_BACK = "|".join(_GIVES)
_ANY_SWING = ("swings", "growing", "first-touches")
_CHILD = ("children-hold", "children-grow")
CASES = (
    Case("redis-server, idle", f"{_REDIS} --port {_PORT}"),
    Case("redis-server, GET and SET", f"{_REDIS} --port {_PORT}",
         f"redis-benchmark -p {_PORT} -l -q -t get,set"),
    Case("redis-server, a load of values", f"{_REDIS} --port {_PORT}",
         f"redis-benchmark -p {_PORT} -q -t set -r 10000000 -d 1000 -n 100000000",
         expected=("growing|first-touches|swings",)),
    Case("redis-server, BGSAVE", f"{_REDIS} --enable-debug-command yes --port {_PORT}",
         f"redis-cli -p {_PORT} debug populate 1000000 k 200; while :; do redis-cli -p {_PORT} "
         f"bgsave; redis-benchmark -p {_PORT} -q -t set -r 1000000 -n 20000; done",
         may=("copies-after-fork", "unshared", *_CHILD, *_ANY_SWING, "shootdowns", *_GIVES)),
    Case("memcached, GET and SET", f"memcached -u root -p {_PORT}",
         "while :; do printf 'set a 0 0 3\\r\\nabc\\r\\nget a\\r\\nquit\\r\\n' | "
         f"nc 127.0.0.1 {_PORT}; done"),
    Case("sqlite3, sorts in memory", f"yes '{SORT}' | sqlite3 :memory:",
         may=(*_GIVES, *_ANY_SWING)),
    Case("sqlite3, inserts with a journal", f"yes '{INSERTS}' | sqlite3 file.db",
         may=("waits-for-fsync", "waits-for-writeback")),
    Case("node, short-lived objects", f"node -e '{NODE}'",
         may=(*_GIVES, "page-faults", "changes-protection", "made-writable-again", "shootdowns",
              "held-beside-malloc", *_ANY_SWING)),
    Case("node, an idle server", f"node -e '{NODE_IDLE}'", may=("held-beside-malloc",)),
    Case("python3, a thread per request", f"python3 -c '{SERVICE}'", f"python3 -c '{ASK}'",
         expected=("makes-threads",)),
    Case("python3, 2 MB in three threads", f"python3 -c '{BYTEARRAYS}'", expected=(_BACK,),
         may=("swings", "shootdowns", "waits-for-mappings", "huge-pages-unused")),
    Case("python3, a cache without a bound", f"python3 -c '{CACHE}'", expected=("growing",)),
    Case("python3, after a peak", f"python3 -c '{PEAK}'", expected=("held-beside-malloc",)),
    Case("python3, forked workers", f"python3 -c '{ONWARDS}'", expected=("unshared",),
         may=_CHILD),
    Case("python3, forked workers, the same data", f"python3 -c '{SAME_DATA}'"),
    Case("python3, 300 MiB starts programs", f"python3 -c '{SUBPROCESSES}'",
         expected=("copies-after-fork",), may=_CHILD),
    Case("python3, waits for input", "python3 -c 'import time; time.sleep(60)'"),
    Case("bash, a loop of commands", "bash -c 'while :; do /bin/true; done'",
         may=("copies-after-fork", *_GIVES)),
    Case("perl, a hash that grows", "perl -e 'while (1) { $a{$n++} = 1 for 1..2000; "
         "select undef, undef, undef, 0.02 }'", expected=("growing|first-touches",)),
    Case("gzip", "yes | gzip -9 > /dev/null"),
    Case("xz", "yes | xz -6 > /dev/null"),
    Case("sort, numbers", "while :; do seq 2000000; done | sort -n > /dev/null",
         may=("waits-for-files", *_ANY_SWING, *_GIVES, "locked")),
    Case("md5sum", "md5sum /dev/zero"),
    Case("factor", "seq 1000000000 2000000000 | factor > /dev/null"),
    Case("dd, to a file", "dd if=/dev/zero of=big bs=1M count=100000 conv=notrunc seek=0 "
         "oflag=sync", may=("waits-for-fsync", "waits-for-files", "waits-for-writeback")),
    Case("stress-ng --cpu", f"{_STRESS} --cpu 1"),
    Case("stress-ng --vm", f"{_STRESS} --vm 1 --vm-bytes 64m",
         may=(*_GIVES, *_ANY_SWING, "page-faults", "shared-memory")),
    Case("stress-ng --fork", f"{_STRESS} --fork 1", expected=("copies-after-fork",),
         may=("page-faults", *_CHILD)),
    Case("stress-ng --mmap", f"{_STRESS} --mmap 1 --mmap-bytes 16m",
         may=(*_GIVES, *_ANY_SWING, "page-faults", "made-writable-again", "changes-protection",
              "waits-for-fsync", "reads-zeros", "memory-refused")),
    Case("stress-ng --mlock", f"{_STRESS} --mlock 1",
         expected=("mappings-limit-nears|locked",),
         may=("gives-memory-back", "memory-refused", "lock-refused", "shared-memory", *_ANY_SWING)),
    Case("stress-ng --malloc", f"{_STRESS} --malloc 1 --malloc-bytes 64m",
         may=(*_GIVES, "retained", *_ANY_SWING, "page-faults", "page-tables", "mappings-grow",
              "mappings-limit-nears")),
    Case("stress-ng --pthread", f"{_STRESS} --pthread 1", expected=("makes-threads",),
         may=(*_GIVES, "retained", "waits-for-mappings", "threads-refused", "changes-protection")),
    Case("stress-ng --tlb-shootdown", f"{_STRESS} --tlb-shootdown 2",
         may=(*_GIVES, "shootdowns", "changes-protection", "waits-for-mappings", "page-faults",
              *_CHILD, "copies-after-fork", "made-writable-again")),
    Case("stress-ng --brk", f"{_STRESS} --brk 1",
         may=(*_GIVES, *_ANY_SWING, "page-faults", "reads-zeros", "mappings-limit-nears")),
    Case("stress-ng --stack", f"{_STRESS} --stack 1",
         may=(*_ANY_SWING, "copies-after-fork", *_GIVES, "limit-nears", *_CHILD)),
    Case("stress-ng --shm", f"{_STRESS} --shm 1", may=("shared-memory", *_GIVES, *_ANY_SWING,
         "held-open", *_CHILD, "copies-after-fork", "page-faults", "tmpfs-full", "mappings-grow")),
    Case("stress-ng --userfaultfd", f"{_STRESS} --userfaultfd 1 --userfaultfd-bytes 16m",
         may=("served-by-userfaultfd", *_GIVES, *_ANY_SWING)),
    Case("stress-ng --fault", f"{_STRESS} --fault 1",
         may=("page-faults", *_GIVES, "made-writable-again")),
    Case("stress-ng --hdd", f"{_STRESS} --hdd 1 --hdd-bytes 64m",
         may=("waits-for-fsync", "waits-for-files", "waits-for-writeback")),
    Case("stress-ng --pipe", f"{_STRESS} --pipe 1", may=_CHILD),
    Case("stress-ng --malloc, four threads", f"{_STRESS} --malloc 1 --malloc-pthreads 4",
         may=(*_GIVES, "retained", *_ANY_SWING, "waits-for-mappings", "page-faults",
              "shootdowns")),
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


def judged(case: Case) -> tuple[str, int]:
    """A row of the table, of two looks, and how many findings were critical."""
    program = case.command.split("|")[-1].split()[0]
    if shutil.which(program) is None:
        return f"| {case.name} | not installed | | | |", 0
    found = []
    with started(case.command) as session:
        time.sleep(2)
        with started(case.load or "sleep 60"):
            time.sleep(1)
            for _ in range(LOOKS):
                try:
                    found.append(diagnosed(busiest(session, program)))
                except ValueError:
                    found.append([{"name": "its processes end too soon", "severity": "refused"}])
    groups = [set(group.split("|")) for group in case.expected]
    right = set().union(*groups, case.may)
    names = [{one["name"] for one in look if one["severity"] != "refused"} for look in found]
    missed = [" or ".join(sorted(g)) for g in groups for look in names if not g & look]
    words = sorted({f"{one['name']} ({one['severity']})" for look in found for one in look})
    false = sorted({name for look in names for name in look if name not in right})
    true = sum(name in right for look in names for name in look)
    critical = sum(one["severity"] == "critical" for look in found for one in look)
    cells = ", ".join(words) or "nothing", true, ", ".join(false) or 0, ", ".join(missed) or 0
    return f"| {case.name} | " + " | ".join(map(str, cells)) + " |", critical


def main() -> None:
    print("| program | found | true | false | missed |\n| --- | --- | --- | --- | --- |")
    critical = 0
    for case in CASES:
        if len(sys.argv) == 1 or any(word in case.name for word in sys.argv[1:]):
            row, more = judged(case)
            critical += more
            print(row, flush=True)
    print(f"\n{critical} findings were critical")


if __name__ == "__main__":
    main()
