"""What the site has and git has not: README as its first page, the references of commands and of
Python, the further figures of the experiments, and the experiments in the navigation. mkdocs.yml
has this file as a hook.

`python docs/built.py FOLDER` writes the man pages (`make man`).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from click_man.core import write_man_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import memlab
from memlab import __version__, api, experiments, recorded
from memlab.cli import cli
from memlab.present import figures, pages

README = Path(__file__).parents[1] / "README.md"


def on_config(config: MkDocsConfig) -> None:
    """List every experiment in the navigation."""
    listed = [f"experiments/{name}.md" for name in experiments.names()]
    assert config.nav is not None
    config.nav.append({"Experiments": listed})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add README, the references, and each figure of a recorded run that git has not."""
    made: dict[str, str | bytes] = {
        "index.md": start(),
        "reference/commands.md": commands(),
        "reference/python.md": python(),
    }
    with TemporaryDirectory() as folder:
        for name in recorded.names():
            run = api.load(f"example:{name}")
            for figure in filter(None, figures.names(run)):
                path = f"experiments/{name}-{figure}.svg"
                if path not in files.src_uris:
                    drawn = figures.write(figures.draw(run, figure), Path(folder) / "figure.svg")
                    made[path] = drawn.read_bytes()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Show every figure on the page of an experiment, not only those that git has."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder != "experiments" or name not in recorded.names():
        return markdown
    run = api.load(f"example:{name}")
    return pages.page(run.experiment, run, shown=figures.names(run))


def start() -> str:
    """README, with its links as they are from the folder of the pages."""
    text = README.read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?:|#)(docs/)?", lambda m: "](" if m[1] else "](../", text)


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
    folder.mkdir(parents=True, exist_ok=True)
    version = f"memlab {__version__}"  # where a date would change every day
    whole = _as_man(cli)
    write_man_pages("memlab", whole, version=version, target_dir=str(folder), date=version)
    for path in folder.glob("memlab-*.1"):  # click-man refers to `memlab kernels-list(1)`
        text = re.sub(r"memlab (\w+-\w+\(1\))", r"memlab-\1", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    man(Path(sys.argv[1]))
