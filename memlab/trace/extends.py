"""What traces add to the core: `show` of one, and the schemas of what they print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


def command(name: str, command: click.Command) -> None:
    if name != "show":
        return
    own = command.callback
    assert own

    def callback(**given: Any) -> Any:
        return None if _show(given) else own(**given)

    command.callback = callback


def _show(given: dict[str, Any]) -> bool:
    """Show what is a trace and no run: whether it was one."""
    from memlab.trace import file

    if not file.is_named([given["run"]]):
        return False
    from memlab.cli._options import echo, echo_json, output_folder
    from memlab.trace import account, shown

    trace = file.read(Path(given["run"]))
    found = account.of(trace)
    place = output_folder(given["output"], given["store"]) / f"{trace.path.stem}.png"
    shown.figure(trace, found, place)
    if given["as_json"]:
        echo_json(shown.document(trace, found, place))
        return True
    for line in shown.lines(trace, found):
        echo(line)
    echo(f"figure: {place}")
    return True


def documents() -> dict[str, Any]:
    from memlab.trace.documents import Recording, TraceShown

    return {"record": Recording, "show-trace": TraceShown}
