"""The ring of allocations, overwritten in every shape by the program that shares it: the recorder
ends, what it has is a trace, and damage is told once."""

import fcntl
import subprocess
from pathlib import Path

import needs
import pytest

from memlab.errors import CannotRun
from memlab.trace import account, file, recording, ring

DAMAGE = "the buffer of allocations held what memlab's library does not write"
BYTES = 1 << 16  # of the ring: 2,048 records
# What is done to it, by a program that allocates before and after. `r` are its first words: head is
# r[0], tail r[8], lost r[16], closed r[17], and the records, of four words, begin at r[24].
TAMPERED = {
    "a head far ahead": "r[0] = 1ULL << 62;",
    "a head just beyond its size": "r[0] += slots + 1;",
    "a head that goes back": "r[0] -= 64;",
    "a head that wraps": "r[0] = ~0ULL;",
    "a head that moves on and on": "for (long i = 0; i < 300000; i++) r[0] += 4099;",
    "a tail ahead": "while (!r[17]) { r[8] += 1 << 20; usleep(1000); }",
    "a tail that goes back": "while (!r[17]) { r[8] = 1; usleep(1000); }",
    "a ring that is closed": "r[17] = 1;",
    "a count of lost ones": "r[16] = 1ULL << 63;",
    "a block of no size": "record(~0ULL, 1, 0);",
    "a kind that is none": "record(4096, 1, 255);",
    "an address of the kernel": "record(4096, 1ULL << 63, 0);",
    "a time that has not come": "ahead = 1ULL << 60; record(4096, 4096, 0);",
    "a hole over all of it": "punch(0, size);",
    "a hole with its bounds put back": "long head = r[0]; punch(0, size); r[0] = r[8] = head;",
    "a hole over what is not read yet": "allocate(); punch(0, size);",
    "random bytes all the while": "scribble(200000);",
    "random bytes by a storm of forks": "for (int i = 0; i < 60; i++) if (!fork()) { "
    "scribble(2000); _exit(0); } while (wait(0) > 0);",
}
# What the kernel refuses, or harms nobody but the program.
HARMLESS = {
    "a file that is cut short": "if (!ftruncate(fd, 0)) return 9;",
    "a file that is made longer": "if (!ftruncate(fd, 1L << 40)) return 9;",
    "seals that are taken off": "if (!fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)) return 9;",
    "a ring that is unmapped": "munmap((void *)0x2a0000000000, size); _exit(0);",
}
PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile uint64_t *r;
static uint64_t slots, ahead;
static void allocate(void)
{
    for (int i = 0; i < 500; i++)
        free(*(void *volatile *)&(void *){ malloc(1013) });
}
static void record(uint64_t bytes, uint64_t address, uint64_t kind)
{
    struct timespec now;
    uint64_t at = __atomic_fetch_add((uint64_t *)r, 1, __ATOMIC_ACQ_REL);
    volatile uint64_t *to = r + 24 + 4 * (at & (slots - 1));
    clock_gettime(CLOCK_MONOTONIC, &now);
    to[0] = now.tv_sec * 1000000000ULL + now.tv_nsec + ahead;
    to[1] = address;
    to[2] = (bytes & ((1ULL << 48) - 1)) | kind << 56;
    to[3] = (uint64_t)(at / slots + 1) << 32 | (uint32_t)gettid();
}
static void scribble(long times)
{
    uint64_t x = 88172645463325252ULL ^ getpid();
    while (times--) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        r[x % (24 + 4 * slots)] = x;
    }
}
static int fd;
static void punch(long from, long bytes)
{
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, bytes))
        _exit(7);
}
int main(void)
{
    struct stat status;
    fd = open(getenv("MEMLAB_ALLOCATIONS"), O_RDWR);
    if (fd < 0 || fstat(fd, &status))
        return 8;
    size_t size = status.st_size;
    slots = (size - 192) / 32;
    r = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)record, (void)scribble, (void)punch;
    allocate();
    while (r[8] != r[0]) /* until all of it is read */
        usleep(1000);
    ACT
    allocate();
    return 0;
}
"""


@pytest.fixture(autouse=True)
def _allowed() -> None:
    needs.of("recording")


def recorded(folder: Path, act: str) -> tuple[file.Trace, int]:
    (folder / "a.c").write_text(PROGRAM.replace("ACT", act))
    command = ["cc", "-O1", "-w", "-o", folder / "a", folder / "a.c"]
    subprocess.run(command, check=True)
    path = folder / "a.trace"
    how = recording.How(allocations=True, ring_bytes=BYTES)
    ended = recording.record(path, command=[str(folder / "a")], how=how)
    return file.read(path), ended.status


@pytest.mark.seconds(but="a hole over all of it")
@pytest.mark.parametrize("act", TAMPERED.values(), ids=TAMPERED)
def test_a_ring_that_is_tampered_with_is_read_no_more(tmp_path: Path, act: str) -> None:
    trace, status = recorded(tmp_path, act)
    assert status == 0
    assert trace.incomplete.count(DAMAGE) == 1
    found = account.of(trace)  # every record is checked
    assert found.calls["allocate"] >= 500  # those before


@pytest.mark.seconds(but="a file that is cut short")
@pytest.mark.parametrize("act", HARMLESS.values(), ids=HARMLESS)
def test_what_the_kernel_refuses_is_no_damage(tmp_path: Path, act: str) -> None:
    trace, status = recorded(tmp_path, act)
    assert (status, trace.incomplete) == (0, "")
    assert account.of(trace).calls["allocate"] >= 500


def test_the_size_of_the_ring_is_sealed_and_a_limit_of_files_is_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ring.opened(BYTES) as opened:
        seals = fcntl.fcntl(opened.file, fcntl.F_GET_SEALS)
        assert seals == fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

    def refused(*_: object) -> None:
        raise OSError(27, "File too large")

    monkeypatch.setattr(ring.os, "ftruncate", refused)
    with pytest.raises(CannotRun, match="smaller --buffer, or raise `ulimit -f`"), ring.opened(1):
        pass
