"""The groups of a node (kubepods, a pod, two containers) at a limit, throttled, after a kill, with
tmpfs, and beside a sidecar that has leaked: prints what looks at the pod, the containers and a
process find. Arguments: the folder of the programs, and below which group. Of v1 and v2."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memlab.diagnose import diagnosis

MiB = 1 << 20
SECONDS = 1.0
LIMIT = {True: "memory.max", False: "memory.limit_in_bytes"}


class Node:
    """A pod without a limit of its own, and its containers, each of 64 MiB."""

    def __init__(self, programs: Path, top: Path) -> None:
        self.programs, self.is_v2 = programs, (top / "cgroup.controllers").exists()
        self.pod = top / "kubepods/pod7"
        self.app, self.sidecar = self.pod / "app", self.pod / "sidecar"
        self.groups = [self.pod.parent, self.pod, self.app, self.sidecar]

    @contextmanager
    def made(self, **of_app: int) -> Iterator[None]:
        for group in self.groups:
            if self.is_v2:
                (group.parent / "cgroup.subtree_control").write_text("+memory")
            group.mkdir()
        for group in (self.app, self.sidecar):
            (group / LIMIT[self.is_v2]).write_text(str(64 * MiB))
        for name, limit in of_app.items():
            (self.app / f"memory.{name}").write_text(str(limit))
        try:
            yield
        finally:
            for group in reversed(self.groups):
                group.rmdir()

    @contextmanager
    def running(self, group: Path, program: str, *words: str) -> Iterator[int]:
        """A program in a container, once it is ready or has been killed."""
        command = [str(self.programs / program), str(group / "cgroup.procs"), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            try:
                yield process.pid
            finally:
                with suppress(ProcessLookupError):
                    process.kill()

    def looks(self, pid: int = 0) -> dict[str, list[str]]:
        """The titles of the findings."""
        subjects = {
            group.name: diagnosis.of_group(str(group), SECONDS) for group in self.groups[1:]
        }
        if pid:
            subjects["process"] = diagnosis.of(pid, SECONDS)
        return {name: [one.title for one in found.findings] for name, found in subjects.items()}


def main(programs: str, top: str) -> None:
    node = Node(Path(programs), Path(top))
    seen = {}
    with node.made(), node.running(node.app, "fills", *[str(60 * MiB)] * 2) as pid:
        seen["full"] = node.looks(pid)
    if node.is_v2:
        bound = {"high": 40 * MiB, "max": 512 * MiB}
        words = str(256 * MiB), str(41 * MiB)
        with node.made(**bound), node.running(node.app, "fills", *words) as pid:
            seen["throttled"] = node.looks(pid)
    with node.made():
        with node.running(node.app, "fills", *[str(80 * MiB)] * 2):
            pass
        seen["killed"] = node.looks()
    with node.made(), node.running(node.app, "shm", "unmapped") as pid:
        seen["tmpfs"] = node.looks(pid)
    with node.made(), node.running(node.sidecar, "fills", *[str(62 * MiB)] * 2) as pid:
        seen["sidecar leaked"] = node.looks(pid)
    print("seen:", json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
