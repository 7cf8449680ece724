"""A probe in a forked process of its own, for what would change the process of the tests."""

import ctypes
import os
import pickle
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leavings import leavings, left

from memlab import probe

PR_SET_THP_DISABLE = 41  # prctl(2)
CAP_IPC_LOCK = 14  # capabilities(7)
_CAPABILITY_VERSION_3 = 0x20080522  # capget(2)


def call(
    name: str,
    params: Mapping[str, Any],
    *,
    locked_limit_bytes: int | None = None,
    procs: str | None = None,
    huge_pages: bool = False,
) -> dict[str, Any]:
    """The probe's result, or the ProbeError it raises; without huge pages unless asked for.

    With a limit the process has no CAP_IPC_LOCK and RLIMIT_MEMLOCK is that many bytes. `procs` is
    the cgroup.procs of a group that it enters.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _prepare(locked_limit_bytes, huge_pages)
            if procs:
                Path(procs).write_text("0")  # whoever writes (cgroups(7))
            before = leavings()
            try:
                reply: Any = probe.call(name, params)
            except probe.ProbeError as refused:
                reply = refused
            if behind := left(before):
                raise AssertionError(f"the probe left behind: {sorted(behind)}")
        except BaseException as error:
            reply = error
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(reply))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    assert text, f"the child ended with status {status}"
    reply = pickle.loads(text)
    if isinstance(reply, BaseException):
        raise reply
    result: dict[str, Any] = reply
    return result


def _prepare(locked_limit_bytes: int | None, huge_pages: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_THP_DISABLE, int(not huge_pages), 0, 0, 0)
    if locked_limit_bytes is None:
        return
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (locked_limit_bytes, locked_limit_bytes))
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, of 32 bits and 32 more
    if libc.capget(header, sets) == -1:
        raise OSError(ctypes.get_errno(), "capget")
    for effective_or_permitted in (0, 1):
        sets[effective_or_permitted] &= ~(1 << CAP_IPC_LOCK)
    if libc.capset(header, sets) == -1:
        raise OSError(ctypes.get_errno(), "capset")
