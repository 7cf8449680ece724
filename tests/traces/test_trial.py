"""A trace as a subject of `memlab try`: the blocks, metrics, outcomes and lines of any command."""

import mmap
import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command import memlab as memlab_command
from unprivileged import powerless

import memlab
from memlab.cli import cli
from memlab.command import request as asked
from memlab.errors import BadLevels, BadRequest, BadTrace, CannotRun
from memlab.experiment.tried import experiment
from memlab.judging.claims import judge
from memlab.judging.effects import effects
from memlab.machines.guest import handle
from memlab.present import tables, words
from memlab.present.documents.run import Show
from memlab.present.figures.kinds import bars
from memlab.trace import account, file, shown

from .made import (
    ADVISE,
    AT,
    EXEC,
    EXIT,
    FORK,
    LOOKED_AT_HUGE,
    LOOKED_AT_LIMIT,
    MACHINE,
    PAGE,
    START,
    TASK,
    THREAD,
    VFORK,
    WAS_ALWAYS,
    WAS_MADVISE,
    WATCHED,
    WATCHED_HUGE,
    WATCHED_LIMIT,
    Made,
)

pytestmark = pytest.mark.skipif(not MACHINE, reason="replays are of x86-64 and arm64")

MAPPED, TOUCHED, LESS = 1009, 401, 97
LOCKS = {"lock": ["off", "future_onfault"]}


def faults(run: memlab.Run, lock: str) -> int:
    """The fewest of some trials."""
    levels = {point.index: point.at["lock"] for point in run.points}
    raws = [s.raw for s in run.samples if levels[s.point] == lock and s.raw]
    counts = {raw["window"]["counters"]["trapped"]["count"] for raw in raws}
    if None in counts:
        pytest.skip("perf_event_open(2) of page faults is refused: see kernel.perf_event_paranoid")
    return int(min(counts))


def test_page_faults_and_locked_memory_are_those_of_the_trace(
    tmp_path: Path, store_path: Path
) -> None:
    """Of three processes, one of which starts a program: those of the replayer's are left out."""
    made = Made(tasks=4).add(START).map(AT, MAPPED).touch(AT, TOUCHED)
    for task, kind in ((1, THREAD), (2, FORK), (3, VFORK)):
        made.number(TASK, task, what=kind)
        if kind == THREAD:
            made.touch(AT + TOUCHED * PAGE, LESS, task=task)
    made.touch(AT, LESS, task=2).add(EXIT, task=2)
    made.add(EXEC, task=3).map(AT, MAPPED, task=3).touch(AT, LESS, task=3).add(EXIT, task=3)
    path = made.write(tmp_path / "a.trace")
    locks = ["off", "future", "future_onfault"]
    run = memlab.trial([str(path)], blocks=3, store=store_path, thp="never", lock=locks)
    assert [sample.outcome for sample in run.samples] == ["ok"] * 9
    begins = "What would other memory policies do to a.trace (a lock is in force for 72 % of "
    assert run.experiment.question.startswith(begins)
    # A lock brings in the mapping; a forked child and the started program have none.
    of_children = 2 * LESS
    assert {lock: faults(run, lock) for lock in locks} == {
        "off": TOUCHED + LESS + of_children,
        "future": of_children,
        "future_onfault": TOUCHED + LESS + of_children,
    }


@pytest.mark.slow
def test_a_user_whose_events_leave_the_kernel_out_has_the_same_page_faults(
    tmp_path: Path, store_path: Path
) -> None:
    """The kernel takes some of the replayer's as it writes a program's words to its stack."""
    execs = 20
    made = Made(tasks=1 + execs).add(START).map(AT, MAPPED).touch(AT, TOUCHED)
    for task in range(1, 1 + execs):
        made.number(TASK, task, what=VFORK).add(EXEC, task=task)
        made.map(AT, MAPPED, task=task).touch(AT, LESS, task=task).add(EXIT, task=task)
    path = str(made.write(tmp_path / "a.trace"))
    words = ["-m", "memlab", "--store", str(store_path), "try", "--blocks", "3", "-p", "lock=off"]
    done = powerless(*words, "-p", "thp=never", path)
    assert done.returncode == 0, done
    assert faults(memlab.load(store=store_path), "off") == TOUCHED + execs * LESS


@pytest.mark.slow
def test_the_replayers_own_policies_are_taken_on_the_command_line(
    tmp_path: Path, store_path: Path
) -> None:
    path = Made().add(START).map(AT, MAPPED).touch(AT, TOUCHED).write(tmp_path / "a.trace")
    words = ["-p", "order=recorded,free", "-p", "pace=none,recorded"]
    done = memlab_command("--store", str(store_path), "try", "--blocks", "1", *words, str(path))
    assert done.returncode == 0, done
    assert "passed_over" in done.stdout
    assert [s.outcome for s in memlab.load(store=store_path).samples] == ["ok"] * 4
    done = memlab_command("try", "--blocks", "1", "-p", "order=loose", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "order: invalid value 'loose' (choose from recorded, free)" in done.stderr


@pytest.mark.needs("root", "memory cgroup")  # which holds what the lock brings in
def test_a_lock_of_a_tebibyte_is_contained_in_one_line(tmp_path: Path, store_path: Path) -> None:
    made = Made().add(START).map(AT, (1 << 40) // 4096, flags=0x4022)
    run = memlab.trial(
        [str(made.write(tmp_path / "a.trace"))],
        blocks=1, store=store_path, lock=["future"], memory_max=["64M"],
    )  # fmt: skip
    (sample,) = run.samples
    assert sample.outcome == "oom-killed", sample.detail
    assert "\n" not in sample.detail


@pytest.mark.needs("memory cgroup")  # where the OOM killer ends a process
def test_a_killed_process_of_a_trace_ends_the_replay(tmp_path: Path, store_path: Path) -> None:
    """The others wait for their turn, which it would have had for ever."""
    made = Made(tasks=3).number(TASK, 1, what=FORK).number(TASK, 2, task=1, what=FORK)
    made.map(AT, 20_000, task=2).touch(AT, 20_000, task=2).map(AT, 1).touch(AT, 1)
    run = memlab.trial(
        [str(made.write(tmp_path / "a.trace"))],
        blocks=1, store=store_path, timeout=300, lock=["off"], memory_max=["32M"],
    )  # fmt: skip
    assert [sample.outcome for sample in run.samples] == ["oom-killed"]


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        ({"malloc": ["jemalloc"]}, "a.trace has no allocations"),
        ({"env.A": ["1"]}, "env.A is not a policy of a trace"),
        ({"n": ["1"]}, "n is not a policy of a trace"),
        ({"pace": ["fast"]}, "choose from none, recorded"),
        ({"order": ["none"]}, "choose from recorded, free"),
    ],
)
def test_a_policy_that_a_replay_cannot_have_is_refused(
    tmp_path: Path, policies: dict[str, list[object]], why: str
) -> None:
    path = Made().map(AT, MAPPED).write(tmp_path / "a.trace")
    with pytest.raises(BadLevels, match=why):
        asked.command([str(path)], policies)


def test_a_trace_has_no_service_and_no_metric_of_its_own(tmp_path: Path) -> None:
    path = Made().map(AT, MAPPED).write(tmp_path / "a.trace")
    with pytest.raises(BadRequest, match="is a trace"):
        asked.command([str(path)], {}, asked.Trying(serve=["true"], ready="tcp:1"))
    with pytest.raises(BadTrace, match="No such file"):
        asked.command([str(tmp_path / "none.trace")], {})


def test_small_pages_of_a_recording_with_huge_ones_are_said_to_be_unknown(tmp_path: Path) -> None:
    path = Made(flags=2).map(AT, MAPPED).write(tmp_path / "a.trace")
    request = asked.command([str(path)], {"thp": ["always", "never"]})
    assert "recorded with huge pages" in (request.subject or {})["trace"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locks", "where"), [("off,future", "lock=future"), ("future,off", "the first levels")]
)
def test_calls_that_a_level_has_refused_are_said_to_change_the_program(
    locks: str, where: str, tmp_path: Path, store_path: Path
) -> None:
    """Locked memory is not given back by MADV_DONTNEED (madvise(2)): V8 ends itself there."""
    made = Made().add(START).map(AT, 3).touch(AT, 3)
    for _ in range(LESS):
        made.add(ADVISE, AT, PAGE, mmap.MADV_DONTNEED)
    path = made.write(tmp_path / "a.trace")

    def said(locks: str) -> str:
        words = ["try", "--blocks", "1", "-p", f"lock={locks}", str(path)]
        done = memlab_command("--store", str(store_path), *words)
        assert done.returncode == 0, done
        return " ".join(done.stdout.split())

    assert f"{LESS} more calls are refused with {where}: a replay goes on" in said(locks)
    assert "are refused with" not in said("off")


@pytest.mark.parametrize(
    ("flags", "policies", "said"),
    [
        (WATCHED | WAS_MADVISE, {"thp": ["never", "always"], "memory_max": ["none", "1G"]}, []),
        (
            WATCHED | LOOKED_AT_HUGE | WAS_MADVISE,
            {"thp": ["never", "madvise", "always"]},
            ["it read the host's setting of huge pages (madvise), and may act otherwise under "
             "always"],
        ),
        (WATCHED | LOOKED_AT_HUGE | WAS_ALWAYS, {"thp": ["never", "always"]}, []),
        (
            WATCHED | LOOKED_AT_HUGE,
            {"thp": ["madvise"]},
            ["it read the host's setting of huge pages (never), and may act otherwise under "
             "madvise"],
        ),
        (WATCHED | LOOKED_AT_HUGE, {"thp": ["never"], "lock": ["off", "future"]}, []),
        (0, {"thp": ["never"], "lock": ["off", "future"]}, []),
        (
            0,
            {"thp": ["always"], "memory_max": ["none", "1G"]},
            ["it is not known whether it acts otherwise if it reads thp=always",
             "it is not known whether it acts otherwise if it reads its memory limit"],
        ),
        (
            WATCHED_HUGE,
            {"thp": ["always"], "memory_max": ["none", "1G"]},
            ["it is not known whether it acts otherwise if it reads its memory limit"],
        ),
        (
            WATCHED_LIMIT,
            {"thp": ["always"], "memory_max": ["none", "1G"]},
            ["it is not known whether it acts otherwise if it reads thp=always"],
        ),
        (
            WATCHED | LOOKED_AT_LIMIT,
            {"lock": ["off", "future"]},
            ["it read the memory limit of its cgroup, and may act otherwise under that of a "
             "trial"],
        ),
    ],
)  # fmt: skip
def test_an_answer_says_what_the_program_read_of_a_policy(
    flags: int, policies: dict[str, list[str]], said: list[str], tmp_path: Path
) -> None:
    path = Made(flags=flags).add(START).map(AT, 1).touch(AT, 1).write(tmp_path / "a.trace")
    subject = asked.command([str(path)], policies).subject or {}
    notes = subject["trace"].partition(" (")[2].removesuffix(")").split("; ")
    assert [note for note in notes if "otherwise" in note] == said


def test_the_recorded_pace_is_a_policy(tmp_path: Path) -> None:
    path = Made().map(AT, MAPPED).write(tmp_path / "a.trace")
    subject = asked.command([str(path)], {"pace": ["none", "recorded"]}).subject or {}
    assert subject["argv"] == ["pace={pace}", str(path)]


def test_free_threads_are_a_level_and_what_they_pass_over_is_counted(
    tmp_path: Path, store_path: Path
) -> None:
    made = Made(tasks=3).map(AT, MAPPED).number(TASK, 1, what=THREAD).number(TASK, 2, what=THREAD)
    made.touch(AT, LESS, task=1).touch(AT + LESS * 4096, LESS, task=2).touch(AT - 4096, 1)
    path = made.write(tmp_path / "a.trace")
    run = memlab.trial([str(path)], blocks=1, store=store_path, order=["recorded", "free"])
    assert [sample.outcome for sample in run.samples] == ["ok", "ok"]
    found = [(sample.raw or {})["metrics"] for sample in run.samples]
    assert [(one["refused"], one["passed_over"]) for one in found] == [(0, 1), (0, 1)]


def test_a_trace_that_a_guest_does_not_see_is_refused_before_it_boots(tmp_path: Path) -> None:
    """Of a folder where a guest has a file system of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as hidden:
        path = Made().map(AT, MAPPED).write(Path(hidden) / "a.trace")
        request = asked.command([str(path)], {"lock": ["off"]}, cwd=Path("/"))
        with pytest.raises(CannotRun, match="is not seen in a guest") as raised:
            handle._checked(request)
    assert "a.trace" in str(raised.value)
    assert "\n" not in str(raised.value)
    handle._checked(asked.command(["sort", "-o", "/dev/null"], {}, cwd=Path("/")))


@pytest.mark.parametrize("starts", [False, True])
def test_of_a_program_that_preloads_no_lock_the_answer_says_so(
    starts: bool, tmp_path: Path
) -> None:
    made = Made().map(AT, MAPPED).touch(AT, 31)
    path = (made.add(START) if starts else made).write(tmp_path / "a.trace")
    for levels, is_locked in ((["off", "future"], True), (["off", "current"], False)):
        subject = asked.command([str(path)], {"lock": levels}).subject or {}
        assert ("as if it called mlockall(2)" in subject["trace"]) == (is_locked and not starts)


@pytest.mark.parametrize(("childs", "share"), [(3, "98 %"), (300, "")])
def test_a_lock_that_covers_less_than_half_of_a_trace_is_refused(
    childs: int, share: str, tmp_path: Path
) -> None:
    """A shell starts a program that preloads nothing: its exec is followed by no start."""
    trace = Made(tasks=2).map(AT, MAPPED).touch(AT, 31).add(START).touch(AT + 31 * PAGE, 97)
    trace.number(TASK, 1, what=FORK).add(EXEC, task=1)
    path = trace.map(AT, MAPPED, task=1).touch(AT, childs, task=1).write(tmp_path / "a.trace")
    counted = account.of(file.read(path))
    assert (counted.lockable_pages, counted.touched_pages) == (128, 128 + childs)
    if share:
        subject = asked.command([str(path)], {"lock": ["off", "future"]}).subject or {}
        assert f"a lock is in force for {share}" in subject["trace"]
    else:
        with pytest.raises(BadLevels, match=r"a lock is in force for 30 % .* under half"):
            asked.command([str(path)], {"lock": ["off", "future_onfault"]})
    subject = asked.command([str(path)], {"lock": ["off", "current"]}).subject or {}
    assert "a lock" not in subject["trace"]


@pytest.mark.slow
def test_several_recordings_are_one_subject_and_each_counts_once(
    tmp_path: Path, store_path: Path
) -> None:
    """Their pages differ, so the interval of a level holds the largest and the smallest of them."""
    touched = [LESS * number for number in (2, 3, 4, 5, 6, 7)]
    paths = [
        str(Made().add(START).map(AT, MAPPED).touch(AT, pages).write(tmp_path / f"a{i}.trace"))
        for i, pages in enumerate(touched, 1)
    ]
    run = memlab.trial(paths, blocks=12, store=store_path, thp="never", **LOCKS)
    assert (run.unit, run.unit_count, len(run.samples)) == ("recording", 6, 24)
    assert "a1.trace and 5 more (6 recorded runs" in run.experiment.question
    said = [(sample.block, (sample.raw or {})["output"]) for sample in run.samples]
    assert all(f"replayed {touched[block % 6]} touches" in text for block, text in said)
    off = run.values("faults", run.points[0])
    assert [b - a for a, b in pairwise(off)] == [LESS] * 5
    interval = run.interval(off)
    assert interval.n == 6
    assert interval.low < off.min() < off.max() < interval.high  # type: ignore[operator]


@pytest.mark.parametrize(
    ("names", "how", "why"),
    [
        ("aa", {}, "are one recording"),
        ("ac", {}, "are one recording"),
        ("ab", {"blocks": 3}, "name a multiple of 2"),
        ("ab", {"sessions": 2}, "without sessions"),
        ("ab", {"precision": 0.1}, "without sessions and --precision"),
        ("ad", {}, "a.trace is of made, d.trace of other"),
    ],
)
def test_recordings_that_are_not_several_of_one_program_are_refused(
    tmp_path: Path, names: str, how: dict[str, Any], why: str
) -> None:
    made = {name: Made().map(AT, MAPPED + (name == "b")).bytes() for name in "abc"}
    made["d"] = made["b"].replace(b"made".ljust(16, b"\0"), b"other".ljust(16, b"\0"))
    for name, content in made.items():
        (tmp_path / f"{name}.trace").write_bytes(content)
    with pytest.raises(BadRequest, match=why):
        asked.command([str(tmp_path / f"{name}.trace") for name in names], {}, **how)


def test_an_option_behind_a_trace_is_told_its_place(tmp_path: Path) -> None:
    path = Made().map(AT, 3).touch(AT, 3).write(tmp_path / "a.trace")
    with pytest.raises(BadRequest, match=r"is a trace, and options stand before traces: memlab"):
        asked.command([str(path), "-p", "thp=never"], {})
    with pytest.raises(BadRequest, match=r"is a trace, and x is not a trace: name only traces"):
        asked.command([str(path), "x"], {})


def test_a_file_that_is_no_program_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for name, why in (("a", "it is not executable"), ("b", "no such command or process")):
        words = ["record", "-o", str(tmp_path / "a.trace"), "--", str(tmp_path / name)]
        done = CliRunner().invoke(cli, words)
        assert (done.exit_code, f"{tmp_path / name}: {why}" in done.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_metric_that_a_check_has_far_off_says_so_in_each_answer(
    is_packed: bool, tmp_path: Path, store_path: Path
) -> None:
    """By `try` itself, and by all that shows its run later: on the screen, as JSON and drawn."""
    path = Made().map(AT, MAPPED).touch(AT, LESS).write(tmp_path / "a.trace")
    if is_packed:
        file.pack(path)
    before = account.of(file.read(path))
    assert not [*file.read(path).doubts]
    file.note_errors(path, [0.1, -0.11, 30.0])
    trace = file.read(path)
    off = [
        "peak resident memory was -11 % off the command when checked",
        "calls were +127 % or more off the command when checked",
    ]
    assert [*trace.doubts] == off
    assert account.of(trace) == before
    answers = [
        memlab_command("--store", str(store_path), *words)
        for words in (
            ("try", "--blocks", "1", "-p", "thp=inherit,never", str(path)),
            ("show",),
            ("show", "--json"),
            ("compare", "last", "--baseline", "thp=inherit", "--metric", "peak_rss"),
            ("plot", "-o", str(tmp_path / "a.svg")),
        )
    ]
    assert [answer.returncode for answer in answers] == [0] * 5, answers
    drawn = re.sub("<[^>]*>", " ", (tmp_path / "a.svg").read_text())
    for text in (*(answer.stdout for answer in answers[:4]), drawn):
        assert all(doubt in " ".join(text.split()) for doubt in off)
    said = [*shown.lines(trace, before)]
    assert [f"a replay differs: {doubt}" for doubt in off] == [s for s in said if "differs" in s]


def test_no_time_of_a_replay_under_50_ms_is_judged(tmp_path: Path, store_path: Path) -> None:
    path = Made().add(START).map(AT, MAPPED).touch(AT, 7).write(tmp_path / "a.trace")
    run = memlab.trial(
        [str(path)], blocks=6, store=store_path, expect=["cpu_time: lock=off < 10s"], **LOCKS
    )
    judged, *_ = judge(run)
    assert (judged.word, judged.evidence) == (
        "inconclusive",
        "under 50 ms in a replay, which is too coarse",
    )
    (change,) = next(effects(run, ["cpu_time"])).changes
    assert words.change(change) == "not judged (under 50 ms in a replay)"


@pytest.mark.needs("memory cgroup")
def test_a_limit_is_answered_by_how_the_replay_ends_only(tmp_path: Path, store_path: Path) -> None:
    """Reclaimed pages are not touched again in a replay: its numbers would be of less work."""
    path = Made().add(START).map(AT, 20_000).touch(AT, 20_000).write(tmp_path / "a.trace")
    run = memlab.trial(
        [str(path)], blocks=1, store=store_path, memory_max=["none", "32M", "1G"],
        expect=["faults: memory_max=1G / memory_max=none < 2"],
    )  # fmt: skip
    said = [words.effect(run.experiment, one) for one in effects(run, run.experiment.watched)]
    why = "no more is reported, because the trace does not show which pages are used again"
    assert [text.partition(": ")[2].partition(" ")[0] for text in said] == ["oom-killed:", "ended"]
    assert all(text.endswith(why) for text in said)
    assert judge(run)[0].word == "inconclusive"
    rows = {row[0]: row[1:] for row in tables.medians(run)[0].rows}
    assert [{*map(str, rows[name])} for name in [*rows][1:]] == [{"oom-killed"}, {"ok"}]
    document = Show.made_of(run)
    assert [bool(point.medians) for point in document.points] == [True, False, False]
    drawn = bars.rows(run, run.experiment.figure)
    assert [row["why"] for row in drawn if row["kind"] == "bar" and "why" in row] == [
        "oom-killed", "the trace does not show which pages are used again"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "why"),
    [("echo it cannot be read >&2; exit 1", "it cannot be read"), ("kill $$", "signal 15")],
)
def test_a_replay_without_its_cached_files_is_no_sample(
    ends: str, why: str, tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page faults and memory would be others than the program's."""
    tool = tmp_path / "cache"
    tool.write_text(f"#!/bin/sh\n{ends}\n")
    tool.chmod(0o755)
    of_point = experiment.spec_of
    monkeypatch.setattr(experiment, "spec_of", lambda *at: of_point(*at) | {"cache": str(tool)})
    path = Made().map(AT, MAPPED).touch(AT, TOUCHED).write(tmp_path / "a.trace")
    run = memlab.trial([str(path)], blocks=1, store=store_path, lock=["off"])
    (sample,) = run.samples
    assert (sample.outcome, sample.raw) == ("error", None)
    assert re.search(f"files are not in the page cache as recorded: .*{why}: EIO", sample.detail)
