"""Write the generated pages (experiments, studies, references), the figures and the man pages:
`make pages`.

They are committed, so that they can be read without a build; tests/present/test_pages.py holds them
to what the experiments declare and the recorded runs hold, a figure by what its file says.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from copy import copy
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from click.testing import CliRunner
from click_man.core import write_man_pages

import memlab
from memlab import __version__, api, experiments, published, recorded
from memlab.cli import cli
from memlab.judging import mechanism, reproduce, summary
from memlab.judging.compare import metric_of
from memlab.machines.history import figure as history_figure
from memlab.machines.history import judge as history
from memlab.present import decisions, figures, pages, tables, words
from memlab.present.table import Column, Table, markdown
from memlab.results import Run, beside, crossing
from memlab.store import Store

DOCS = Path(__file__).parent
FOLDER = DOCS / "experiments"
MAN = DOCS / "man"
STUDIES = DOCS / "studies.md"
REFERENCE = DOCS / "reference"
# README's and the guides' figures that are a recorded run's own.
GUIDES = ("mmap-write", "log-append")
# The runs of these do not ship with memlab: nobody can draw them again.
KEPT = ("ladder.png", "try-redis.png", "try-sort.png", "try-sqlite.png")


def studies() -> str:
    """The page of the published studies: how to cite each, which experiments test it, and each of
    its tables with what the recorded runs say of it."""
    lines = [
        "# The published studies",
        "",
        "Titles are given in English, or describe the study. The verdicts are those of the",
        "recorded runs; `memlab reproduce STUDY` judges on your machine.",
    ]
    for source in map(published.load, published.ids()):
        lines += ["", f"## {source.id}", "", *_reference(source), "", *_tables(source)]
        lines += ["", *_verdicts(source)]
    return "\n".join(lines) + "\n"


def _reference(source: published.Source) -> Iterator[str]:
    yield f"**{source.title}**"
    yield ""
    yield f"- {source.authors or 'authors: not known'}"
    yield f"- {source.language}, {source.kind}, {source.year or 'year not known'}"
    yield f"- {source.appeared or 'where: not known'}"
    yield f"- not known: {source.missing}"


def _tables(source: published.Source) -> Iterator[str]:
    """Each printed table, and the range of here / printed where a recorded run has its points."""
    rows = []
    for table in source.tables.values():
        beside = [
            (name, ratio)
            for name, found in _beside().items()
            for one in found
            if (one.source.id, one.table.id) == (source.id, table.id)
            for row in one.rows
            for ratio in row.ratio.values()
            if ratio is not None
        ]
        ratios = [ratio for _, ratio in beside]
        where = ", ".join(_page(name) for name in dict.fromkeys(name for name, _ in beside))
        span = f"{min(ratios):.3g} to {max(ratios):.3g} in {where}" if ratios else ""
        rows.append([table.title, table.place, span])
    heads = ["published table", "place", "here / published"]
    yield from markdown(Table("", [Column(head) for head in heads], rows))


def _verdicts(source: published.Source) -> Iterator[str]:
    """The experiments that test the study, with how many of their claims hold."""
    for name in experiments.names():
        if source.id not in experiments.load(name).sources:
            continue
        found = [s for s in summary.by_claim(reproduce.of_run(_run(name)).judged) if not s.absent]
        yield f"- {_page(name)}: {summary.sentence(found, '', source.id)[0]}"


@cache
def _run(name: str) -> api.Run:
    return api.load(name, example=True)


@cache
def _beside() -> dict[str, list[beside.Beside]]:
    return {name: [*beside.tables(_run(name))] for name in experiments.names()}


def _page(name: str) -> str:
    return f"[{name}](experiments/{name}.md)"


def commands() -> str:
    """Every command with its help: the man pages as one page."""
    lines = ["# Commands", "", "Each is also a man page: `man memlab-sweep`.", ""]
    context = click.Context(
        cli,
        info_name="memlab",
        terminal_width=90,
        max_content_width=90,
        **cli.context_settings,
    )
    lines += ["```text", cli.get_help(context), "```"]
    for name, inner in _commands(context):
        lines += ["", f"## memlab {name}", "", "```text", inner.command.get_help(inner), "```"]
    return "\n".join(lines) + "\n"


def _commands(above: click.Context, path: str = "") -> Iterator[tuple[str, click.Context]]:
    """The commands below a group, each with the words that name it."""
    assert isinstance(above.command, click.Group)
    for name in above.command.list_commands(above):
        command = above.command.get_command(above, name)
        assert command is not None
        if command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=above)
        yield f"{path}{name}", inner
        if isinstance(command, click.Group):
            yield from _commands(inner, f"{path}{name} ")


def python() -> str:
    """The names of `memlab`, each with its signature and docstring."""
    lines = ["# Python reference", "", inspect.getdoc(memlab) or ""]
    lines[-1] = "```text\n" + lines[-1] + "\n```"
    for name in sorted(set(memlab.__all__) - {"__version__"}):
        lines += ["", *_documented(f"memlab.{name}", getattr(memlab, name), "##")]
    return "\n".join(lines) + "\n"


def _documented(name: str, what: object, level: str) -> Iterator[str]:
    # An error without a constructor of its own has no signature.
    own = not inspect.isclass(what) or what.__init__ is not Exception.__init__
    call = inspect.signature(what) if callable(what) and own else ""
    yield f"{level} {name}"
    yield from ("", "```python", _signature(name.rpartition(".")[2], call), "```")
    yield from ("", "```text", inspect.getdoc(what) or "", "```")
    if inspect.isclass(what):
        for member in sorted(n for n in dir(what) if not n.startswith("_")):
            found = inspect.getattr_static(what, member)
            found = found.func if isinstance(found, cached_property) else found
            found = found.fget if isinstance(found, property) else found
            if inspect.isfunction(found) and inspect.getdoc(found):
                yield ""
                yield from _documented(f"{name}.{member}", found, "###")


def _signature(name: str, call: inspect.Signature | str) -> str:
    """On lines of its own each parameter, where they are more than fit a line."""
    if isinstance(call, str):
        return name
    inner = [_parameter(one) for one in call.parameters.values() if one.name != "self"]
    named = sum(one.kind is one.KEYWORD_ONLY for one in call.parameters.values())
    if named:
        more = any(one.kind is one.VAR_KEYWORD for one in call.parameters.values())
        inner.insert(len(inner) - named - more, "*")
    whole = f"{name}({', '.join(inner)})"
    return whole if len(whole) <= 90 else f"{name}(\n    " + ",\n    ".join(inner) + ",\n)"


def _as_man(command: click.Command) -> click.Command:
    """The same, its examples marked as man(7) wants what is not to be filled. click-man walks the
    commands of a group, which memlab's own import only when they are used."""
    made = copy(command)
    if isinstance(command, click.Group):
        context = click.Context(command)
        inner = {
            name: command.get_command(context, name) for name in command.list_commands(context)
        }
        commands = {name: _as_man(one) for name, one in inner.items() if one and not one.hidden}
        made = click.Group(
            command.name,
            commands=commands,
            params=command.params,
            short_help=command.short_help,
        )
    made.help = re.sub(
        r"\x08\n(.*?)(?=\n\s*\n|\Z)",
        r".nf\n\1\n.fi",
        inspect.cleandoc(command.help or ""),
        flags=re.S,
    )
    return made


def _parameter(one: inspect.Parameter) -> str:
    """`name: type = default`; an annotation is text here, and its quotes are not."""
    stars = {one.VAR_KEYWORD: "**", one.VAR_POSITIONAL: "*"}.get(one.kind, "")
    kind = "" if one.annotation is one.empty else f": {one.annotation}"
    default = "" if one.default is one.empty else f" = {one.default!r}"
    return f"{stars}{one.name}{kind}{default}"


def man(folder: Path) -> None:
    """A man page for memlab and one for each command."""
    folder.mkdir(exist_ok=True)
    version = f"memlab {__version__}"  # where a date would change every day
    whole = _as_man(cli)
    write_man_pages("memlab", whole, version=version, target_dir=str(folder), date=version)
    for path in folder.glob("memlab-*.1"):  # click-man refers to `memlab kernels-list(1)`
        text = re.sub(r"memlab (\w+-\w+\(1\))", r"memlab-\1", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")


def crossings() -> str:
    """From which size write(2) is cheaper, for each state of the file."""
    run = _run("mmap-write")
    lines = [
        f"- {_upper(words.labels(run.named, crossed.panel, ['file_state']))}: "
        f"{words.crossing(run.named, crossed)}."
        for crossed in crossing.crossings(run)
    ]
    said = mechanism.answers(run, run.experiment.controls[0].explanations)
    return "\n".join([*lines, *(f"- {_upper(one)}." for one in said)])


def row_of_logs() -> str:
    """README's row on the log store, of the state that is nearest to the study's."""
    run = _run("mmap-write")
    first = crossing.crossings(run)[0]
    where = words.labels(run.named, first.panel, ["file_state"])
    (judged,) = (
        s for s in summary.by_claim(reproduce.of_run(run).judged) if s.claim.id == "crossover"
    )
    word = {"holds": "Holds", "not decided": "Not decided"}.get(judged.overall, "Contradicted")
    return f"{word} on a {where}, appended to: {words.crossing(run.named, first)}"


def claims_shown() -> str:
    """What `memlab claims` begins with, and two of its verdicts."""
    printed = _printed("claims", "--example", "mmap-write").split("\n")
    found = [at for at, line in enumerate(printed) if line and line.split()[0] in _WORDS]
    ends = [*found[1:], len(printed)]
    verdicts = ["\n".join(printed[a:b]) for a, b in zip(found, ends, strict=True)]
    named = [one for one in verdicts if "becomes faster than a mapping" in " ".join(one.split())]
    rule = next(at for at, line in enumerate(printed) if line.startswith("mmap-write, run"))
    head = "\n".join(printed[:rule])
    return "\n...\n".join(["```\n" + head, named[0], named[-1] + "\n```"])


_WORDS = ("contradicted", "inconclusive", "reproduced")


def shown() -> str:
    """What `memlab show` begins with, and rows of its first table."""
    printed = _printed("show", "--example", "mmap-write").split("\n")
    begins = next(at for at, line in enumerate(printed) if "cheaper" in line)
    ends = begins + 1 + (printed[begins].count("(") > printed[begins].count(")"))
    table = next(at for at, line in enumerate(printed) if line.startswith("time for 2 GiB"))
    rule = next(at for at, line in enumerate(printed) if at > table and line.startswith("─"))
    row = next(line for line in printed[rule:] if line.startswith(" 1 KiB"))
    parts = [printed[begins:ends], printed[table : rule + 2], [row]]
    body = "\n...\n".join("\n".join(one).rstrip() for one in parts)
    return f"```\n{body}\n```"


def _printed(*command: str) -> str:
    """What a command prints on 80 columns."""
    done = CliRunner(env={"COLUMNS": "80"}).invoke(cli, command)
    return str(done.stdout)


def logs() -> str:
    """docs/logs.md's numbers: what is decided, and a table for each flush and state of the file."""
    run = _run("log-append")
    lines = [*decisions.page(run, reproduce.of_run(run).judged)][1:]
    lines += ["", *_ranked(run)]
    for made in tables.medians(run):
        lines += ["", f"**{_upper(made.title)}**", "", *markdown(made)]
    return "\n".join(lines)


_RANKED_BYTES = 4096  # the record of docs/logs.md's list: the least that every method takes


def _ranked(run: Run) -> Iterator[str]:
    """For each flush the methods at a record of 4 KiB in the first state, the cheapest first."""
    state = run.points[0].at["file_state"]
    metric = run.metric(run.experiment.figure.metric)
    at = {"record": _RANKED_BYTES, "file_state": state}
    for flush in dict.fromkeys(point.at["flush_every"] for point in run.points):
        points = [*run.matching({**at, "flush_every": flush})]
        found = [
            (s.medians[metric.name], words.labels(run.named, s.point.at, ["method"]))
            for s in run.summaries
            if s.point in points and metric.name in s.medians
        ]
        said = ", ".join(
            f"{method} {words.median(median, metric.unit)}"
            for median, method in sorted(found, key=lambda one: one[0].estimate)
        )
        where = words.labels(run.named, {**at, "flush_every": flush}, ["flush_every"])
        yield f"- {_upper(where)}, records of 4 KiB: {said}."


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


# What is written from recorded runs into pages that are written by hand: between
# `<!-- made NAME -->` and `<!-- end -->`.
BLOCKS = {
    "README.md": {"states": crossings, "row": row_of_logs, "claims": claims_shown},
    "docs/tutorial.md": {"show": shown},
    "docs/logs.md": {"states": crossings, "numbers": logs},
}


def with_blocks(page: str, text: str) -> str:
    """The page with its blocks as the recorded runs have them."""
    for name, write in BLOCKS[page].items():
        found = re.compile(rf"(<!-- made {name} -->)(\n?).*?(<!-- end -->)", re.S)
        made = write()
        text, count = found.subn(lambda m: f"{m[1]}{m[2]}{made}{m[2]}{m[3]}", text)  # noqa: B023
        assert count == 1, f"{page}: {count} blocks {name}"
    return text


def nights(store: Path) -> history.History:
    """The made-up series of docs/fleet.md."""
    sys.path.insert(0, str(DOCS.parent / "tests"))
    import made_nights

    made_nights.write(store)
    with Store(store) as opened:
        runs = [Run(row, store) for row in opened.runs()]
    return history.of_runs(runs, metric_of(runs[0].experiment, None), {}, 0.05)


def guides() -> None:
    """The figures of README and the guides."""
    for name in GUIDES:
        figures.write_png(figures.draw(_run(name)), DOCS / f"{name}.png")
    with TemporaryDirectory() as folder:
        history_figure.figure(nights(Path(folder) / "store.db"), DOCS / "history.png")


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    recordings = recorded.names()
    for name in experiments.names():
        run = api.load(name, example=True) if name in recordings else None
        text = pages.page(experiments.load(name), run)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
        if run:
            figures.save(run, folder, ["svg"], name)
            (folder / f"{name}.json").unlink()  # the sidecar: `memlab plot --example` writes it


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        for page in BLOCKS:
            path = DOCS.parent / page
            path.write_text(with_blocks(page, path.read_text(encoding="utf-8")), encoding="utf-8")
        STUDIES.write_text(studies(), encoding="utf-8")
        (REFERENCE / "commands.md").write_text(commands(), encoding="utf-8")
        (REFERENCE / "python.md").write_text(python(), encoding="utf-8")
        main(FOLDER)
        guides()
        man(MAN)
