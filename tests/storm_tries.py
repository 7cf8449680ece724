"""The tries of a storm: `try` and `fit` of a command that starts what outlives it."""

from __future__ import annotations

from pathlib import Path

TRY, FIT = "try", "fit"
NAMES = (TRY, FIT)
KILLED = (
    "launcher",
    "driver and launcher",
    "driver, then launcher",
    "launcher, then driver",
    "launcher and guardian",
)
# It starts processes in the background, in a session, forked twice, by a thread, and with an empty
# environment, which is known by the folder among its words; then it ends, and they do not.
SUBJECT = """
sleep 300 &
setsid sleep 300 &
(setsid setsid -f sleep 300 &)
{python} -c 'import subprocess, threading
starts = lambda: subprocess.Popen(["setsid", "setsid", "-f", "sleep", "300"])
(one := threading.Thread(target=starts)).start(); one.join()'
env -i setsid sh -c 'sleep 300; : {place}' &
sleep 0.1
"""


def words(name: str, place: Path, python: str) -> list[str]:
    """Of a new run, without its budget."""
    subject = ["--", "sh", "-c", SUBJECT.format(python=python, place=place)]
    varied = ["-p", "nice=0,1", "--blocks", "100000"] if name == TRY else []
    store = ["--store", str(place / "store.db")]
    return [*store, name, *varied, "--budget", "1h", *subject]
