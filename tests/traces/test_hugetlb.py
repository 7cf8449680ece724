"""A program with huge pages that the host has reserved, recorded."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from held import RUN

from memlab.run.journal import Journal
from memlab.run.settings import Settings, Unavailable
from memlab.trace import account, file, recording

from .made import PAGE, replay

pytestmark = [pytest.mark.changes_host, pytest.mark.needs("traces", "recording")]
POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
HUGE, RESERVED, OTHERS = 2 << 20, 6, 101
PROGRAM = f"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>
enum {{ HUGE = {HUGE}, SIZE = 21 << MAP_HUGE_SHIFT, RW = PROT_READ | PROT_WRITE }};
static volatile char *check(void *at)
{{
    if (at == MAP_FAILED)
        exit(1);
    return at;
}}
int main(void)
{{
    /* Three pages, of which two are touched. */
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | SIZE;
    volatile char *own = check(mmap(NULL, 2 * HUGE + {PAGE}, RW, flags, -1, 0));
    own[0] = own[HUGE] = 1;
    int fd = memfd_create("x", MFD_HUGETLB | SIZE);
    if (ftruncate(fd, HUGE))
        return 1;
    check(mmap(NULL, HUGE, RW, MAP_SHARED, fd, 0))[0] = 1;
    munmap((void *)own, 3 * HUGE);
    int id = shmget(IPC_PRIVATE, HUGE, IPC_CREAT | SHM_HUGETLB | SIZE | 0600);
    volatile char *segment = check(shmat(id, NULL, 0));
    shmctl(id, IPC_RMID, NULL);
    segment[0] = 1;
    shmdt((void *)segment);
    flags = MAP_PRIVATE | MAP_ANONYMOUS;
    volatile char *others = check(mmap(NULL, {OTHERS} * {PAGE}, RW, flags, -1, 0));
    for (int i = 0; i < {OTHERS}; i++)
        others[i * {PAGE}] = 1;
    return 0;
}}
"""


@pytest.fixture
def reserved() -> Iterator[None]:
    journal = Journal(RUN)
    try:
        try:
            Settings(journal).apply({str(POOL): f"+{RESERVED}"})
        except Unavailable as lacking:
            pytest.skip(str(lacking))
        yield
    finally:
        journal.close()


@pytest.mark.slow
@pytest.mark.usefixtures("reserved")
def test_pages_of_hugetlb_are_counted_by_what_is_mapped(tmp_path: Path) -> None:
    """Anonymous ones, of a memfd and of a System V segment: at most 3 and 1 at a time."""
    (tmp_path / "huge.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", "huge", "huge.c"], cwd=tmp_path, check=True)
    path = tmp_path / "a.trace"
    assert recording.record(path, command=[str(tmp_path / "huge")]).status == 0
    trace = file.read(path)
    found = account.of(trace)
    assert (found.hugetlb_bytes, found.hugetlb_faults) == (4 * HUGE, 2 + 1 + 1)
    assert [*trace.left_out] == ["hugetlb pages"]
    assert not any("hugepage" in name for name in file.file_names(trace))
    assert OTHERS <= found.peak["anonymous"] < OTHERS + HUGE // PAGE
    done = replay(path)
    assert (done.status, done.refused) == (0, 0)
    assert done.passed >= 4
