"""What traces add to the core: `show` of one, and the schemas of what they print."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def show(run: str, store: Path | None, output: Path | None, *, as_json: bool) -> bool:
    """Show what is a trace and no run: whether it was one."""
    from memlab.trace import file

    if not file.is_named([run]):
        return False
    from memlab.cli._options import echo, echo_json, output_folder
    from memlab.trace import account, shown

    trace = file.read(Path(run))
    found = account.of(trace)
    place = output_folder(output, store) / f"{trace.path.stem}.png"
    shown.figure(trace, found, place)
    if as_json:
        from memlab.trace.documents import TraceShown

        echo_json(TraceShown.made_of(trace, found, place))
        return True
    for line in shown.lines(trace, found):
        echo(line)
    echo(f"figure: {place}")
    return True


def documents() -> dict[str, Any]:
    from memlab.trace.documents import Recording, TraceShown

    return {"record": Recording, "show-trace": TraceShown}
