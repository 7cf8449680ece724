"""Two made-up runs compared: the four words, unlike machines, files of rows, gates."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pretend import EXPERIMENT, World, costs, exact, took
from resealed import resealed

from memlab.cli import cli
from memlab.errors import BadExport, CannotRun, NotComparable, Unlike
from memlab.experiment import At, Count
from memlab.judging.compare import Compared, compare_runs
from memlab.judging.disturbed import Disturbed, is_timing
from memlab.present import cases, exports, tables, words
from memlab.results import Run, rows_file

Measure = Callable[..., Run]
LEVELS = {"size": [4096], "place": ["here"]}


def base_and_new(measured: Measure, factor: float, **how: Any) -> tuple[Run, Run]:
    """A run, and one where `fast` takes so many times as long."""
    shared = {"levels": LEVELS, "blocks": 12} | how

    def later(at: At) -> float:
        return 1e-6 * (factor if at["method"] == "fast" else 1.0)

    base = measured(EXPERIMENT, costs(lambda at: 1e-6), id="ba5e0000", name="base", **shared)
    new = measured(EXPERIMENT, costs(later), id="00ce0000", name="new", **shared)
    return base, new


def in_rows(run: Run, path: Path) -> Path:
    exports.write_rows(run.store_path, run.id, None, path)
    return path


def compared_with(path: Path, new: Run, **how: Any) -> Compared:
    with rows_file.opened(path, new) as base:
        return compare_runs(base, new, **how)


def word(compared: Compared, method: str) -> str:
    (found,) = (p.comparison.word for p in compared.points if p.at["method"] == method)
    return found


@pytest.mark.parametrize(("faults", "expected"), [(7, "same"), (8, "slower"), (6, "faster")])
def test_a_count_that_cannot_vary_is_compared_by_its_first_sample(
    measured: Measure, faults: int, expected: str
) -> None:
    """Only where a claim says that it cannot: elsewhere one sample compares nothing."""
    claim = Count(id="seven", metric="faults", where={"method": "fast"}, equals=7, exact=True)
    of = replace(EXPERIMENT, claims=[claim])
    how = {"levels": LEVELS, "blocks": 1}
    base = measured(of, exact(lambda at: 1e-6, fault_count=7), id="ba5e0000", **how)
    new = measured(of, exact(lambda at: 1e-6, fault_count=faults), id="00ce0000", **how)
    compared = compare_runs(base, new, metric="faults")
    assert word(compared, "fast") == expected
    assert word(compared, "slow") == "inconclusive"


@pytest.mark.parametrize(("factor", "expected"), [(1.2, "slower"), (0.8, "faster"), (1.0, "same")])
def test_a_point_gets_its_word_and_the_others_keep_theirs(
    measured: Measure, factor: float, expected: str
) -> None:
    compared = compare_runs(*base_and_new(measured, factor))
    assert word(compared, "fast") == expected
    assert word(compared, "slow") == "same"
    (fast,) = (p for p in compared.points if p.at["method"] == "fast")
    assert fast.comparison.ratio.estimate == pytest.approx(factor, rel=0.01)
    assert fast.new == pytest.approx(factor * fast.base, rel=0.01)


def test_where_higher_is_better_a_larger_number_is_faster(measured: Measure) -> None:
    compared = compare_runs(*base_and_new(measured, 0.8), metric="speed")
    assert word(compared, "fast") == "faster"


def test_few_blocks_are_inconclusive_and_say_how_many_are_missing(measured: Measure) -> None:
    compared = compare_runs(*base_and_new(measured, 1.2, blocks=3))
    assert compared.counts == {"inconclusive": len(compared.points)}
    count = len(compared.points)
    assert compared.too_few == count
    assert words.counts(compared).startswith(
        f"{count} points: {count} with too few blocks for a verdict"
    )
    assert {row[1].text for row in tables.compared([compared]).rows} == {"too few blocks"}
    assert all(p.comparison.blocks_missing >= 2 for p in compared.points)


@pytest.mark.parametrize(("busy", "said"), [(30, True), (20, False)])
def test_sides_measured_under_unlike_disturbance_are_named(
    measured: Measure, busy: int, said: bool
) -> None:
    """Nothing preempts a sample, and a neighbour on the other CPU takes its memory bandwidth."""

    def beside(ticks: int) -> World:
        host = {"other_cpus_ticks": 100, "other_cpus_busy_ticks": ticks}
        return costs(lambda _: 1e-6, host=host)

    base = measured(EXPERIMENT, beside(0), id="ba5e0000", levels=LEVELS)
    new = measured(EXPERIMENT, beside(busy), id="00ce0000", levels=LEVELS)
    remarks = compare_runs(base, new).remarks
    named = "unlike disturbance: the other CPUs were busy for 0 % of the time of run ba5e0000 and "
    assert [remark.startswith(f"{named}30 % of run 00ce0000") for remark in remarks[:1]] == [
        True
    ] * said


@pytest.mark.parametrize(("busy", "said"), [(30, True), (20, False)])
def test_flagged_samples_are_counted_per_side_where_there_are_many(
    measured: Measure, busy: int, said: bool
) -> None:
    """A neighbour through both runs is not an unlike disturbance, and yet their medians differ."""
    host = {"other_cpus_ticks": 100, "other_cpus_busy_ticks": busy}
    base, new = (
        measured(EXPERIMENT, costs(lambda _: 1e-6, host=host), id=id, levels=LEVELS)
        for id in ("ba5e0000", "00ce0000")
    )
    remarks = compare_runs(base, new).remarks
    count = len(new.samples)
    counted = f"{count} of {count} samples of run"
    named = f"flagged as disturbed: {counted} ba5e0000, {counted} 00ce0000; "
    assert [remark.startswith(named) for remark in remarks] == [True] * said


@pytest.mark.parametrize("by", ["other CPUs busy", "writeback", "nobody"])
def test_a_gate_decides_nothing_if_others_disturbed_all(measured: Measure, by: str) -> None:
    """What a trial itself may cause, such as writeback, is no reason."""
    host = {
        "other CPUs busy": {"other_cpus_ticks": 100, "other_cpus_busy_ticks": 90},
        "writeback": {"nr_written": 10_000},
        "nobody": {},
    }[by]
    base, new = (
        measured(EXPERIMENT, costs(lambda _, f=factor: f * 1e-6, host=host), id=id, levels=LEVELS)
        for id, factor in (("ba5e0000", 1), ("00ce0000", 2))
    )
    gated = CliRunner().invoke(
        cli,
        ["--store", str(new.store_path), "compare", base.id, new.id, "--fail-on", "regression"],
    )
    if by == "other CPUs busy":
        assert isinstance(gated.exception, CannotRun)  # exit 3: neither passed nor failed
        assert str(gated.exception).startswith("--fail-on is undecided: others disturbed all ")
    else:
        assert gated.exit_code == 1
    compared = compare_runs(base, new)
    assert set(compared.counts) == {"slower"}
    assert compared.fails("regression") == (by != "other CPUs busy")
    first, count = words.counts(compared), len(new.samples)
    assert "; one session each" in first
    disturbed = f"; samples that others disturbed: {count} of {count} and {count} of {count}"
    assert first.endswith(disturbed) == (by == "other CPUs busy")
    found = cases.of_comparison(compared)
    standings = {case.standing for case in found.cases}
    assert standings == {"open" if by == "other CPUs busy" else "bad"}
    assert compared.undecided.startswith(
        f"others disturbed all {count} samples of run ba5e0000 (other CPUs busy): "
        if by == "other CPUs busy"
        else ""
    )


def test_a_count_is_decided_whatever_disturbs(measured: Measure) -> None:
    host = {"other_cpus_ticks": 100, "other_cpus_busy_ticks": 90}
    run = measured(EXPERIMENT, costs(lambda _: 1e-6, host=host), levels=LEVELS)
    found = Disturbed.of_run(run)
    assert found.is_all
    timing = {metric.name for metric in run.metrics if is_timing(metric)}
    assert {"time", "speed"} <= timing
    assert not timing & {"minor_faults", "rss_peak", "vm_locked"}


def sessions_of(each: int, luck: tuple[float, ...], factor: float = 1.0) -> World:
    """A world whose session number b // each is slower by its luck, in the last block by far."""

    def world(at: At, block: int) -> dict[str, Any]:
        own = luck[block // each] * (9 if block % each == each - 1 else 1)
        return took(1e-6 * own * (factor if at["method"] == "fast" else 1.0))

    return world


LUCK = (1.0, 1.02, 0.97, 1.04, 0.99, 1.01)


def spread(measured: Measure, id: str, factor: float = 1.0) -> Run:
    """A run of six sessions with three blocks each."""
    request = {"experiment": EXPERIMENT.name, "blocks": 18, "sessions": 6}
    world = sessions_of(3, LUCK, factor)
    return measured(EXPERIMENT, world, id=id, levels=LEVELS, blocks=18, sessions=6, request=request)


def test_a_session_counts_once_and_by_its_median(measured: Measure, tmp_path: Path) -> None:
    """Of a stored run and of one in a file of rows alike."""
    base, new = spread(measured, "ba5e0000"), spread(measured, "00ce0000", factor=1.3)
    found = compare_runs(base, new)
    assert (word(found, "fast"), word(found, "slow")) == ("slower", "same")
    assert found.unit == "session"
    assert {point.comparison.n for point in found.points} == {6}
    assert found.points[0].base == pytest.approx(1.005e-6)
    kept = compared_with(in_rows(base, tmp_path / "base.jsonl"), new)
    assert (kept.points, kept.remarks) == (found.points, found.remarks) == (found.points, [])


def test_two_sessions_are_too_few_and_say_so(measured: Measure) -> None:
    runs = [
        measured(
            EXPERIMENT,
            sessions_of(3, LUCK),
            id=id,
            levels=LEVELS,
            blocks=6,
            sessions=2,
            request={"experiment": EXPERIMENT.name, "blocks": 6, "sessions": 2},
        )
        for id in ("ba5e0000", "00ce0000")
    ]
    (point, *_) = compare_runs(*runs).points
    assert point.comparison.text == "inconclusive: about 3 more sessions"


def test_a_side_of_one_session_is_named(measured: Measure) -> None:
    base, _ = base_and_new(measured, 1.0)
    (remark,) = compare_runs(base, spread(measured, "5b4ead00")).remarks
    assert remark.startswith("run ba5e0000 is of one session")


def test_points_are_matched_by_their_levels(measured: Measure) -> None:
    world = exact(lambda at: 1e-6 * at["size"])
    base = measured(EXPERIMENT, world, id="ba5e0000", levels={"size": [1, 64]})
    new = measured(EXPERIMENT, world, id="00ce0000", levels={"size": [64, 8192]})
    compared = compare_runs(base, new)
    assert {p.at["size"] for p in compared.points} == {64, 4096}  # 4096 is a control's
    assert {at["size"] for at in compared.only_base} == {1}
    assert {at["size"] for at in compared.only_new} == {8192}


def test_a_zero_where_nothing_is_compared_is_no_hindrance(measured: Measure) -> None:
    def world(at: At, block: int) -> dict[str, Any]:
        return took(1e-6, fault_count=at["size"] - 1)

    base = measured(EXPERIMENT, world, id="ba5e0000", levels={"size": [1, 64]})
    new = measured(EXPERIMENT, world, id="00ce0000", levels={"size": [64]})
    assert set(compare_runs(base, new, metric="faults").counts) == {"same"}


def test_points_at_0_are_left_out_and_said(measured: Measure) -> None:
    def world(more: int) -> Any:
        return lambda at, block: took(1e-6, fault_count=at["size"] - 1 + more * (at["size"] == 64))

    levels = {"size": [1, 64, 4096]}
    base = measured(EXPERIMENT, world(-63), id="ba5e0000", levels=levels)
    new = measured(EXPERIMENT, world(0), id="00ce0000", levels=levels)
    compared = compare_runs(base, new, metric="faults")
    assert {p.at["size"] for p in compared.points} == {4096}
    (remark,) = compared.remarks
    assert remark.startswith("no ratio at ")
    assert "of them 0 on both sides" in remark
    assert ": 0 and 63" in remark


def test_runs_without_a_common_point_say_which_factor_differs(measured: Measure) -> None:
    world = exact(lambda at: 1e-6 * at["size"])
    grid = replace(EXPERIMENT, controls=())
    base = measured(grid, world, id="ba5e0000", levels={"size": [1]})
    new = measured(grid, world, id="00ce0000", levels={"size": [64]})
    with pytest.raises(NotComparable, match=r"size is 1 B in one and 64 B in the other$"):
        compare_runs(base, new)


def test_turns_are_held_against_windows_by_force_alone(measured: Measure) -> None:
    asked = {"experiment": EXPERIMENT.name, "directory": "/var/tmp"}
    base, new, older = (
        measured(EXPERIMENT, costs(lambda at: 1e-6), id=id, levels=LEVELS, request=asked | turns)
        for id, turns in (
            ("ba5e0000", {"turns": False}),
            ("00ce0000", {"turns": True}),
            ("01de0000", {}),
        )
    )
    with pytest.raises(Unlike, match=r"run 00ce0000 was taken in turns.* run ba5e0000 in windows"):
        compare_runs(base, new)
    said = "unlike settings, compared by force: run 00ce0000 was taken in turns"
    assert any(remark.startswith(said) for remark in compare_runs(new, base, force=True).remarks)
    assert compare_runs(older, base).remarks == []


def test_unlike_machines_are_refused_unless_forced(measured: Measure) -> None:
    world = costs(lambda at: 1e-6)
    shared: dict[str, Any] = {"levels": LEVELS}
    base = measured(
        EXPERIMENT, world, id="ba5e0000", environment={"kernel_release": "6.1.0"}, **shared
    )
    new = measured(
        EXPERIMENT, world, id="00ce0000", environment={"kernel_release": "6.18.0"}, **shared
    )
    with pytest.raises(Unlike, match=r"kernel_release: 6\.1\.0 and 6\.18\.0; --force"):
        compare_runs(base, new)
    forced = compare_runs(base, new, force=True)
    assert forced.remarks == [
        "unlike machines, compared by force: kernel_release: 6.1.0 and 6.18.0"
    ]
    assert forced.notes == forced.remarks


def test_many_differences_of_machines_are_one_line_and_all_of_them_kept(measured: Measure) -> None:
    caches = [{"level": 1, "size_bytes": 32768}], [{"level": 1, "size_bytes": 65536}]
    issues = [dict.fromkeys(("mds", "srbds", "tsx"), word) for word in ("Vulnerable", "PTI")]
    environments = [
        {"cpu_model": model, "cpus_online": cpus, "caches": of, "mitigations": issue}
        for model, cpus, of, issue in zip(
            ("AMD", "Arm"), ("0-1", "0-3"), caches, issues, strict=True
        )
    ]
    base, new = (
        measured(EXPERIMENT, costs(lambda at: 1e-6), id=name, environment=of, levels=LEVELS)
        for name, of in zip(("ba5e0000", "00ce0000"), environments, strict=True)
    )
    with pytest.raises(
        Unlike, match=r": CPU, caches, 3 mitigations \(memlab compare -v says how\); --force"
    ) as no:
        compare_runs(base, new)
    assert "caches: level 1 size_bytes 32768 and level 1 size_bytes 65536" in no.value.differs
    forced = compare_runs(base, new, force=True)
    first = "unlike machines, compared by force: "
    assert forced.remarks == [first + line for line in no.value.differs]
    assert forced.notes == [f"{first}CPU, caches, 3 mitigations"]
    lines = tables.compared_notes([forced], in_full=True)
    assert (lines, tables.compared_notes([forced])) == (forced.remarks, forced.notes)


GUEST = {
    "guest": {"memory_bytes": 2**30, "cpus": 2},
    "cpu_model": "QEMU TCG CPU version 2.5+",
    "emulated_time": True,
}


def test_guests_of_one_machine_are_compared_and_what_differs_is_said(measured: Measure) -> None:
    """Another kernel is what a guest was booted for, and it leaves another share of the memory;
    another machine is still refused, and so is a larger guest."""
    world, shared = costs(lambda at: 1e-6), {"levels": LEVELS}
    base, new, *others = (
        measured(EXPERIMENT, world, id=name, environment=GUEST | differs, **shared)
        for name, differs in (
            ("ba5e0000", {"kernel_release": "6.1.0", "memory_total_bytes": 1000}),
            ("00ce0000", {"kernel_release": "6.18.0", "memory_total_bytes": 900}),
            ("07e40000", {"cpu_model": "AMD EPYC"}),
            ("1a46e000", {"guest": {"memory_bytes": 2**31, "cpus": 2}, "memory_total_bytes": 2000}),
        )
    )
    assert compare_runs(base, new).remarks == [
        "times in an emulated guest are not the machine's",
        "the guests differ: kernel_release: 6.1.0 and 6.18.0",
        "the guests differ: memory_total_bytes: 1000 and 900",
    ]
    for other in others:
        with pytest.raises(Unlike, match=r"cpu_model|memory_total"):
            compare_runs(base, other)


@pytest.mark.parametrize("emulated_first", [True, False])
def test_emulated_times_are_said_on_whichever_side(measured: Measure, emulated_first: bool) -> None:
    world = costs(lambda at: 1e-6)
    sides = [
        measured(EXPERIMENT, world, id=name, levels=LEVELS, environment={"emulated_time": emulated})
        for name, emulated in (("ba5e0000", emulated_first), ("00ce0000", not emulated_first))
    ]
    remarks = compare_runs(*sides, force=True).remarks
    assert "times in an emulated guest are not the machine's" in remarks


def test_other_probes_are_said(measured: Measure) -> None:
    def rebuilt(at: At, block: int) -> dict[str, Any]:
        return costs(lambda at: 1e-6)(at, block) | {"probe_hash": "0ddba115c0ffee"}

    base = measured(EXPERIMENT, costs(lambda at: 1e-6), id="ba5e0000", levels=LEVELS)
    new = measured(EXPERIMENT, rebuilt, id="00ce0000", levels=LEVELS)
    assert compare_runs(base, new).remarks == [
        "the probes differ, 5eed5eed and 0ddba115: a difference may be theirs"
    ]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"metric": "tine"}, "no metric 'tine'; did you mean time?"),
        ({"metric": "major_faults"}, "major_faults is 0 in samples of"),
        ({"threshold": 0.0}, "threshold is a share above 0"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(
    measured: Measure, how: dict[str, Any], says: str
) -> None:
    with pytest.raises(NotComparable, match=r"^[^\n]*$") as raised:
        compare_runs(*base_and_new(measured, 1.0), **how)
    assert says in str(raised.value)


class TestFileOfRows:
    def test_it_compares_as_the_run_it_came_from(self, measured: Measure, tmp_path: Path) -> None:
        base, new = base_and_new(measured, 1.2)
        of_file = compared_with(in_rows(base, tmp_path / "base.jsonl"), new)
        of_run = compare_runs(base, new)
        assert (of_file.points, of_file.remarks) == (of_run.points, of_run.remarks)

    def test_a_baseline_of_a_repository_says_what_must_be_alike_and_no_more(
        self, measured: Measure, tmp_path: Path
    ) -> None:
        own = {"host_name": "secret", "kernel_command_line": "secret", "kernel_release": "6.1.0"}
        base, new = base_and_new(measured, 1.2, environment=own)
        path = tmp_path / "base.jsonl"
        exports.write_baseline(base, path)
        assert "secret" not in path.read_text()
        assert compared_with(path, new).points == compare_runs(base, new).points

    def test_it_is_held_to_its_machine(self, measured: Measure, tmp_path: Path) -> None:
        base, new = base_and_new(measured, 1.0)
        path = in_rows(base, tmp_path / "base.jsonl")

        def older(kind: str, values: dict[str, Any]) -> None:
            if kind == "run":
                values["environment"]["kernel_release"] = "5.10.0"

        resealed(path, older)
        with pytest.raises(Unlike, match=r"kernel_release: 5\.10\.0 and 6\.1\.0"):
            compared_with(path, new)

    def test_one_of_another_experiment_is_refused_before_that_is_loaded(
        self, measured: Measure, tmp_path: Path
    ) -> None:
        base, new = base_and_new(measured, 1.0)
        path = in_rows(base, tmp_path / "base.jsonl")

        def elsewhere(kind: str, values: dict[str, Any]) -> None:
            if kind == "run":
                values["experiment"] = str(tmp_path / "theirs.py")

        resealed(path, elsewhere)
        (tmp_path / "theirs.py").write_text("raise SystemExit('loaded')")
        with pytest.raises(NotComparable, match=r"is of .*theirs"):
            compared_with(path, new)

    def test_it_holds_one_run(self, measured: Measure, tmp_path: Path) -> None:
        base, new = base_and_new(measured, 1.0)
        both = tmp_path / "both.jsonl"
        parts = [in_rows(run, tmp_path / f"{run.id}.jsonl").read_text() for run in (base, new)]
        both.write_text("".join(parts))
        with pytest.raises(BadExport, match="holds 2 runs, and a baseline is one: memlab export"):
            compared_with(both, new)

    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("gone.jsonl", None, "cannot read"),
            ("empty.jsonl", "", "it is empty"),
            ("broken.jsonl", "{\n", "near line 1: it is not a row of memlab"),
            ("old.csv", "run,outcome\n", "csv is written and not read; write memlab export"),
            ("old.parquet", "PAR1", "parquet is written and not read; write memlab export"),
        ],
    )
    def test_a_file_that_has_no_rows_says_so(
        self, measured: Measure, tmp_path: Path, name: str, content: str | None, says: str
    ) -> None:
        _, new = base_and_new(measured, 1.0)
        if content is not None:
            (tmp_path / name).write_text(content)
        with pytest.raises(BadExport, match=name) as raised:
            compared_with(tmp_path / name, new)
        assert says in str(raised.value)

    def test_one_that_is_cut_short_is_refused(self, measured: Measure, tmp_path: Path) -> None:
        base, new = base_and_new(measured, 1.0)
        path = in_rows(base, tmp_path / "base.jsonl")
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
        with pytest.raises(BadExport, match="it ends before its last row"):
            compared_with(path, new)


class TestCommand:
    def run(self, tmp_path: Path, *arguments: str) -> tuple[int, str]:
        store = str(tmp_path / "results.db")
        result = CliRunner().invoke(cli, ["--store", store, "compare", *arguments])
        return result.exit_code, result.output

    def test_the_first_line_counts_the_words(self, measured: Measure, tmp_path: Path) -> None:
        base_and_new(measured, 1.2)
        code, output = self.run(tmp_path, "base", "new")
        assert code == 0
        assert output.splitlines()[0] == "3 points: 1 slower, 2 same within 5 %; one session each"

    @pytest.mark.parametrize(
        ("factor", "fail_on", "code"),
        [
            (1.2, "regression", 1),
            (1.2, "difference", 1),
            (0.8, "regression", 0),
            (0.8, "difference", 1),
            (1.0, "difference", 0),
        ],
    )
    def test_a_gate_closes_on_what_it_was_asked_for(
        self, measured: Measure, tmp_path: Path, factor: float, fail_on: str, code: int
    ) -> None:
        base_and_new(measured, factor)
        assert self.run(tmp_path, "base", "new", "--fail-on", fail_on)[0] == code

    def test_a_wrong_metric_is_a_usage_error(self, measured: Measure, tmp_path: Path) -> None:
        base_and_new(measured, 1.0)
        store = str(tmp_path / "results.db")
        wrong = ["base", "new", "--metric", "tine"]
        with pytest.raises(NotComparable, match=r"did you mean time\?") as raised:
            cli.main(["--store", store, "compare", *wrong], standalone_mode=False)
        assert raised.value.exit_code == 2
