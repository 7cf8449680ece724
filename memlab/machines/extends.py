"""What machines add to the core: guests and other hosts, as options of its commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from memlab.machines.options import GUEST, GUESTS_OWN, ON

if TYPE_CHECKING:
    from memlab.observe.capabilities import Capability
    from memlab.run.target import Place

Options = Mapping[str, Any]
Takes = Callable[[dict[str, Any]], bool]
"""Whether an extension has done a command's work; it may take or add parameters first."""


def capabilities() -> list[Capability]:
    from memlab.machines.guest import doctor

    return doctor.read()


def documents() -> dict[str, Any]:
    from memlab.machines.fleet.documents import FromHost, HostsClaims
    from memlab.machines.guest.documents import FoundKernel
    from memlab.machines.history.documents import RunHistory
    from memlab.machines.ladder.documents import Ladder

    return {
        "claims-hosts": HostsClaims,
        "history": RunHistory,
        "kernels": list[FoundKernel],
        "ladder": Ladder,
        **dict.fromkeys(("import", "pull", "sweep-on", "try-on"), list[FromHost]),
    }


def place(stored: Mapping[str, Any]) -> Place:
    from memlab.machines.guest.handle import Guest

    return Guest.of(stored)


def command(name: str, command: click.Command) -> None:
    if name in ("sweep", "try"):
        _add(command, "directory" if name == "sweep" else "name", GUEST, _in_guest)
    if name in ("sweep", "try", "reproduce"):
        _add(command, _LAST[name], (ON,), _ON[name])
    if name == "claims":
        _add(command, "runs", (_HOSTS_CLAIMS,), _hosts_claims)
    if name == "plot":
        _add(command, "against", (_HOSTS_PLOT,), _hosts_plot)


def _add(
    command: click.Command, after: str, options: tuple[Callable[..., Any], ...], takes: Takes
) -> None:
    """Options after the one of a name, and what is done with them before the command's own work."""

    def nothing() -> None:
        pass

    for option in reversed(options):
        option(nothing)
    added = list(reversed(nothing.__click_params__))  # type: ignore[attr-defined]
    at = [parameter.name for parameter in command.params].index(after) + 1
    command.params[at:at] = added
    own = command.callback
    assert own

    def callback(**given: Any) -> Any:
        return None if takes(given) else own(**given)

    command.callback = callback


def _given() -> set[str]:
    """The options on the command line, by their longest name."""
    context = click.get_current_context()
    return {
        max(one.opts, key=len)
        for one in context.command.params
        if context.get_parameter_source(one.name or "") is click.core.ParameterSource.COMMANDLINE
    }


def _in_guest(given: dict[str, Any]) -> bool:
    """Give a command its guest, whose disk takes the place of a directory."""
    names = ("where", "kernel", "guest_memory", "guest_cpus", "guest_iommu", "append")
    where, kernel, memory, cpus, iommu, append = (given.pop(name) for name in names)
    if where == "host":
        if not given.get("on") and not given.get("resume") and (wrong := _given() & GUESTS_OWN):
            raise click.UsageError(f"{min(wrong)} is about a guest; add --in guest")
        return False
    if given.get("resume"):  # of which the guest is stored
        return False
    from memlab.machines.guest.handle import Guest

    directory = {"directory": given["directory"]} if "directory" in given else {}
    given["guest"] = Guest(
        kernel, memory=memory, cpus=cpus, append=append, iommu=iommu, **directory
    )
    if directory:
        given["directory"] = None
    return False


def _sweep_on(given: dict[str, Any]) -> bool:
    on: str | None = given.pop("on")
    if not on:
        return False
    from memlab.machines.fleet import output
    from memlab.store import default_path

    if given["jsonl"] or given["dry_run"]:
        raise click.UsageError("--on goes without --jsonl and --dry-run")
    store, as_json = given["store"], given["as_json"]
    quiet, words = given["quiet"] or as_json, ["sweep", *output.arguments()]
    wanted = output.wanted(given["experiment"], given["resume"])
    results, runs = output.sweep(on, words, wanted, store, quiet=quiet)
    if runs and runs[0].experiment.claims and not quiet:
        output.claims(runs)
    output.print_results(results, store or default_path(), as_json=as_json)
    return True


def _try_on(given: dict[str, Any]) -> bool:
    """Try the command on every host, and print each one's table."""
    on: str | None = given.pop("on")
    if not on:
        return False
    from memlab.machines.fleet import output
    from memlab.present import terminal
    from memlab.store import default_path

    words, store, as_json = given["words"], given["store"], given["as_json"]
    alone = given["jsonl"] or given["dry_run"] or given["gate"]
    if alone or (len(words) == 1 and words[0].endswith(".toml")):
        raise click.UsageError(
            "--on takes a command of the hosts: without --jsonl, --dry-run, --gate and a file"
        )
    quiet, there = given["quiet"] or as_json, ["try", *output.arguments()]
    results, runs = output.sweep(on, there, output.wanted("try", None), store, quiet=quiet)
    if not quiet:
        for run in runs:
            terminal.show(run)
    output.print_results(results, store or default_path(), as_json=as_json)
    return True


def _reproduce_on(given: dict[str, Any]) -> bool:
    on: str | None = given.pop("on")
    if not on:
        return False
    from memlab.cli import GATE
    from memlab.judging import reproduce
    from memlab.machines.fleet import output

    wanted = reproduce.resolve(given["study"])
    if any(given[name] for name in ("as_json", "verbose", "fresh", "output")):
        raise click.UsageError("--on measures again and prints a table: without --json, -v, -o")
    words = output.arguments({"on", "store", "quiet", "study", "gate"})
    store, quiet = given["store"], given["quiet"]
    wrong = output.reproduce(on, wanted, words, store, quiet=quiet)
    if wrong and given["gate"]:
        click.get_current_context().exit(GATE)
    return True


_LAST = {"sweep": "stop_on_input", "try": "stop_on_input", "reproduce": "wait_s"}
_ON: dict[str, Takes] = {"sweep": _sweep_on, "try": _try_on, "reproduce": _reproduce_on}


_HOSTS_CLAIMS = click.option(
    "--hosts",
    is_flag=True,
    help="RUN is an experiment: its newest run of each host, as one table; else the last run's.",
)


def _hosts_claims(given: dict[str, Any]) -> bool:
    hosts, runs = given.pop("hosts"), given["runs"]
    if not hosts and len(runs) < 2:
        return False
    from memlab import api
    from memlab.cli import GATE
    from memlab.cli._formats import chosen
    from memlab.machines.fleet import output

    form, store = chosen(given["form"], given["as_json"]), given["store"]
    alone = given["verbose"] or given["example"] or (hosts and len(runs) > 1)
    if form not in ("text", "json") or alone:
        raise click.UsageError(
            "of several hosts there are a table and JSON: without -v and --example; with "
            "--hosts name one experiment"
        )
    first = runs[0] if runs else "last"
    loaded = output.newest(first, store) if hosts else [api.load(r, store=store) for r in runs]
    if output.claims(loaded, as_json=form == "json") and given["gate"]:
        click.get_current_context().exit(GATE)
    return True


_HOSTS_PLOT = click.option(
    "--hosts",
    is_flag=True,
    help="RUN is an experiment: the verdicts of its newest run of each host, beside each other.",
)


def _hosts_plot(given: dict[str, Any]) -> bool:
    if not given.pop("hosts"):
        return False
    own = ("metric", "x", "where", "samples", "layers", "against", "example")
    if any(given[name] for name in own) or {given["series"], given["panels"]} != {None}:
        raise click.UsageError("--hosts draws verdicts: without --example and a choice of points")
    from memlab.machines.fleet import figure, judge, output

    found = judge.host_runs(output.newest(given["run"], given["store"]))
    given["loaded"] = figure.of_hosts(found.runs)
    return False
