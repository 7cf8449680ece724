"""A finding: a sentence about a line of an account, with what shows it and what to try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from memlab.text import units


class Severity(IntEnum):
    """The higher comes first."""

    NOTE = 0
    """Worth knowing; nothing is lost at the rates seen."""
    COSTLY = 1
    """The subject pays for it now, or will if what was seen goes on."""
    CRITICAL = 2
    """It is killed or refused memory now, or within the time that was looked at."""


NOTE, COSTLY, CRITICAL = Severity


@dataclass(frozen=True, slots=True)
class Fact:
    """One number or word of evidence, in a base unit."""

    name: str
    value: float | str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth saying."""

    name: str
    severity: Severity
    title: str
    account: str
    """stock, flow, limits or time: the account that it rests on."""
    line: str
    """The line of it."""
    measured: float
    unit: str
    evidence: tuple[Fact, ...] = ()
    setting: str = ""
    """What to try."""
    policies: Mapping[str, Sequence[str]] | None = None
    """Of `memlab try`, the baseline first."""
    experiments: tuple[str, ...] = ()
    """Those that measure here what it costs."""
    kind: str = ""
    """What tells it from others of its name; of one name and kind the first is said."""
    grows: bool = False
    """It grew during the look and no limit that was read ends the growth, so that "nothing to worry
    about was found" is not printed."""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A kind of finding: what of it is the same each time. A function beside it says when it is
    found, and how much; `docs` makes its table of these rows."""

    name: str
    account: str
    line: str
    """Of the account that it rests on; one that differs is given with the finding."""
    unit: str
    when: str
    """The condition, in words."""
    setting: str = ""
    """What to try; words that depend on what was read are given with the finding."""
    policies: Mapping[str, Sequence[str]] | None = None
    experiments: tuple[str, ...] = ()

    def found(
        self,
        severity: Severity,
        title: str,
        measured: float,
        evidence: tuple[Fact, ...] = (),
        *,
        line: str | None = None,
        setting: str | None = None,
        policies: Mapping[str, Sequence[str]] | None = None,
        grows: bool = False,
    ) -> Finding:
        return Finding(
            self.name, severity, title, self.account, self.line if line is None else line,
            measured, self.unit, evidence, self.setting if setting is None else setting,
            self.policies if policies is None else policies, self.experiments, grows=grows,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LineRow:
    """A finding about one line of a stock that is large."""

    name: str
    line: str
    least_share: float
    """Of the whole."""
    what: str
    setting: str
    parts: int = 0
    """How many named parts the sentence has."""
    experiment: str = "memcg-accounting"
    field: str = ""
    """Of a group's charge."""

    def found(self, value: float, title: str) -> Finding:
        return Finding(
            self.name, NOTE, title, "stock", self.line, value, "B",
            setting=self.setting, experiments=(self.experiment,),
        )  # fmt: skip


def ranked(found: Iterable[Finding]) -> list[Finding]:
    """The worst first; only the first of a name and kind."""
    by_name: dict[tuple[str, str], Finding] = {}
    for one in found:
        by_name.setdefault((one.name, one.kind), one)
    return sorted(by_name.values(), key=lambda one: -one.severity)


def facts(*found: Fact | None) -> tuple[Fact, ...]:
    """None is a fact that was not seen."""
    return tuple(fact for fact in found if fact is not None)


def size(value: float) -> str:
    """Bytes in words: `44.6 MiB`."""
    return units.format_quantity(value, "B")


def rate(value: float) -> str:
    """Events per second in words: `8 k/s`."""
    return units.format_quantity(value, "1/s")


def per_second(value: float, noun: str = "") -> str:
    """The same with what is counted, as a sentence has it: `8 k page faults per second`."""
    words = [rate(value).removesuffix("/s").rstrip(), noun, "per second"]
    return " ".join(filter(None, words))


def per_day(bytes_per_s: float) -> str:
    """`3.4 GB per day`: decimal, as what is bought."""
    value = bytes_per_s * 86400
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit} per day"
    return f"{value / 1e3:.3g} kB per day"


def share(value: float) -> str:
    return f"{100 * value:.0f} %"


def left(seconds: float) -> str:
    """A time in words: `40 s`, `12 min`, `3 h`, `5 days`."""
    for unit, factor in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * factor:
            return f"{seconds / factor:.0f} {unit}"
    return f"{seconds:.0f} s"
