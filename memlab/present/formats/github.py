"""Annotations of a GitHub Actions step, and a table for the step's summary page.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions has the commands;
the escapes are those of its toolkit (actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from collections.abc import Sequence

from memlab.present.cases import Case, Cases
from memlab.text.printable import printable, unmentioned

ANNOTATIONS = 10  # of one level in a step; GitHub shows no more
_ROWS = 1_000  # a summary above 1 MiB is not shown at all

_SIGNS = {"good": "✅", "bad": "❌", "open": "❔"}


def text(cases: Cases) -> str:
    """An error for what is bad, a warning for what is open, a notice for the whole."""
    bad = [case for case in cases.cases if case.standing == "bad"]
    not_decided = [case for case in cases.cases if case.standing == "open"]
    return "\n".join(
        [
            *_commands("error", cases.suite, bad),
            *_commands("warning", cases.suite, not_decided),
            _command("notice", cases.suite, "\n".join([*cases.remarks, cases.last_line])),
        ]
    )


def _commands(level: str, suite: str, cases: Sequence[Case]) -> list[str]:
    """A command a case; where there are too many, the last one counts the rest."""
    fit = len(cases) if len(cases) <= ANNOTATIONS else ANNOTATIONS - 1
    lines = [_command(level, f"{suite}: {case.name}", case.text) for case in cases[:fit]]
    if rest := cases[fit:]:
        more = f"and {len(rest)} more: the summary of this step lists them"
        lines.append(_command(level, suite, more))
    return lines


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(title)}::{_data(message)}"


def _data(words: str) -> str:
    return printable(words, keep="\n").replace("%", "%25").replace("\n", "%0A")


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")


def summary(cases: Cases) -> str:
    """Markdown for $GITHUB_STEP_SUMMARY."""
    rows = [
        f"| {_SIGNS[case.standing]} {_cell(case.word)} | {_cell(case.name)} | {_cell(case.text)} |"
        for case in cases.cases[:_ROWS]
    ]
    rest = len(cases.cases) - len(rows)
    return "\n".join(
        [
            f"### {_cell(cases.suite)}",
            "",
            _cell(cases.title),
            "",
            "| | case | evidence |",
            "| --- | --- | --- |",
            *rows,
            "",
            *([f"{rest} more cases are not shown.", ""] if rest else []),
            *(f"- {_cell(line)}" for line in cases.remarks),
            *([""] if cases.remarks else []),
            f"**{_cell(cases.last_line)}**",
            "",
        ]
    )


def _cell(words: str) -> str:
    """One line that neither Markdown nor HTML reads anything into."""
    line = printable(" ".join(words.split()))
    for sign, escape in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        line = line.replace(sign, escape)
    for sign in "\\`*_|~[]":
        line = line.replace(sign, f"\\{sign}")
    return unmentioned(line)
