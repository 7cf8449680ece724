"""Allocations: prime numbers of calls and bytes, in the trace and in what does them again."""

import json
import os
import re
import resource
import subprocess
from collections import Counter
from pathlib import Path

import needs
import pytest

import memlab
from memlab.command import request
from memlab.errors import BadLevels
from memlab.experiment.host import Malloc
from memlab.files import packed
from memlab.observe import allocators
from memlab.trace import account, file, recording, shown

from .made import (
    ADVISE,
    ALLOCATE,
    AT,
    EXEC,
    EXIT,
    FORK,
    FREE,
    HAS_ALLOCATIONS,
    PAGE,
    PRIVATE,
    PROTECT,
    READ,
    REMAP,
    RESIZE,
    SHARED,
    START,
    TASK,
    THREAD,
    UNMAP,
    Made,
    records,
)

pytestmark = pytest.mark.needs("traces")

SMALL, FREED, MOVED, ALIGNED, IN_THREAD, IN_CHILD, LARGE, TOUCHED = (
    401,
    97,
    61,
    13,
    211,
    53,
    1009,
    83,
)
BYTES, MORE_BYTES, THREAD_BYTES, ALIGNED_BYTES, ZEROED_BYTES = 1013, 2003, 1019, 1021, 1031
PROGRAM = f"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile kept[{SMALL}];
static void *volatile one;
static void *work(void *none)
{{
    for (int i = 0; i < {IN_THREAD}; i++) {{
        void *volatile mine = malloc({THREAD_BYTES});
        free(mine);
    }}
    return none;
}}
int main(int count, char **words)
{{
    pthread_t threads[3];
    void *made;
    if (count > 1) {{ /* what the child starts */
        one = malloc({BYTES});
        return 0;
    }}
    for (int i = 0; i < {SMALL}; i++)
        kept[i] = malloc({BYTES});
    for (int i = 0; i < {FREED}; i++)
        free(kept[i]);
    for (int i = {FREED}; i < {FREED} + {MOVED}; i++)
        kept[i] = realloc(kept[i], {MORE_BYTES});
    volatile char *large = malloc({LARGE} * 4096L);
    for (int i = 1; i <= {TOUCHED}; i++)
        large[i * 4096L] = 1;
    for (int i = 0; i < {ALIGNED}; i++) {{
        if (posix_memalign(&made, 4096, {ALIGNED_BYTES}))
            return 1;
        one = calloc(1, {ZEROED_BYTES});
    }}
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (!fork()) {{
        for (int i = {SMALL} - {IN_CHILD}; i < {SMALL}; i++)
            free(kept[i]);
        char *args[] = {{words[0], "again", NULL}};
        execv("/proc/self/exe", args);
    }}
    wait(NULL);
    return 0;
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("allocates")
    (folder / "primes.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-pthread", "-o", "primes", "primes.c"], cwd=folder, check=True)
    return str(folder / "primes")


@pytest.fixture(scope="module")
def recorded(program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs.of("recording")
    path = tmp_path_factory.mktemp("recorded") / "a.trace"
    ended = recording.record(path, command=[program], how=recording.How(allocations=True))
    assert (ended.status, ended.signal, ended.lost) == (0, 0, 0)
    return path


def again(path: Path, *words: str, **environ: str) -> tuple[int, dict[str, int], str]:
    """Exit status, what was done by name, and what was said."""
    with path.open("rb") as opened, packed.plain(opened) as source:
        done = subprocess.run(
            [file.tool("allocate"), *words, source], env={**os.environ, **environ},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    parts = re.findall(r"([a-z ]+) ([0-9]+)", done.stdout)
    return done.returncode, {name.strip(): int(number) for name, number in parts}, done.stderr


def test_prime_numbers_of_allocations_are_in_the_trace(recorded: Path) -> None:
    calls: Counter[tuple[int, int, int]] = Counter()
    for record in records(recorded):
        if record.kind in (ALLOCATE, RESIZE):
            calls[record.kind, record.operands[1], record.task] += 1
        elif record.kind == FREE:
            calls[FREE, 0, record.task] += 1
    assert calls[ALLOCATE, BYTES, 0] == SMALL
    assert calls[ALLOCATE, BYTES, 4] == 1  # of the program that the child starts
    assert calls[RESIZE, MORE_BYTES, 0] == MOVED
    assert calls[ALLOCATE, LARGE * PAGE, 0] == 1
    assert calls[ALLOCATE, ALIGNED_BYTES, 0] == calls[ALLOCATE, ZEROED_BYTES, 0] == ALIGNED
    for thread in (1, 2, 3):
        assert calls[ALLOCATE, THREAD_BYTES, thread] == IN_THREAD
        assert calls[FREE, 0, thread] == IN_THREAD
    assert calls[FREE, 0, 0] == FREED
    assert calls[FREE, 0, 4] == IN_CHILD
    found = account.of(file.read(recorded))
    assert found.calls["resize"] == MOVED
    # The ring of the recording itself is no memory of the program's.
    ring = 0x2A0000000000
    assert not [one for one in records(recorded) if ring <= one.address < ring + (1 << 33)]


def needed(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.needs(name))


@pytest.mark.parametrize(
    "allocator", ["glibc", *(needed(name) for name in ("jemalloc", "tcmalloc", "mimalloc"))]
)
def test_they_are_done_again_under_each_allocator(recorded: Path, allocator: str) -> None:
    environ = allocators.environ(Malloc(allocator, "default"))
    found = account.of(file.read(recorded)).calls
    status, done, said = again(recorded, **environ)
    assert (status, said) == (0, "")
    names = {"allocated": "allocate", "freed": "free", "resized": "resize"}
    assert {name: done[name] for name in names} == {n: found[call] for n, call in names.items()}
    assert (done["refused"], done["skipped"]) == (0, 0)
    assert done["touches"] == TOUCHED


def test_a_trial_has_the_allocators_as_levels(recorded: Path, store_path: Path) -> None:
    run = memlab.trial([str(recorded)], blocks=1, store=store_path, malloc=["glibc"], lock=["off"])
    assert [sample.outcome for sample in run.samples] == ["ok"]
    assert "refused" in [metric.name for metric in run.experiment.metrics]


def made() -> Made:
    """Blocks: 0 large, 1 small; at addresses that the replay has none of."""
    large = (0, 300 * PAGE, 0, AT + 16)
    return Made(flags=HAS_ALLOCATIONS).add(ALLOCATE, 0, *large).add(ALLOCATE, 0, 1, 40, 0, AT - 64)


def test_touches_go_to_the_block_that_lay_there(tmp_path: Path) -> None:
    trace = made().touch(AT, 7).touch(AT + 300 * PAGE, 1).touch(AT + 301 * PAGE, 1)
    trace.touch(AT - PAGE, 1).add(FREE, 0, 0).touch(AT, 5)
    path = tmp_path / "a.trace"
    path.write_bytes(trace.bytes(blocks=2))
    status, done, _ = again(path)
    # The last page of the large block has its first 16 bytes; what is below it is the small one's.
    assert (status, done["touches"], done["freed"]) == (0, 8, 1)


READ_OF_FILE, WRITTEN, READ_OF_SHARED, MOVED_PAGES, OF_CHILD = 4001, 1009, 2003, 503, 401
OF_NONE = 211


def of_files(*, are_touched: bool) -> Made:
    """A file is read, written privately, moved, protected and unmapped; one in memory is shared;
    what is anonymous, forbidden or not mapped any more is passed over."""
    files = [(64 << 20, 0, b"/no/such/file"), (64 << 20, 1, b"/memfd:x")]
    trace, far = Made(flags=HAS_ALLOCATIONS, tasks=2, files=files), AT << 3
    trace.map(far, 8000, flags=PRIVATE, file=1).map(far << 1, 8000, flags=SHARED, file=2)
    trace.map(far << 2, 8000).add(ALLOCATE, 0, 0, 40, 0, AT)
    if not are_touched:
        return trace.add(FREE, 0, 0)
    trace.touch(far, READ_OF_FILE, READ).touch(far + 5000 * PAGE, WRITTEN)
    trace.touch(far << 1, READ_OF_SHARED, READ).touch(far << 2, OF_NONE)
    trace.add(REMAP, far, 8000 * PAGE, 8000 * PAGE, far << 3, 0).touch(far, OF_NONE)
    trace.touch((far << 3) + 4100 * PAGE, MOVED_PAGES, READ)
    trace.add(PROTECT, far << 3, 1000 * PAGE, 0).touch(far << 3, OF_NONE, READ)
    trace.number(TASK, 1, what=FORK).add(UNMAP, (far << 3) + 7000 * PAGE, 1000 * PAGE, task=1)
    trace.touch((far << 3) + 6000 * PAGE, OF_CHILD, task=1).touch(
        (far << 3) + 7000 * PAGE, 5, task=1
    )
    return trace.add(EXIT, task=1).add(FREE, 0, 0)


def usage(path: Path, *, repeats: int = 3) -> tuple[int, int]:
    """Page faults and peak resident pages of a replay, the least of all repeats."""
    least = []
    for _ in range(repeats):
        reading, writing = os.pipe()
        words = [f"report={writing}", "thp=never", "--", file.tool("allocate"), str(path)]
        subprocess.run(
            [file.tool("launch"), *words],
            pass_fds=[writing], check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(writing)
        with os.fdopen(reading) as report:
            used = json.loads(report.read().splitlines()[-1])
        assert used["status"] == 0
        least.append((used["minor"] - used["minor_before"], used["rss_peak_bytes"] // PAGE))
    return min(least)


def test_the_programs_own_files_are_mapped_and_touched(tmp_path: Path) -> None:
    found = {}
    for are_touched in (False, True):
        path = tmp_path / f"{are_touched}.trace"
        path.write_bytes(of_files(are_touched=are_touched).bytes(blocks=1))
        found[are_touched] = usage(path)
    faults, pages = (more - less for more, less in zip(found[True], found[False], strict=True))
    of_first = READ_OF_FILE + WRITTEN + READ_OF_SHARED + MOVED_PAGES
    # A forked child has faults of its own, and the kernel counts resident pages by batches.
    assert 0 <= faults - of_first - OF_CHILD <= 150
    assert abs(pages - of_first) <= 256


MAPS_MOST, TOO_MANY = 1 << 16, 3001  # shadow.c


@pytest.mark.slow
def test_of_a_forged_trace_no_more_files_are_mapped_than_a_process_may_have(tmp_path: Path) -> None:
    """Each lies below the one before, at the page before it in the file."""
    count, found = MAPS_MOST + TOO_MANY, {}
    for are_touched in (False, True):
        trace = Made(flags=HAS_ALLOCATIONS, files=[(count * PAGE, 0, b"/no/such/file")])
        for i in reversed(range(count)):
            trace.map(AT + i * PAGE, 1, flags=PRIVATE, file=1, offset=i * PAGE)
        if are_touched:
            trace.touch(AT, TOO_MANY + WRITTEN)
        path = tmp_path / f"{are_touched}.trace"
        path.write_bytes(trace.add(ALLOCATE, 0, 0, 40, 0, AT).bytes(blocks=1))
        found[are_touched] = usage(path, repeats=1)[0]
    assert abs(found[True] - found[False] - WRITTEN) <= 150  # others than 4010


def test_threads_forks_and_execs_have_the_blocks_that_are_theirs(tmp_path: Path) -> None:
    trace = made()
    trace.tasks = 3
    trace.number(TASK, 1, what=FORK).number(TASK, 2, what=THREAD)
    trace.add(FREE, 0, 1, task=2).add(FREE, 0, 1, task=1).add(FREE, 0, 1, task=0)  # once each
    trace.add(EXEC, task=1).add(FREE, 0, 0, task=1).add(ALLOCATE, 0, 0, 9, 0, AT, task=1)
    trace.add(FREE, 0, 0, task=1).add(EXIT, task=1).add(EXIT).add(FREE, 0, 0, task=2)
    path = tmp_path / "a.trace"
    path.write_bytes(trace.bytes(blocks=2))
    status, done, said = again(path)
    assert (status, said) == (0, "")
    assert (done["allocated"], done["freed"], done["skipped"]) == (3, 4, 0)


@pytest.mark.parametrize("words", [[], ["order=free"]], ids=["turns", "free"])
def test_a_block_waits_for_the_thread_that_had_it_before(words: list[str], tmp_path: Path) -> None:
    """Each is freed by the thread after the one that allocates it, and its number is used again."""
    threads, rounds, blocks = 4, 2000, 7
    trace = made()
    trace.tasks = threads + 1
    for task in range(1, threads + 1):
        trace.number(TASK, task, what=THREAD)
    for i in range(rounds):
        number = 2 + i % blocks
        trace.add(ALLOCATE, 0, number, 100 + i % 900, 0, AT, task=1 + i % threads)
        trace.add(FREE, 0, number, task=1 + (i + 1) % threads)
    path = tmp_path / "a.trace"
    path.write_bytes(trace.bytes(blocks=2 + blocks))
    status, done, said = again(path, *words)
    assert (status, said) == (0, "")
    assert (done["allocated"], done["freed"], done["skipped"]) == (2 + rounds, rounds, 0)


def test_blocks_in_turn_of_a_thread_each_are_done_by_few_turns(tmp_path: Path) -> None:
    threads, rounds = 4, 2000
    trace = made()
    trace.tasks = threads + 1
    for task in range(1, threads + 1):
        trace.number(TASK, task, what=THREAD)
    for i in range(rounds):
        task = 1 + i % threads
        trace.add(ALLOCATE, 0, 1 + task, 100 + i % 900, 0, AT, task=task)
        trace.add(FREE, 0, 1 + task, task=task)
    path = tmp_path / "a.trace"
    path.write_bytes(trace.bytes(blocks=2 + threads))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
    status, done, _ = again(path)
    switches = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - before
    assert (status, done["allocated"]) == (0, 2 + rounds)
    assert switches < rounds / 10


def test_what_is_too_large_is_refused_and_what_is_forged_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    huge = made().add(ALLOCATE, 0, 2, 1 << 62, 0, AT).add(RESIZE, 0, 1, 1 << 62, AT, 0)
    path.write_bytes(huge.bytes(blocks=3))
    status, done, _ = again(path)
    assert (status, done["refused"]) == (0, 2)
    for forged, blocks, why in (
        (made(), 1, "no number"),
        (Made().map(AT, 1), 0, "no allocations"),
        (made(), 1 << 40, "out of bounds"),
    ):
        path.write_bytes(forged.bytes(blocks=blocks))
        status, _, said = again(path)
        assert (status, said.count("\n")) == (1, 1)
        assert why in said


def test_a_trace_without_allocations_has_no_level_of_malloc(tmp_path: Path) -> None:
    path = Made().map(AT, 1).write(tmp_path / "a.trace")
    with pytest.raises(BadLevels, match="--allocations"):
        request.command([str(path)], {"malloc": ["glibc"]})


def test_how_much_of_the_memory_is_in_allocations_is_exact(tmp_path: Path) -> None:
    """Pages are the allocator's by a block that comes before or after their first touch, until
    they are unmapped; those of a large block too, and where it is moved to."""
    trace = Made(flags=HAS_ALLOCATIONS, tasks=2).add(START)
    trace.map(AT, 100).touch(AT, 60)
    trace.add(ALLOCATE, 0, 0, 9 * PAGE + 1, 0, AT + 100)  # 10 pages, touched before
    trace.add(ALLOCATE, 0, 1, 8, 0, AT + 70 * PAGE).touch(AT + 70 * PAGE, 3)  # one of 3
    trace.add(ADVISE, AT, 5 * PAGE, 4).touch(AT, 5)  # MADV_DONTNEED: 5 that come again
    trace.map(AT << 1, 1000).touch(AT << 1, 7)
    trace.add(ALLOCATE, 0, 2, 500 * PAGE, 0, AT << 1).touch((AT << 1) + 90 * PAGE, 11)
    trace.touch((AT << 1) + 600 * PAGE, 13)  # beside it
    trace.add(REMAP, AT << 1, 500 * PAGE, 500 * PAGE, AT << 2, 0)
    trace.add(RESIZE, 0, 2, 500 * PAGE, AT << 2, 0).touch((AT << 2) + 400 * PAGE, 17)
    trace.add(UNMAP, AT, 10 * PAGE).map(AT, 10).touch(AT, 10)  # of another
    trace.number(TASK, 1, what=FORK).touch(AT + 20 * PAGE, 19, task=1)  # copies
    found = account.of(file.read(write(trace, tmp_path, 3)))
    assert found.memory_pages == 60 + 3 + 5 + 7 + 11 + 13 + 17 + 10
    assert found.block_pages == 10 + 1 + 5 + 7 + 11 + 17


@pytest.mark.parametrize("touched", [3, 9])
def test_pages_of_blocks_that_the_program_left_untouched_are_said(
    touched: int, tmp_path: Path
) -> None:
    """A replay writes all of a small block: three times 9 pages, of which the program touched some;
    a page counts once until it is given back or unmapped."""
    trace = Made(flags=HAS_ALLOCATIONS).add(START).map(AT, 100)
    for block in range(2):  # on the same memory
        trace.add(ALLOCATE, 0, block, 9 * PAGE, 0, AT)
        if not block:
            trace.touch(AT, touched)
        trace.add(FREE, 0, block)
    trace.add(ADVISE, AT, 100 * PAGE, 4).add(ALLOCATE, 0, 2, 9 * PAGE, 0, AT)  # MADV_DONTNEED
    trace.touch(AT, touched).add(FREE, 0, 2)
    large = AT + 20 * PAGE
    trace.add(ALLOCATE, 0, 3, 40 * PAGE, 0, large).touch(large, 1).add(FREE, 0, 3)
    path = write(trace.add(UNMAP, AT, 100 * PAGE), tmp_path, 4)
    counted = account.of(file.read(path))
    assert (counted.untouched_pages, counted.block_pages) == (2 * (9 - touched), 2 * touched + 1)
    answer = (request.command([str(path)], {"malloc": ["glibc"]}).subject or {})["trace"]
    said = "a replay writes 12 pages of blocks that the program did not write, beside 7 that it"
    assert (said in answer) == (touched == 3)


def write(trace: Made, folder: Path, blocks: int) -> Path:
    path = folder / "a.trace"
    path.write_bytes(trace.bytes(blocks=blocks))
    return path


@pytest.mark.parametrize("mapped", [0, 40])
def test_too_few_allocations_are_no_subject_of_an_allocator(tmp_path: Path, mapped: int) -> None:
    """Under half, another allocator is refused; else the answer says how much they are."""
    trace = Made(flags=HAS_ALLOCATIONS).add(START).map(AT, 100).touch(AT, 30 + mapped)
    path = write(trace.add(ALLOCATE, 0, 0, 30 * PAGE, 0, AT), tmp_path, 1)
    if mapped:
        with pytest.raises(BadLevels, match=r"allocations are 43 % of the memory .* under half"):
            request.command([str(path)], {"malloc": ["glibc"]})
    else:
        asked = request.command([str(path)], {"malloc": ["glibc"]})
        assert "allocations are 100 % of the memory" in (asked.subject or {})["trace"]
    said = list(shown.lines(file.read(path), account.of(file.read(path))))
    assert any("too little to try another allocator" in line for line in said) == bool(mapped)
    assert ("malloc=" in said[-1]) == (not mapped)


def test_huge_pages_that_a_program_asks_for_are_not_its_allocators(tmp_path: Path) -> None:
    trace = Made(flags=HAS_ALLOCATIONS).add(START).map(AT, 100).touch(AT, 30)
    trace.add(ALLOCATE, 0, 0, 30 * PAGE, 0, AT)
    for advice, size in ((15, ""), (14, "120 KiB")):  # MADV_NOHUGEPAGE, MADV_HUGEPAGE
        path = write(trace.add(ADVISE, AT, 30 * PAGE, advice), tmp_path, 1)
        said = (request.command([str(path)], {"malloc": ["glibc"]}).subject or {})["trace"]
        assert (f"asks for huge pages (MADV_HUGEPAGE, {size} in all)" in said) == bool(size)
        said = (request.command([str(path)], {"thp": ["never"]}).subject or {})["trace"]
        assert "huge page" not in said.replace("recorded without huge pages", "")


def test_a_small_program_has_its_huge_pages_by_chance(tmp_path: Path) -> None:
    for pages, share in ((1024, "50 %"), (10241, "")):
        path = Made().add(START).map(AT, 20000).touch(AT, pages).write(tmp_path / f"a{pages}.trace")
        said = (request.command([str(path)], {"thp": ["never", "always"]}).subject or {})["trace"]
        clause = f"which differ from run to run, and one is {share or '5'} of its peak"
        assert (clause in said) == bool(share)
        assert ("run to run" in said) == bool(share)
        said = (request.command([str(path)], {"thp": ["inherit", "never"]}).subject or {})["trace"]
        assert "run to run" not in said


@pytest.mark.needs("recording")
def test_a_static_program_has_no_allocations(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        "int main(void) { void *p = malloc(4 << 20); memset(p, 1, 4 << 20); return p == 0; }\n"
    )
    built = ["cc", "-static", "-o", str(tmp_path / "a"), str(tmp_path / "a.c")]
    if subprocess.run(built, capture_output=True, check=False).returncode:
        pytest.skip("this compiler links no static program")
    path = tmp_path / "a.trace"
    recording.record(path, command=[str(tmp_path / "a")], how=recording.How(allocations=True))
    found = account.of(file.read(path))
    assert (found.block_pages, found.memory_pages >= 1024) == (0, True)
    with pytest.raises(BadLevels, match="allocations are 0 % of the memory"):
        request.command([str(path)], {"malloc": ["glibc", "jemalloc"]})


def test_the_page_faults_of_its_own_table_are_counted(tmp_path: Path) -> None:
    """512 entries a page; after a fork one fault a page that either process goes on with."""
    trace = Made(flags=HAS_ALLOCATIONS, tasks=2)
    for number in range(5 * 512):
        trace.add(ALLOCATE, 0, number, 16, 0, AT)
    path = tmp_path / "a.trace"
    path.write_bytes(trace.bytes(blocks=5 * 512))
    assert again(path)[1]["own traps"] == 5
    trace.number(TASK, 1, what=FORK)
    for number in (0, 511, 512, 5 * 512 - 1):
        trace.add(FREE, 0, number, task=1)
    trace.add(FREE, 0, 7, task=1).add(EXIT, task=1)
    for number in (1024, 1025):
        trace.add(FREE, 0, number)
    path.write_bytes(trace.bytes(blocks=5 * 512))
    status, done, said = again(path)
    assert (status, said, done["freed"]) == (0, "", 7)
    assert done["own traps"] == 5 + (3 + 1) + (1 + 1)  # and one each of what it knows of pages


@pytest.mark.needs("counts of page faults")
def test_faults_of_a_replay_of_allocations_are_without_its_own(
    tmp_path: Path, store_path: Path
) -> None:
    """A block that is freed at once takes no memory; each takes an entry of the table."""
    counts = []
    for blocks in (512, 200 * 512):
        trace = Made(flags=HAS_ALLOCATIONS).add(START).map(AT, 1)
        for number in range(blocks):
            trace.add(ALLOCATE, 0, number, 16, 0, AT).touch(AT, 1).add(FREE, 0, number)
        path = write(trace, tmp_path, blocks)
        run = memlab.trial([str(path)], blocks=1, store=store_path, malloc=["glibc"], thp=["never"])
        (tried,) = run.samples
        counts.append((tried.raw or {})["window"]["counters"]["trapped"]["count"])
    assert abs(counts[1] - counts[0]) < 50
