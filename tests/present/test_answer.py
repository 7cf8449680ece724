"""What a command answers, in lines of a terminal and in Markdown."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from io import StringIO

import pytest
from rich.console import Console

from memlab import experiments
from memlab.present import describe
from memlab.present.answer import Block, Heading, Sentence, Verbatim, lines, markdown, write
from memlab.present.table import Column, Table
from memlab.text import wrapping
from memlab.text.wrapping import cells, wrapped

ROWS = Table("", [Column("a", "left"), Column("b")], [["x", "1"]])


def printed(*parts: str | Sentence | Verbatim, width: int = 20) -> list[str]:
    return "".join(lines(Console(width=width), parts)).splitlines()


def test_further_lines_stand_under_the_beginning_or_behind_so_many_blanks() -> None:
    text = "one two three four five six"
    assert printed(text) == ["one two three four", "five six"]
    assert printed(Sentence(text, lead="try: ")) == ["try: one two three", "     four five six"]
    assert printed(Sentence(text, lead="try: ", under=1)) == [
        "try: one two three",
        " four five six",
    ]
    pairs = Sentence([("one two three", "bold"), (" four  five six", "dim")])
    assert printed(pairs) == ["one two three four", "five six"]
    assert printed("  a  b") == ["  a  b"]  # as another program printed it


def test_a_path_and_a_command_are_not_broken() -> None:
    path = "/a/path/that/is/wider/than/20"
    assert printed(f"a file at {path} is") == ["a file at", path, "is"]
    assert printed(Verbatim(f"next: memlab show {path}")) == [f"next: memlab show {path}"]
    assert printed("a\x1b[31mb") == ["a\\x1b[31mb"]


def test_a_wide_character_takes_two_cells() -> None:
    assert list(wrapped("内存 内存 内存", 10, "a ", "  ")) == ["a 内存", "  内存", "  内存"]
    assert list(wrapped("内存 内存 内存", 11, "a ", "  ")) == ["a 内存 内存", "  内存"]


def test_a_text_in_one_line_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(wrapping, "cells", lambda text: measured.append(text) or cells(text))
    text = "a b " * 500
    assert [*wrapped(text, 10_000, "", "")] == [text.rstrip()]
    assert sum(map(len, measured)) <= len(text)


def test_a_screen_ends_with_what_it_leaves_out_and_the_last_lines() -> None:
    file = StringIO()
    blocks = [Block(["first"]), Block(["1", "2", "3"], "list", rank=1), Block([ROWS], "table")]
    write(Console(width=20, file=file), blocks, 8, "memlab show -v", ["next: x"])
    assert file.getvalue().splitlines()[0] == "first"
    # Lines that are too long for 20 columns take more rows, but are not broken.
    assert file.getvalue().splitlines()[-2:] == ["not shown: 1 list: memlab show -v", "next: x"]


def test_a_block_is_a_paragraph_and_an_empty_one_is_none() -> None:
    notes = [Sentence("for @all", lead="- "), Sentence("b", lead="- ")]
    page = markdown([[Heading("head")], [Sentence("so", "bold")], [], [ROWS], notes])
    assert page.split("\n") == [
        "### head",
        "",
        "**so**",
        "",
        "| a | b |",
        "| --- | --- |",
        "| x | 1 |",
        "",
        "- for @<!-- -->all",
        "- b",
    ]


def test_a_declared_text_of_several_lines_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    declared = replace(experiments.load("stack-map"), question="How\n    fast?")
    for shown in (partial(describe.on_a_screen, in_full=""), describe.in_full):
        shown(declared)
        assert capsys.readouterr().out.startswith("stack-map: How fast?\n")
