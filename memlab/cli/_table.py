"""The commands of memlab, a row each: a new command is its file and its row.

A row names the module that has the command's function `command`. Only running a command, or asking
for its own help, imports that module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Item(NamedTuple):
    """A command; or a group of commands, if it has `rows` in place of a module."""

    name: str
    summary: str
    """What --help prints beside the name: a sentence of at most 60 columns."""
    module: str = ""
    rows: tuple[Item, ...] = ()
    hidden: bool = False


KERNELS = (
    Item("list", "List the kernels at hand for guests.", "memlab.cli.kernels.list"),
    Item("fetch", "Unpack kernels, or print how to get them.", "memlab.cli.kernels.fetch"),
    Item("run", "Run a command in a guest under a kernel.", "memlab.cli.kernels.run"),
    Item("ladder", "Judge claims on counts under each kernel.", "memlab.cli.kernels.ladder"),
    Item("bisect", "Find the kernel that changed a claim or a count.", "memlab.cli.kernels.bisect"),
)
HOSTS = (
    Item("pull", "Copy new results from other hosts.", "memlab.cli.hosts.pull"),
    Item("import", "Import results measured on other hosts.", "memlab.cli.hosts.import"),
    Item("worker", "Measure for others, as a host of a Dask cluster.", "memlab.cli.hosts.worker"),
)
# In the order of use, under the headings of --help.
SECTIONS: Mapping[str, Sequence[Item]] = {
    "Measure, read and compare": (
        Item("sweep", "Measure an experiment.", "memlab.cli.sweep"),
        Item("show", "Show a stored run, or a recorded trace.", "memlab.cli.show"),
        Item("claims", "Judge the claims of a stored run.", "memlab.cli.claims"),
        Item("compare", "Compare two runs, point by point.", "memlab.cli.compare"),
        Item("plot", "Draw a stored run.", "memlab.cli.plot"),
        Item("report", "Write stored runs as one HTML file.", "memlab.cli.report"),
        Item("export", "Export the samples of a run.", "memlab.cli.export"),
        Item("runs", "List, name, annotate or delete stored runs.", "memlab.cli.runs"),
    ),
    "Experiments, studies and this machine": (
        Item("list", "List the experiments.", "memlab.cli.list"),
        Item("describe", "Print what an experiment varies and claims.", "memlab.cli.describe"),
        Item("reproduce", "Test a published study on this machine.", "memlab.cli.reproduce"),
        Item("doctor", "Print what this machine can measure.", "memlab.cli.doctor"),
        Item("clean", "Undo what a killed run left behind.", "memlab.cli.clean"),
    ),
    "Your own programs": (
        Item("diagnose", "Examine the memory of a live process or cgroup.", "memlab.cli.diagnose"),
        Item("try", "Measure a command under other memory policies.", "memlab.cli.try"),
        Item("fit", "Find the smallest memory limit of a command.", "memlab.cli.fit"),
        Item("record", "Record the memory use of a program as a trace.", "memlab.cli.record"),
    ),
    "Over time, kernels and hosts": (
        Item("history", "Find when the results of an experiment changed.", "memlab.cli.history"),
        Item(
            "kernels", "List and unpack guest kernels, and judge claims under each.", rows=KERNELS
        ),
        Item("hosts", "Copy results from other hosts, and measure for them.", rows=HOSTS),
    ),
    "": (
        Item("completion", "Print a completion script.", "memlab.cli.completion", hidden=True),
        Item("schema", "Print the schema of a JSON output.", "memlab.cli.schema", hidden=True),
    ),
}


def commands() -> Iterator[tuple[tuple[str, ...], Item]]:
    """Every command, with the words that name it after `memlab`; groups are left out."""
    for rows in SECTIONS.values():
        for row in rows:
            if row.rows:
                yield from (((row.name, inner.name), inner) for inner in row.rows)
            else:
                yield (row.name,), row
