"""guest_memory: a stand-in for QEMU that says and takes what it is told to, then QEMU itself."""

import json
import mmap
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from in_child import call

from memlab import probe
from memlab.experiment import VirtualMachine
from memlab.observe import guest_tools
from memlab.run.virtual_machine import command

PAGE = mmap.PAGESIZE
PAGES = 23
MIB = 2**20
SIGN = "memlab: booted"
GUEST_BYTES = 101 * MIB

GREETING = {"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}}
EVENT = {"timestamp": {"seconds": 0}, "event": "NIC_RX_FILTER_CHANGED"}
RUNS: dict[str, list[Any]] = {
    "qmp_capabilities": [{"return": {}}],
    "query-status": [EVENT, {"return": {"status": "running", "running": True}}],
    "query-memory-size-summary": [{"return": {"base-memory": GUEST_BYTES, "plugged-memory": 0}}],
}

# Speaks as it is told on descriptors 0 and 1, with so many pages locked, and ends on quit.
STAND_IN = """
import ctypes, json, mmap, os, signal, socket, sys
told = json.loads(sys.argv[1])
qmp, console = socket.socket(fileno=0), socket.socket(fileno=1)
locked = mmap.mmap(-1, max(1, told["pages"]) * mmap.PAGESIZE)
if told["pages"]:
    start = ctypes.addressof(ctypes.c_char.from_buffer(locked))
    assert ctypes.CDLL(None).mlock(ctypes.c_void_p(start), ctypes.c_size_t(len(locked))) == 0
if told["path"]:
    open(told["path"], "w").write(str(os.getpid()))
for piece in told["console"]:
    console.sendall(piece.encode())
if told["ends"]:
    print(told["ends"], file=sys.stderr)
    sys.exit(1)
if told["signal"]:
    os.kill(os.getpid(), told["signal"])
qmp.sendall(json.dumps(told["greeting"]).encode() + b"\\r\\n")
for line in qmp.makefile():
    for answer in told["answers"].get(json.loads(line)["execute"], []):
        qmp.sendall(json.dumps(answer).encode() + b"\\r\\n")
    if '"quit"' in line:
        break
"""


def stand_in(**change: Any) -> str:
    told = {"pages": 0, "path": "", "console": [f"Linux\n{SIGN}\n"], "ends": "", "signal": 0}
    told |= {"greeting": GREETING, "answers": RUNS} | change
    code = f"exec({STAND_IN!r})"  # a word of a command is one line
    return "\n".join([sys.executable, "-I", "-S", "-c", code, json.dumps(told)])


def watch(line: str, **change: Any) -> dict[str, Any]:
    """In a process of its own, which a signal that ends the stand-in ends too."""
    params = {
        "command": line,
        "booted_sign": SIGN,
        "memory_bytes": PAGES * PAGE,
        "mem_lock": False,
        "settle_ns": 10**6,
    }
    return call("guest_memory", params | change.pop("params", {}), **change)


@pytest.mark.parametrize("pages", [0, PAGES])
def test_what_is_locked_is_seen_exactly(pages: int) -> None:
    result = watch(stand_in(pages=pages))
    assert result["vm_locked_bytes"] == result["locked_bytes"] == pages * PAGE
    assert result["window"]["counters"]["vm_locked_bytes"]["count"] == pages * PAGE
    assert result["vm_pinned_bytes"] == 0
    assert result["guest_bytes"] == GUEST_BYTES
    assert json.loads(result["greeting"]) == GREETING
    assert 0 < result["booted_ns"] <= result["window"]["elapsed_ns"]
    assert result["rss_bytes"] >= result["rss_anon_bytes"] > 0
    assert f"VmLck: {pages * PAGE // 1024} kB\n" in result["status"]


def test_memory_is_read_over_time() -> None:
    result = watch(stand_in(pages=PAGES), params={"settle_ns": 350_000_000})
    series = [result[name] for name in ("rss", "locked", "pinned")]
    assert all(one["at_ns"] == series[0]["at_ns"] for one in series)
    assert len(series[0]["at_ns"]) >= 2  # at its start, and when the guest has booted
    assert series[0]["at_ns"] == sorted(series[0]["at_ns"])
    assert series[1]["values"][-1] == PAGES * PAGE
    assert set(series[2]["values"]) == {0}
    assert result["booted"]["at_ns"] == [result["booted_ns"]]
    assert result["booted"]["values"][0] in series[0]["values"]


def test_the_sign_may_come_in_pieces_and_after_its_own_beginning() -> None:
    pieces = ["memlab: bo", "memlab: ", "boo", "ted", "\n"]
    assert watch(stand_in(console=pieces))["booted_ns"] > 0


@pytest.mark.parametrize(
    ("answers", "call_text", "errno_name"),
    [
        (
            {"qmp_capabilities": [{"error": {"class": "GenericError", "desc": "no"}}]},
            "QMP qmp_capabilities: no",
            "EPROTO",
        ),
        (
            {"query-status": [{"return": {"status": "paused", "running": False}}]},
            "the guest does not run",
            "ECANCELED",
        ),
        (
            {
                "query-memory-size-summary": [
                    {"error": {"class": "CommandNotFound", "desc": "none"}}
                ]
            },
            "QMP query-memory-size-summary: none",
            "EPROTO",
        ),
    ],
)
def test_a_refusal_over_qmp_is_named(answers: Any, call_text: str, errno_name: str) -> None:
    with pytest.raises(probe.ProbeError) as refused:
        watch(stand_in(answers=RUNS | answers))
    assert (refused.value.status, refused.value.call) == ("error", call_text)
    assert refused.value.errno_name == errno_name


def test_its_last_words_say_why_it_ended() -> None:
    with pytest.raises(probe.ProbeError) as refused:
        watch(stand_in(ends="qemu: a warning\nqemu: could not load kernel 'x'\n"))
    assert refused.value.status == "error"
    assert refused.value.call == "QEMU ended: qemu: could not load kernel 'x'"


def test_memory_that_qemu_may_not_lock_is_unavailable() -> None:
    with pytest.raises(probe.ProbeError) as refused:
        watch(stand_in(ends="qemu: locking memory failed"))
    assert refused.value.status == "unavailable"


def test_a_trial_ends_as_its_machine_did() -> None:
    with pytest.raises(AssertionError, match=f"the child ended with status {signal.SIGUSR1:d}"):
        watch(stand_in(signal=signal.SIGUSR1))


def test_an_ordinary_users_limit_is_a_row() -> None:
    with pytest.raises(probe.ProbeError) as refused:
        watch(stand_in(), params={"mem_lock": True}, locked_limit_bytes=PAGE)
    assert refused.value.status == "unavailable"
    assert refused.value.call.startswith(f"RLIMIT_MEMLOCK is {PAGE // 1024} kB and QEMU would lock")


def test_a_qemu_that_does_not_quit_is_an_error_and_ended() -> None:
    with pytest.raises(probe.ProbeError):
        watch(stand_in(ends="no"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"command": "/no/such/qemu\n-m"}, "qemu = subprocess.Popen(: ENOENT at memlab/python_pr"),
        ({"booted_sign": ""}, "booted_sign must not be empty: EINVAL"),
    ],
)
def test_what_cannot_start_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(probe.ProbeError) as refused:
        watch(stand_in(), params=change)
    assert message in str(refused.value)


def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    child = os.fork()
    if child == 0:
        line = stand_in(path=str(path), console=["it never boots"])
        params = {"command": line, "booted_sign": SIGN, "memory_bytes": PAGE, "mem_lock": False}
        probe.call("guest_memory", params | {"settle_ns": 0})
        os._exit(0)
    deadline = time.monotonic() + 120
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    started = Path(f"/proc/{path.read_text()}")
    assert started.exists()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while started.exists() and ") Z " not in (started / "stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.needs("qemu")
@pytest.mark.parametrize("locked", [False, True])
def test_qemus_own_memory(locked: bool) -> None:
    """A firmware alone, in 23 MiB: locked, all of it is there."""
    qemu = guest_tools.find(guest_tools.QEMU)
    assert qemu is not None
    wanted = VirtualMachine(PAGES * MIB, mem_lock=locked, nic="virtio")
    line = "\n".join([qemu, *command(wanted, "tcg", None, None, None)])
    params = {"booted_sign": "No bootable device.", "memory_bytes": PAGES * MIB}
    try:
        result = watch(line, params=params | {"mem_lock": locked})
    except probe.ProbeError as refused:
        if not locked or refused.status != "unavailable":
            raise
        pytest.skip(str(refused))
    assert result["guest_bytes"] == PAGES * MIB
    assert json.loads(result["greeting"])["QMP"]["version"]["qemu"]["major"] >= 5
    if locked:
        assert min(result["rss_bytes"], result["vm_locked_bytes"]) > PAGES * MIB
        assert result["locked_bytes"] > PAGES * MIB
    else:
        assert (result["vm_locked_bytes"], result["locked_bytes"]) == (0, 0)
