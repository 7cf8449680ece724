"""Of every finding, where its evidence is.

test_when.py has for each row a look made up at its condition, whose number is known and of twice as
much twice it; test_alike.py one that differs in one thing and does not have the finding. Both take
the rows from the product. Here stands which finding a test also makes with a program, and why the
others have none.
"""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from memlab.diagnose import call_table, group_rows, machine_account

from .test_asked import CASES as PROGRAMS
from .test_when import FLOORS, ROWS

# The program's test, by finding; those of test_asked.py are in its own table.
LIVE = {
    "files-limit-nears": "test_known_answers.py::test_open_files_near_their_limit",
    "glibc-trims": "test_live.py::test_glibc_that_trims",
    "charged-elsewhere": "test_known_answers.py::test_memory_of_a_process_that_moved_into_a_group",
    "held-elsewhere": "test_known_answers.py::test_memory_of_a_process_that_moved_out_of_its_group",
    "in-malloc": "test_known_answers.py::test_objects_of_malloc_beside_the_heap_of_a_runtime",
    "kernel-holds": "test_known_answers.py::test_data_in_pipes",
    "lock-limit-nears": "test_known_answers.py::test_locked_memory_near_its_limit",
    "locked-stacks": "test_live.py::test_locked_stacks_of_many_threads",
    "machine-huge-pages":
        "test_machine.py::test_the_lines_of_a_guest_leave_less_than_a_hundredth_of_it",
    "machine-removed-groups":
        "test_machine.py::test_the_lines_of_a_guest_leave_less_than_a_hundredth_of_it",
    "machine-tmpfs": "test_machine.py::test_the_lines_of_a_guest_leave_less_than_a_hundredth_of_it",
    "malloc-gives-back": "test_live.py::test_jemalloc_that_keeps_nothing",
    "malloc-set-to-give-back": "test_live.py::test_a_user_without_rights_sees_the_rest",
    "page-faults": "test_live.py::test_glibc_that_trims",
    "stopped": "test_wrong_arguments.py::test_a_stopped_process_is_seen_as_one",
    "threads-limit-nears": "test_known_answers.py::test_threads_near_the_limit_of_their_group",
    "tmpfs-full": "test_known_answers.py::test_a_tmpfs_that_is_nearly_full",
    "waits-for-messages": "test_known_answers.py::test_threads_that_wait_for_room_in_a_queue",
    "waits-for-receivers": "test_known_answers.py::test_threads_that_wait_for_a_receiver",
}  # fmt: skip
_READ = "the reading is tested with a program, and the finding with a look made up"
_RATE = "how often a program can do it depends on the machine: real_programs.py has one by hand"
_DEVICE = "a device decides how long it takes"
_SHORT = "the kernel has to be short of memory, which slows what else the machine does"
_COURSE = "the program would have to meet the moments of the look"
_MACHINE = "it is about all of a machine, whose lines a guest's test adds up"
_RIGHT = "it needs what few machines have or allow: frozen groups, pinned memory, old groups"
MADE_UP = {
    **dict.fromkeys((
        "sockets-hold", "stacks", "segments-held-elsewhere", "group-messages", "sockets-drop",
        "group-nearly-full", "group-kills", "group-has-killed", "calls-fail",
        *(row.name for row in group_rows.ROWS)), _READ),
    **dict.fromkeys((
        "first-touches", "made-writable-again", "makes-threads", "threads-made-while-locked",
        "shootdowns", "held-beside-malloc"), _RATE),
    **dict.fromkeys((
        "reads-files", "reads-swap", "reads-ahead-unused", "swapped-out", "group-dirty",
        "waits-for-files", "waits-for-fsync", "waits-for-swap", "waits-for-writeback"), _DEVICE),
    **dict.fromkeys((
        "group-limit-met", "group-stalls", "waits-for-reclaim", "waits-for-compaction",
        "machine-low"), _SHORT),
    **dict.fromkeys((
        "file-pages-grow", "files-grow", "mappings-grow", "threads-grow", "machine-grows"),
        _COURSE),
    **dict.fromkeys((
        "machine-used", "machine-unexplained", "machine-counted-twice",
        *(row.name for row in machine_account.ROWS if row.name != "machine-tmpfs")), _MACHINE),
    **dict.fromkeys(("frozen", "pinned", "pin-limit-nears", "group-out-of-memory"), _RIGHT),
}  # fmt: skip
# Of failing calls test_refused.py and test_call_causes.py have a call each, by number.
_CALLS = {row.name for row in call_table.ROWS}
_ASKED = set(chain.from_iterable((one.said or "").split("|") for one in PROGRAMS)) - {""}
NAMES = {*ROWS, *(row.name for row in FLOORS), "calls-fail"}


def test_each_finding_has_a_program_or_a_reason_for_none() -> None:
    assert _ASKED | LIVE.keys() | MADE_UP.keys() == NAMES | (_ASKED & _CALLS)
    assert not MADE_UP.keys() & (_ASKED | LIVE.keys())
    assert not LIVE.keys() & _ASKED


@pytest.mark.parametrize("name", LIVE)
def test_the_test_that_is_named_makes_the_finding(name: str) -> None:
    file, _, function = LIVE[name].partition("::")
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    body = re.search(rf"^def {function}\(.*?(?=^(?!\))\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert body, LIVE[name]
    assert f'"{name}"' in body[0]
