"""What a sweep can be asked is said in one table: each face of memlab has all of it."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import memlab
from memlab.cli import _schemas as schemas
from memlab.errors import BadRequest
from memlab.request import OPTIONS, Option, Request
from memlab.store import rows

NAMES = [option.field for option in OPTIONS]
COMMANDS = ("sweep", "try", "reproduce")
# A value of each kind as a command line has it, and what a request then holds.
WORDS: dict[str, tuple[str, Any]] = {
    "preset": ("full", "full"),
    "blocks": ("7", 7),
    "precision": ("3%", 0.03),
    "budget_s": ("2min", 120.0),
    "seed": ("11", 11),
    "cpus": ("1-2", (1, 2)),
    "directory": ("/tmp", "/tmp"),
    "name": ("mine", "mine"),
    "libc": ("/lib/other", "/lib/other"),
    "sessions": ("3", 3),
    "pause_s": ("10s", 10.0),
}


@pytest.mark.parametrize("option", OPTIONS, ids=NAMES)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_what_the_table_gives_it(
    name: str, option: Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = importlib.import_module(f"memlab.cli.{name}").command
    own = {flag for one in command.params for flag in one.opts}
    is_setting = not option.flag.startswith("-")
    assert is_setting or (option.flag in own) == (name in option.on)
    if name not in option.on:
        return
    given: dict[str, Any] = {}
    monkeypatch.setattr(command, "callback", lambda **values: given.update(values))
    flag = option.kind.name == "flag"
    if is_setting:
        text = ("no" if option.default else "yes") if flag else WORDS[option.field][0]
        words = ["--design", f"{option.flag}={text}"]
    else:
        words = [option.flag] if flag else [f"{option.flag}={WORDS[option.field][0]}"]
    done = CliRunner().invoke(command, [*words, *(["mmap-write"] if name != "try" else ["true"])])
    assert done.exit_code == 0, done.output
    wanted = not option.default if flag else WORDS[option.field][1]
    found = given[option.field]
    assert (tuple(found) if isinstance(wanted, tuple) else found) == wanted
    others = {one.field: one.default for one in OPTIONS if name in one.on and one != option}
    assert {field: given[field] for field in others} == others


def test_python_takes_each_by_its_name_there() -> None:
    sweep = inspect.signature(memlab.sweep).parameters
    assert [o.python for o in OPTIONS if sweep[o.python].default != o.default] == []
    assert all(f"\n{option.python}: " in (memlab.sweep.__doc__ or "") for option in OPTIONS)
    trial = inspect.signature(memlab.trial).parameters
    assert {o.python for o in OPTIONS if "try" in o.on} <= set(trial)
    assert {o.python for o in OPTIONS if "try" not in o.on} & set(trial) == set()


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.field in WORDS], ids=lambda o: o.field)
def test_python_reads_text_as_the_command_line_does(option: Option) -> None:
    text, wanted = WORDS[option.field]
    given = wanted if option.kind.name in ("count", "cpus") else text
    found = option.read(given)
    assert (tuple(found) if isinstance(wanted, tuple) else found) == wanted


def test_text_that_is_none_of_these_is_one_line() -> None:
    for option in OPTIONS:
        if option.kind.name in ("seconds", "share"):
            with pytest.raises(BadRequest, match=f"^{option.python}: "):
                option.read("soon")


def test_the_schema_has_each() -> None:
    stored = schemas.schema("show")["$defs"]["Request"]
    assert set(NAMES) <= set(stored["properties"])
    later = {option.field for option in OPTIONS if not option.always}
    assert later & set(stored["required"]) == set()
    assert {option.field for option in OPTIONS} - later <= set(stored["required"])
    assert stored["properties"]["pause_s"]["type"] == "number"  # half a second is a pause too


@pytest.mark.parametrize("option", OPTIONS, ids=NAMES)
def test_a_store_that_names_what_it_cannot_be_is_refused(option: Option) -> None:
    request = asdict(Request("mmap-write"))
    request["cpus"] = list(request["cpus"])
    assert rows._REQUEST(request)
    assert not rows._REQUEST({**request, option.field: {"no": "value"}})
    assert rows._REQUEST({**request, option.field: None}) == (option.default is None)


def test_a_relative_libc_is_stored_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (libc,) = (option for option in OPTIONS if option.field == "libc")
    assert libc.read("other") == str(tmp_path / "other")
