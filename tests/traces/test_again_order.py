"""In which order pages are used again: of two processes that touch known groups in known orders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import needs
import pytest

from .made import AGAIN, PAGE, Record, records
from .referenced import REFERENCED_KIB

GROUPS, STEPS, LOOKS, SLICES = 37, (5, 8), 4, 16  # order.c: SLICES
GROUP = 64 * PAGE
PROGRAM = f"""
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum {{ GROUPS = {GROUPS}, GROUP = {GROUP}, PAGE = {PAGE} }};
static volatile char *memory;
static void use(int group)
{{
    for (int at = 0; at < GROUP; at += PAGE)
        memory[group * GROUP + at]++;
}}
{REFERENCED_KIB}
static int look_has_been(void) /* that has cleared the accessed bits */
{{
    return referenced_kib() < GROUPS * GROUP / 1024 / 2;
}}
int main(void)
{{
    memory = mmap(NULL, (GROUPS + 1) * GROUP, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory += GROUP - (unsigned long)memory % GROUP;
    printf("%lu\\n", (unsigned long)memory);
    fflush(stdout);
    int step = fork() ? {STEPS[0]} : {STEPS[1]};
    for (int i = 0; i < GROUPS; i++)
        use(i * step % GROUPS);
    for (int looks = 0; looks < {LOOKS} + 2; looks += look_has_been()) {{
        for (int i = 0; i < GROUPS; i++)
            use(i);
        usleep(2000);
    }}
    while (wait(NULL) > 0)
        ;
}}
"""


def rounds(path: Path) -> Iterator[list[Record]]:
    """The uses of each round of looks, which has one time."""
    uses: list[Record] = []
    for record in records(path):
        if uses and (record.kind != AGAIN or record.after_ns):
            yield uses
            uses = []
        if record.kind == AGAIN:
            uses.append(record)


def groups(uses: list[Record], task: int, at: int) -> list[int]:
    """Which of the program's groups a process used, in order; not those used in part."""
    return [
        (address - at) // GROUP
        for record in uses
        if record.task == task and record.operands[1] + 1 == 1 << 64
        for address in range(record.address, record.address + record.operands[0], GROUP)
        if at <= address < at + GROUPS * GROUP
    ]


@pytest.mark.slow
def test_groups_are_in_the_order_of_their_faults_and_processes_take_turns(tmp_path: Path) -> None:
    """As if threads had touched them in turns. In a look that fell amid a round of the program some
    groups are missing, and the others are in their order."""
    needs.of("recording")
    (tmp_path / "a.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", "a", "a.c"], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "memlab", "record", "-o", "a.trace", "--", "./a"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    at, whole = int(done.stdout.splitlines()[0]), 0
    for uses in rounds(tmp_path / "a.trace"):
        both = [groups(uses, task, at) for task in range(2)]
        for used, step in zip(both, STEPS, strict=True):
            assert used == [i * step % GROUPS for i in range(GROUPS) if i * step % GROUPS in used]
        if [len(used) for used in both] == [GROUPS, GROUPS]:
            whole += 1
            turns = [task for task, _ in groupby(uses, key=lambda use: use.task)]
            assert len(turns) == 2 * SLICES
    assert whole
