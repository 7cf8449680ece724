"""How often a look reads what takes the kernel long."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from memlab.observe import process
from tests.diagnose.live import running

LOOK = """
import collections, json, sys
from memlab.diagnose import diagnosis, mapping_list

pid, mapping_list.MANY = int(sys.argv[1]), int(sys.argv[2])
opened = collections.Counter()

def count(event, arguments):
    if event == "open" and isinstance(path := arguments[0], (str, bytes)):
        opened[str(path).replace("//", "/")] += 1

sys.addaudithook(count)
diagnosis.of(pid, 0.2)
print(json.dumps(opened))
"""
# The limits once more of a program that may not lock without one.
MOST = {"environ": 2, "limits": 3, "smaps": 0, "smaps_rollup": 0}


@pytest.mark.parametrize(("many", "maps"), [(5000, 7), (10, 3)])
def test_a_look_reads_a_file_at_most_as_often_as_it_must(many: int, maps: int) -> None:
    """The list of mappings is opened once to learn whether that is allowed, read at both ends, and
    if it is short after each of four parts: to print 60,000 takes the kernel 20 ms."""
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    with running(sys.executable, "-c", code) as program:
        while process.stat(program.pid).state != "S":  # a fault that is sampled is a read more
            time.sleep(0.01)
        command = [sys.executable, "-c", LOOK, str(program.pid), str(many)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        opened = json.loads(text)
    most = {f"/proc/{program.pid}/{name}": count for name, count in (MOST | {"maps": maps}).items()}
    assert {path: n for path, n in opened.items() if n > most.get(path, n)} == {}
    assert opened[f"/proc/{program.pid}/maps"] >= 2
