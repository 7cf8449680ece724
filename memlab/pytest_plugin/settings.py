"""What the command line and the ini file ask of the plugin."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

POLICIES = ("warn", "fail", "skip")


class MemlabInconclusive(UserWarning):
    """A test passed though its samples decide nothing."""


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The options, read and checked. `inconclusive` is one of POLICIES."""

    skip: bool
    only: bool
    save: Path | None
    compare: Path | None
    budget_s: float | None
    store: Path | None
    wait_s: float
    inconclusive: str

    @classmethod
    def of(cls, config: pytest.Config) -> PluginSettings:
        """Raises pytest.UsageError with one line."""

        def path(name: str) -> Path | None:
            value = config.getoption(name)
            return Path(value).absolute() if value else None

        inconclusive = config.getoption("memlab_inconclusive") or config.getini(
            "memlab_inconclusive"
        )
        settings = cls(
            skip=config.getoption("memlab_skip"),
            only=config.getoption("memlab_only"),
            save=path("memlab_save"),
            compare=path("memlab_compare"),
            budget_s=_seconds("budget", config.getoption("memlab_budget")),
            store=path("memlab_store"),
            wait_s=_seconds("wait", config.getoption("memlab_wait")) or 0.0,
            inconclusive=inconclusive,
        )
        settings._check()
        return settings

    def _check(self) -> None:
        if self.inconclusive not in POLICIES:
            raise pytest.UsageError(
                f"memlab_inconclusive is {self.inconclusive!r}: write one of {', '.join(POLICIES)}"
            )
        if self.skip and self.only:
            raise pytest.UsageError("--memlab-skip and --memlab-only leave no test: choose one")
        if self.save and self.save == self.compare:
            raise pytest.UsageError(
                "--memlab-save and --memlab-compare name one folder: a slower run would become "
                "the baseline it failed against; save to another one"
            )

    def undecided(self, line: str, stacklevel: int) -> None:
        """What becomes of a test whose samples decide nothing: a warning, a failure, a skip."""
        __tracebackhide__ = True
        if self.inconclusive == "fail":
            fail(line)
        if self.inconclusive == "skip":
            pytest.skip(line)
        warnings.warn(MemlabInconclusive(line), stacklevel=stacklevel + 1)

    def untestable(self, line: str) -> NoReturn:
        """What becomes of a test that this machine cannot answer: a skip, or a failure."""
        __tracebackhide__ = True
        if self.inconclusive == "fail":
            fail(line)
        pytest.skip(line)


def fail(line: str) -> NoReturn:
    """Fail the test with one line, whatever error led here."""
    __tracebackhide__ = True
    raise pytest.fail.Exception(line) from None


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    from memlab.text import units

    try:
        return units.parse_duration(text)
    except ValueError as error:
        raise pytest.UsageError(f"--memlab-{option}: {error}") from None
