"""Pages that a program uses again: known numbers of blocks, in the trace and in a replay."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import needs
import pytest

import memlab as lab
from memlab.command import request
from memlab.fit import traced
from memlab.run.pins import Pins
from memlab.trace import account, file, shown
from memlab.trace.session import Recorded

from .made import (
    AGAIN,
    AT,
    EXIT,
    FORK,
    HAS_AGAIN,
    LOOKED,
    LOOKED_AT_LIMIT,
    MACHINE,
    PAGE,
    PRIVATE,
    READ,
    START,
    TASK,
    WAS_CACHED,
    WATCHED,
    WATCHED_HUGE,
    Made,
    records,
    replay,
)  # fmt: skip
from .referenced import REFERENCED_KIB

pytestmark = pytest.mark.skipif(not MACHINE, reason="replays are of x86-64 and arm64")

UNIT = 16  # pages
MOST, SOME, WHOLE, COLD, LOOKS = 61, 23, 17, 13, 4
PROGRAM = f"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
enum {{ BLOCK = 65536, PAGE = 4096 }};
static volatile char *blocks(int count)
{{
    char *here = mmap(NULL, (count + 2) * BLOCK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    here += BLOCK - (unsigned long)here % BLOCK;
    munmap(here + count * BLOCK, BLOCK); /* apart from the next one */
    for (long at = 0; at < count * BLOCK; at += PAGE)
        here[at] = 1;
    return here;
}}
{REFERENCED_KIB}
static int look_has_been(void) /* that has cleared the accessed bits */
{{
    return referenced_kib() < {COLD} * 64;
}}
int main(void)
{{
    volatile char *most = blocks({MOST}), *whole = blocks({WHOLE}), *cold = blocks({COLD});
    printf("[%lu, %lu, %lu]\\n", (long)most, (long)whole, (long)cold);
    fflush(stdout);
    for (int looks = 0; looks < {LOOKS} + 2; looks += look_has_been()) {{
        for (int i = 0; i < {SOME}; i++)
            for (int page = 0; page < 16; page++)
                most[2 * i * BLOCK + page * PAGE]++;
        for (long at = 0; at < {WHOLE} * BLOCK; at += PAGE)
            whole[at]++;
        usleep(2000);
    }}
}}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int], str]:
    """The trace, where the program mapped the blocks, and what was said."""
    needs.of("recording")
    folder = tmp_path_factory.mktemp("again")
    (folder / "again.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", "again", "again.c"], cwd=folder, check=True)
    command = [sys.executable, "-m", "memlab", "record", "-o", "a.trace", "--", "./again"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return folder / "a.trace", json.loads(done.stdout.splitlines()[0]), done.stdout


def used(path: Path, at: int, blocks: int) -> list[tuple[int, int]]:
    """The pages of some blocks that were used again, and the blocks, by look."""
    looks: list[tuple[int, int]] = []
    is_new = True  # a look has one time
    for record in records(path):
        is_new |= record.after_ns > 0
        end = record.address + record.operands[0] if record.kind == AGAIN else 0
        if end <= at or record.address >= at + blocks * UNIT * PAGE:
            continue
        pages = [
            page
            for page in range(record.address // PAGE, end // PAGE)
            if record.operands[1] >> page % 64 & 1 and at <= page * PAGE < at + blocks * UNIT * PAGE
        ]
        if not pages:
            continue
        if is_new:
            looks.append((0, 0))
        is_new = False
        looks[-1] = (looks[-1][0] + len(pages), looks[-1][1] + len({p // UNIT for p in pages}))
    return looks


def test_blocks_that_are_used_again_are_counted_exactly(
    recorded: tuple[Path, list[int], str],
) -> None:
    """All that the program uses at one look at least, and never more; less at another one if it was
    stopped amid its round until then, as on a busy machine, or had only begun."""
    path, (most, whole, cold), said = recorded
    for at, blocks, count in ((most, MOST, SOME), (whole, WHOLE, WHOLE)):
        assert max(used(path, at, blocks)) == (count * UNIT, count)
    assert not used(path, cold, COLD)
    assert "pages that it used again are in it" in said


def test_of_a_part_of_a_mapping_the_place_is_a_guess(
    recorded: tuple[Path, list[int], str],
) -> None:
    counted = account.of(file.read(recorded[0]))
    assert counted.guessed_pages >= SOME * UNIT
    assert counted.again_pages - counted.guessed_pages >= WHOLE * UNIT


def test_a_replay_uses_the_pages_of_the_mask_and_passes_over_the_others(tmp_path: Path) -> None:
    """Each is a fault here, of memory that was not touched before."""
    made = Made().map(AT, 640)
    plain = replay(made.write(tmp_path / "a.trace"))
    made.add(AGAIN, AT, 640 * PAGE, 0b10011).add(AGAIN, AT + 1000 * PAGE, 64 * PAGE, 1)
    done = replay(made.write(tmp_path / "b.trace"))
    assert (done.status, done.touches, done.passed) == (0, 0, 0)
    assert done.faults - plain.faults == 3 * 10


FILE_PAGES, TIMES = 8192, 4


def of_file(flags: int) -> Made:
    """A file that is read once, and then TIMES more times."""
    made = Made(flags=HAS_AGAIN, files=[(FILE_PAGES * PAGE, flags, b"/data")]).add(START)
    made.map(AT, FILE_PAGES, flags=PRIVATE, rights=1, file=1).touch(
        AT, FILE_PAGES // UNIT, READ, step=UNIT
    )
    made.add(LOOKED)
    for _ in range(TIMES):
        made.add(AGAIN, AT, FILE_PAGES * PAGE, (1 << 64) - 1)
    return made


def evicted(paths: Mapping[str, str]) -> Mapping[str, str]:
    for path in paths.values():
        with open(path, "rb") as held:
            os.fsync(held.fileno())
            os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return paths


@pytest.mark.slow
@pytest.mark.needs("memory cgroup")
@pytest.mark.parametrize(
    ("flags", "is_evicted"), [(0, False), (WAS_CACHED, False), (WAS_CACHED, True)]
)
def test_a_limit_has_reclaimed_pages_read_again(
    flags: int,
    is_evicted: bool,
    tmp_path: Path,
    store_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file that was in the page cache before is charged to nobody here, and stays; also if the
    host has taken it before a replay."""
    if is_evicted:
        params = Pins.params
        monkeypatch.setattr(Pins, "params", lambda self, block: evicted(params(self, block)))
    path = of_file(flags).write(tmp_path / "a.trace")
    run = lab.trial([str(path)], blocks=2, store=store_path, memory_max=["none", "16M"])
    assert [sample.outcome for sample in run.samples] == ["ok"] * 4
    free, limited = (run.values("faults", point).min() for point in run.points)
    if flags:
        assert limited == pytest.approx(free, abs=4)
    else:  # the first reads, and each of the others
        reads = FILE_PAGES // UNIT * (1 + TIMES)
        assert 0.9 * reads < limited < 1.1 * reads
        assert free < FILE_PAGES // UNIT * 1.1
    rss = [run.values("peak_rss", point).max() for point in run.points]
    assert (rss[1] < 0.7 * rss[0]) == (not flags)


def test_what_is_read_again_under_each_limit_is_counted(tmp_path: Path) -> None:
    """Of two rounds over n units all are read again unless all fit; nothing is, if they do."""
    path = of_file(0).map(2 * AT, 512).touch(2 * AT, 512).write(tmp_path / "a.trace")
    counted = account.of(file.read(path))
    units = FILE_PAGES // UNIT
    assert (counted.again_units, counted.guessed_pages) == (TIMES * units, 0)
    assert counted.unreclaimable_peak == 512
    *smaller, (limit, none) = counted.reuse
    assert none == 0
    assert FILE_PAGES <= limit < FILE_PAGES * 1.06
    assert {count for _, count in smaller} <= {TIMES * units}


@pytest.mark.slow
def test_a_limit_is_predicted_from_a_recording(tmp_path: Path) -> None:
    path = of_file(0).map(2 * AT, 512).touch(2 * AT, 512).write(tmp_path / "a.trace")
    words = ["fit", "--json", "--keep-within", "elapsed: 5%", str(path)]
    found = json.loads(memlab(*words))
    needed = FILE_PAGES * PAGE
    assert needed <= found["limit_bytes"] < 1.06 * needed
    assert found["least_bytes"] == 512 * PAGE
    said = memlab("fit", str(path))
    assert said.startswith("Predicted from the recording, not measured: made keeps its speed")
    assert "killed" in said
    path = Made().map(AT, 3).touch(AT, 3).write(tmp_path / "b.trace")
    with pytest.raises(subprocess.CalledProcessError) as raised:
        memlab("fit", str(path))
    assert "b.trace does not show which pages are used again: record" in raised.value.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "is_read", "begin"),
    [
        (WATCHED, False, None),
        (WATCHED | LOOKED_AT_LIMIT, True, "It read"),
        (WATCHED_HUGE, None, "It is not known whether it read"),
    ],
)
def test_a_prediction_says_that_the_program_read_its_limit(
    flags: int, is_read: bool | None, begin: str | None, tmp_path: Path
) -> None:
    made = of_file(0)
    made.flags |= flags
    path = str(made.write(tmp_path / "a.trace"))
    assert json.loads(memlab("fit", "--json", path))["read_limit"] is is_read
    said = " ".join(memlab("fit", path).split())
    sentence = "its cgroup's limit: a program that does may size itself by it."
    assert said.count(sentence) == (begin is not None)
    assert begin is None or f". {begin} {sentence}" in said


def test_an_answer_says_that_places_are_a_guess(tmp_path: Path) -> None:
    """Of all that was used again in one trace, of 2 % in another."""
    path = tmp_path / "a.trace"
    for guessed, said in ((1, True), (3, False)):
        made = Made(flags=HAS_AGAIN).map(AT, 64).touch(AT, 64).add(LOOKED)
        made.add(AGAIN, AT, 64 * PAGE, 0b111, what=1)
        for _ in range(guessed - 1):
            made.add(AGAIN, AT, 64 * PAGE, (1 << 64) - 1)
        subject = request.command([str(made.write(path))], {"memory_max": ["none", "32M"]}).subject
        assert subject
        assert ("the mapping is known, and not the place" in subject["trace"]) == said
        assert subject["knows_reuse"] != said


@pytest.mark.slow
@pytest.mark.parametrize(("looked", "share"), [(97, "97 %"), (61, "61 %"), (47, "")])
def test_a_limit_is_answered_for_what_was_looked_at_only(
    looked: int, share: str, tmp_path: Path
) -> None:
    """A child that ends before two looks uses nothing again, as far as the trace shows."""
    made = Made(flags=HAS_AGAIN, tasks=2).add(START).map(AT, 100).touch(AT, 23).add(LOOKED)
    made.touch(AT + 23 * PAGE, looked - 23).number(TASK, 1, what=FORK)
    made.map(2 * AT, 100, task=1).touch(2 * AT, 100 - looked, task=1).add(EXIT, task=1)
    path = made.add(AGAIN, AT, 64 * PAGE, (1 << 64) - 1).write(tmp_path / "a.trace")
    counted = account.of(file.read(path))
    assert (counted.looked_pages, counted.touched_pages) == (looked, 100)
    subject = request.command([str(path)], {"memory_max": ["none", "32M"]}).subject
    assert subject
    assert subject["knows_reuse"] is bool(share)
    why = ": other processes ended before two looks" if looked < 95 else ""
    known = f"pages used again are known for {looked} % of what it touched{why};"
    assert known in subject["trace"]
    ended = subprocess.run(
        [sys.executable, "-m", "memlab", "fit", path], capture_output=True, text=True, check=False
    )
    assert ended.returncode == (0 if share else 2)
    said = " ".join((ended.stdout + ended.stderr).split())
    if share:
        assert f"Pages used again are known for {share} of what it touched" in said
    else:
        assert "shows which pages are used again for 47 % of what the program touched" in said


@pytest.mark.parametrize(
    ("looked", "part", "how"),
    [
        (997, "", ", so memory limits can be tried"),
        (610, " for 61 % of what it touched", ", so memory limits can be tried"),
        (7, " for 0.7 % of what it touched", ": a memory limit is answered by how a replay ends"),
    ],
)
def test_the_share_of_which_use_is_known_is_said_where_it_lacks(
    looked: int, part: str, how: str, tmp_path: Path
) -> None:
    made = Made(flags=HAS_AGAIN, tasks=2).add(START).add(LOOKED).map(AT, 1000).touch(AT, looked)
    made.number(TASK, 1, what=FORK).map(2 * AT, 1000, task=1).touch(2 * AT, 1000 - looked, task=1)
    trace = file.read(made.add(AGAIN, AT, 64 * PAGE, (1 << 64) - 1).write(tmp_path / "a.trace"))
    found = account.of(trace)
    assert (found.looked_pages, found.touched_pages) == (looked, 1000)
    line = next(shown.recorded(trace, Recorded(0, 0, 0, 0, looks_cpu_ns=0), found))
    assert (
        line == f"pages that it used again are in it{part}{how}; looking for them took 0 % of a CPU"
    )
    (line,) = [line for line in shown.lines(trace, found) if line.startswith("used again: ")]
    _, _, known = line.partition(" in all, each once a look")
    assert known == (f"; known{part}, not for processes that ended before" if part else "")


def memlab(*words: str) -> str:
    command = [sys.executable, "-m", "memlab", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_smallest_limit_leaves_what_is_allowed_to_be_read_again() -> None:
    """In 1 s and within 5 % there is time for 500 reads."""
    reuse = [(1 << 20, 900), (2 << 20, 600), (3 << 20, 500), (4 << 20, 0)]
    assert traced.predict(1.0, 0, reuse, 0.05)[0] == 3 << 20
    assert traced.predict(1.0, 0, reuse, 0.01)[0] == 4 << 20
    limit, rows = traced.predict(1.0, 5 << 20, reuse, 0.05)
    assert (limit, [row.read_again_bytes for row in rows]) == (5 << 20, [0])
    assert traced.predict(1.0, 7, [], 0.05)[0] == 7
