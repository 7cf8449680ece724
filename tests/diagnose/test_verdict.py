"""The headline that nothing to worry about was found: not above what grows with no end in sight."""

from __future__ import annotations

import pytest

from memlab.diagnose import account, diagnosis, held, machine_account, output
from memlab.diagnose.account import Line
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.finding import NOTE
from memlab.diagnose.held import GroupLook
from memlab.diagnose.look import Look
from memlab.diagnose.memory_held_open import Growth
from memlab.diagnose.room import Room
from memlab.diagnose.shared import Attached
from memlab.diagnose.unlooked import Unlooked

from .looks import GiB, MiB, look
from .test_when import ROWS, Seen, _children, _machine_grows, _of_group, _unshared, example, said

# What grows on until something is full; and what ends by itself, or is dropped.
ENDLESS = {
    "growing", "children-grow", "machine-grows", "files-grow", "mappings-grow", "threads-grow"
}  # fmt: skip
ENDS = {"unshared", "file-pages-grow", "touches-shared"}


def _headline(seen: Seen) -> list[str]:
    """With all that was looked at complete, and no worse than a note."""
    whole = {"look": seen if isinstance(seen, Look) else look()}
    if isinstance(seen, Look):
        found = tuple(diagnosis._findings(seen))
    elif isinstance(seen, GroupLook):
        found = tuple(held.findings(seen))
    else:
        found = tuple(machine_account.findings(seen))
    assert {one.severity for one in found} <= {NOTE}
    cost = diagnosis._cost(0.0, 1.0, 0.0, 0.0)
    return list(output._verdict(Diagnosis(whole["look"], None, (), found, (), cost), verbose=False))


def test_which_growth_would_not_show_is_said_too_if_not_all_was_looked_at() -> None:
    cost = diagnosis._cost(0.0, 1.0, 0.0, 0.0)
    unread = Unlooked("its heap", "it may not be read", None, None)
    made = Diagnosis(look(), None, (), (), (unread,), cost)
    lines = list(output._verdict(made, verbose=False))
    assert lines[0] == "no finding, but not all was looked at:"
    assert lines[-1].startswith("(a growth of under ")


def _growing(**changes: object) -> Look:
    """Its room lasts for two years."""
    grows = {"grows_steadily": True, "growth_bytes_per_s": 1e6, "mapped_growth_bytes": 1}
    return look(available_bytes=60_000 * GiB, **grows | changes)


def _swings(rises: float) -> Look:
    return look(
        highest_bytes=64 * MiB, lowest_bytes=10 * MiB, fell_bytes=200 * MiB,
        floor_growth_bytes_per_s=rises, available_bytes=60_000 * GiB,
    )  # fmt: skip


def _removed(more: int) -> Look:
    segments = Attached(1, 32 * MiB, 1, 32 * MiB, (), 0)
    return look(attached=segments, removed_growth_bytes=more)


def _of_room(per_s: float) -> Look:
    room = Room("kernel.threads-max", 424, 190_000, "count", "fork fails", per_s)
    return look(rooms=(room,))


def _open(more: int) -> Look:
    return look(unmapped_files_bytes=32 * MiB, unmapped_files_growth=Growth(more))


@pytest.mark.parametrize(
    ("grows", "ends"),
    [
        (_growing(), _growing(peak_stands=True)),
        (_growing(), _growing(mapped_growth_bytes=0, unfilled_bytes=MiB)),
        (_growing(), look(growth_bytes_per_s=1e6)),
        (_of_group(grows_steadily=True, growth_bytes_per_s=1e6), _of_group(growth_bytes_per_s=1e6)),
        (_swings(1.0), _swings(0.0)),
        (_open(2 * MiB), _open(MiB - 1)),
        (_removed(2 * MiB), _removed(0)),
        (_of_room(1.0), _of_room(0.0)),
        (_children(64 * MiB, 512 << 10), _children(64 * MiB, 128 << 10)),
        (_machine_grows(80 * MiB, 2048 * MiB), _machine_grows(0, 2048 * MiB)),
        (_of_room(1.0), _unshared(0.1 * MiB, 32 * MiB)),
    ],
)
def test_it_is_not_said_above_a_growth_without_a_bound(grows: Seen, ends: Seen) -> None:
    assert _headline(grows) == ["worth knowing:"]
    assert output.NOTHING in _headline(ends)


@pytest.mark.parametrize(
    ("mib", "changes", "words"),
    [
        (57, {}, "(it grew by 57 MiB, not in each part of the look: a longer one tells more)"),
        (0.9, {}, "would not show in 10 s)"),
        (-57, {}, "would not show in 10 s)"),
        (9, {"highest_bytes": 64 * MiB, "lowest_bytes": 10 * MiB, "fell_bytes": 45 * MiB},
         "would not show in 10 s)"),
    ],
)  # fmt: skip
def test_a_growth_in_steps_is_not_said_to_be_too_small_to_show(
    mib: float, changes: dict[str, int], words: str
) -> None:
    """A heap that grows by 14 MiB every three seconds."""
    _, resolved, *_ = _headline(look(growth_bytes_per_s=mib * MiB / 10, **changes))
    assert resolved.endswith(words)


def test_each_row_of_a_growth_says_whether_it_ends() -> None:
    rows = {
        name for name, row in ROWS.items()
        if name.endswith("-grow") or (row.account == "stock" and row.unit == "B/s")
    }  # fmt: skip
    assert rows | {"machine-grows"} == ENDLESS | ENDS
    for name in rows - {"growing"}:  # by the room of its mappings, as above
        value, made = example(name)
        (found,) = said(made, value, name)
        assert found.grows == (name in ENDLESS), name


@pytest.mark.parametrize("verbose", [False, True])
def test_a_part_under_a_page_is_left_out_and_the_sum_is_the_same(*, verbose: bool) -> None:
    lines = [
        Line("anonymous", 8 * MiB),
        Line("data in its pipes", 4095, part_of="none"),
        Line("queues of its sockets", 4096, part_of="none"),
        Line("a sample", 0.5, 0.0, 8192, part_of="anonymous"),
    ]
    made = account.made("stock", "who holds it", "B", 8 * MiB, lines, whole=True)
    text = "\n".join(output._account(made, verbose=verbose))
    assert ("data in its pipes" in text) == verbose
    assert "queues of its sockets" in text
    assert "a sample" in text
    assert "rest 0 B in all 8 MiB" in " ".join(text.split())
