"""A row of kernels: what is a step, and where halving ends."""

from __future__ import annotations

import random

import pytest

from memlab import api, experiments
from memlab.errors import BadRequest
from memlab.experiment.needs import matching, parts
from memlab.machines import least
from memlab.machines.ladder import judge as ladder
from memlab.machines.ladder import measure, show
from memlab.machines.ladder.judge import KernelCell, KernelRow
from memlab.request import Request
from memlab.run import plan

HOLDS, NOT = KernelCell("reproduced", 7, 7, 7), KernelCell("contradicted", 0, 0, 0)


@pytest.mark.parametrize(
    ("old", "new", "apart"),
    [
        (HOLDS, HOLDS, False),
        (HOLDS, NOT, True),
        (KernelCell("", 256, 256, 256), KernelCell("", 1, 1, 1), True),
        (KernelCell("", 100, 90, 110), KernelCell("", 105, 95, 115), False),
        (KernelCell("", 100, 99.9, 100.1), KernelCell("", 100.5, 100.4, 100.6), False),
        (KernelCell("", 100), KernelCell("", 120), True),
        (KernelCell("reproduced"), KernelCell("reproduced"), False),
    ],
)
def test_a_step_is_another_word_or_a_number_beyond_the_other(
    old: KernelCell, new: KernelCell, apart: bool
) -> None:
    assert new.differs(old) is apart
    row = KernelRow("vma-lock", "x", "", {}, "count", {"6.1": old, "6.12": old, "7.3": new})
    assert row.steps == ([("6.12", "7.3")] if apart else [])


def test_rows_are_of_the_claims_that_count_and_of_metrics() -> None:
    run = api.load("example:page-fault")
    found = ladder.rows([("6.1", run), ("7.3", run)], (), ["faults_20gb"], timed=False)
    declared = experiments.load("page-fault")
    assert {row.id for row in found} == {c.id for c in declared.claims if not c.timed} | {
        "faults_20gb"
    }
    assert all(list(row.cells) == ["6.1", "7.3"] and not row.steps for row in found)
    (named,) = {row.id for row in ladder.rows([("6.1", run)], ["off-count"], [], timed=False)}
    assert named == "off-count"


def test_the_least_levels_are_those_that_the_claims_name() -> None:
    declared = experiments.load("page-fault")
    claims = least.selected(declared, ["off-count", "future-count"], timed=False)
    found = least.levels(declared, claims)
    assert found["lock"] == ["future", "off"]
    assert found["chunk"] == [1_024_000]
    assert found["chunks"] == list(declared.tiny["chunks"])


@pytest.mark.parametrize("seed", range(20))
def test_halving_ends_at_the_step_or_names_what_it_could_not_tell(seed: int) -> None:
    """With kernels that say nothing, that are undecided, and counts with noise."""
    rng = random.Random(seed)
    versions = [f"6.{minor}" for minor in range(rng.randrange(2, 40))]
    step = rng.randrange(1, len(versions))
    mute = {v for v in versions[1:-1] if rng.random() < 0.2}

    def look(version: str) -> KernelCell | None:
        if version in mute:
            return rng.choice([None, KernelCell("", 50, 1, 400)])
        middle = (256 if versions.index(version) < step else 1) * rng.uniform(0.97, 1.03)
        return KernelCell("", middle, middle * 0.96, middle * 1.04)

    ends = look(versions[0]), look(versions[-1])
    assert ends[0]
    assert ends[1]
    found = ladder.bisect(versions, ends[0], ends[1], look)
    low, high = versions.index(found.before), versions.index(found.since)
    assert low < step <= high
    assert set(found.skipped) == set(versions[low + 1 : high])
    assert set(found.skipped) <= mute
    assert found.error_percent == min(100, 5 * len(found.measured))
    assert len(found.measured) <= 2 + len(versions).bit_length()


UNDECIDED = KernelCell("inconclusive", 1, 0, 300)
CHANGES = [
    (name, claim.id) for name in experiments.names() for claim in experiments.load(name).changes
]


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        ({"6.16": NOT, "6.17": NOT, "6.18": HOLDS, "7.3": HOLDS}, "reproduced"),
        ({"6.17": HOLDS, "6.18": HOLDS}, "contradicted"),  # true before it was claimed
        ({"6.17": NOT, "6.18": NOT}, "contradicted"),
        ({"6.17": NOT, "6.18": HOLDS, "7.3": NOT}, "contradicted"),  # true no longer
        ({"6.17": UNDECIDED, "6.18": HOLDS}, "inconclusive"),
        ({"6.17": NOT, "6.18": UNDECIDED}, "inconclusive"),
        ({"6.18": HOLDS}, "not testable here"),
        ({"6.9": NOT, "6.17.13": NOT}, "not testable here"),
    ],
)
def test_a_changelogs_claim_holds_since_its_version_and_not_before(
    cells: dict[str, KernelCell], word: str
) -> None:
    assert KernelRow("mmap-write", "x", "", {}, "count", cells, since="6.18").as_claimed == word
    assert KernelRow("mmap-write", "x", "", {}, "count", cells).as_claimed is None


def test_there_are_claims_of_changelogs() -> None:
    assert len(CHANGES) > 3


@pytest.mark.parametrize(("name", "wanted"), CHANGES)
def test_a_changelogs_claim_is_judged_where_it_is_named_and_leaves_one_point(
    name: str, wanted: str
) -> None:
    declared = experiments.load(name)
    (claim,) = (one for one in declared.changes if one.id == wanted)
    assert claim.since
    assert claim not in least.selected(declared, (), timed=True)
    asked = measure.LadderRequest([name], [wanted], append=claim.boots_with, timed=False)
    (request,) = measure.requests(asked)
    (point,) = plan.build(declared, "quick", request.levels, controls=False).points
    assert dict(claim.where).items() <= point.at.items()


def test_a_claim_that_needs_another_boot_says_so() -> None:
    with pytest.raises(BadRequest, match="--guest append=transparent_hugepage_tmpfs=always"):
        measure.requests(measure.LadderRequest(["mmap-write"], ["tmpfs-folio-faults"], timed=False))


def metric_row(name: str, *values: float) -> KernelRow:
    cells = {f"6.{n}": KernelCell("", value, value, value) for n, value in enumerate(values)}
    return KernelRow("page-fault", name, "", {}, "count", cells)


def test_the_matrix_of_many_kernels_has_each_row_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 80 columns four kernels stand side by side, however long a row's name; and what is the
    same under each of them is a line, not a row."""
    monkeypatch.setenv("COLUMNS", "80")
    kernels = [f"6.{n}" for n in range(4)]
    long = "a_metric_of_a_name_that_takes_more_than_half_of_the_screen"
    rows = [metric_row(long, 256, 256, 1, 1)]
    rows += [metric_row(f"m{n}", 7, 7, 7, 7) for n in range(39)]
    show.show(kernels, rows, verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert [line.split() for line in lines].count(kernels) == 1  # one head
    assert [line.split()[-4:] for line in lines if "256" in line and " 1" in line][-1] == [
        *("256", "256", "1", "1")
    ]
    assert "page-fault m0: 7 everywhere" in lines
    assert "page-fault: 31 more rows alike under every kernel (-v)" in lines
    show.show(kernels, rows, verbose=True)
    assert capsys.readouterr().out.count("\n") > 39


def test_claims_at_levels_of_controls_are_measured_with_the_controls() -> None:
    """Every combination of what they name would be 96 points, half of which stall for 10 s."""
    declared = experiments.load("reclaim-or-kill")
    claims = least.selected(declared, (), timed=False)
    assert least.least_points(declared, claims) == ({}, True)
    planned = plan.build(declared, "quick", {}).points
    assert all(any(matching(planned, side)) for claim in claims for side in parts(claim))
    request, left_out = least.fitted(Request("reclaim-or-kill"))
    assert (request.blocks, request.controls, left_out) == (least.BLOCKS, True, {})
    named, controls = least.least_points(
        experiments.load("memcg-notify"),
        least.selected(experiments.load("memcg-notify"), (), timed=False),
    )
    assert (sorted(named["thresholds"]), controls) == ([1, 16], False)
