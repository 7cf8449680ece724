"""Traces damaged at random: cut, flipped, forged with a sum that fits. Each reader and each
replayer ends by itself, in a line, within what it is given; nothing of it is left."""

from __future__ import annotations

import resource
import struct
import subprocess
from pathlib import Path
from random import Random

import damage
import pytest
from rule import TRIES, Rule, seeded
from traces.made import (
    ADVISE,
    AGAIN,
    ALLOCATE,
    AT,
    EXEC,
    EXIT,
    FORK,
    FREE,
    HAS_ALLOCATIONS,
    HEADER,
    LOCK,
    LOCK_ALL,
    PAGE,
    PROTECT,
    READ,
    REMAP,
    RESIZE,
    SHARED,
    START,
    STATE_END,
    TASK,
    THREAD,
    TIME,
    UNLOCK,
    UNLOCK_ALL,
    UNMAP,
    VFORK,
    WRITE,
    Made,
)

from memlab.trace import file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("traces"),
]

MAPPED_MOST = 1 << 30  # bytes that a replay may map here: a forged flag populates what it maps
SECONDS = 60
OWN = 0x2A0000000000  # the replayer's place
TEBIBYTE = 1 << 40


def made(draw: Random) -> Made:
    """A trace that makes sense: of each kind some records, by several tasks."""
    trace = Made(tasks=4, files=[(1 << 20, True, b"/memfd:x"), (1 << 20, False, b"/x")])
    trace.flags = HAS_ALLOCATIONS | draw.choice((0, 1, 2))
    trace.add(START).map(AT, 300).touch(AT, 40).add(STATE_END)
    for task, how in ((1, FORK), (2, THREAD), (3, VFORK)):
        trace.number(TASK, task, what=how)
    for _ in range(60):
        task, place = draw.randrange(4), AT + draw.randrange(600) * PAGE
        match draw.randrange(11):
            case 0:
                flags = draw.choice((0x22, 0x2, SHARED, SHARED | 0x20))
                trace.map(place, draw.randrange(1, 90), flags=flags, task=task,
                          file=0 if flags & 0x20 else draw.randrange(1, 3))  # fmt: skip
            case 1:
                trace.add(UNMAP, place, draw.randrange(1, 90) * PAGE, 0, task=task)
            case 2:
                advice = draw.choice((4, 8, 10, 11, 14, 18, 19, 23, 102))
                trace.add(ADVISE, place, PAGE * 9, advice, task=task)
            case 3:
                trace.add(PROTECT, place, PAGE * 9, draw.randrange(8), task=task)
            case 4:
                kind = draw.choice((LOCK, UNLOCK))
                trace.add(kind, place, PAGE * 9, draw.randrange(2), task=task)
            case 5:
                flags = draw.choice((0, 4))
                trace.add(REMAP, place, PAGE * 5, PAGE * 7, AT + (1 << 32), flags, task=task)
            case 6:
                trace.add(ALLOCATE, 0, draw.randrange(9), draw.randrange(1 << 20), 0, place,
                          task=task)  # fmt: skip
            case 7:
                trace.add(FREE, 0, draw.randrange(9), task=task)
            case 8:
                trace.add(
                    RESIZE, 0, draw.randrange(9), draw.randrange(1 << 20), place, 0, task=task
                )
            case 9:
                trace.add(AGAIN, place, PAGE * draw.randrange(1 << 18), draw.getrandbits(64),
                          task=task)  # fmt: skip
            case _:
                trace.touch(place, 5, draw.choice((READ, WRITE)), task=task)
    trace.number(draw.choice((LOCK_ALL, UNLOCK_ALL, TIME)), 3).add(EXEC, task=1)
    return trace.touch(AT, 9, task=1).add(EXIT, task=1).add(EXIT, task=3).touch(AT, 20)


def forged(draw: Random, trace: Made) -> bytes:
    """The same with a record, an operand or a count that somebody chose, and a sum that fits."""
    at = draw.randrange(len(trace.records))
    head: dict[str, int] = {"blocks": 9}
    ranges = (OWN - PAGE, OWN, AT, 0, (1 << 47) - PAGE, 1 << 63)
    sizes = (0, 1, PAGE, TEBIBYTE, 1 << 46, 1 << 62, (1 << 64) - PAGE)
    match draw.randrange(6):
        case 0:
            record = bytearray(trace.records[at])
            record[draw.randrange(16)] ^= 1 << draw.randrange(8)
            trace.records[at] = bytes(record)
        case 1:
            trace.records[at] = struct.pack("<QQ", draw.choice(sizes), draw.choice(sizes))
        case 2:
            kind = draw.choice((UNMAP, ADVISE, PROTECT, LOCK, UNLOCK))
            operands = draw.choice(sizes), draw.choice((0, 4, 14, 100, 101, 1 << 40))
            trace.add(kind, draw.choice(ranges), *operands)
        case 3:
            trace.map(draw.choice(ranges), draw.choice(sizes) // PAGE, flags=draw.choice((0x22, 1)))
        case 4:
            name = draw.choice(("records", "tasks", "files", "blocks", "version", "machine"))
            head[name] = draw.choice((0, 1, 2, 5, 1 << 16, 1 << 20, (1 << 32) - 1))
        case _:
            trace.number(TASK, draw.randrange(6), task=draw.randrange(6), what=draw.randrange(9))
    return trace.bytes(**head)


def foreign(whole: bytes) -> bytes:
    """As a machine of the other byte order has it."""
    fields = HEADER.unpack_from(whole)
    return struct.pack(f">{HEADER.format[1:]}", *fields) + whole[HEADER.size :]


def bounded() -> None:
    for limit, most in ((resource.RLIMIT_AS, MAPPED_MOST), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))


def check(tool: str, path: Path, *words: str) -> int:
    """It ends by itself: well, or in one line."""
    done = subprocess.run(
        [file.tool(tool), *words, path], preexec_fn=bounded, capture_output=True, timeout=SECONDS,
        check=False,
    )  # fmt: skip
    said = (tool, words, done.returncode, done.stdout[-300:], done.stderr[-300:])
    assert done.returncode in (0, 1), said
    assert done.stderr.count(b"\n") <= 1, said
    assert done.returncode == 0 or done.stderr, said
    return done.returncode


def test_traces(rule: Rule) -> None:
    draw, path = seeded(9), Path("a.trace")
    ended: list[int] = []
    for number in range(3 * TRIES):
        trace = made(draw)
        whole = trace.bytes(blocks=9)
        match number % 4:
            case 0:
                path.write_bytes(damage.bytes_of(draw, whole))
            case 1 if number % 40 == 1:
                path.write_bytes(foreign(whole))
            case _:
                path.write_bytes(forged(draw, trace))
        ended.append(check("account", path))
        order = draw.choice(([], ["order=free"]))
        ended.append(check("replay", path, *order))
        ended.append(check("allocate", path))
        rule("try", "--blocks", "1", "-p", "lock=off,future", str(path))
        if number % 8 == 0:
            rule("show", str(path), "-o", "figures")
    assert {0, 1} <= {*ended}  # some made sense, others none
