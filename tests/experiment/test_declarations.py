"""Every experiment's declaration keeps the rules of `Experiment.check()`; each rule is broken once
here."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from command import memlab

from memlab import api, experiments, probe
from memlab.errors import BadDeclaration
from memlab.experiment import (
    FLAG,
    Attribution,
    Bars,
    Cost,
    Exclude,
    Experiment,
    Explanation,
    File,
    MachineLimit,
    Ratio,
    choice,
)
from memlab.experiment.window import WINDOW_METRICS
from memlab.run import files

NAMES = experiments.names()


def test_every_experiment_keeps_the_rules() -> None:
    """Those for everybody's experiments, and those for memlab's own."""
    arguments = set(inspect.signature(api.sweep).parameters)
    for name in NAMES:
        declared = experiments.load(name)
        declared.check()
        module = import_module(f"memlab.experiments.{name.replace('-', '_')}")
        assert (module.EXPERIMENT, declared.name) == (declared, name)  # the folder is the registry
        assert not arguments & {factor.name for factor in declared.factors}
        assert not {m.name for m in declared.metrics} & {m.name for m in WINDOW_METRICS}
        params = probe.params(declared.probe)
        given = {factor.param: factor.kind for factor in declared.probe_factors}
        assert given.keys() | set(declared.host_params) == params.keys()
        for field in given.keys() & {f for f, taken in params.items() if isinstance(taken, list)}:
            (fits,) = params[field]
            for step in (
                s for level in given[field].levels or () for s in given[field].to_field(level)
            ):
                for part, value in step.items():
                    assert value in fits[part] if isinstance(value, str) else fits[part] == "int"
        assert declared.claims
        assert all(c.id and c.text and c.published for c in declared.claims), name
        if declared.file:
            states = declared.factor(declared.file.state).kind.levels or ()
            assert set(states) <= files.FRESH | files.PIECE_BYTES.keys()


WRITE = experiments.load("mmap-write")
CLAIM, TABLE = WRITE.claims[0], WRITE.published[0]
WAYS = ", ".join(WRITE.factor("method").kind.levels or ())


def with_claim(**changes: Any) -> Experiment:
    return replace(WRITE, claims=[replace(CLAIM, **changes), *WRITE.claims[1:]])


def with_factor(old: str, **changes: Any) -> Experiment:
    changed = [replace(f, **changes) if f.name == old else f for f in WRITE.factors]
    return replace(WRITE, factors=changed)


def with_figure(**changes: Any) -> Experiment:
    return replace(WRITE, figure=replace(WRITE.figure, **changes))


def with_table(**changes: Any) -> Experiment:
    return replace(WRITE, published=[replace(TABLE, **changes)])


def with_control(**changes: Any) -> Experiment:
    return replace(WRITE, controls=[replace(WRITE.controls[0], **changes)], claims=[], so=[])


def explained(**changes: Any) -> Explanation:
    return Explanation(replace(CLAIM, **changes), "it is so", "it helps", "it does not")


# What is wrong, and the line that says so.
BROKEN: list[tuple[Callable[[], Experiment], str]] = [
    (lambda: replace(WRITE, metrics=[]), "no metric is declared"),
    (lambda: replace(WRITE, factors=[]), "no factor is declared"),
    (
        lambda: replace(WRITE, metrics=[*WRITE.metrics, WRITE.metrics[0]]),
        "the name 'time_2gib' is given twice",
    ),
    (lambda: with_factor("slice", name="elapsed"), "the name 'elapsed' is given twice"),
    (
        lambda: replace(WRITE, controls=[*WRITE.controls, WRITE.controls[0]]),
        "the name 'faults' is given twice",
    ),
    (
        lambda: with_factor("handicap", name="handycap"),
        "factor handycap: no param of probe mmap_write 'handycap_count'; "
        "did you mean handicap_count?",
    ),
    (
        lambda: with_factor("slice", kind=FLAG, name="slice_ns"),
        "factor slice_ns: slice_ns of probe mmap_write is of type int",
    ),
    (
        lambda: with_factor("advice", kind=choice("normal", "hugepag")),
        "factor advice: no level of enum advice 'hugepag'; did you mean hugepage?",
    ),
    (
        lambda: replace(WRITE, factors=WRITE.factors[:-1]),
        "the param 'handicap_count' of probe mmap_write is not a factor's",
    ),
    (
        lambda: replace(WRITE, file=File(size="file_sise")),
        "file: no factor 'file_sise'; did you mean file_size?",
    ),
    (
        lambda: replace(WRITE, file=File(timed=False)),
        "metric time_2gib: a time, of a file that is not timed",
    ),
    (lambda: replace(WRITE, shrinks="siz"), "shrinks: no factor 'siz'; did you mean size?"),
    (lambda: replace(WRITE, shrinks="method"), "shrinks: method is not a size or a count"),
    (lambda: replace(WRITE, budget_s={"quick": 1.0}), "preset paper: it has no budget"),
    (lambda: with_factor("sync", quick=[]), "preset quick: factor sync has no level"),
    (
        lambda: with_factor("method", paper=["nmap"]),
        f"preset paper: method: invalid value 'nmap'; did you mean mmap? (choose from {WAYS})",
    ),
    (
        lambda: with_factor("file_size", full=["1m"]),
        "preset full: file_size: write the level '1m' as 1048576",
    ),
    (
        lambda: with_factor("size", least=2),
        "preset quick: size: 1 B is out of bounds, 2 B or more",
    ),
    (
        lambda: replace(WRITE, tiny={"sise": [4096]}),
        "preset quick: tiny: no factor 'sise'; did you mean size?",
    ),
    (
        lambda: replace(WRITE, excludes=[Exclude(lambda at: True, "none")]),
        "preset quick: every point is excluded",
    ),
    (
        lambda: replace(WRITE, cost=Cost(time=lambda at: 0.0)),
        "preset quick: the cost of {'size': 1, 'method': 'mmap', 'filesystem': 'dir', "
        "'file_state': 'preallocated', 'file_size': 67108864, 'advice': 'normal', "
        "'populate': False, 'sync': False, 'slice': 0.1, 'handicap': 0} is not positive",
    ),
    (
        lambda: with_control(levels={"sise": [1]}),
        "preset quick: control faults: no factor 'sise'; did you mean size?",
    ),
    (
        lambda: with_control(presets=["qiuck"]),
        "preset quick: control faults: no preset 'qiuck'; did you mean quick?",
    ),
    (
        lambda: with_control(levels={"method": ["mmap"]}),
        "preset quick: control faults: it adds no point to the grid",
    ),
    (
        lambda: with_control(explanations=[explained(metric="fault_per_mib")]),
        "control faults: no metric 'fault_per_mib'; did you mean faults_per_mib?",
    ),
    (
        lambda: replace(WRITE, claims=[CLAIM, CLAIM]),
        "two claims have the id 'mmap-saturates'",
    ),
    (
        lambda: with_claim(id="Mmap saturates"),
        "claim Mmap saturates: an id is made of a to z, 0 to 9 and single hyphens",
    ),
    (
        lambda: with_claim(metric="time_2gb"),
        "claim mmap-saturates: no metric 'time_2gb'; did you mean time_2gib?",
    ),
    (
        lambda: with_claim(controls=["folio"]),
        "claim mmap-saturates: no control 'folio'; did you mean folios?",
    ),
    (
        lambda: with_claim(where={"metod": "mmap"}),
        "claim mmap-saturates: no factor 'metod'; did you mean method?",
    ),
    (
        lambda: with_claim(where={"populate": 1}),
        "claim mmap-saturates: populate: write the level 1 as True",
    ),
    (
        lambda: with_claim(judged_over=["file_sise"]),
        "claim mmap-saturates: no factor 'file_sise'; did you mean file_size?",
    ),
    (
        lambda: with_factor("size", plain="1k"),
        "preset quick: size: write the level '1k' as 1024",
    ),
    (
        lambda: with_claim(over="sise"),
        "claim mmap-saturates: no factor 'sise'; did you mean size?",
    ),
    (
        lambda: with_claim(at="100B"),
        "claim mmap-saturates: size: write the level '100B' as 100",
    ),
    (
        lambda: with_claim(where={"method": "mmap", "size": 3}),
        "claim mmap-saturates: no preset has a point at method=mmap size=3 B",
    ),
    (
        lambda: replace(
            WRITE,
            claims=[
                *WRITE.claims,
                Ratio(metric="time_2gib", text="same", of={"size": 5}, to={"size": 1}, above=1.0),
            ],
        ),
        "claim 'same': no preset has a point at size=5 B",
    ),
    (
        lambda: with_figure(metric="time"),
        "figure: no metric 'time'; did you mean time_2gib?",
    ),
    (lambda: with_figure(over="sise"), "figure: no factor 'sise'; did you mean size?"),
    (
        lambda: with_figure(panels=["file_stat"]),
        "figure: no factor 'file_stat'; did you mean file_state?",
    ),
    (
        lambda: with_figure(controls=["fault"]),
        "figure: no control 'fault'; did you mean faults?",
    ),
    (
        lambda: with_figure(claims=["mmap-saturate"]),
        "figure: no claim 'mmap-saturate'; did you mean mmap-saturates?",
    ),
    (
        lambda: with_figure(crossing=({"method": "write"}, {"method": "mmapp"})),
        f"figure: method: invalid value 'mmapp'; did you mean mmap? (choose from {WAYS})",
    ),
    (
        lambda: with_figure(answers=[explained(metric="elapsd")]),
        "figure: no metric 'elapsd'; did you mean elapsed?",
    ),
    (
        lambda: replace(WRITE, more_figures={"pairs": Bars("cache", "size", ["method"])}),
        "figure pairs: no metric 'cache'; did you mean cached?",
    ),
    (
        lambda: replace(WRITE, costs=replace(WRITE.costs, over="sizes")),
        "costs: no factor 'sizes'; did you mean size?",
    ),
    (
        lambda: replace(WRITE, attribution=Attribution("touches", ["call_times"], "faults")),
        "attribution: no metric 'call_times'; did you mean call_time?",
    ),
    (
        lambda: replace(WRITE, judges={"logstore-map": ["write"]}),
        "published: no study 'logstore-map'; did you mean logstore-mmap?",
    ),
    (
        lambda: with_table(table="writes"),
        "published: no table of logstore-mmap 'writes'; did you mean write?",
    ),
    (
        lambda: with_table(columns={"mapp": {"method": "mmap"}}),
        "published logstore-mmap, write: no column 'mapp'; did you mean mmap?",
    ),
    (
        lambda: with_table(columns={"mmap": {"metod": "mmap"}}),
        "published logstore-mmap, write: no factor 'metod'; did you mean method?",
    ),
    (
        lambda: with_table(limit=MachineLimit("fault", "time_2gib", float, "what")),
        "published logstore-mmap, write: no control 'fault'; did you mean faults?",
    ),
]


@pytest.mark.parametrize(("broken", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_rule_that_is_broken_is_one_line(broken: Callable[[], Experiment], said: str) -> None:
    with pytest.raises(BadDeclaration) as refused:
        broken().check()
    assert str(refused.value) == said


# An experiment of a user, on memlab's own probe without params.
OUTSIDE = """
from memlab.experiment import *

EXPERIMENT = Experiment(
    name="mine",
    question="What does nothing cost?",
    probe="noop",
    factors=[Factor("way", choice("a", "b"), quick=["a", "b"], help="which", host=True)],
    metrics=[Metric("took", "s", "time", of=F.window.elapsed_ns)],
    cost=Cost(),
    claims=[Ratio(metric="took", text="alike", of={"way": "a"}, to={"way": "b"}, below=2.0)],
    excludes=[Exclude(lambda at: at["way"] == "c", "never")],
    figure=Lines("took", over="way", by=[]),
)
"""


def test_a_users_declaration_is_checked_when_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OUTSIDE)
    assert memlab("describe", str(path)).returncode == 0
    for number, (right, wrong, said) in enumerate(
        [
            ('metric="took"', 'metric="tok"', "claim 'alike': no metric 'tok'; did you mean took?"),
            ('at["way"] == "c"', 'at["wya"] == "c"', "KeyError: 'wya'"),
        ]
    ):
        path = tmp_path / f"wrong{number}.py"
        path.write_text(OUTSIDE.replace(right, wrong))
        done = memlab("describe", str(path))
        where = f"{path}:12" if said.startswith("KeyError") else path
        assert (done.returncode, done.stderr) == (2, f"memlab: {where}: {said}\n")


def test_what_is_asked_for_by_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(experiments.UnknownExperiment, match="did you mean mmap-write"):
        experiments.load("mmap_writ")
    with pytest.raises(experiments.UnknownExperiment, match="`memlab list` lists them"):
        experiments.load("zzz")
    with pytest.raises(BadDeclaration, match="no factor 'sise'; did you mean size"):
        WRITE.factor("sise")
    with pytest.raises(BadDeclaration, match="no metric 'call_tim'; did you mean call_time"):
        WRITE.metric("call_tim")


def test_the_stack_of_a_new_thread_counts_as_locked() -> None:
    """Under a lower limit pthread_create fails, which says nothing of mlockall(2)."""
    locks = experiments.load("vma-lock").host.locks
    assert locks({"check": "thread_stack"}) - locks({"check": "thread"}) == 256 * 1024
