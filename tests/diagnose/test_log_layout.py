"""A kernel log as a console, a crash store or a tool lays its lines out: the answer is the same."""

from __future__ import annotations

import itertools
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from memlab.diagnose.kernel_log import answer, forms, layout, reports

from .test_last_kill import V1

GROUP = "/kubepods.slice/kubepods-burstable.slice/kubepods-pod7.slice/cri-app.scope"
BODIES = [
    line.partition("] ")[2].replace("=/job", f"={GROUP}").replace("/job:", f"{GROUP}:")
    for line in V1.splitlines()
]
LINES = [f"[84211.104{i:03}] {body}" for i, body in enumerate(BODIES)]


def printed(text: str) -> list[str]:
    return list(answer.lines(reports.read(forms.lines_of(text.encode()))))


def wrapped(width: int, ending: str, stamp: str = "") -> str:
    lines = [f"{stamp}{line}" for line in LINES]
    parts = [line[i : i + width] for line in lines for i in range(0, len(line), width)]
    return ending.join(parts) + ending


def test_the_report_names_its_group() -> None:
    assert any(
        f"it was the limit of the group {GROUP}:" in line for line in printed(wrapped(999, "\n"))
    )


@pytest.mark.parametrize("width", [79, 80, 100, 132])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_console_breaks_lines_at_its_width(width: int, ending: str) -> None:
    assert printed(wrapped(width, ending)) == printed("\n".join(LINES))


def test_lines_that_are_as_long_by_chance_stay_apart() -> None:
    lines = [f"[{i}.000000] {'x' * 70}" for i in range(10, 20)]
    assert layout.unwrapped(lines, forms.is_stamped) == lines
    bare = ["x" * 80] * 5
    assert layout.unwrapped(bare, forms.is_stamped) == bare, "without a stamp nothing tells"
    assert layout.unwrapped([], forms.is_stamped) == []


@pytest.mark.parametrize(
    "pattern",
    [
        ["[1.000000] " + "x" * 74, *["-" * 85] * 3, "Restarting."],
        ["[1.000000] " + "x" * 74, "-" * 85, "=" * 85, "*" * 85, "Restarting."],
        [part for i in range(10, 15) for part in (f"[{i}.000000] {'x' * 73}", "-" * 85, "Again.")],
        ["[1.000000] Trace:", *[f"{i:085d}" for i in range(9)], "end"],
        [
            *(f"[{i}.000000] {'e' * (20 + i)}\n  at some.program" for i in range(10, 20)),
            *(f"[{i}.000000] {'x' * 70}\n{'y' * 80}" for i in range(20, 22)),
        ],
    ],
    ids=["rulers", "other rulers", "titles", "blocks", "traces"],
)
def test_what_a_program_prints_without_a_stamp_is_joined_to_nothing(pattern: list[str]) -> None:
    lines = "\n".join(pattern).split("\n")
    assert layout.unwrapped(lines, forms.is_stamped) == lines
    assert layout.unwrapped(lines * 3, forms.is_stamped) == lines * 3


def test_of_a_broken_line_without_end_a_bounded_part_is_joined() -> None:
    """To add each to what is there already takes time by the square of the file."""
    heads = [f"[{i}.000000] {'x' * 74}" for i in range(10, 13)]
    lines = [*(part for head in heads for part in (head, "rest")), heads[0], *["y" * 86] * 10_000]
    joined = layout.unwrapped(lines, forms.is_stamped)
    assert joined[:3] == [f"{head}rest" for head in heads]
    assert "".join(joined) == "".join(lines)
    assert max(map(len, joined)) < 4096 + 86


@pytest.mark.parametrize("cut", [(6,), (4, 9), (3, 6, 9)])
def test_a_crash_store_has_the_last_part_first(cut: tuple[int, ...]) -> None:
    """Of two events, each in parts (pstore); a file in the right order is left so."""
    bounds = [0, *cut, len(LINES)]
    parts = [LINES[a:b] for a, b in itertools.pairwise(bounds)]
    numbered = [[f"Panic#2 Part{number}", *part] for number, part in enumerate(reversed(parts), 1)]
    newest_first = "\n".join([*itertools.chain.from_iterable(numbered), ""])
    oldest_first = "\n".join([*itertools.chain.from_iterable(reversed(numbered)), ""])
    assert printed(newest_first)[:-1] == printed("\n".join(LINES))[:-1]
    assert printed(oldest_first)[:-1] == printed("\n".join(LINES))[:-1]
    other = ["Oops#1 Part1", "[1.0] later", "Oops#1 Part2", "[0.5] earlier"]
    both = layout.in_parts([*other, *newest_first.splitlines()])
    assert both[:2] == ["[0.5] earlier", "[1.0] later"]
    assert both[2:] == LINES


def test_dmesg_json_has_its_times() -> None:
    records = [
        {"pri": 4, "time": 84211.104 + i / 1e6, "msg": body} for i, body in enumerate(BODIES)
    ]
    text = json.dumps({"dmesg": records}, indent=3)
    assert printed(text) == printed("\n".join(LINES))
    for hostile in ('{"dmesg": [1, {"msg": 7}, null]}', '{"dmesg": {"msg": "x"}}', text[:-40]):
        assert "killed" not in printed(hostile)[0] or hostile == text[:-40]


def test_the_swap_of_a_group_that_is_full_is_said() -> None:
    """memory.swap.max (v2): the kernel prints a counter of swap."""
    usage = "memory: usage 65536kB, limit 65536kB, failcnt 77"
    index = next(i for i, line in enumerate(LINES) if usage in line)

    def said(swap: str) -> str:
        lines = [*LINES[: index + 1], f"[84211.104500] {swap}, failcnt 31", *LINES[index + 1 :]]
        return "\n".join(printed("\n".join(lines)))

    assert "its swap is full (512 MiB)" in said("swap: usage 524288kB, limit 524288kB")
    assert "swap is full" not in said("swap: usage 0kB, limit 9007199254740988kB")
    assert "swap is full" not in said("swap: usage 12kB, limit 524288kB")
    assert "swap is full" not in said("swap: usage 0kB, limit 0kB")


@pytest.mark.parametrize(("width", "quote"), [(72, ""), (76, "> "), (65, "> > ")])
@pytest.mark.parametrize(
    "name",
    [
        "cgcreate-4.4-two-page-table-columns",
        "docker-java-3.13-v1",
        "k8s-4.15-pod-limit",
        "k8s-4.18-el8-tmpfs-memsw",
        "kind-uwsgi-v2-dmesgT-cut",
        "rhel6-group-with-machines-memory",
        "sparc64-8k-5.15-cut",
        "systemd-oomd-249",
        "systemd-oomd-258-marked",
    ],
)
def test_a_mail_breaks_lines_between_words(name: str, width: int, quote: str) -> None:
    path = Path(__file__).parent / "kernel_logs" / f"{name}.txt"
    lines = path.read_text(encoding="utf-8").split("\n")
    broken = [
        f"{quote}{part}"
        for line in lines
        for part in textwrap.wrap(
            line, width, break_long_words=False, break_on_hyphens=False
        ) or [""]
    ]  # fmt: skip
    assert len(broken) > len(lines)
    whole, _, _ = answer.last(reports.read(forms.lines_of("\n".join(lines).encode())))
    again, _, _ = answer.last(reports.read(forms.lines_of("\n".join(broken).encode())))
    assert whole is not None
    assert again == whole


@pytest.mark.parametrize("width", [60, 72, 80, 97])
def test_a_record_that_begins_within_a_line_of_a_mail_is_one_of_its_own(width: int) -> None:
    words = "Mar 16 21:40:40 t kernel: lowmem_reserve[]: 0 2020 2020 of the zone Normal and of DMA"
    text = textwrap.wrap(" ".join([words] * 8), width)
    assert list(forms.lines_of("\n".join(text).encode())) == [words] * 8


def test_lines_of_a_message_after_which_a_word_would_have_fitted_stay_apart() -> None:
    begin = "[    9.{}] active_anon:188386 inactive_anon:764572 {}"
    lines = [begin.format(i, "isolated_anon:64 " * (i % 3)).strip() for i in range(20)]
    text = [part for line in lines for part in (line, " free:25647 free_pcp:0")]
    assert list(forms.lines_of("\n".join([*text, ""]).encode())) == text
    indented = [part for line in lines for part in (line, "    free:25647 free_pcp:0")]
    assert list(forms.lines_of("\n".join([*indented, ""]).encode())) == indented
    unstamped = [part for line in lines for part in (line.partition("] ")[2], "a_word:25647")]
    assert list(forms.lines_of("\n".join([*unstamped, ""]).encode())) == unstamped


def _between_words(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [line]


def _at_the_width(line: str, width: int) -> list[str]:
    return [line[i : i + width] for i in range(0, len(line), width)] or [line]


@pytest.mark.parametrize("width", [65, 72, 80, 100, 132])
@pytest.mark.parametrize("broken", [_between_words, _at_the_width])
def test_lines_without_stamps_are_put_together(
    broken: Callable[[str, int], list[str]], width: int
) -> None:
    """How a line of the kernel's begins is known, so what begins otherwise is the rest of one."""
    added = 0
    for name in (
        "docker-java-3.13-v1",
        "k8s-4.15-pod-limit",
        "k8s-4.18-el8-tmpfs-memsw",
        "pagefault-5.4-docker-kmem",
        "rhel7-3.10-two-nodes",
        "rocky8-4.18-mempolicy-node3",
        "talos-6.12-group-cut",
    ):
        content = (Path(__file__).parent / "kernel_logs" / f"{name}.txt").read_bytes()
        lines = [forms.parted(line)[1] for line in forms.lines_of(content)]
        parts = [part for line in lines for part in broken(line, width)]
        added += len(parts) - len(lines)
        whole = answer.last(reports.read(forms.lines_of("\n".join(lines).encode())))
        again = answer.last(reports.read(forms.lines_of("\n".join(parts).encode())))
        assert (again[0], again[2]) == (whole[0], whole[2]), name
    assert added > 20


def test_rows_that_a_mail_broke_at_one_place_keep_their_numbers() -> None:
    """They are as long as each other, as if a console had broken them within a number."""
    rows = [
        f"[{7513 + i:7}]     0 {7513 + i:5}  2109807    76320  9076736  1045307" for i in range(9)
    ]
    text = [BODIES[6], *(part for row in rows for part in (row, "-997 uwsgi")), *BODIES[-2:]]
    report = reports.read(forms.lines_of("\n".join(text).encode())).reports[-1]
    assert {row.numbers[2:] for row in report.rows} == {(2109807, 76320, 9076736, 1045307, -997)}
    assert len(report.rows) == 9


def test_what_a_program_prints_between_lines_without_stamps_is_joined_to_nothing() -> None:
    lines = [*BODIES[:5], "a program's words of its own", *BODIES[5:], "x" * 90, "and others"]
    assert layout.unwrapped(lines, layout.is_begun) == lines
    assert layout.refilled(lines, layout.is_begun) == lines


@pytest.mark.parametrize("at", range(40, 140, 7))
def test_numbers_of_a_group_that_are_broken_are_left_out(at: int) -> None:
    line = (
        "Memory cgroup stats for /job: cache:68KB rss:131004KB rss_huge:90112KB mapped_file:4KB "
        "writeback:12KB swap:16KB inactive_anon:65708KB active_anon:65344KB inactive_file:60KB"
    )
    whole = {name: int(kb) << 10 for name, kb in re.findall(r"([a-z_]+):(\d+)KB", line)}
    text = f"{BODIES[0]}\n{line[:at]}\n{line[at:]}\n"
    numbers = reports.read(forms.lines_of(text.encode())).reports[-1].statistics
    assert numbers.items() <= whole.items()
    assert len(numbers) >= len(whole) - 1


def test_a_name_in_the_next_line_is_that_of_its_row() -> None:
    row, other = (
        "[    700]     0   700     8007     3619     3389      230         0    77824",
        "  0",
    )
    text = [*BODIES[:7], f"{row}{other}          0", "big [x] 1", *BODIES[8:]]
    rows = reports.read(forms.lines_of("\n".join(text).encode())).reports[-1].rows
    assert [(row.pid, row.name) for row in rows] == [(700, "big [x] 1"), (701, "worker")]
    text[8] = "words that are no name of a task"
    rows = reports.read(forms.lines_of("\n".join(text).encode())).reports[-1].rows
    assert [(row.pid, row.name) for row in rows] == [(700, ""), (701, "worker")]


@pytest.mark.parametrize("at", range(len("Memory cgroup out of memory: Killed process 7"), 180, 3))
def test_a_kill_line_that_is_cut_has_no_size_of_its_own(at: int) -> None:
    cut = BODIES[-1][:at]
    killed = reports.read([cut]).reports[-1].victims
    for process in killed:
        assert process.anonymous in (None, 5492 << 10)
        assert process.file in (None, 920 << 10)
        assert process.resident in (None, (5492 + 920) << 10)
        assert process.page_tables in (None, 76 << 10)
    assert not killed or (killed[0].resident is None) == ("file-rss:920kB" not in cut)


def test_programs_whose_words_a_mail_broke() -> None:
    oomd = [
        "Killed",
        f"{GROUP} due",
        "to memory pressure for",
        "/a being",
        "51.07% > 50.00% for > 20s",
    ]
    early = ['sending SIGTERM to process 11 uid 7 "a b":', "badness 869, VmRSS", "17 MiB"]
    text = "\n".join(printed("\n".join([*oomd, "with reclaim activity", "and more"])))
    assert f"by systemd-oomd, not by the kernel: {GROUP}\n" in text
    assert "/a being 51.07% > 50.00% for > 20s with reclaim activity" in text
    assert "more" not in text
    assert "process 11 (a b), 17 MiB resident" in printed("\n".join(early))[0]
