"""tlb-shootdown's metrics: which counter of shootdowns is believed, and what a row says of it."""

from typing import Any

import pytest

from memlab.experiment import At
from memlab.experiments import tlb_shootdown
from memlab.experiments.tlb_shootdown import EXPERIMENT

AT: At = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors}
Counter = dict[str, Any]


def counted(count: int) -> Counter:
    return {"count": count, "error": None}


REFUSED: Counter = {"count": None, "error": "EACCES"}


def sample(
    *,
    known_sent: Counter,
    known_interrupts: Counter,
    sent: Counter,
    interrupts: Counter,
    readers: int = 1,
    flushes: int = 23,
) -> dict[str, Any]:
    known = {"flush_count": flushes, "interrupts": known_interrupts, "remote_sent": known_sent}
    counters = {"tlb_interrupts": interrupts, "tlb_remote_sent": sent}
    window = {"counters": counters}
    return {"known": known, "window": window, "operation_count": 100, "reader_count": readers}


def value(name: str, raw: dict[str, Any]) -> float | None:
    return EXPERIMENT.metric(name).of(raw, AT)


def evidence(raw: dict[str, Any]) -> str:
    said = EXPERIMENT.metric("shootdowns_per_op").evidence
    assert said is not None
    return said(raw, AT)


def test_the_tracepoint_is_believed_where_it_is_complete() -> None:
    """Whatever the interrupts say: a hypervisor hid 60 of these 100."""
    raw = sample(
        known_sent=counted(23),
        known_interrupts=counted(23),
        sent=counted(100),
        interrupts=counted(40),
    )
    assert value("shootdowns_per_op", raw) == 1
    assert value("interrupts_per_op", raw) == 0.4
    assert value("hidden_flushes", raw) == pytest.approx(0.6)
    assert "complete here: tlb:tlb_flush\n" in evidence(raw)
    assert "TLB 40, tlb:tlb_flush reason 4 100, 100 operations" in evidence(raw)


@pytest.mark.parametrize("known_sent", [REFUSED, counted(0), counted(22)])
def test_interrupts_are_believed_where_the_tracepoint_is_not_complete(known_sent: Counter) -> None:
    """One interrupt a reader is one shootdown."""
    raw = sample(
        known_sent=known_sent,
        known_interrupts=counted(23),
        sent=REFUSED,
        interrupts=counted(300),
        readers=3,
    )
    assert value("shootdowns_per_op", raw) == 1
    assert value("hidden_flushes", raw) is None
    assert "complete here: /proc/interrupts" in evidence(raw)


def test_no_number_where_neither_is_complete() -> None:
    raw = sample(
        known_sent=REFUSED, known_interrupts=counted(3), sent=REFUSED, interrupts=counted(7)
    )
    assert value("shootdowns_per_op", raw) is None
    assert "complete here: neither" in evidence(raw)
    assert "tlb:tlb_flush EACCES" in evidence(raw)


def test_one_cpu_has_no_known_answer() -> None:
    raw = sample(
        known_sent=counted(0),
        known_interrupts=counted(0),
        sent=counted(0),
        interrupts=counted(0),
        flushes=0,
    )
    assert value("known_by_tracepoint", raw) is None
    assert value("shootdowns_per_op", raw) is None
    assert evidence(raw).startswith("no second CPU to ask, or none that had time\n")


@pytest.mark.parametrize(
    ("cpus", "levels"),
    [
        (2, [0, 1]),
        (3, [0, 1, 2]),
        (4, [0, 1, 2, 3]),
        (8, [0, 1, 2, 4, 7]),
        (16, [0, 1, 2, 4, 8, 15]),
    ],
)
def test_there_are_readers_for_every_cpu_but_one(
    cpus: int, levels: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tlb_shootdown, "CPUS", cpus)
    assert tlb_shootdown.reader_levels() == levels


def test_more_cpus_than_a_crew_has_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tlb_shootdown, "CPUS", 256)
    assert tlb_shootdown.reader_levels() == [0, 1, 2, 4, 8, 16, 32, 63]


def test_a_release_is_timed_by_page_and_older_runs_have_none() -> None:
    counted_nothing = sample(
        known_sent=REFUSED, known_interrupts=REFUSED, sent=REFUSED, interrupts=REFUSED
    )
    timed = counted_nothing | {"timed_release_count": 5, "timed_release_ns": 640_000}
    metric = EXPERIMENT.metric("release_time_per_page")
    assert metric.of(timed, {**AT, "pages": 2, "ranges": 64}) == pytest.approx(1e-6)
    assert metric.of(timed | {"timed_release_count": 0}, AT) is None
    assert metric.of(counted_nothing, AT) is None


@pytest.mark.parametrize("name", ["shootdowns_per_op", "interrupts_per_op"])
def test_a_flush_by_broadcast_is_the_reason_for_no_count(name: str) -> None:
    lacks = EXPERIMENT.metric(name).lacks
    assert lacks({"tlb_broadcast": "by TLBI"}) == "by TLBI"
    assert lacks({"tlb_broadcast": None}) == lacks({}) == ""


@pytest.mark.parametrize(
    ("user_ns", "readers", "share"),
    [(190, 1, 0.9), (120, 1, 0.2), (90, 1, 0.0), (340, 3, 0.8), (100, 0, None)],
)
def test_the_readers_ran_for_what_the_initiator_cannot_have_taken(
    user_ns: int, readers: int, share: float | None
) -> None:
    """Of a window of 100 ns, in which the initiator ran for 100 at most."""
    raw = {
        "window": {"elapsed_ns": 100, "user_ns": user_ns - 10, "system_ns": 10},
        "reader_count": readers,
    }
    assert value("reader_ran", raw) == (share if share is None else pytest.approx(share))
