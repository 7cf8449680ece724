"""Trials whose workers take turns on one CPU, for real: in turns, all counted, and none left."""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memlab.run import fork_server
from memlab.run.fork_server import ForkServer

CPU = max(os.sched_getaffinity(0))
PAGE, PRIME = 4096, 23
MIB = 2**20

# A parent whose workers may write no more than half of a file of 64 KiB: the write beyond it ends a
# worker by SIGXFSZ where the path says so, and else fails with EFBIG (setrlimit(2)).
HALF = (
    "import resource, signal; from memlab import probe; asked = probe.call;\n"
    "def call(name, params):\n"
    "    if 'half' in str(params.get('path')):\n"
    "        resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))\n"
    "        if 'dies' in params['path']: signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    "    return asked(name, params)\n"
    "probe.call = call\n"
)


# A parent whose host counts one thing when a worker is parked, and PRIME while the turns go on.
COUNTING = (
    "from memlab.run import worker; seen = [0]\n"
    "park, turns = worker._Runner.park, worker._run_turns\n"
    "def one(*asked): seen[0] += 1; return park(*asked)\n"
    f"def all_turns(*asked): seen[0] += {PRIME}; return turns(*asked)\n"
    "worker._Runner.park, worker._run_turns = one, all_turns\n"
    "worker._host_counts = lambda: {'oom_kill': 0, 'seen': seen[0]}"
)


def booted(monkeypatch: pytest.MonkeyPatch, code: str) -> Iterator[ForkServer]:
    boot = fork_server._BOOT.replace("; main()", f"; exec({code!r}); main()")
    monkeypatch.setattr(fork_server, "_BOOT", boot)
    started = ForkServer()
    yield started
    started.stop()


@pytest.fixture
def server() -> Iterator[ForkServer]:
    started = ForkServer()
    yield started
    started.stop()


@pytest.fixture
def halving(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    yield from booted(monkeypatch, HALF)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    yield from booted(monkeypatch, COUNTING)


def trial(path: Path, **change: Any) -> dict[str, Any]:
    if not path.exists():
        path.write_bytes(bytes(change.get("file_size_bytes", 16 * PAGE)))
    params = {
        "path": str(path),
        "size_bytes": PAGE,
        "file_size_bytes": 16 * PAGE,
        "method": "write",
        "advice": "normal",
        "populate": False,
        "sync": False,
        "slice_ns": 10**9,
        "handicap_count": 0,
    } | change
    trial = {"probe": "mmap_write", "file": None, "cpus": [CPU], "limit_s": 60.0}
    return trial | {"params": params}


def outcomes(replies: list[dict[str, Any]]) -> list[str]:
    return [reply["outcome"] for reply in replies]


def spans(reply: dict[str, Any]) -> list[tuple[int, int]]:
    turns = reply["result"]["turns"]
    return [
        (start, start + length)
        for start, length in zip(turns["from_ns"], turns["elapsed_ns"], strict=True)
    ]


def test_every_runner_makes_all_its_calls(server: ForkServer, tmp_path: Path) -> None:
    asked = [
        trial(tmp_path / "file", file_size_bytes=PRIME * PAGE, method=method)
        for method in ("write", "mmap", "pwrite")
    ]
    for reply in server.relay(asked, 1, 60.0):
        assert reply["outcome"] == "ok"
        assert reply["result"]["call_count"] == PRIME
        assert reply["result"]["floor_call_count"] == PRIME
        assert not reply["result"]["sliced"]


def test_turns_and_lead_ins_add_up_to_the_window(server: ForkServer, tmp_path: Path) -> None:
    change = {"file_size_bytes": 32 * MIB, "size_bytes": 128, "slice_ns": 20_000_000}
    for reply in server.relay([trial(tmp_path / "file", **change)] * 3, 1, 60.0):
        result, turns = reply["result"], reply["result"]["turns"]
        assert sum(turns["call_count"]) + turns["lead_call_count"] == result["call_count"]
        elapsed_ns = sum(turns["elapsed_ns"]) + turns["lead_ns"]
        assert elapsed_ns == result["window"]["elapsed_ns"]
        assert len(turns["call_count"]) > 1
        assert turns["lead_call_count"] > 0


def test_no_two_are_in_a_turn_at_once_and_each_round_has_each_once(
    server: ForkServer, tmp_path: Path
) -> None:
    change = {"file_size_bytes": 32 * MIB, "size_bytes": 128, "slice_ns": 20_000_000}
    found = [
        spans(reply) for reply in server.relay([trial(tmp_path / "file", **change)] * 5, 2, 60.0)
    ]
    every = sorted(span for one in found for span in one)
    assert all(before[1] <= after[0] for before, after in pairwise(every))
    rounds = [*zip(*found, strict=False)]  # those that all take part in
    assert len(rounds) > 1
    for now, then in pairwise(rounds):
        assert max(now) < min(then)


def test_the_order_of_a_round_is_drawn(server: ForkServer, tmp_path: Path) -> None:
    """The first rounds, in which nobody has ended; the same order four times is one in 13,824."""
    change = {"file_size_bytes": 32 * MIB, "size_bytes": 128, "slice_ns": 20_000_000}
    found = [
        spans(reply) for reply in server.relay([trial(tmp_path / "file", **change)] * 4, 5, 60.0)
    ]
    rounds = [*zip(*found, strict=False)][:4]
    orders = {tuple(sorted(range(4), key=lambda one: turn[one])) for turn in rounds}
    assert len(orders) > 1


def test_what_the_host_counts_is_of_the_turns(counting: ForkServer, tmp_path: Path) -> None:
    """Not of the time in which the others' files are made, which keeps other CPUs busy."""
    for reply in counting.relay([trial(tmp_path / "file")] * 3, 1, 60.0):
        assert reply["host"]["seen"] == PRIME


def test_a_lone_window_has_no_turns(server: ForkServer, tmp_path: Path) -> None:
    assert server.run(trial(tmp_path / "file"))["result"]["turns"] is None


def test_one_that_never_parks_is_left_out(server: ForkServer, tmp_path: Path) -> None:
    wrong = trial(tmp_path / "file") | {"params": {"nosuch": 1}}
    absent = trial(tmp_path / "file")
    absent["params"] = absent["params"] | {"path": str(tmp_path / "nosuch")}
    replies = server.relay([wrong, trial(tmp_path / "file"), absent], 1, 60.0)
    assert outcomes(replies) == ["error", "ok", "error"]
    assert "nosuch" in replies[0]["detail"]
    assert "ENOENT" in replies[2]["detail"]


def test_where_none_parks_the_replies_come_all_the_same(server: ForkServer, tmp_path: Path) -> None:
    wrong = trial(tmp_path / "file") | {"params": {"nosuch": 1}}
    assert outcomes(server.relay([wrong, wrong], 1, 60.0)) == ["error", "error"]


def test_one_that_fails_in_its_turn_passes_the_baton_on(
    halving: ForkServer, tmp_path: Path
) -> None:
    asked = [trial(tmp_path / "file"), trial(tmp_path / "half"), trial(tmp_path / "file")]
    replies = halving.relay(asked, 1, 60.0)
    assert outcomes(replies) == ["ok", "error", "ok"]
    assert "EFBIG" in replies[1]["detail"]


def test_one_that_dies_in_its_turn_is_dropped(halving: ForkServer, tmp_path: Path) -> None:
    asked = [
        trial(tmp_path / "half dies"),
        *[trial(tmp_path / "file")] * 3,
        trial(tmp_path / "half dies"),
    ]
    replies = halving.relay(asked, 1, 60.0)
    assert outcomes(replies) == ["error", "ok", "ok", "ok", "error"]
    assert replies[0]["detail"] == "ended by SIGXFSZ"
    assert [reply["result"]["call_count"] for reply in replies[1:4]] == [16] * 3


def test_where_all_die_nothing_hangs(halving: ForkServer, tmp_path: Path) -> None:
    assert outcomes(halving.relay([trial(tmp_path / "half dies")] * 3, 1, 60.0)) == ["error"] * 3


def test_one_that_hangs_in_its_turn_is_killed(server: ForkServer, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")  # a write to a full one waits for a reader
    asked = [trial(tmp_path / "fifo", file_size_bytes=MIB), trial(tmp_path / "file")]
    replies = server.relay(asked, 1, 0.5)
    assert outcomes(replies) == ["timeout", "timeout"]
    assert server.run(trial(tmp_path / "file"))["outcome"] == "ok"


def test_a_relay_leaves_no_process(server: ForkServer, tmp_path: Path) -> None:
    server.relay([trial(tmp_path / "file")] * 3, 1, 60.0)
    children = Path(f"/proc/{server.group}/task/{server.group}/children").read_text().split()
    assert len(children) <= 2  # the next trial's worker; the canary, where there is one


SHARED = {"state": "cached_4k", "size_bytes": PRIME * PAGE, "turns": True}


def sharing(path: Path, **change: Any) -> dict[str, Any]:
    """A trial on the file that all share."""
    made = trial(path, file_size_bytes=PRIME * PAGE, **change)
    return made | {"file": {**SHARED, "path": str(path)}}


def test_on_a_file_that_all_share_turns_go_on_until_they_are_over(
    server: ForkServer, tmp_path: Path
) -> None:
    """A file of 23 pages is over in microseconds: each runner goes over it again and again."""
    asked = [
        sharing(tmp_path / "file", slice_ns=20_000_000, method=method)
        for method in ("write", "mmap", "pwrite")
    ]
    for reply in server.relay(asked, 1, 60.0):
        result = reply["result"]
        assert reply["outcome"] == "ok"
        assert len(result["turns"]["call_count"]) == 10
        assert result["call_count"] > PRIME
        assert result["byte_count"] == result["call_count"] * PAGE
    assert (tmp_path / "file").stat().st_size == PRIME * PAGE  # no call went beyond its end


def test_without_an_end_of_the_turns_each_goes_over_the_shared_file_once(
    server: ForkServer, tmp_path: Path
) -> None:
    asked = [sharing(tmp_path / "file", slice_ns=0, method=m) for m in ("write", "mmap", "pwrite")]
    for reply in server.relay(asked, 1, 60.0):
        assert reply["result"]["call_count"] == PRIME


def test_a_turn_finds_the_pages_of_the_last_one_unmapped(
    server: ForkServer, tmp_path: Path
) -> None:
    """Each turn, with what led in to it, faults once on each of the 23 pages. Those of a populated
    mapping are there, for reading: its first writes fault, and no others. Pages that are written
    one by one are folios of one page."""
    with open(tmp_path / "file", "wb", buffering=0) as file:
        for _ in range(PRIME):
            file.write(bytes(PAGE))
    asked = [
        sharing(tmp_path / "file", slice_ns=20_000_000, method="mmap", populate=populate)
        for populate in (False, True)
    ]
    plain, populated = server.relay(asked, 1, 60.0)
    faults = [one["result"]["window"]["minor_fault_count"] for one in (plain, populated)]
    turns = len(plain["result"]["turns"]["call_count"])
    assert turns == 10
    assert turns * PRIME <= faults[0] <= turns * PRIME + 8
    assert faults[1] <= PRIME + 8
