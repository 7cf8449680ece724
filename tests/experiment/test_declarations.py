"""Every experiment's declaration against its probe, its tables and itself: a name that nothing
answers to would otherwise show in the middle of a sweep, or never."""

import inspect
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from quick import mostly_quick

from memlab import api, experiments, probe, published
from memlab.experiment import (
    BYTES,
    COUNT,
    FLAG,
    PATH,
    PRESETS,
    SECONDS,
    Against,
    Claim,
    Experiment,
    Level,
)
from memlab.experiment.window import WINDOW_METRICS, noise
from memlab.experiments.reserved_copy import PHYSICAL_RANGE
from memlab.run import files, plan
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus

NAMES = experiments.names()
FIELD_KINDS = {
    BYTES: "int",
    COUNT: "int",
    SECONDS: "int",
    FLAG: "bool",
    PATH: "str",
    PHYSICAL_RANGE: "str",
}


TAKE_SECONDS = (
    "coop-reclaim",
    "locked-latency",
    "memcg-notify",
    "memcpy",
    "mmap-lock",
    "mmap-overcommit",
)


@pytest.fixture(params=NAMES)
def declared(request: pytest.FixtureRequest) -> Experiment:
    return experiments.load(request.param)


def claims(declared: Experiment) -> Iterator[Claim]:
    """The published claims, and what the controls' explanations predict."""
    yield from declared.claims
    for control in declared.controls:
        yield from (explanation.predicts for explanation in control.explanations)


def test_a_file_that_is_not_timed_is_for_no_metric_of_time(declared: Experiment) -> None:
    timed = declared.file is None or declared.file.timed
    assert timed or not [m for m in declared.metrics if "s" in m.unit.split("/")]


def places(claim: Claim) -> dict[str, Mapping[str, Level]]:
    """The claim's fields that hold levels of factors."""
    found = {field.name: getattr(claim, field.name) for field in fields(claim)}
    return {name: value for name, value in found.items() if isinstance(value, Mapping)}


def assert_levels(declared: Experiment, at: Mapping[str, Level]) -> None:
    for name, level in at.items():
        checked = declared.factor(name).kind.check(level)
        assert (checked, type(checked)) == (level, type(level)), (name, level)


def test_a_claim_has_a_sentence_and_an_id_of_its_own(declared: Experiment) -> None:
    ids = [claim.id for claim in declared.claims]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", one) for one in ids), ids
    assert all(claim.text for claim in declared.claims)


def test_the_folder_is_the_registry(declared: Experiment) -> None:
    """The module's name is the experiment's, so nothing has to be listed anywhere."""
    module = import_module(f"memlab.experiments.{declared.name.replace('-', '_')}")
    assert module.EXPERIMENT is declared


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(experiments.UnknownExperiment, match="did you mean mmap-write"):
        experiments.load("mmap_writ")
    with pytest.raises(experiments.UnknownExperiment, match=f"there are: {NAMES[0]}"):
        experiments.load("zzz")


def test_factors_are_the_probes_params(declared: Experiment) -> None:
    params = probe.params(declared.probe)
    taken = {factor.param: factor.kind for factor in declared.probe_factors}
    assert taken.keys() | set(declared.host_params) == params.keys()
    for field, kind in taken.items():
        if kind in FIELD_KINDS:
            assert params[field] == FIELD_KINDS[kind]
        elif isinstance(params[field], list):
            (fits,) = params[field]
            for step in (step for level in kind.levels or () for step in kind.to_field(level)):
                for name, value in step.items():
                    assert value in fits[name] if isinstance(value, str) else fits[name] == "int"
        elif kind.levels is None:  # the probe's words are levels, and so are others
            assert [kind.to_field(kind.parse(word)) for word in params[field]] == [*params[field]]
        else:
            assert set(kind.levels) == set(params[field])


def test_factors_do_not_hide_an_argument_of_sweep(declared: Experiment) -> None:
    own = set(inspect.signature(api.sweep).parameters)
    assert not own & {factor.name for factor in declared.factors}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_a_plan(declared: Experiment, preset: str) -> None:
    for factor in declared.factors:
        assert factor.levels(preset)
        for level in factor.levels(preset):
            assert_levels(declared, {factor.name: level})
    points = plan.build(declared, preset, {}).points
    assert {p.control for p in points} - {None} <= {c.name for c in declared.controls}
    assert all(declared.cost.memory(p.at) >= 0 and declared.cost.time(p.at) > 0 for p in points)
    assert declared.budget_s[preset] > 0


def test_every_control_adds_a_point(declared: Experiment) -> None:
    for control in declared.controls:
        assert set(control.presets) <= set(PRESETS)
        for preset in control.presets:
            points = plan.build(declared, preset, {}).points
            at = [p.at for p in points if p.control == control.name]
            assert at or preset == "full", f"{control.name} adds nothing to {preset}"
        for name, levels in control.levels.items():
            for level in levels:
                assert_levels(declared, {name: level})


def test_metrics_are_named_once(declared: Experiment) -> None:
    names = [metric.name for metric in (*declared.metrics, *WINDOW_METRICS)]
    factors = [factor.name for factor in declared.factors]
    assert len(set(names + factors)) == len(names + factors)  # each is a column of the frame


def test_the_figure_names_metrics_factors_and_levels(declared: Experiment) -> None:
    for figure in (declared.figure, *declared.more_figures.values()):
        assert declared.metric(figure.metric)
        named = [figure.by] if isinstance(figure, Against) else [*figure.by]
        if isinstance(figure, Against):
            assert declared.metric(figure.beside)
            lines = [figure.of, figure.to]
        else:
            named += [figure.over, *figure.panels]
            assert set(figure.controls or ()) <= {c.name for c in declared.controls}
            lines = [
                *(getattr(figure, "crossing", None) or ()),
                getattr(figure, "base", None) or {},
                getattr(figure, "where", None) or {},
            ]
        assert all(declared.factor(name) for name in named)
        for line in lines:
            assert_levels(declared, line)


def test_claims_name_metrics_factors_levels_and_controls(declared: Experiment) -> None:
    assert declared.claims
    controls = {control.name for control in declared.controls}
    metrics = {metric.name for metric in (*declared.metrics, *WINDOW_METRICS)}
    for claim in claims(declared):
        assert {claim.metric, getattr(claim, "beside", claim.metric)} <= metrics
        assert set(claim.controls) <= controls
        for at in places(claim).values():
            assert_levels(declared, at)
        if over := getattr(claim, "over", None):
            assert declared.factor(over)
            if not isinstance(at_level := getattr(claim, "at", {}), Mapping):
                assert_levels(declared, {over: at_level})


def test_claims_are_about_points_that_a_preset_measures(declared: Experiment) -> None:
    points = [p.at for preset in PRESETS for p in plan.build(declared, preset, {}).points]
    for claim in claims(declared):
        sides = {name: at for name, at in places(claim).items() if name != "where"} or {"": {}}
        for name, side in sides.items():
            wanted = {**claim.where, **side}
            assert any(wanted.items() <= at.items() for at in points), (claim.text, name)


def test_claims_rest_on_printed_numbers(declared: Experiment) -> None:
    assert all(claim.published for claim in declared.claims)


def test_published_tables_lie_in_the_factor_space(declared: Experiment) -> None:
    for beside in declared.published:
        table = published.load(beside.source).tables[beside.table]
        assert declared.metric(beside.metric)
        for row in table.rows:
            assert_levels(declared, beside.row(table.rows_are, row[table.rows_are]))
            for column, at in beside.columns.items():
                assert_levels(declared, at)
                assert table.cell(row, column).value > 0
        if beside.limit:
            assert beside.limit.control in {control.name for control in declared.controls}
            assert declared.metric(beside.limit.metric)


def test_tables_in_words_are_printed_ones(declared: Experiment) -> None:
    for source, table in declared.tables:
        assert table in published.load(source).tables


@pytest.mark.parametrize("name", [n for n in NAMES if experiments.load(n).costs])
def test_costs_name_metrics_and_factors(name: str) -> None:
    declared = experiments.load(name)
    assert declared.costs is not None
    assert declared.metric(declared.costs.metric)
    assert {declared.costs.over, *declared.costs.by} <= {f.name for f in declared.factors}


def test_what_shrinks_is_a_size(declared: Experiment) -> None:
    if declared.shrinks:
        assert declared.factor(declared.shrinks).kind in (BYTES, COUNT)
    if declared.file:
        assert {declared.factor(name).name for name in declared.file.factors}
        states = declared.factor(declared.file.state).kind.levels or ()
        assert set(states) == files.FRESH | files.PIECE_BYTES.keys()


def all_measured(declared: Experiment, folder: Path) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """What the probe returns for each tiny point, measured here and now as a sweep does."""
    refusal, any_measured = "", False
    with LocalExecutor("0123abcd", declared, Directories(folder), default_cpus(declared)) as bench:
        for point in plan.build(declared, "quick", declared.tiny).points:
            reply = bench.trial(point)
            if reply["outcome"] == "ok":
                any_measured = True
                yield point.at, reply["result"] | reply["context"]
            else:
                refusal = reply["detail"]
                # Root is refused nothing that is here; a user's lock may be, by the limit.
                limited = os.geteuid() != 0 and "RLIMIT_MEMLOCK" in refusal
                assert reply["outcome"] == "unavailable" or limited, reply
    if not any_measured:
        pytest.skip(refusal)


@pytest.mark.changes_host
@pytest.mark.parametrize("declared", mostly_quick(NAMES, *TAKE_SECONDS), indirect=True)
def test_metrics_read_what_the_probe_returns(declared: Experiment, tmp_path: Path) -> None:
    for at, raw in all_measured(declared, tmp_path):
        assert isinstance(noise(raw), list)
        value = declared.metrics[0].of(raw, at)
        assert value is not None
        assert value > 0
        for metric in (*declared.metrics, *WINDOW_METRICS):
            for read in (metric.of, metric.floor):
                found = read(raw, at) if read else None
                assert found is None or (math.isfinite(found) and found >= 0), metric.name
            if metric.extrapolated:
                assert isinstance(metric.extrapolated(raw, at), bool)
