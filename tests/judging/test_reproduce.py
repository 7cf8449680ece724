"""What a study needs: names, the stored run that answers, and what is measured anew."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pretend
import pytest
from pretend import exact

from memlab import experiments, measure
from memlab.errors import Interrupted, Refused, UnknownExperiment
from memlab.experiment import At, Ratio
from memlab.experiment.claims import BASES
from memlab.judging import summary
from memlab.judging.claims import judge
from memlab.judging.reproduce import Study, resolve
from memlab.judging.summary import ClaimSummary
from memlab.observe import environment
from memlab.request import Request
from memlab.results import Run
from memlab.run import driver, plan
from memlab.run.admission import Directories
from memlab.run.prepare import Prepared
from memlab.run.watch import Silent
from memlab.store import RunRow, Store

Measure = Callable[..., Run]
HERE = {"kernel_release": "6.1.0", "cpu_model": "none"}
WORLD = exact(lambda at: 2e-6 if at["method"] == "slow" else 1e-6)


def claim(text: str, **bounds: float) -> Ratio:
    of, to = {"method": "slow"}, {"method": "fast"}
    return Ratio(text=text, metric="time", of=of, to=to, **bounds)


DECLARED = pretend.experiment(
    claim("slow is slower", above=1.5), claim("slow is faster", below=1.0)
)


@pytest.mark.parametrize(
    ("study", "own", "others"),
    [("miao-2021", 58, 103), ("logstore-mmap", 22, 0), ("chen-2014", 46, 45)],
)
def test_a_study_is_counted_by_its_own_claims(study: str, own: int, others: int) -> None:
    """Those that rest on a manual page, the kernel or memlab's own reasoning are counted apart."""
    claims = [one for experiment in resolve(study).experiments for one in experiment.claims]
    assert sum(one.of_study for one in claims) == own
    assert sum(one.basis in BASES for one in claims) == others


@pytest.mark.parametrize(
    ("published", "basis"),
    [
        ("mlock(2)", "man pages"),
        ("io_uring_register(2); io_uring/rsrc.c, io_account_mem", "man pages"),
        ("mm/oom_kill.c, oom_badness", "the kernel"),
        ("userspace-api/mseal.rst", "the kernel"),
        ("commit 9651fcedf7b9, MAP_DROPPABLE", "the kernel"),
        ("memlab's own: it holds the lock for reading", "memlab's own"),
        ("Table 1, note: these are root's alone", ""),
        ("section on the cache, which names uncached_access of drivers/char/mem.c", ""),
        ("MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1 ends the shootdowns", ""),
    ],
)
def test_what_a_claim_rests_on_is_read_from_how_it_begins(published: str, basis: str) -> None:
    assert replace(claim("one", above=1.0), published=published).basis == basis


class TestNames:
    @pytest.mark.parametrize("wanted", ["logstore-mmap", "logstore", "logs"])
    def test_a_source_or_its_unique_start(self, wanted: str) -> None:
        target = resolve(wanted)
        assert {e.name for e in target.experiments} >= {"mmap-read", "mmap-write"}

    def test_a_table_that_no_experiment_declares_is_said_to_be_missing(self) -> None:
        declared = {table for e in _all() for table in e.tables}
        missing = ("logstore-mmap", "overcommit") not in declared
        lines = resolve("logstore-mmap").not_built
        assert [line for line in lines if "'overcommit'" in line] == (
            [
                "logstore-mmap, table 'overcommit' (Mapping and writing more than memory and "
                "swap): not built: no experiment declares it"
            ]
            if missing
            else []
        )

    def test_an_experiment_alone(self) -> None:
        target = resolve("mmap-read")
        assert [e.name for e in target.experiments] == ["mmap-read"]
        assert target.not_built == []

    def test_all(self) -> None:
        assert [e.name for e in resolve("all").experiments] == experiments.names()

    def test_a_start_that_fits_several_lists_them(self) -> None:
        with pytest.raises(UnknownExperiment, match=r"mmap-read, mmap-write; write one of them$"):
            resolve("mmap-")
        with pytest.raises(UnknownExperiment, match="'log' fits logstore-mmap, log-append; write"):
            resolve("log")  # a study and an experiment

    @pytest.mark.parametrize(
        ("wanted", "near"), [("mmap-wirte", "mmap-write"), ("logstroe", "logstore-mmap")]
    )
    def test_a_wrong_name_suggests_the_nearest(self, wanted: str, near: str) -> None:
        with pytest.raises(UnknownExperiment, match=f"did you mean {near}?"):
            resolve(wanted)


def _all() -> list[Any]:
    return [experiments.load(name) for name in experiments.names()]


class Bench:
    """What would measure: counts its sweeps, and stores what the made-up world answers."""

    def __init__(self) -> None:
        self.swept: list[Request] = []
        self.resumed: list[str] = []

    def prepare(self, request: Request) -> Prepared:
        directories = Directories(Path(request.directory or "/var/tmp"))
        built = plan.build(DECLARED, request.preset, request.levels)
        return Prepared(
            DECLARED, built, directories, replace(request, directory=str(directories.dir))
        )

    def sweep(self, prepared: Prepared, store: Store, watch: object, *_: Any) -> RunRow:
        self.swept.append(prepared.request)
        name = f"fee1000{len(self.swept)}"
        request = {"experiment": "pretend", "directory": prepared.request.directory}
        return store.find(
            pretend.add(store, DECLARED, WORLD, id=name, request=request, environment=HERE)
        )

    def resume(
        self, run: RunRow, store: Store, watch: object, budget_s: float | None, *_: Any
    ) -> RunRow:
        self.resumed.append(run.id)
        return run


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench()
    monkeypatch.setattr(measure, "prepare", bench.prepare)
    monkeypatch.setattr(driver, "sweep", bench.sweep)
    monkeypatch.setattr(driver, "resume", bench.resume)
    monkeypatch.setattr(environment, "read", lambda: HERE)
    return bench


class TestStoredRuns:
    def answer(self, path: Path, *, fresh: bool = False, directory: Path | None = None) -> Run:
        target = Study("pretend", [DECLARED], [])
        (request,) = measure.requests(target, {"directory": directory and str(directory)})
        with Store(path / "results.db", create=True) as store:
            found = measure.reproduce(request, store, Silent(), fresh=fresh)
        assert found.run is not None
        return found.run

    def test_nothing_stored_is_measured_with_blocks_enough_for_the_claims(
        self, measured: Measure, bench: Bench, tmp_path: Path
    ) -> None:
        measured(DECLARED, WORLD, id="01d00000", environment=HERE, levels={"size": [1]})
        run = self.answer(tmp_path)
        assert run.id == "fee10001"
        (request,) = bench.swept
        assert (request.blocks, request.budget_s) == (measure.BLOCKS, 60.0)

    def test_the_newest_run_that_holds_every_point_answers(
        self, measured: Measure, bench: Bench, tmp_path: Path
    ) -> None:
        for day, name in ((1, "01d00000"), (3, "4e300000"), (2, "31dd1e00")):
            created_at = f"2026-01-0{day}T00:00:00.000+00:00"
            measured(DECLARED, WORLD, id=name, created_at=created_at, environment=HERE)
        assert self.answer(tmp_path).id == "4e300000"
        assert bench.swept == []

    def test_a_larger_run_answers_too(
        self, measured: Measure, bench: Bench, tmp_path: Path
    ) -> None:
        levels = {"size": [*pretend.SIZES, 1024]}
        measured(DECLARED, WORLD, id="1a46e000", environment=HERE, levels=levels)
        assert self.answer(tmp_path).id == "1a46e000"

    def test_fresh_measures_anew(self, measured: Measure, bench: Bench, tmp_path: Path) -> None:
        measured(DECLARED, WORLD, id="01d00000", environment=HERE)
        assert self.answer(tmp_path, fresh=True).id == "fee10001"

    @pytest.mark.parametrize(
        "other",
        [
            {"environment": HERE | {"kernel_release": "5.10.0"}},
            {"request": {"experiment": "pretend", "directory": "/elsewhere"}},
            {"levels": {"size": [1, 64]}},
        ],
    )
    def test_another_machine_directory_or_grid_does_not_answer(
        self, measured: Measure, bench: Bench, tmp_path: Path, other: dict[str, Any]
    ) -> None:
        measured(DECLARED, WORLD, **{"id": "01d00000", "environment": HERE} | other)
        assert self.answer(tmp_path).id == "fee10001"

    @pytest.mark.parametrize(
        ("ended", "resumed"), [("interrupted", True), (None, True), ("budget", False)]
    )
    def test_a_run_that_was_cut_short_goes_on(
        self, measured: Measure, bench: Bench, tmp_path: Path, ended: str | None, resumed: bool
    ) -> None:
        measured(DECLARED, WORLD, id="c0700000", environment=HERE, ended=ended)
        assert self.answer(tmp_path).id == "c0700000"
        assert bench.resumed == (["c0700000"] if resumed else [])
        assert bench.swept == []

    def test_an_interrupt_says_how_to_go_on(
        self, monkeypatch: pytest.MonkeyPatch, bench: Bench, tmp_path: Path
    ) -> None:
        def interrupt(*_: object) -> None:
            raise Interrupted("c0700000", 12)

        monkeypatch.setattr(driver, "sweep", interrupt)
        with pytest.raises(Interrupted) as raised:
            self.answer(tmp_path)
        assert str(raised.value) == (
            "interrupted; 12 samples kept; the same command goes on with run c0700000"
        )

    def test_a_host_that_is_too_small_is_an_answer(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def refuse(_: Request) -> Prepared:
            raise Refused("mmap-read needs 40 GiB of memory, and 8 GiB are free")

        monkeypatch.setattr(measure, "prepare", refuse)
        (request,) = measure.requests(resolve("mmap-read"), {})
        with Store(tmp_path / "results.db", create=True) as store:
            found = measure.reproduce(request, store, Silent(), fresh=False)
        assert (found.run, found.refused) == (
            None,
            "mmap-read needs 40 GiB of memory, and 8 GiB are free",
        )


class TestSummary:
    def summaries(self, measured: Measure, world: pretend.World) -> list[ClaimSummary]:
        return summary.by_claim(judge(measured(DECLARED, world)))

    def test_it_says_what_holds_and_what_does_not(self, measured: Measure) -> None:
        assert summary.sentence(self.summaries(measured, WORLD)) == [
            "1 of 2 claims holds on this machine; 1 is contradicted.",
            "Contradicted: slow is faster.",
        ]

    def test_a_claim_may_depend_on_the_setting(self, measured: Measure) -> None:
        world = exact(lambda at: 2e-6 if (at["method"], at["place"]) == ("slow", "here") else 1e-6)
        slower, faster = self.summaries(measured, world)
        assert (slower.overall, faster.overall) == (summary.DIFFERS, "contradicted")
        assert summary.sentence([slower], "there") == [
            "0 of 1 claims hold there; 1 depends on the setting."
        ]

    def test_what_is_open_in_one_setting_does_not_depend_on_it(self, measured: Measure) -> None:
        """A contradiction in one and too much noise in the other, and so for one that holds."""

        def noisy(at: At, block: int) -> Mapping[str, Any]:
            if at["place"] == "there":
                high = (at["method"] == "slow") is bool(block % 2)
                return pretend.took(4e-6 if high else 1e-6)
            return pretend.took(2e-6 if at["method"] == "slow" else 1e-6)

        slower, faster = self.summaries(measured, noisy)
        assert (slower.overall, faster.overall) == (summary.PARTLY, "contradicted")
        sizes = len(pretend.SIZES)
        assert faster.counts == f"contradicted in {sizes} settings, undecided in {sizes}"
        assert summary.sentence([slower, faster])[0] == (
            "0 of 2 claims hold on this machine; 1 is contradicted; 1 holds in part."
        )

    def test_a_verdict_that_falls_beside_the_others_is_not_counted_as_holding(
        self, measured: Measure
    ) -> None:
        found = judge(measured(DECLARED, WORLD))
        assert summary.by_claim(found)[0].overall == "holds"
        weak = [replace(one, adjusted_p=0.08) for one in found]
        assert [one.overall for one in summary.by_claim(weak)] == ["not decided", "not decided"]
        assert summary.groups(summary.by_claim(weak)[0], "size")[0].closest.fallen

    def test_what_the_run_was_never_to_measure_is_in_no_count(self, measured: Measure) -> None:
        absent = replace(claim("third is slow", above=1.5), of={"method": "third"}, where={})
        made = replace(pretend.experiment(claim("slow is slower", above=1.5), absent), controls=())
        found = summary.by_claim(judge(measured(made, WORLD)))
        assert [one.absent for one in found] == [False, True]
        assert [one.overall for one in found] == ["holds", "not in this run"]
        assert [one.judged[0].shown for one in found] == ["reproduced", "not in this run"]
        assert summary.sentence(found) == [
            "1 of 1 claim holds on this machine. 1 other is not in this run."
        ]
        assert summary.sentence(found[1:]) == [
            "No claim is judged: the only one is not in this run."
        ]
        assert summary.sentence(found[1:] * 2) == ["No claim is judged: all 2 are not in this run."]

    def test_settings_along_the_figures_axis_are_one_line(self, measured: Measure) -> None:
        slower, _ = self.summaries(measured, WORLD)
        here, there = summary.groups(slower, "size")
        assert (here.at, here.span) == ({"place": "here"}, (1, 8192))
        assert len(there.members) == len(pretend.SIZES)

    def test_the_closest_is_the_one_nearest_its_bound(self, measured: Measure) -> None:
        times = {1: 9.0, 64: 8.0, 4096: 1.6, 8192: 3.0}
        world = exact(lambda at: times[at["size"]] * 1e-6 if at["method"] == "slow" else 1e-6)
        slower, _ = self.summaries(measured, world)
        assert summary.groups(slower, "size")[0].closest.setting["size"] == 4096

    def test_a_gate_looks_for_any_contradiction(self, measured: Measure) -> None:
        judged = judge(measured(DECLARED, WORLD))
        assert summary.contradicted(judged)
        assert not summary.contradicted(j for j in judged if j.word == "reproduced")

    def test_nothing_declared_is_said(self) -> None:
        assert summary.sentence([]) == ["no claim is declared"]
