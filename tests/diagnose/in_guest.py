"""Run in a guest with cgroups of v2: fills a group of its own with what the arguments start, looks
at it, and prints the account. Arguments: programs with their words, each in one argument."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from memlab.diagnose import diagnosis

TOP = Path("/sys/fs/cgroup")
LIMIT_BYTES = 384 << 20


def main(programs: list[str]) -> None:
    (TOP / "cgroup.subtree_control").write_text("+memory")
    group = TOP / "looked-at"
    group.mkdir()
    (group / "memory.max").write_text(str(LIMIT_BYTES))
    started = []
    for line in programs:
        program, *words = line.split(" ")
        command = [program, str(group / "cgroup.procs"), *words]
        one = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert one.stdout
        assert one.stdout.readline() == "ready\n"
        started.append(one)
    found = diagnosis.of_group(str(group), 1.0)
    for one in started:
        one.kill()
        one.wait()
    account = found.accounts[0]
    seen = {
        "total": account.total,
        "rest": account.rest,
        "lines": {line.name: line.value for line in account.lines},
        "findings": [(one.severity.name, one.name) for one in found.findings],
        "limits": [line.name for line in found.accounts[2].lines],
    }
    print("seen:", json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1:])
