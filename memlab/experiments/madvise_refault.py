"""madvise-refault: what madvise, munmap and mprotect leave, and what a touch then meets."""

import signal
from collections.abc import Callable

from memlab.experiment import At, Checks, Cost, Experiment, Factor, Metric, Raw, choice
from memlab.experiments import _scene
from memlab.experiments._refault_claims import CLAIMS

CHECKS = (
    *("state_0", "state_1", "state_2", "state_3", "state_3_unhandled"),
    *("dontneed", "dontneed_write", "dontneed_private_file", "dontneed_shared_file"),
    *("dontneed_of_locked", "dontneed_locked"),
    *("free", "free_write", "free_reclaimed", "free_private_file", "free_shared_file"),
    *("cold", "pageout"),
    *("munmap_private_file", "munmap_shared_file"),
    *("mprotect_none", "mprotect_back"),
)
MIB = 2**20
_CODES = {1: "SEGV_MAPERR", 2: "SEGV_ACCERR"}  # sigaction(2)


def touch_ended(raw: Raw) -> str:
    """`23 faults by rusage, 23 trapped`, or the signal that every touch ended in."""
    if raw["signal_count"]:
        code = _CODES.get(raw["signal_code"], f"si_code {raw['signal_code']}")
        return f"{raw['signal_count']} x {signal.Signals(raw['signal']).name}, {code}"
    window = raw["window"]
    faults = window["minor_fault_count"] + window["major_fault_count"]
    trapped = window["counters"]["trapped"]
    counted = trapped["error"] or f"{trapped['count']} trapped"
    return f"{faults} faults by rusage, {counted}"


def evidence(raw: Raw, at: At) -> str:
    """The calls and the lines of smaps around the last one, then the touch and those after it."""
    touch = f"{raw['touch']}: {touch_ended(raw)}"
    return "\n".join([_scene.evidence(raw, at), touch, _scene.smaps(raw, "touched")])


def vmas(side: str) -> Callable[[Raw, At], float | None]:
    return lambda raw, _: float(raw[side]["vma_count"])


def pages(field: str, side: str) -> Callable[[Raw, At], float | None]:
    return lambda raw, _: float(raw[side][f"{field}_bytes"] / raw["page_bytes"])


def number(*fields: str) -> Callable[[Raw, At], float | None]:
    return lambda raw, _: float(sum(raw[field] for field in fields))


# Name, what it is, how it is read. Each is a whole number.
_METRICS: tuple[tuple[str, str, Callable[[Raw, At], float | None]], ...] = (
    ("vma_count", "VMAs in the range after the call", vmas("after")),
    ("vma_count_before", "VMAs in the range before the call", vmas("before")),
    ("resident_pages", "pages present after the call", pages("rss", "after")),
    ("resident_pages_before", "pages present before the call", pages("rss", "before")),
    ("resident_pages_touched", "pages present after the touch", pages("rss", "touched")),
    ("lazy_free_pages", "pages marked by MADV_FREE, LazyFree", pages("lazy_free", "after")),
    ("lazy_free_pages_touched", "the same after the touch", pages("lazy_free", "touched")),
    ("call_errno", "errno of the call, 0 where it succeeded", number("call_errno")),
    ("zero_pages", "touched pages that read zero", number("zero_count")),
    ("kept_pages", "touched pages as written before the call", number("kept_count")),
    ("file_pages", "touched pages as the file was", number("file_count")),
    (
        "kept_or_zero_pages",
        "touched pages that are one or the other",
        number("kept_count", "zero_count"),
    ),
    ("signal_count", "touches that ended in a signal", number("signal_count")),
    ("signal", "the number of that signal", number("signal")),
    ("signal_code", "its si_code: 1 SEGV_MAPERR, 2 SEGV_ACCERR", number("signal_code")),
)

EXPERIMENT = Experiment(
    name="madvise-refault",
    question="What do madvise, munmap and mprotect leave of memory, and what does a touch meet?",
    probe="madvise_refault",
    factors=[
        Factor(
            "check",
            choice(*CHECKS),
            quick=CHECKS,
            help="the call that is checked, and on what: state_0 to state_3 are the published "
            "ones; the others are on anonymous memory but where a file is named",
        ),
    ],
    metrics=[Metric(name, "count", what, of=of, evidence=evidence) for name, what, of in _METRICS],
    cost=Cost(memory=lambda _: 16 * MIB, time=lambda _: 0.01),
    tiny={"check": ["state_2", "dontneed", "free"]},
    judges={"jemalloc-madvise": ["states"]},
    claims=CLAIMS,
    figure=Checks("vma_count", over="check", by=()),
)
