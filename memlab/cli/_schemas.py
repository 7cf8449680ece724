"""What each command prints with --json, and its JSON Schema."""

from __future__ import annotations

import re
from functools import cache
from typing import Any


@cache
def _documents() -> dict[str, Any]:
    """The type of each document, by the words that print it after `memlab`."""
    from memlab.diagnose.documents import Diagnose
    from memlab.diagnose.kernel_log.documents import LastKill
    from memlab.fit.documents import FitAnswer, FitPrediction
    from memlab.machines.fleet.documents import FromHost, HostsClaims
    from memlab.machines.guest.documents import FoundKernel
    from memlab.machines.history.documents import RunHistory
    from memlab.machines.ladder.documents import Ladder
    from memlab.observe.capabilities import Capability
    from memlab.present.documents.claims import Claims
    from memlab.present.documents.compare import Compare
    from memlab.present.documents.describe import Describe
    from memlab.present.documents.dry_run import Clean, DryRun
    from memlab.present.documents.lists import ListedExperiment, ListedRun
    from memlab.present.documents.run import Show
    from memlab.trace.documents import Recording, TraceShown

    return {
        "claims": Claims,
        "claims HOSTS": HostsClaims,
        "clean": Clean,
        "compare": Compare,
        "describe": Describe,
        "diagnose": Diagnose,
        "diagnose --last-kill": LastKill,
        "doctor": list[Capability],
        "fit": FitAnswer,
        "fit TRACE": FitPrediction,
        "history": RunHistory,
        "hosts import": list[FromHost],
        "hosts pull": list[FromHost],
        "kernels fetch": list[FoundKernel],
        "kernels ladder": Ladder,
        "kernels list": list[FoundKernel],
        "list": list[ListedExperiment],
        "record": Recording,
        "record --runs": list[Recording],
        "reproduce": Claims,
        "runs": list[ListedRun],
        "show": Show,
        "show TRACE": TraceShown,
        "sweep": Show,
        "sweep --dry-run": DryRun,
        "sweep --on": list[FromHost],
        "try": Show,
        "try --on": list[FromHost],
    }


@cache
def _words() -> dict[str, str]:
    """The words that print each document, by the name of its schema."""
    return {_name(words): words for words in _documents()}


def _name(words: str) -> str:
    return re.sub("[ -]+", "-", words).lower()


def names() -> list[str]:
    """What `memlab schema` takes, such as `sweep-dry-run`."""
    return sorted(_words())


def schema(name: str) -> dict[str, Any]:
    """The schema (2020-12) of that name; KeyError if the name is unknown. Commands that print
    documents of one type share a schema."""
    from memlab.present import schemas

    kind = _documents()[_words()[name]]
    alike = [words for words, other in _documents().items() if other == kind]
    title = ", ".join(f"memlab {words} --json" for words in alike)
    return schemas.schema(kind, _name(alike[0]), title)
