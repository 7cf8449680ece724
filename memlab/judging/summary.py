"""What the verdicts come to, for a reader who knows no statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memlab.analysis.compare import benjamini_hochberg
from memlab.analysis.verdicts import ALPHA
from memlab.experiment import At, Claim, Level
from memlab.experiment.claims import BASES
from memlab.judging.claims import Judged
from memlab.judging.sight import ABSENT, FAILED

OVERALL = {
    "reproduced": "holds",
    "contradicted": "contradicted",
    "inconclusive": "not decided",
    "not testable here": "not testable here",
}
DIFFERS = "depends on the setting"
PARTLY = "holds in part"
ORDER = (  # as it is printed
    "contradicted",
    DIFFERS,
    "not decided",
    PARTLY,
    "not testable here",
    ABSENT,
    "holds",
)
HERE = "on this machine"
_TESTED = ("reproduced", "contradicted", "inconclusive")
_UNDECIDED = "undecided"
_NO_SAMPLE, _FAILED = "no sample yet", "failed"
# What stands beside a verdict that its own test decides, and all tests of the run together do not.
FALLEN = "does not stand once all verdicts are corrected: it needs more blocks"


@dataclass(frozen=True, slots=True)
class ClaimSummary:
    """One claim over all its settings."""

    claim: Claim
    judged: Sequence[Judged]

    @property
    def overall(self) -> str:
        """One word, with all verdicts of the run corrected. It holds if each setting is shown to;
        it depends on the setting if some are shown to and others shown not to; it is contradicted
        if some are shown not to and none is shown to. If a claim names the setting nearest to the
        study's, and the run has it, that one decides."""
        if self.absent:
            return ABSENT
        words = {OVERALL[j.word] for j in self.deciding}
        if "contradicted" in words:
            return DIFFERS if "holds" in words else "contradicted"
        if "holds" in words:
            return "holds" if len(words) == 1 else PARTLY
        return "not decided" if "not decided" in words else "not testable here"

    @property
    def deciding(self) -> Sequence[Judged]:
        """The settings that decide what becomes of the claim."""
        return [j for j in self.judged if is_nearest(j)] or self.judged

    @property
    def absent(self) -> bool:
        """Whether the run was never to measure what it needs."""
        return all(j.absent for j in self.judged)

    @property
    def standing(self) -> str:
        """What it counts as: `overall`, an undecided one by what it lacks."""
        return _NO_SAMPLE if self.no_sample else _FAILED if self.failed else self.overall

    @property
    def no_sample(self) -> bool:
        """Undecided since the run has no sample yet of what it needs."""
        return self._has_no_value and not self.failed

    @property
    def failed(self) -> bool:
        """Undecided since no trial of what it needs ended well."""
        return self._has_no_value and any(FAILED in j.verdict.reason for j in self.deciding)

    @property
    def _has_no_value(self) -> bool:
        return self.overall == "not decided" and not any(j.verdict.n for j in self.deciding)

    @property
    def counts(self) -> str:
        """`contradicted in 1 setting, undecided in 2`; empty where the settings agree."""
        words = Counter(OVERALL[j.word].removeprefix("not ") for j in self.deciding)
        (first, count), *rest = words.most_common()
        parts = [f"{_SAID.get(first, first)} in {count} setting{'' if count == 1 else 's'}"]
        parts += [f"{_SAID.get(word, word)} in {count}" for word, count in rest]
        return ", ".join(parts) if rest else ""


_SAID = {"decided": "undecided"}


def is_nearest(judged: Judged) -> bool:
    """Whether it is at the setting that its claim names as nearest to the study's."""
    near = judged.claim.nearest
    return bool(near) and all(judged.setting.get(n, level) == level for n, level in near.items())


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """Settings of one claim that agree on the verdict and differ along only one factor.

    `at`: the levels they share, of the factors that the claim's settings vary. `span`: the
    first and last level of the factor they differ in, None for a single setting. `closest`:
    the one whose interval comes nearest to the bound, the least safe of them.
    """

    at: At
    span: tuple[Level, Level] | None
    members: Sequence[Judged]
    closest: Judged


def by_claim(judged: Iterable[Judged]) -> list[ClaimSummary]:
    """The verdicts claim by claim, in the order judged."""
    results: dict[int, list[Judged]] = {}
    for j in judged:
        results.setdefault(id(j.claim), []).append(j)
    return [ClaimSummary(members[0].claim, members) for members in results.values()]


def deciding(judged: Iterable[Judged]) -> list[Judged]:
    """Those whose settings decide what becomes of their claims."""
    return [item for claim in by_claim(judged) for item in claim.deciding]


def sentence(summaries: Sequence[ClaimSummary], place: str = HERE, study: str = "") -> list[str]:
    """`3 of 4 claims hold on this machine; 1 is contradicted.`, then each contradicted claim. Where
    a study is named its claims are counted, and what rests on a manual page, the kernel or memlab's
    own reasoning apart. A claim whose points are not in the run is in no count. `place` may be
    empty."""
    if not summaries:
        return ["no claim is declared"]
    requests = [s for s in summaries if not s.absent]
    if not requests:
        every = "the only one is" if len(summaries) == 1 else f"all {len(summaries)} are"
        return [f"No claim is judged: {every} {ABSENT}."]
    studied = [s for s in requests if s.claim.of_study or not study]
    others = [s for s in requests if not s.claim.of_study and study]
    absent = len(summaries) - len(requests)
    parts = []
    if studied or not others:
        parts.append(_counted(studied, f"claim{{s}}{f' of {study}' if others else ''}", place))
    if others:
        what = "further check{s}" if studied else "check{s}"
        *bases, last = [kind for kind in BASES if kind in {s.claim.basis for s in others}]
        basis = f"{', '.join(bases)} and {last}" if bases else last
        parts.append(_counted(others, f"{what} ({basis})", "" if studied else place))
    if absent:
        item = "1 other is" if absent == 1 else f"{absent} others are"
        parts.append(f"{item} {ABSENT}")
    wrong = [
        f"Contradicted: {s.claim.text}{f' ({s.counts})' if s.counts else ''}."
        for s in requests
        if s.overall == "contradicted"
    ]
    return [". ".join(parts) + ".", *wrong]


def _counted(results: Sequence[ClaimSummary], what: str, place: str) -> str:
    """`3 of 4 claims hold on this machine; 1 is contradicted`. `what` has `{s}` for the plural."""
    counts = Counter(item.standing for item in results)
    total, holding = len(results), counts["holds"]
    others = [overall for overall in _VERBS if counts[overall] and overall != "holds"]
    parts = [counted(counts[overall], overall) for overall in others]
    of = f"{holding} of {total} {what.format(s='' if holding == total == 1 else 's')}"
    verb = "holds" if holding == 1 else "hold"
    return "; ".join([f"{of} {verb} {place}".rstrip(), *parts])


_VERBS = {
    "contradicted": ("is contradicted", "are contradicted"),
    DIFFERS: ("depends on the setting", "depend on the setting"),
    PARTLY: ("holds in part", "hold in part"),
    "not decided": (f"is {_UNDECIDED}", f"are {_UNDECIDED}"),
    _NO_SAMPLE: ("has no sample yet", "have no sample yet"),
    _FAILED: ("could not be measured", "could not be measured"),
    "not testable here": ("is not testable", "are not testable"),
    ABSENT: (f"is {ABSENT}", f"are {ABSENT}"),
    "holds": ("holds", "hold"),
}


def counted(count: int, standing: str, noun: str = "") -> str:
    """`2 are contradicted`, `1 more claim is undecided`: the noun as it is of one."""
    item, several = _VERBS[standing]
    what = f" {noun}{'' if count == 1 else 's'}" if noun else ""
    return f"{count}{what} {item if count == 1 else several}"


Said = tuple[str, str, float | None]
"""A verdict: the claim's id, the word, the p."""


def verdicts(judged: Iterable[Judged]) -> list[Said]:
    """Those that had a sample, by their own tests: without one there was no chance to be wrong."""
    return [(j.claim.id, j.verdict.word, j.verdict.p) for j in judged if j.verdict.n]


def standing(results: Sequence[Said], over: str = "") -> str:
    """What share of the verdicts is expected to be false at most, how many stand where that is 5 %,
    and which do not: of one run, or of what `over` names.

    The share of all is the largest corrected p: the level at which all of them would stand (the
    q-value of Storey, Journal of the Royal Statistical Society B 64 (2002) 479-498, who takes
    the tests for given and asks for the share, where Benjamini and Hochberg do the reverse).
    """
    decided = _corrected(results)
    if not decided:
        return ""
    fallen = [id for id, q in decided if q > ALPHA]
    of, among = len(decided), f"Benjamini and Hochberg{f' over {over}' if over else ''}"
    if not fallen:
        return (
            f"all {of} verdicts stand together: at most 5 % of them are expected to be false "
            f"({among})"
            if of > 1
            else f"the one verdict stands: it is false with at most 5 % ({among})"
        )
    most = 100 * max(q for _, q in decided)
    return (
        f"{of - len(fallen)} of {of} verdicts stand together: at most 5 % of these are expected to "
        f"be false ({among}); of all {of} at most {most:.2g} %. More blocks are needed for: "
        f"{', '.join(dict.fromkeys(fallen))}"
    )


def _corrected(results: Sequence[Said]) -> list[tuple[str, float]]:
    """The claims that are decided, with their p once all are corrected. One that is undecided was a
    chance to be wrong too: it counts, with a p of 1. A count that cannot vary was none."""
    tested = [item for item in results if item[1] in _TESTED and item[2] != 0]
    adjusted = benjamini_hochberg([1.0 if p is None else p for _, _, p in tested])
    return [(id, q) for (id, _, p), q in zip(tested, adjusted, strict=True) if p is not None]


def groups(summary: ClaimSummary, along: str) -> list[SettingGroup]:
    """A claim's settings, those merged that share the verdict and differ only in `along`."""
    varied = [
        name
        for name in summary.judged[0].setting
        if len({j.setting.get(name) for j in summary.judged}) > 1
    ]
    results: dict[tuple[object, ...], list[Judged]] = {}
    for j in summary.judged:
        shared = tuple((name, j.setting.get(name)) for name in varied if name != along)
        key = (shared, j.shown, j.fallen, j.control_says)
        results.setdefault(key, []).append(j)
    return [_group(members, varied, along) for members in results.values()]


def _group(members: Sequence[Judged], varied: Sequence[str], along: str) -> SettingGroup:
    first, last = members[0].setting, members[-1].setting
    alone = len(members) == 1
    return SettingGroup(
        at={name: first[name] for name in varied if alone or name != along},
        span=None if alone else (first[along], last[along]),
        members=members,
        closest=min(members, key=lambda j: j.clearance or 0.0),
    )


def nothing_decided(judged: Iterable[Judged]) -> str:
    """Why no claim could be decided on this machine, in the words of the most claims; empty if one
    could, if samples are missing, or if no claim is about the run's points."""
    requests = [item for item in by_claim(judged) if not item.absent]
    if not all(item.overall == "not testable here" or item.failed for item in requests):
        return ""
    reasons = Counter(j.verdict.reason for item in requests for j in item.deciding)
    return reasons.most_common(1)[0][0] if reasons else ""


def contradicted(judged: Iterable[Judged]) -> bool:
    """Whether any claim is contradicted in any setting: what closes a gate."""
    return any(j.word == "contradicted" for j in judged)
