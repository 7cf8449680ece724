"""Sentences that a mail or a narrow terminal broke, put together again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memlab.diagnose.kernel_log import forms, near

_LENGTH_MAX, _PARTS_MAX = 8192, 8
_END_MAX = 64  # characters that tell how a line ends
# The words of a sentence, its last field, how a rest of it begins, and what joins them.
_SIZES = ("(", "UID", "oom_score")
_COLUMNS = ("rss", "pgtables", "swapents", "nr_", "oom_", "name", "cpu")
_PRESSURE = ("due", "to ", "memory", "pressure", "for", "/", "being", ">", *"0123456789", "with ")
_BROKEN = (
    ("oom-kill:constraint=", ",uid=", (), ""),
    ("cgroup stats for", ":", ("/",), " "),
    ("Task in /", "limit of /", ("killed", "as a", "a ", "result", "of ", "limit", "/"), " "),
    ("Killed /", "activity", _PRESSURE, " "),
    ("Marked /", "activity", (*_PRESSURE, "killing"), " "),
    ("ending SIG", "MiB", ('"', "uid ", "badness", "VmRSS", "to ", "process ", *"0123456789"), " "),
    ("illed process ", "oom_score_adj:", _SIZES, " "),
    ("in UB ", "illed process ", ("OOM killed", "killed", "process "), " "),
    ("invoked oom-killer:", "order=", ("(", "order=", "nodemask=", "GFP", "gfp_mask="), " "),
    ("ut of memory:", "process ", ("process ", "Kill"), " "),
    (": usage ", "failcnt", ("limit", "failcnt", *"0123456789"), " "),
    ("total_vm ", " name", _COLUMNS, " "),
    ("lmkd: ", "reason: ", ("oom_score_adj", "state ", "to free ", "reason: "), " "),
)
_BEFORE_WORDS = " invoked", "oom-killer:", ("oom-killer:",), " "
_BEFORE_MEMORY = "emory cgroup", "ut of memory", ("out of memory",), " "
_BEFORE_PATH = "ed", "/", ("/",), " "
_ENDINGS = ("Killed", "Marked")  # of lines whose next one begins with a group's path
_FIRST_WORDS = (
    *(form[0] for form in _BROKEN), " invoked", "emory cgroup", *_ENDINGS, "Kill process",
)  # fmt: skip
# How a part of a kill's sizes may begin, broken at a blank or at a hyphen; marks of a comment may
# stand before it.
_SIZES_REST = re.compile(
    r"(?:(?:total-|anon-|file-|shmem-)?(?:vm|rss|vsz):|\d{1,16}kB|UID|pgtables|oom_score|\("
    r"|\d{1,10} vm:)"
)
_MARKS = " \t>|*#/"
_PID = re.compile(r"\d{1,10}(?: \(|, UID)")
_CONTEXT = ("nodemask=", "cpuset=", "mems_allowed=", "task=", ",pid=", "memcg=", "global_oom")


def joined(lines: Iterable[str]) -> Iterator[str]:
    """Put a broken sentence together: at most some lines, the next ones without a stamp."""
    waiting, parts = "", 0
    for chunk, text in near.chunks(lines):
        if not waiting and not any(word in text for word in _FIRST_WORDS):
            yield from chunk
            continue
        for line in chunk:
            if waiting:
                rest = _continuation(waiting, line) if parts < _PARTS_MAX else None
                if rest is not None:
                    if waiting.endswith((",\\", " \\")):  # of whom broke it, as in a shell
                        waiting = waiting[:-1].rstrip()
                    waiting, parts = waiting + rest, parts + 1
                    if _broken(waiting) is None:
                        yield waiting
                        waiting = ""
                    continue
                yield waiting
                waiting = ""
            if _broken(line) is not None:
                waiting, parts = line.rstrip() if _lacks_pid(line) else line, 0
            else:
                yield line
    if waiting:
        yield waiting


def _lacks_pid(line: str) -> bool:
    return line[-_END_MAX:].rstrip().endswith(("illed process", "Kill process"))


def _broken(line: str) -> tuple[str, str, tuple[str, ...], str] | None:
    end = line[-_END_MAX:].rstrip()
    if end.endswith(" invoked"):
        return _BEFORE_WORDS
    if end.endswith(_BEFORE_MEMORY[0]):
        return _BEFORE_MEMORY
    if end.endswith(_ENDINGS) and "emory" not in line:
        return _BEFORE_PATH
    for form in _BROKEN:
        if form[0] in line and form[1] not in line[line.find(form[0]) + len(form[0]) - 1 :]:
            return form
    return None


def _continuation(waiting: str, line: str) -> str | None:
    """The rest of a sentence, or None if the line begins another one."""
    form = _broken(waiting)
    rest = line.rstrip(" \t|").lstrip(" \t>|")
    if form is None or not rest or len(waiting) + len(rest) > _LENGTH_MAX:
        return None
    _, _, begins, glue = form
    if _lacks_pid(waiting):
        return f" {rest}" if _PID.match(rest) else None
    if begins == _SIZES:
        return _rest_of_sizes(waiting.rstrip(), rest.lstrip(_MARKS))
    if begins:
        is_rest = rest.startswith(begins) and not forms.is_stamped(line)  # a date is digits
        return glue + rest if is_rest else None
    is_other = "ut of memory" in rest or "oom-kill:" in rest
    is_rest = any(key in rest for key in _CONTEXT) and not is_other
    return glue + rest if is_rest and not forms.parted(line)[0] else None


def _rest_of_sizes(waiting: str, rest: str) -> str | None:
    if not _SIZES_REST.match(rest) or (
        rest[0] == "(" and not waiting.endswith((",", *"0123456789"))
    ):
        return None
    return rest if waiting.endswith((":", "-")) else f" {rest}"
