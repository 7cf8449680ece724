"""What the shell is offered where a word of memlab's own is wanted.

A completion that cannot say anything says nothing: an error would land in the user's prompt.
"""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem


def experiment(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    from memlab import experiments

    return [CompletionItem(name) for name in experiments.names() if name.startswith(typed)]


def study(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """What `reproduce` takes: a source, an experiment, or all."""
    from memlab import published

    known = (*published.ids(), "all")
    sources = [name for name in known if name.startswith(typed)]
    return [CompletionItem(name) for name in sources] + experiment(ctx, param, typed)


def factor(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """`size=`, then its levels: those that can be listed, else those of the presets."""
    from memlab import experiments

    # Where an option still lacks its value, click leaves the arguments before it unread in args.
    typed_words = [ctx.params.get("experiment"), *ctx.args]
    named = next((word for word in typed_words if word in experiments.names()), None)
    if named is None:
        return []
    declared = experiments.load(named)
    name, equals, levels = typed.partition("=")
    if not equals:
        results = [f for f in declared.factors if f.name.startswith(name)]
        return [CompletionItem(f"{f.name}=", help=f.help) for f in results]
    for item in declared.factors:
        if item.name == name:
            before, comma, last = levels.rpartition(",")
            known = item.kind.levels or [item.kind.format(level) for level in item.levels("full")]
            words = [word.replace(" ", "") for word in known]
            start = f"{name}={before}{comma}"
            return [CompletionItem(start + word) for word in words if word.startswith(last)]
    return []


def schema(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    from memlab.cli import _schemas

    return [CompletionItem(name) for name in _schemas.names() if name.startswith(typed)]


def run(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Ids and names in the store, the newest first; after `example:` the recorded experiments."""
    from memlab import recorded
    from memlab.errors import StoreError
    from memlab.store import Store
    from memlab.text.printable import printable

    examples = [recorded.PREFIX + name for name in recorded.all_names()]
    if typed.startswith(recorded.PREFIX):
        return [CompletionItem(name) for name in examples if name.startswith(typed)]
    named = ctx.find_root().params.get("store")
    try:
        with Store(Path(named) if named else None) as opened:
            rows = opened.heads()
    except StoreError:
        return []
    items = [CompletionItem("last", help="the newest run")]
    for row in reversed(rows):
        help = printable(f"{row.experiment}, {row.created_at[:16]}")
        items += [CompletionItem(word, help=help) for word in (row.id, row.name) if word]
    items = [item for item in items if str(item.value).isprintable()]  # it is typed for the user
    return [item for item in items if str(item.value).startswith(typed)]
