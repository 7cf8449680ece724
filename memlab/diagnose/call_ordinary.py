"""Outcomes of calls that are ordinary: a program meets them as it asks or waits, and goes on.

Whatever else fails is recorded. Most rows are by what shells, tools, databases and servers were
looked at to do (tests/diagnose/README.md), the others by the pages of manual of the calls. Sources:
these; asm-generic/errno.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ordinary:
    """Some ordinary outcomes."""

    errnos: str
    """Names, with spaces between."""
    calls: str
    """Names, with spaces between; `*` is any."""
    why: str


SENDS = ("sendto", "sendmsg", "sendmmsg")
_ATTRIBUTES = (
    "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr "
    "removexattr lremovexattr fremovexattr"
)

ROWS = (
    Ordinary("ENOENT ENOTDIR EISDIR EEXIST ENOTEMPTY", "*", "a name is looked up"),
    Ordinary("EXDEV", "*", "a file is on another file system, and is copied"),
    Ordinary("EAGAIN ETIMEDOUT ETIME ENOMSG", "*", "what it waits for is not there yet"),
    Ordinary("EINTR", "*", "a signal interrupts a wait"),
    Ordinary("ECHILD ESRCH", "*", "a process has ended"),
    Ordinary("ENOTTY ESPIPE", "*", "it asks for the kind of a file"),
    Ordinary("ENODATA", "*", "a file has no such attribute"),
    Ordinary("ENOPROTOOPT", "*", "it asks for an option of a socket"),
    Ordinary("EINPROGRESS EALREADY EISCONN", "*", "a connection is being made"),
    Ordinary("EPIPE ENOTCONN ESHUTDOWN ECONNREFUSED ECONNRESET ECONNABORTED EHOSTUNREACH EHOSTDOWN "
             "ENETUNREACH ENETDOWN ENETRESET", "*", "a peer or a network is not there"),
    Ordinary("EOPNOTSUPP", f"{_ATTRIBUTES} fallocate copy_file_range ioctl preadv2 pwritev2 "
             "name_to_handle_at", "a file system has no such thing"),
    Ordinary("ENOTSOCK", "getsockname getpeername getsockopt", "it asks whether it is a socket"),
    Ordinary("EINVAL", "readlink readlinkat", "it asks whether a name is a link"),
    Ordinary("ELOOP", "open openat openat2", "it follows no links"),
    Ordinary("EINVAL", "prctl", "it asks what the kernel knows"),
    Ordinary("EINVAL", "copy_file_range splice sendfile", "it reads and writes such files instead"),
    Ordinary("EINVAL EFAULT", "rt_sigprocmask", "it asks whether an address may be read"),
    Ordinary("EBADF", "fcntl close", "it asks which descriptors are open"),
    Ordinary("EACCES EPERM EROFS", "access faccessat faccessat2", "it asks what it may"),
    Ordinary("EPERM", "kill", "it asks whether a process is there"),
    Ordinary("EPERM", "epoll_ctl", "it asks whether a file can be waited for"),
    Ordinary("EPERM", "setuid setgid setreuid setregid setresuid setresgid",
             "it asks whether it gave up a right for good"),
    Ordinary("ENXIO", "open openat", "there is no terminal or reader"),
    Ordinary("ENXIO", "lseek", "a file has no data behind"),
    Ordinary("ERANGE", f"getcwd {_ATTRIBUTES}", "it asks for a length"),
    Ordinary("EOVERFLOW", "name_to_handle_at", "it asks for a length"),
    Ordinary("EMSGSIZE", " ".join(SENDS), "it asks how much a path carries"),
)  # fmt: skip

OF_ANY_CALL = frozenset(
    errno for row in ROWS if row.calls == "*" for errno in row.errnos.split()
)  # fmt: skip


def _of_calls() -> Mapping[str, frozenset[str]]:
    calls: dict[str, frozenset[str]] = {}
    for row in ROWS:
        for errno in row.errnos.split() if row.calls != "*" else ():
            calls[errno] = calls.get(errno, frozenset()) | {*row.calls.split()}
    return calls


OF_CALLS = _of_calls()
"""By errno, the calls that ordinarily fail with it."""


def is_ordinary(call: str, errno: str) -> bool:
    """Whether it is one of these; the caller has excluded what means a limit (EAGAIN of clone)."""
    return errno in OF_ANY_CALL or call in OF_CALLS.get(errno, ())
