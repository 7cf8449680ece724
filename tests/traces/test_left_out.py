"""Hugetlb pages and mappings of devices: counted apart, and not replayed."""

import subprocess
from pathlib import Path

import pytest

from memlab.trace import account, file, recording, replay, shown

from .made import (
    ADVISE,
    ANONYMOUS,
    AT,
    EXIT,
    FORK,
    HAS_DEVICES,
    HAS_HUGETLB,
    IS_DEVICE,
    LOCK,
    MAP,
    PAGE,
    PRIVATE,
    PROTECT,
    REMAP,
    SHARED,
    START,
    TASK,
    UNLOCK,
    UNMAP,
    WRITE,
    Made,
    records,
)
from .made import replay as replayed

pytestmark = pytest.mark.needs("traces")

FAR = AT + (1 << 30)
HUGETLB = 0x40000  # MAP_HUGETLB
DEVICE, DISK = (1 << 20, IS_DEVICE | 1, b"/dev/x"), (1 << 20, 0, b"/x")
BUFFER, ZERO, WRITTEN = 9, 101, 61
MAPS = f"""
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{{
    struct perf_event_attr attr = {{ .size = sizeof(attr), .type = PERF_TYPE_SOFTWARE }};
    int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    volatile char *at = mmap(NULL, {BUFFER} * {PAGE}, 3, MAP_SHARED, fd, 0);
    volatile char *zero = mmap(NULL, {ZERO} * {PAGE}, 3, MAP_PRIVATE, open("/dev/zero", O_RDWR), 0);
    if (at == MAP_FAILED || zero == MAP_FAILED)
        return 1;
    for (int i = 0; i < {BUFFER}; i++)
        (void)at[i * {PAGE}];
    for (int i = 0; i < {WRITTEN}; i++)
        zero[i * {PAGE}] = 1;
    printf("%lx\\n", (long)zero);
    fflush(stdout);
    if (!fork())
        _exit(0); /* without the buffer: perf's is VM_DONTCOPY */
    wait(NULL);
    return 0;
}}
"""


def apart() -> Made:
    made = Made(files=[DEVICE, DISK], tasks=2, flags=HAS_HUGETLB | HAS_DEVICES).add(START)
    made.map(AT, 512, flags=PRIVATE | ANONYMOUS | HUGETLB).touch(AT, 1)
    made.map(FAR, 100, flags=SHARED, file=1).touch(FAR, 7)
    return made.map(2 * FAR, 50).touch(2 * FAR, 31).map(3 * FAR, 5, file=2)


def test_they_are_in_no_other_number(tmp_path: Path) -> None:
    path = apart().write(tmp_path / "a.trace")
    found = account.of(file.read(path))
    assert (found.hugetlb_bytes, found.hugetlb_faults) == (512 * PAGE, 1)
    assert (found.device_bytes, found.device_faults) == (100 * PAGE, 7)
    assert (found.peak_pages, found.touched_pages, found.outside) == (31, 31, 0)
    assert found.mapped_peak_bytes == (50 + 5) * PAGE
    assert found.faults == 31 + 1 + 7
    said = "\n".join(shown.lines(file.read(path), found))
    assert "mapped up to 2 MiB of hugetlb pages, with 1 fault: they are in no other" in said
    assert "mapped up to 400 KiB of devices and buffers of the kernel, with 7 faults" in said
    whole = replay.checked([path], {"lock": ["off"]}, serve=[], metrics=[])
    assert "not replayed: hugetlb pages; not replayed: mappings of devices" in whole


def test_a_forked_child_has_them_too(tmp_path: Path) -> None:
    """Which mappings of devices it has depends on the driver: they are counted once."""
    made = apart().number(TASK, 1, what=FORK).touch(FAR, 3, task=1).add(UNMAP, FAR, PAGE, task=1)
    found = account.of(file.read(made.write(tmp_path / "a.trace")))
    assert (found.device_bytes, found.device_faults, found.outside) == (100 * PAGE, 7 + 3, 0)
    assert found.mapped_peak_bytes == 2 * (50 + 5) * PAGE
    made = apart().number(TASK, 1, what=FORK).add(EXIT, task=1)
    found = account.of(file.read(made.write(tmp_path / "a.trace")))
    assert (found.hugetlb_bytes, found.device_bytes) == (2 * 512 * PAGE, 100 * PAGE)


def test_what_is_moved_is_mapped_once(tmp_path: Path) -> None:
    made = apart().add(REMAP, AT, 512 * PAGE, 1024 * PAGE, 4 * FAR, 0)
    made.add(REMAP, FAR, 100 * PAGE, 100 * PAGE, 5 * FAR, 0)
    made.add(REMAP, 2 * FAR, 50 * PAGE, 50 * PAGE, 6 * FAR, 0).touch(4 * FAR, 3)
    found = account.of(file.read(made.write(tmp_path / "a.trace")))
    assert (found.hugetlb_bytes, found.hugetlb_faults) == (1024 * PAGE, 1 + 3)
    assert (found.device_bytes, found.mapped_peak_bytes) == (100 * PAGE, (50 + 5) * PAGE)


def test_a_child_is_not_given_what_is_kept_from_it(tmp_path: Path) -> None:
    made = apart().add(ADVISE, AT, 512 * PAGE, 10).add(ADVISE, FAR, 100 * PAGE, 10)  # DONTFORK
    made.number(TASK, 1, what=FORK).add(EXIT, task=1)
    found = account.of(file.read(made.write(tmp_path / "a.trace")))
    assert (found.hugetlb_bytes, found.device_bytes) == (512 * PAGE, 100 * PAGE)


def test_a_lock_brings_in_what_is_replayed(tmp_path: Path) -> None:
    made = apart().add(LOCK, AT, 512 * PAGE, 0).add(ADVISE, FAR, 100 * PAGE, 23)  # POPULATE_WRITE
    made.add(LOCK, 2 * FAR, 40 * PAGE, 0)
    found = account.of(file.read(made.write(tmp_path / "a.trace")))
    assert found.populated_bytes == 40 * PAGE


@pytest.mark.parametrize("words", [[], ["order=free"]])
def test_nothing_is_mapped_there_in_a_replay(words: list[str], tmp_path: Path) -> None:
    """A lock brings in all of an ordinary mapping, and would bring in a device's."""
    path = apart().write(tmp_path / "a.trace")
    plain, locked = replayed(path, *words), replayed(path, *words, lock="future")
    assert (plain.status, plain.refused, plain.calls) == (0, 0, 4)
    assert (plain.passed, plain.faults) == (1 + 7, 31)
    assert locked.faults == 50 + 5


ADVICE, REMOVED = 4, 9  # MADV_DONTNEED, MADV_REMOVE


@pytest.mark.parametrize("words", [[], ["order=free"]])
def test_a_call_on_what_is_left_out_is_not_refused(words: list[str], tmp_path: Path) -> None:
    made = apart().add(PROTECT, AT, 512 * PAGE, 1).add(ADVISE, AT, 512 * PAGE, ADVICE)
    made.add(LOCK, FAR, 100 * PAGE, 0).add(UNLOCK, FAR + PAGE, PAGE)
    made.add(REMAP, AT, 512 * PAGE, 512 * PAGE, 4 * FAR, 0).add(PROTECT, 4 * FAR, PAGE, 1)
    made.add(REMAP, FAR, 100 * PAGE, 200 * PAGE, FAR, 0).add(ADVISE, FAR + 150 * PAGE, PAGE, 4)
    ended = replayed(made.write(tmp_path / "a.trace"), *words)
    assert (ended.status, ended.calls, ended.refused) == (0, 4 + 8, 0)
    # Between the mappings of devices, but of memory: private memory has nothing to remove.
    made.add(ADVISE, 2 * FAR, PAGE, REMOVED).add(PROTECT, 9 * FAR, PAGE, 1)
    ended = replayed(made.write(tmp_path / "b.trace"), *words)
    assert (ended.status, ended.calls, ended.refused) == (0, 4 + 8 + 2, 2)


@pytest.mark.needs("recording")
def test_a_buffer_of_the_kernel_is_left_out_and_private_zeros_are_memory(tmp_path: Path) -> None:
    (tmp_path / "maps.c").write_text(MAPS)
    subprocess.run(["cc", "-O1", "-o", "maps", "maps.c"], cwd=tmp_path, check=True)
    path, out = tmp_path / "a.trace", tmp_path / "out"
    with out.open("wb") as written:
        how = recording.How(stdout=written.fileno())
        assert recording.record(path, command=[str(tmp_path / "maps")], how=how).status == 0
    trace = file.read(path)
    found = account.of(trace)
    assert found.device_bytes == BUFFER * PAGE
    assert found.device_faults <= BUFFER
    assert [*trace.left_out] == ["mappings of devices and of the kernel's buffers"]
    zero = int(out.read_text(), 16)
    (mapped,) = [one for one in records(path) if one.kind == MAP and one.address == zero]
    assert mapped.operands[2] == 0
    within = range(zero, zero + ZERO * PAGE)
    assert sum(one.kind == WRITE and one.address in within for one in records(path)) == WRITTEN
    assert replayed(path).status == 0
