"""A run that a test measured, and what the test may assert of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from memlab import api, results
from memlab.errors import CannotRun, MemlabError, Unlike
from memlab.experiment import Claim, Level
from memlab.judging.claims import Judged, judge
from memlab.judging.compare import FAILS, Compared, compare_runs, metric_of
from memlab.judging.compare_levels import compare_levels
from memlab.judging.disturbed import Disturbed, is_undecided
from memlab.present import cases, exports, words
from memlab.pytest_plugin import baselines
from memlab.pytest_plugin.account import TallyEntry
from memlab.pytest_plugin.context import Context
from memlab.pytest_plugin.settings import fail
from memlab.results import rows_file
from memlab.text import units

Baseline = str | Path | results.Run | Mapping[str, Level]


class _NoBaseline(LookupError):
    """There is nothing to compare with; one line says where it was looked for."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What an assertion found: what speaks against it, and what is not decided. A line each."""

    title: str
    against: Sequence[str] = ()
    undecided: Sequence[str] = ()
    untestable: bool = False  # here, at every setting


class AssertableRun(api.Run):
    """`frame`, `summary()` and `plot()` as of any run, and assertions."""

    def __init__(self, measured: api.Run, context: Context, number: int) -> None:
        super().__init__(measured.row, measured.store_path)
        self._context, self._number = context, number
        self._entry = TallyEntry(context.test, self.experiment.name, self.id, len(self.samples))
        self._beside_own = False
        context.account.measured(self._entry)

    def assert_claim(self, claim: str) -> None:
        """Fail where the claim is contradicted at any setting. `claim`: its id or its text."""
        __tracebackhide__ = True
        self._end(self._claimed(claim))

    def assert_not_slower_than(
        self,
        baseline: Baseline | None = None,
        by: str | float = "5%",
        *,
        metric: str | None = None,
    ) -> None:
        """Fail where a point is slower than the baseline's by more than `by`.

        The baseline: levels of this run's factors, such as {"library": "old.so"}, whose points
        the others are held against, block by block; a file of rows, a run's id or name, a run;
        without one, this test's own in the folder of --memlab-compare.
        """
        __tracebackhide__ = True
        self._end(self._compared(baseline, by, metric, FAILS["regression"]))

    def assert_same_as(
        self,
        baseline: Baseline | None = None,
        by: str | float = "5%",
        *,
        metric: str | None = None,
    ) -> None:
        """Fail where a point is slower or faster than the baseline's by more than `by`."""
        __tracebackhide__ = True
        self._end(self._compared(baseline, by, metric, FAILS["difference"]))

    def assert_fits(self, fits: bool | None, told: Sequence[str]) -> None:
        """Fail if a command does not fit into its limit; None: not decided. `told`: the answer."""
        __tracebackhide__ = True
        self._entry.notes.append(told[0])
        title = f"fit, run {self.id}"
        self._end(Shortfall(title, told if fits is False else (), told if fits is None else ()))

    def close(self) -> None:
        """What the session's options ask of every run: compared with its baseline, and saved."""
        if self._context.settings.compare and not self._beside_own:
            self._compared(None, "5%", None, ())
        if self._context.settings.save:
            self._save(self._context.settings.save)

    def _end(self, shortfall: Shortfall) -> None:
        """Stacklevel 3: the test's own line."""
        __tracebackhide__ = True
        if shortfall.against:
            raise AssertionError(
                "\n".join([shortfall.title, *shortfall.against, *shortfall.undecided])
            )
        if shortfall.untestable:
            self._context.settings.untestable("\n".join([shortfall.title, *shortfall.undecided]))
        if shortfall.undecided:
            self._context.settings.undecided(
                "\n".join([shortfall.title, *shortfall.undecided]), stacklevel=3
            )

    @cached_property
    def _judged(self) -> Sequence[Judged]:
        return judge(self)

    def _claimed(self, name: str) -> Shortfall:
        __tracebackhide__ = True
        claim = self._claim(name)
        judged = [j for j in self._judged if j.claim is claim]
        self._entry.verdicts.update(j.word for j in judged)
        title = f"{self.experiment.name}, run {self.id}: {claim.text}"
        untestable = {j.word for j in judged} == {"not testable here"}
        disturbed = Disturbed.of_run(self)
        if not untestable and any(is_undecided(self, j, disturbed) for j in judged):
            return Shortfall(title, (), [disturbed.text, *map(self._verdict_line, judged)])
        verdicts = [(j.word, self._verdict_line(j)) for j in judged if j.word != "reproduced"]
        return Shortfall(
            title,
            [line for word, line in verdicts if word == "contradicted"],
            [line for word, line in verdicts if word != "contradicted"],
            untestable=untestable,
        )

    def _claim(self, name: str) -> Claim:
        """By its id, with the experiment's name before it or not, its text, or the text's start."""
        __tracebackhide__ = True
        claims, claim_id = self.experiment.claims, name.removeprefix(f"{self.experiment.name}/")
        fits = [c for c in claims if claim_id == c.id or name == c.text] or [
            c for c in claims if c.text.startswith(name)
        ]
        if len(fits) != 1:
            begins = f"{len(fits)} claims begin" if fits else "no claim begins"
            known = "; ".join(f"{c.id} ({c.text})" for c in fits or claims)
            fail(f"{self.experiment.name}: {begins} with {name!r}; there are: {known}")
        return fits[0]

    def _verdict_line(self, judged: Judged) -> str:
        at = cases.name(self.experiment, judged.setting)
        return f"  {judged.word}{f' ({at})' if at else ''}: {judged.evidence}"

    def _compared(
        self, baseline: Baseline | None, by: str | float, metric: str | None, bad: Sequence[str]
    ) -> Shortfall:
        __tracebackhide__ = True
        self._beside_own |= baseline is None
        settings = self._context.settings
        try:
            metric_of(self.experiment, metric)
        except MemlabError as wrong:
            fail(str(wrong))
        if baseline is None and settings.save and not settings.compare:
            return Shortfall("this session makes the baseline")
        try:
            compared = self._beside(baseline, metric, _share(by))
        except Unlike as unlike:
            return self._not_compared(f"the machines or settings differ: {unlike.in_short}")
        except _NoBaseline as missing:
            return self._not_compared(str(missing))
        except MemlabError as error:
            fail(str(error))
        beside = "its baseline" if baseline is None else compared.base
        self._entry.notes.append(f"against {beside}: {words.counts(compared)}")
        points = [
            (
                p.comparison.word,
                f"  {cases.point_name(compared, p)}: {cases.point_line(compared, p)}",
            )
            for p in compared.points
        ]
        if compared.undecided:
            bad = ()
        about = f"{compared.new} against {compared.base}, {compared.metric.help}"
        return Shortfall(
            "\n".join([f"{self.experiment.name}, {about}", *compared.notes]),
            [line for word, line in points if word in bad],
            self._undecided(compared, points),
        )

    @staticmethod
    def _undecided(compared: Compared, verdicts: Sequence[tuple[str, str]]) -> list[str]:
        """A line per point that is not decided, which is each if others disturbed all samples."""
        if compared.undecided:
            return [compared.undecided, *(line for _, line in verdicts)]
        return [line for word, line in verdicts if word == "inconclusive"]

    def _beside(self, baseline: Baseline | None, metric: str | None, by: float) -> Compared:
        if isinstance(baseline, Mapping):
            return compare_levels(self, baseline, metric=metric, threshold=by)
        base = self._baseline(baseline)
        if isinstance(base, Path):
            with rows_file.opened(base, self) as stored:
                return compare_runs(stored, self, metric=metric, threshold=by)
        return compare_runs(base, self, metric=metric, threshold=by)

    def _not_compared(self, why: str) -> Shortfall:
        self._entry.notes.append(f"not compared: {why}")
        return Shortfall(f"{self.experiment.name}, run {self.id}", (), [f"  not compared: {why}"])

    def _baseline(self, base: str | Path | results.Run | None) -> Path | results.Run:
        if base is None:
            return self._own_baseline()
        if isinstance(base, str) and not rows_file.is_file(base):
            return api.load(base, store=self.store_path)
        return Path(base) if isinstance(base, str) else base

    def _own_baseline(self) -> Path:
        folder = self._context.settings.compare
        if folder is None:
            raise _NoBaseline("no baseline is named; give one, or --memlab-compare PATH")
        path = baselines.path(folder, self._context.test, self._number)
        if not path.exists():
            raise _NoBaseline(f"this test has no baseline at {path}; --memlab-save makes one")
        return path

    def _save(self, folder: Path) -> None:
        __tracebackhide__ = True
        path = baselines.path(folder, self._context.test, self._number)
        try:
            exports.write_baseline(self, path)
        except OSError as error:
            fail(f"--memlab-save: cannot write {path}: {error.strerror}")
        except CannotRun as error:
            fail(f"--memlab-save: {error}")
        self._entry.notes.append("saved as a baseline")


def _share(by: str | float) -> float:
    __tracebackhide__ = True
    if not isinstance(by, str):
        return by
    try:
        return units.parse_percent(by)
    except ValueError as error:
        fail(f"by: {error}")
