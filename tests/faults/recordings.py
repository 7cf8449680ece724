"""Recordings that are ended in every way, and what is left of each.

The subject starts a background process, one in a session of its own, one that is forked twice and a
set-id program, and works until a file is there. Its processes are known by a number among their
words and by this test's home in their environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from processes import by_descent, kill_at_once, processes

from memlab.observe import cgroup
from memlab.trace import account, file

LIMIT_S = 200.0  # of any wait, and less than a subject sleeps
LEFT = 5  # processes that the subject leaves where nobody ends them
SUBJECT = """
sleep 300.191 &
setsid sleep 300.192 &
(setsid sh -c 'sleep 300.193 & exec sleep 300.194' &)
{folder}/set-id 300.195 &
echo ready >{folder}/ready
while [ ! -e {folder}/stop ]; do {works}; done
exit 7
"""
WAITS, WORKS = "sleep 0.02", "/bin/true"
SET_ID = """
#include <unistd.h>
int main(int count, char **words)
{
    execl("/bin/sleep", "sleep", words[1], (char *)0);
    return count;
}
"""
NOBODY = 65534
_AS_NOBODY = [
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *(f"--{which}-caps=+perfmon,+dac_read_search,+ipc_lock" for which in ("inh", "ambient")),
]
# What is before memlab's words: where it runs. Each ends in an exec, so that the process is memlab.
PLACES: dict[str, list[str]] = {
    "here": [],
    "no cgroup": ["unshare", "-m", "sh", "-c", 'umount -R /sys/fs/cgroup; exec "$@"', "sh"],
    "as an ordinary user": [
        *("unshare", "-m", "sh", "-c"),
        *('mount -t tracefs none /sys/kernel/tracing; exec "$@"', "sh", *_AS_NOBODY),
    ],
    "on a small disk": [
        *("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=600k none $0; exec "$@"'),
    ],
    "under a limit of files": ["sh", "-c", 'ulimit -f 600; exec "$@"', "sh"],
    "as the first of a container": ["unshare", "--pid", "--fork", "--mount-proc"],
}


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@dataclass
class Recording:
    """A recording of the subject that runs; what it needs lies in a folder of its own."""

    folder: Path
    place: str = "here"
    options: Sequence[str] = ()
    works: str = WAITS
    live: bool = False  # of the subject by its pid
    process: subprocess.Popen[bytes] = field(init=False)
    subject: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        (self.folder / "set-id.c").write_text(SET_ID)
        set_id, traces = self.folder / "set-id", self.folder / "traces"
        traces.mkdir()
        subprocess.run(["cc", "-o", set_id, f"{set_id}.c"], check=True)
        if os.geteuid() == 0:
            os.chown(set_id, 0, NOBODY - 1)
            set_id.chmod(0o6755)
        if self.place == "as an ordinary user":
            for path in (self.folder, traces, Path(os.environ["HOME"])):
                os.chown(path, NOBODY, NOBODY)
        subject = ["sh", "-c", SUBJECT.format(folder=self.folder, works=self.works)]
        of = ["--", *subject]
        if self.live:
            before = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            before = before if self.place == "as an ordinary user" else []
            self.subject = subprocess.Popen([*before, *subject], start_new_session=True)
            until((self.folder / "ready").exists, "the subject begins")
            of = [str(self.subject.pid)]
        place = [*PLACES[self.place], *([str(traces)] if "disk" in self.place else [])]
        memlab = [sys.executable, "-m", "memlab", "record", *self.options]
        words = [*place, *memlab, "-o", str(traces / "a.trace"), *of]
        # No pipes, which what the subject leaves would hold open.
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            self.process = subprocess.Popen(words, stdout=out, stderr=err)
        try:
            until((self.folder / "ready").exists, "the command begins")
            if self.works != WORKS:  # what fills a disk may have done so by now
                until(self.follows, "the recorder follows")
        except AssertionError:
            self.clean_up()
            raise

    def follows(self) -> bool:
        """Whether what is there has been read, and the end is waited for by a pidfd."""
        links = []
        with suppress(OSError):
            for link in Path(f"/proc/{self.part('record')}/fd").iterdir():
                with suppress(OSError):
                    links.append(str(link.readlink()))
        reading = any(link.endswith(("/smaps", "/pagemap")) for link in links)
        return not reading and "anon_inode:[pidfd]" in links

    def part(self, name: str) -> int:
        """The pid of a part of memlab: `driver`, `record`, `launch`, `inner` (the second launcher)
        or `guardian`; 0 for none."""
        pattern = {
            "driver": rf"(?s)^{sys.executable} -m memlab record .*{self.folder}",
            "record": r"^\S*/launch/record .*name.a\.trace",
            "launch": rf"(?s)^\S*/launch/launch .*{self.folder}",
            # Another memlab's guardian may run beside it.
            "guardian": rf"(?s)memlab\.run\.guardian.*{os.environ['XDG_STATE_HOME']}",
        }["launch" if name == "inner" else name]
        pids = by_descent(processes(pattern))
        return next(reversed(pids) if name == "inner" else iter(pids), 0)

    def kill(self, *names: str) -> None:
        pids = [self.part(name) for name in names]
        assert all(pids), (names, pids)
        kill_at_once(pids)

    def signal(self, number: int) -> None:
        """To memlab alone."""
        os.kill(self.part("driver"), number)

    def stop(self) -> None:
        """Have the subject end by itself."""
        (self.folder / "stop").touch()

    def end(self) -> tuple[int, str, str]:
        """How memlab ended: its exit status and what it said."""
        status = self.process.wait(LIMIT_S)
        return status, *((self.folder / name).read_text() for name in ("out", "err"))

    def await_error(self, text: str) -> None:
        """Until memlab has said this."""
        until(lambda: text in (self.folder / "err").read_text(), f"memlab says: {text}")

    def settled(self) -> None:
        """Nothing of memlab's own is left."""
        parts = ("driver", "record", "launch", "guardian")
        until(lambda: not any(map(self.part, parts)), "memlab's processes end")
        until(lambda: not self.journals(), "the journal is undone")
        assert self.groups() == []
        assert {path.name for path in (self.folder / "traces").iterdir()} <= {"a.trace"}

    def left(self) -> list[int]:
        """The subject's processes."""
        return processes(rf"\b300\.19[1-5]|{self.folder}/stop")

    def all_ended(self) -> None:
        until(lambda: self.left() == [], f"the subject's processes end: {self.left()}")

    def journals(self) -> list[Path]:
        return list(Path(os.environ["XDG_STATE_HOME"]).glob("memlab/journal/*"))

    def groups(self) -> list[Path]:
        homes = cgroup.chain("pids")[1][:1]
        return [
            path for home in homes for path in home.glob(f"memlab-record-*-{self.process.pid}-*")
        ]

    def trace(self) -> file.Trace:
        """The trace, every record of which is checked. On a disk of memlab's own it lasts as long
        as memlab."""
        root = f"/proc/{self.process.pid}/root" if "disk" in self.place else ""
        trace = file.read(Path(f"{root}{self.folder}/traces/a.trace"))
        assert account.of(trace).processes >= 1
        return trace

    def clean_up(self) -> None:
        """Whatever became of the test."""
        self.stop()
        for pid in [*self.left(), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in filter(None, (self.subject, self.process)):
            process.wait()
