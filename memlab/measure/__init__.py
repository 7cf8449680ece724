"""Measuring, as the command line, the Python API and the pytest plugin share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.errors import BadRequest, CannotRun, Interrupted, Refused
from memlab.experiment import Experiment
from memlab.experiment.needs import needs
from memlab.experiment.points import Point, point_key
from memlab.judging import questions
from memlab.judging.reproduce import Reproduced, Study, of_run
from memlab.measure import guests
from memlab.observe import capabilities, environment, libc
from memlab.observe.capabilities import Capability
from memlab.request import PRECISION, Request
from memlab.results import Run
from memlab.run import admission, beforehand, driver, plan, relay
from memlab.run.admission import Directories
from memlab.run.driver import CUT_SHORT, sessions_left
from memlab.run.executor import default_directory
from memlab.run.prepare import Prepared, check_stored_guest, prepare
from memlab.run.stop_rule import budget_s
from memlab.run.target import LocalTarget, Place, PointsNeeded
from memlab.run.watch import Watch
from memlab.store import RunRow, Store
from memlab.text import units

Tell = Callable[[str], None]

EXPERIMENT = "experiment "  # before its name among the capabilities

# A sign test along a curve of eight levels refutes nothing below nine blocks, and shows little
# below twenty (tests/analysis/README.md, "Power"); the preset's budget may end it sooner.
BLOCKS = 20
_USUAL = admission.Directories(Path("/var/tmp"))


def sweep(
    request: Request,
    store: Path,
    watch: Watch,
    guest: Place | None = None,
    wait_s: float = 0.0,
    tell: Tell | None = None,
) -> RunRow:
    """Measure a new run, in a guest if one is given. Nothing is made before the request has been
    checked. Another memlab that measures is waited for `wait_s`; `tell` is given each row as a line
    once it is committed. Raises a MemlabError."""
    check_name(request.name)
    wanted = _questions_of(store)
    if guest is None:
        local, prepared = _local(request.libc, wait_s), _asking(prepare(request))
        with Store(store, create=True, tell=tell) as opened:
            return driver.sweep(prepared, opened, watch, local, wanted)
    request, left_out = guest.fitted(request)
    for why, count in left_out.items():
        watch.warned(f"left out, {units.counted(count, 'point')}: {why}")
    points = guest.points(request)
    request = _precise(request, experiments.load(request.experiment, request.subject), points)
    with (
        guest.target(request, points, wait_s) as target,
        Store(store, create=True, tell=tell) as opened,
    ):
        return target.sweep(request, opened, watch, wanted)


def _questions_of(store: Path) -> PointsNeeded:
    """The points that the claims of a run in this store still need."""

    def needed(row: RunRow, left_s: float | None) -> frozenset[int]:
        run = Run(row, store)
        if search := run.experiment.search:
            result: frozenset[int] = import_module(search).open_points(run)
            return result
        return questions.open_points(run, left_s)

    return needed


def _asking(prepared: Prepared) -> Prepared:
    points = prepared.plan.points
    return replace(prepared, request=_precise(prepared.request, prepared.experiment, points))


def _precise(request: Request, experiment: Experiment, points: Sequence[Point]) -> Request:
    """The same with a precision where nothing else ends it: no claim applies to its points, or
    sessions count once, of which no look at blocks tells when there are enough."""
    if experiment.search or request.blocks is not None or request.precision is not None:
        return request
    if request.sessions == 1 and questions.apply(experiment, points):
        return request
    return replace(request, precision=PRECISION)


def check_name(name: str | None) -> None:
    """A run of a name that means something else could never be addressed by it."""
    if name is not None and (name in ("", "last") or name in experiments.names()):
        what = f"{name!r} means the newest run" if name else "an empty name means none"
        raise BadRequest(f"{what}; name it otherwise")


def resume(
    run: str,
    store: Path,
    watch: Watch,
    budget_s: float | None = None,
    wait_s: float = 0.0,
    tell: Tell | None = None,
    *,
    guest_of: Callable[[Mapping[str, Any]], Place],
) -> RunRow:
    """Measure what a stored run still lacks, where it began. `guest_of` makes a stored guest a
    place to measure. Raises a MemlabError."""
    with Store(store, tell=tell) as opened:
        opened.check_own()
        row = opened.find(run)
        if row.origin:
            raise CannotRun(
                f"run {row.id} is from {row.origin}: add --on ssh:{row.origin}, or --on the file "
                "that says how it is reached"
            )
        guest, wanted = row.request.get("guest"), _questions_of(store)
        if guest is None:
            local = _local(row.request.get("libc"), wait_s)
            return driver.resume(row, opened, watch, budget_s, local, wanted)
        check_stored_guest(guest)
        with guest_of(guest).open(wait_s) as target:
            return target.resume(row, opened, watch, budget_s, wanted)


def dry_run(
    request: Request, guest: Place | None = None
) -> tuple[Prepared, Mapping[str, Any] | None]:
    """What a sweep would measure, and what is known of its guest. Nothing is made or booted."""
    if guest is None:
        return _asking(prepare(request)), None
    prepared, known = guest.dry_run(request)
    return _asking(prepared), known


def _local(folder: str | None, wait_s: float) -> LocalTarget:
    """This host, with the libc in a folder if one is named."""
    return LocalTarget(wait_s=wait_s, libc=libc.find(Path(folder)) if folder else None)


@dataclass(frozen=True, slots=True)
class RunsHere(Capability):
    """Whether an experiment runs here in full; `decides` is how many of its claims can be judged,
    out of `claims`."""

    decides: int
    claims: int


def runs_here() -> list[RunsHere]:
    """Each experiment, what its quick preset takes, and what this machine lacks for it."""
    return [_runs_here(experiment) for experiment in map(experiments.load, experiments.names())]


def _runs_here(experiment: Experiment) -> RunsHere:
    try:
        points = admission.admit(experiment, "quick", {}, _USUAL)[0].points
        reasons = beforehand.reasons(experiment, points)
        lacking = beforehand.counted(reasons)
    except (Refused, FileNotFoundError) as short:  # without /proc nothing is known of the memory
        points = plan.build(experiment, "quick", {}).points
        reasons = {point.index: str(short) for point in points}
        lacking = {str(short): len(points)}
    results = [need for need in needs(experiment, points, 1) if need.claim and need.decides]
    claims = {need.claim for need in results}
    decided = claims - {need.claim for need in results if need.points & reasons.keys()}
    uncounted = beforehand.uncounted(experiment)
    decided -= {claim.id for claim in experiment.claims if claim.metric in uncounted}
    lacking |= dict.fromkeys(uncounted.values(), 0)
    rest = len(points) - len(reasons)
    text = f"{rest} of {len(points)} points" if reasons else f"all {len(points)} points"
    if lacking and claims:
        text += f" and {len(decided)} of {len(claims)} claims"
    memory = units.format_quantity(admission.need(experiment, points, _USUAL).memory_bytes, "B")
    text += f", at most {units.format_quantity(experiment.budget_s['quick'], 's')} and {memory}"
    return RunsHere(
        name=EXPERIMENT + experiment.name,
        available=not lacking,
        detail=text,
        remedy="; ".join(lacking) or None,
        decides=len(decided),
        claims=len(claims),
    )


def capabilities_here() -> list[Capability]:
    """What this machine lets memlab see and do, and what guests need of it."""
    return [*capabilities.read(), *guests.read()]


def requests(study: Study, options: Mapping[str, Any]) -> list[Request]:
    """A sweep for each experiment, as it is asked, by Request's fields: blocks enough for its
    claims, within the preset's budget."""
    blocks = max(BLOCKS, options.get("sessions", 1))
    results = [
        Request(experiment.name, blocks=blocks, **options) for experiment in study.experiments
    ]
    return [
        replace(request, budget_s=request.budget_s or item.budget_s[request.preset])
        for request, item in zip(results, study.experiments, strict=True)
    ]


def reproduce(
    request: Request, store: Store, watch: Watch, *, fresh: bool, wait_s: float = 0.0
) -> Reproduced:
    """Judge the newest stored run that answers the request, measuring what it lacks.

    A run answers when it was taken on this machine, in the same directory, over as many sessions,
    and holds every point of the request; one that was cut short goes on. `fresh` measures again. A
    host that cannot carry the request is an answer too. Raises Interrupted.
    """
    target = LocalTarget(wait_s=wait_s)
    try:
        prepared = prepare(request)
        row = None if fresh else _newest(store, prepared)
        if row is None:
            row = driver.sweep(prepared, store, watch, target)
        elif _cut_short(store, row):
            driver.resume(row, store, watch, request.budget_s, target)
    except Interrupted as interrupted:
        interrupted.args = (f"{interrupted}; the same command goes on with run {interrupted.run}",)
        raise
    except CannotRun as error:
        return Reproduced(experiments.load(request.experiment), None, (), (), str(error))
    return of_run(Run(row, store.path))


def expected(request: Request, store: Store | None, *, fresh: bool) -> tuple[str, float]:
    """What `reproduce` would do for a request, in words, and the wall time that it takes at most,
    in seconds. Measures nothing."""
    try:
        prepared = prepare(request)
    except CannotRun as error:
        return f"cannot be measured here: {error}", 0.0
    row = None if fresh or store is None else _newest(store, prepared)
    budget = budget_s(prepared.experiment, request) or 0.0
    if row is None:
        return "is measured", budget
    if store and _cut_short(store, row):
        return f"goes on with run {row.id}", budget
    return f"is answered by run {row.id}", 0.0


def like(request: Request, path: Path) -> RunRow:
    """The newest stored run of this machine that holds the request's points. Raises CannotRun."""
    experiment = experiments.load(request.experiment)
    points = plan.build(
        experiment, request.preset, request.levels, controls=request.controls
    ).points
    if path.exists():
        with Store(path) as store:
            place = Directories(Path(request.directory or default_directory()))
            turns = request.turns and not relay.why_not(experiment, points, request, place)
            if row := _holding(store, experiment, points, None, turns=turns):
                return row
    raise CannotRun(f"no run of {experiment.name} with these points was measured on this machine")


def emulation(experiment: Experiment, path: Path) -> tuple[str, float] | None:
    """The newest run of an experiment in an emulated guest of this host, and how many times its
    trials took what they are declared to take; None without one."""
    if not path.exists():
        return None
    with Store(path) as store:
        for row in reversed(store.runs()):
            here = row.experiment == experiment.name and row.origin is None
            if here and (row.environment.get("guest") or {}).get("accelerator") == "tcg":
                at = {point.point: point.levels for point in store.points(row.id)}
                trials = [(s.trial_s, at[s.point]) for s in store.samples(row.id)]
                declared_s = sum(admission.trial_s(experiment, levels) for _, levels in trials)
                if declared_s:
                    return row.id, sum(taken_s for taken_s, _ in trials) / declared_s
    return None


def _newest(store: Store, prepared: Prepared) -> RunRow | None:
    """The newest run of this experiment, machine and directory that holds every point."""
    return _holding(store, prepared.experiment, prepared.plan.points, prepared.request)


def _holding(
    store: Store,
    experiment: Experiment,
    points: Sequence[Point],
    request: Request | None,
    *,
    turns: bool | None = None,
) -> RunRow | None:
    """The newest run of this machine that holds these points, in the request's directory, in turns
    or windows where that is asked."""
    here = environment.read()
    needed = {point_key(point.at) for point in points}
    for row in reversed(store.runs()):
        if (
            row.experiment == experiment.name
            and row.origin is None
            and (request is None or _answers(row, request))
            and turns in (None, row.request.get("turns", False))
            and needed <= {point_key(point.levels) for point in store.points(row.id)}
            and not environment.unlike(
                row.environment, here, swap_counts=experiment.host.swap_counts
            )
        ):
            return row
    return None


def _answers(row: RunRow, request: Request) -> bool:
    wanted = row.request
    return (
        wanted.get("directory") == request.directory
        and wanted.get("sessions", 1) >= request.sessions
    )


def _cut_short(store: Store, row: RunRow) -> bool:
    """Whether the run lacks a session, or its last one ended before its own stop rule or budget
    did."""
    sessions, wanted = store.sessions(row.id), row.request.get("sessions", 1)
    return not sessions or sessions[-1].ended in CUT_SHORT or sessions_left(wanted, sessions) > 0
