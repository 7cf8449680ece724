"""The experiments. One module declares one EXPERIMENT; the folder is the registry."""

from __future__ import annotations

import os
import re
import sys
from ast import literal_eval
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memlab.errors import BadRequest, UnknownExperiment, nearest

if TYPE_CHECKING:  # a list of names has no use for the vocabulary
    from memlab.experiment import Experiment

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - without pathlib's import
_ENTRY = re.compile(r"^([\w.-]+) *= *([\w.]+) *$", re.MULTILINE)
_QUESTION = re.compile(r"""^ +question=\(?((?:\s*"(?:[^"\\\n]|\\.)*")+)""", re.MULTILINE)


def names() -> list[str]:
    """Every experiment's name, without importing any."""
    result = os.listdir(_FOLDER)  # noqa: PTH208
    modules = (name[:-3] for name in result if name[0] != "_" and name.endswith(".py"))
    return sorted(name.replace("_", "-") for name in modules)


def question(name: str) -> str:
    """The question that an experiment asks, read from the text of its declaration: to import all
    declarations takes several times as long as the rest of `memlab list`."""
    written = _QUESTION.search(_text(name))
    return str(literal_eval(f"({written[1]})")) if written else load(name).question


def sources(name: str) -> list[str]:
    """The studies, by id, that the text of a declaration names, in alphabetical order."""
    files = os.listdir(f"{_FOLDER}/../published")  # noqa: PTH208
    text = _text(name)
    ids = (file[:-5] for file in files if file.endswith(".toml"))
    return sorted(study for study in ids if f'"{study}' in text)


def _text(name: str) -> str:
    with open(f"{_FOLDER}/{name.replace('-', '_')}.py", encoding="utf-8") as file:
        return file.read()


def load(name: str, subject: Mapping[str, Any] | None = None) -> Experiment:
    """The declaration of one experiment, by its name or the path that `named` gives; of a command
    that a user tries, made of the request's subject."""
    if subject is not None:
        from memlab.experiment import tried

        return tried.declare(subject)
    if name == "try":
        raise UnknownExperiment("try is not an experiment but a command: memlab try -- COMMAND")
    if _is_path(name):
        return _outside(name)
    if name not in names():
        return _packaged(name)
    module = import_module(f"memlab.experiments.{name.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    return experiment


def named(text: str) -> str:
    """The name of an experiment that a user gives: of a file its path, which is noted as one whose
    declaration may run. `load` takes it, and a run keeps it."""
    if not isinstance(text, str):
        raise UnknownExperiment(f"an experiment is the name of one or a file's path, not {text!r}")
    if not _is_path(text):
        return text
    path = os.path.abspath(text)  # noqa: PTH100
    if not os.path.exists(path):  # noqa: PTH110
        raise UnknownExperiment(f"no file {text}")
    from memlab.experiments import _files

    _files.trust(path)
    return path


def short(name: str) -> str:
    """A name that fits a table: of a file, its own."""
    return os.path.basename(name)[:-3].replace("_", "-") if _is_path(name) else name  # noqa: PTH119


def packaged() -> dict[str, str]:
    """The experiments that installed packages offer, by name, with their modules: the entry points
    of the group `memlab.experiments`. importlib.metadata takes as long as all of `memlab list`."""
    results: dict[str, str] = {}
    for folder in sys.path:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():  # noqa: PTH208, PTH112
            if not name.endswith(".dist-info"):
                continue
            with suppress(OSError), open(f"{folder}/{name}/entry_points.txt") as file:
                _, _, group = f"\n{file.read()}".partition("\n[memlab.experiments]\n")
                results |= dict(_ENTRY.findall(group.partition("\n[")[0]))
    return {name: results[name] for name in sorted(results.keys() - set(names()))}


def _is_path(name: str) -> bool:
    return name.endswith(".py")


def _outside(path: str) -> Experiment:
    from memlab.experiments import _files

    result = _files.declare(path)
    if result.name in names():
        raise BadRequest(f"{path}: memlab has an experiment {result.name}; choose another name")
    return result


def _packaged(name: str) -> Experiment:
    result = packaged()
    if name not in result:
        hint = nearest(name, sorted([*names(), *result]), "`memlab list` lists them")
        from memlab import published

        if name in published.ids():
            hint = f"it is a study: memlab reproduce {name}"
        raise UnknownExperiment(f"no experiment {name!r}; {hint}")
    from memlab.experiments import _files

    path = _files.module_file(name, result[name])
    _files.trust(path)
    return _outside(path)
