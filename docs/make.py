"""Write the pages of the experiments and the studies, their main figures, and what other pages show
of recorded runs: `make pages`.

These are committed, so that they can be read without a build; docs/built.py makes the rest of the
site. tests/present/test_pages.py holds them to what the experiments declare and the recorded runs
hold, a figure by what its file says.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from memlab import api, diagnose, experiments, published, recorded
from memlab.cli import cli
from memlab.diagnose import call_ordinary, call_table, group_rows, machine_account
from memlab.diagnose.finding import FindingRow
from memlab.judging import mechanism, reproduce, summary
from memlab.judging.compare import metric_of
from memlab.machines.history import figure as history_figure
from memlab.machines.history import judge as history
from memlab.present import decisions, figures, pages, words
from memlab.present.figures import sidecar, style
from memlab.results import Run, beside, crossing
from memlab.store import Store

DOCS = Path(__file__).parent
FOLDER = DOCS / "experiments"
STUDIES = DOCS / "studies.md"
# The runs of these do not ship with memlab: nobody can draw them again.
KEPT = ("ladder.png", "try-redis.png")


def studies() -> str:
    """The page of the published studies: how to cite each, and each of its tables and statements
    with what the recorded runs say of it."""
    lines = [
        "# The published studies",
        "",
        "The verdicts are those of the recorded runs; `memlab reproduce STUDY` judges on your",
        "machine. Titles are in English, or describe the study. Behind a statement are the claims",
        "that judge it; these name its place in the study.",
    ]
    for source in map(published.load, published.ids()):
        lines += ["", f"## {source.id}", "", *_reference(source), "", *_tables(source)]
        lines += _statements(source)
    return "\n".join(lines) + "\n"


def _reference(source: published.Source) -> Iterator[str]:
    yield f"**{source.title}**"
    yield ""
    yield f"- {source.authors or 'authors: not known'}"
    yield f"- {source.language}, {source.kind}, {source.year or 'year not known'}"
    if source.appeared:
        yield f"- {source.appeared}"
    yield f"- not known: {source.missing}"


def _tables(source: published.Source) -> Iterator[str]:
    """The range of here / printed of each table of which a recorded run has points."""
    lines = []
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
        if beside:
            ratios = [ratio for _, ratio in beside]
            where = ", ".join(_page(name) for name in dict.fromkeys(name for name, _ in beside))
            span = f"{min(ratios):.3g} to {max(ratios):.3g} in {where}"
            lines.append(f"- {table.title}: {span}")
    if lines:
        yield from ["Published tables, and the range of here / published:", "", *lines, ""]


# What a reader is told of a statement, by the field that judges it.
_JUDGED = {
    "corrected": "corrected",
    "not_testable": "not testable here",
    "open": "open",
}
# The order in which verdicts are listed: what a reader of the study has to know comes first.
_RANK = (
    "contradicted",
    "corrected",
    "in part",
    "depends",
    "holds in part",
    "not decided",
    "holds",
    "open",
    "not testable",
)


def _statements(source: published.Source) -> Iterator[str]:
    """Each statement of the study below its verdict, and what the verdict rests on."""
    of: dict[str, list[str]] = {}
    bare = [one.id for one in source.statements.values() if one.background]
    for one in source.statements.values():
        if not one.background:
            word = _JUDGED.get(one.judgment) or _word(one.judged_by)
            place = "" if one.judged_by else f" ({one.place})"
            of.setdefault(word, []).append(f"{one.text}{place}: {_why(one)}")
    for word in sorted(of, key=_rank):
        yield f"**{_upper(word)}** ({len(of[word])}):"
        yield ""
        yield from map(_item, of[word])
        yield ""
    file = f"[{source.id}.toml](../memlab/published/{source.id}.toml)"
    yield f"**Nothing to judge** ({len(bare)}): {', '.join(bare)} of {file}."


def _rank(word: str) -> int:
    begins = [rank for rank, begin in enumerate(_RANK) if word.startswith(begin)]
    return begins[0] if begins else len(_RANK)


def _item(text: str) -> str:
    return f"- {text.replace('<', '&lt;')}"


def _why(one: published.Statement) -> str:
    """The claims that judge it, else the sentence."""
    if not one.judged_by:
        return str(getattr(one, one.judgment))
    ids: dict[str, list[str]] = {}
    for name in one.judged_by:
        experiment, id = name.split(":")
        ids.setdefault(experiment, []).append(id)
    linked = (f"[{name}/{of[0]}](experiments/{name}.md)" for name, of in ids.items())
    each = zip(linked, ids.values(), strict=True)
    return ", ".join(", ".join([first, *of[1:]]) for first, of in each)


def _word(names: Sequence[str]) -> str:
    """The word of these claims together, by the recorded runs."""
    found = {_overall(name.split(":")[0]).get(name.split(":")[1], "not decided") for name in names}
    return found.pop() if len(found) == 1 else "in part: " + ", ".join(sorted(found))


@cache
def _overall(name: str) -> dict[str, str]:
    judged = summary.by_claim(reproduce.of_run(_run(name)).judged)
    return {one.claim.id: one.overall for one in judged}


@cache
def _run(name: str) -> api.Run:
    return api.load(f"example:{name}")


@cache
def _beside() -> dict[str, list[beside.Beside]]:
    return {name: [*beside.tables(_run(name))] for name in experiments.names()}


def _page(name: str) -> str:
    return f"[{name}](experiments/{name}.md)"


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
    printed = _printed("claims", "example:mmap-write").split("\n")
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
    printed = _printed("show", "example:mmap-write").split("\n")
    begins = next(at for at, line in enumerate(printed) if "cheaper" in line)
    ends = begins + 1 + (printed[begins].count("(") > printed[begins].count(")"))
    table = next(at for at, line in enumerate(printed) if line.startswith("time for 2 GiB"))
    rule = next(at for at, line in enumerate(printed) if at > table and line.startswith("─"))
    row = next(line for line in printed[rule:] if line.startswith(" 2 KiB"))
    parts = [printed[begins:ends], printed[table : rule + 2], [row]]
    body = "\n...\n".join("\n".join(one).rstrip() for one in parts)
    return f"```\n{body}\n```"


def _printed(*command: str) -> str:
    """What a command prints on 80 columns."""
    done = CliRunner(env={"COLUMNS": "80"}).invoke(cli, command)
    return str(done.stdout)


def logs() -> str:
    """docs/logs.md's numbers: what is decided, and the order of the methods for each flush."""
    run = _run("log-append")
    decided = [*decisions.page(run, reproduce.of_run(run).judged)][1:]
    return "\n".join([*decided, "", *_ranked(run)])


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


def refused_calls() -> str:
    """The rows of failing calls that `memlab diagnose` knows, one finding each."""
    named: dict[str, list[call_table.Row]] = {}
    for row in call_table.ROWS:
        named.setdefault(row.name, []).append(row)
    lines = []
    for name, rows in named.items():
        errnos = ", ".join(dict.fromkeys(word for row in rows for word in row.errnos.split()))
        limits = ", ".join(dict.fromkeys(part.strip(".") for row in rows for part in row.limits))
        lines.append(f"- `{name}`, {errnos}: {limits}")
    return "\n".join(lines)


# Calls and errnos that differ in a part of their names.
_FAMILIES = (
    (r".*xattr", "*xattr"), (r"f?access(at2?)?", "access"), (r"set(re|res)?[ug]id", "set*id"),
    (r"send(m?msg|to)", "send*"), (r"readlink(at)?", "readlink"), (r"open(at)?", "open"),
    (r"get(sock|peer)name", "get*name"), (r"p(read|write)v2", "p*v2"),
    (r"E(CONN|HOST|NET)[A-Z]+", r"E\1*"),
)  # fmt: skip


def _families(names: Iterable[str]) -> str:
    for pattern, family in _FAMILIES:
        names = [re.sub(f"^{pattern}$", family, name) for name in names]
    return ", ".join(sorted({*names}))


def ordinary_calls() -> str:
    """How calls fail that is no finding, by errno."""
    by_calls: dict[str, list[str]] = {}
    for errno, calls in call_ordinary.OF_CALLS.items():
        by_calls.setdefault(_families(calls), []).append(errno)
    lines = [f"- {', '.join(sorted(of))}: {names}" for names, of in sorted(by_calls.items())]
    return "\n".join([f"- any call: {_families(call_ordinary.OF_ANY_CALL)}", *lines])


def lines_of_no_process() -> str:
    """The rows of findings about a machine and a group, by the line that each is about."""
    lines = ["Of MemTotal, 64 MiB at least:", ""]
    lines += [f"- `{r.name}`, {100 * r.least_share:g} %: {r.what}" for r in machine_account.ROWS]
    lines += ["", "Of the group, 16 MiB at least:", ""]
    lines += [f"- `{r.name}`, {100 * r.least_share:g} %: {r.what}" for r in group_rows.ROWS]
    return "\n".join(lines)


# What the four accounts are called on the page.
_ACCOUNTS = {"stock": "Memory", "flow": "Page faults", "limits": "Limits", "time": "Waiting"}


def findings() -> str:
    """The rows of findings about a process and its group, by account, wherever one is declared."""
    rows: dict[str, FindingRow] = {}
    for module in pkgutil.iter_modules(diagnose.__path__, "memlab.diagnose."):
        for value in vars(importlib.import_module(module.name)).values():
            for row in value.values() if isinstance(value, dict) else (value,):
                if isinstance(row, FindingRow):
                    rows.setdefault(row.name, row)
    lines = []
    for account, head in _ACCOUNTS.items():
        names: dict[str, list[str]] = {}
        for one in sorted((one for one in rows.values() if one.account == account), key=_name):
            names.setdefault(one.when, []).append(f"`{one.name}`")
        lines += ["", f"{head}:", "", *(f"- {', '.join(of)}: {when}" for when, of in names.items())]
    return "\n".join(lines[1:])


def _name(row: FindingRow) -> str:
    return row.name


# What is written from recorded runs into pages that are written by hand: between
# `<!-- made NAME -->` and `<!-- end -->`.
BLOCKS = {
    "README.md": {"states": crossings, "row": row_of_logs, "claims": claims_shown},
    "docs/tutorial.md": {"show": shown},
    "docs/diagnose.md": {
        "calls": refused_calls,
        "ordinary": ordinary_calls,
        "lines": lines_of_no_process,
        "findings": findings,
    },
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


Trusted = dict[str, list[tuple[int, float]]]


def trusted() -> Trusted:
    """By row of docs/statistics.md's first table: counts, and the change in per cent that shows."""
    text = (DOCS / "statistics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:blocks|sessions|nights)[^|]*?) \| (\d+: .*) \|$", text, re.M)
    cell = re.compile(r"(\d+): ([\d.]+) %")
    return {name: [(int(n), float(by)) for n, by in cell.findall(cells)] for name, cells in rows}


def trusted_source(rows: Trusted) -> str:
    return f"docs/statistics.md, numbers {sidecar.digest(rows)}"


def draw_trusted(rows: Trusted) -> figures.RunFigure:
    """The smallest change that shows, by the number of blocks, sessions and nights."""
    with style.settings():
        drawn = figures.RunFigure(figsize=(8, 3.4), layout="constrained", dpi=200)
        for number, unit in enumerate(("blocks", "sessions", "nights")):
            axes = drawn.add_subplot(1, 3, number + 1)
            axes.set(xscale="log", yscale="log", ylim=(1.8, 18), xlabel=unit)
            of = {name: points for name, points in rows.items() if name.startswith(unit)}
            for rank, (name, points) in enumerate(of.items()):
                look = {"color": style.colour(rank), "marker": style.marker(rank)}
                label = name.removeprefix(unit).lstrip(", ")
                axes.plot(*zip(*points, strict=True), label=label, markersize=4, **look)
            counts = sorted({count for points in of.values() for count, _ in points})
            axes.set_xticks(counts, [str(count) for count in counts])
            axes.set_yticks([2, 3, 5, 10, 15], ["2 %", "3 %", "5 %", "10 %", "15 %"])
            axes.minorticks_off()
            axes.grid(axis="y", color=style.FAINT)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, fontsize=style.SMALL - 1)
        drawn.title = "The smallest change that shows nine times in ten"
        drawn.suptitle(drawn.title, x=0.01, ha="left", fontsize=style.TEXT)
        drawn.source = trusted_source(rows)
    return drawn


def draw_history() -> None:
    """The figure of docs/fleet.md."""
    with TemporaryDirectory() as folder:
        history_figure.figure(nights(Path(folder) / "store.db"), DOCS / "history.png")


def in_git(run: Run) -> list[str]:
    """The figures of a run that are committed: its main one, and those that a guide shows."""
    guides = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    name = run.experiment.name
    return [one for one in figures.names(run) if not one or f"{name}-{one}.svg)" in guides]


def main(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    for name in experiments.names():
        run = _run(name) if name in recorded.names() else None
        shown = in_git(run) if run else []
        text = pages.page(experiments.load(name), run, shown=shown)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
        for one in shown:
            assert run is not None
            path = folder / f"{name}{one and f'-{one}'}.svg"
            figures.write(figures.draw(run, one), path)


if __name__ == "__main__":
    for page in BLOCKS:
        path = DOCS.parent / page
        path.write_text(with_blocks(page, path.read_text(encoding="utf-8")), encoding="utf-8")
    STUDIES.write_text(studies(), encoding="utf-8")
    main(FOLDER)
    draw_history()
    figures.write(draw_trusted(trusted()), DOCS / "trusted.png")
