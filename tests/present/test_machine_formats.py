"""What compare and claims print for programs: JUnit XML, GitHub's commands, Bencher's JSON."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from made_up import Machine

from memlab import experiments
from memlab.cli import cli
from memlab.present import cases
from memlab.present.cases import Case, Cases, Measure
from memlab.present.formats import bmf, github, junit
from memlab.run import plan
from memlab.text.printable import unmentioned

AWKWARD = "100%: a,b\r\n<c> | & \x1b[1m"
FOUND = Cases(
    suite="memlab compare x",
    title="x: run 2 against run 1",
    cases=[
        Case("size=1", "slower", f"slower: {AWKWARD}", {"time": Measure(2.0, 1.5, 2.5)}),
        Case(f"size={AWKWARD}", "inconclusive", "5 more blocks", {"time": Measure(2.0, None, 3.0)}),
        Case("size=3", "same", "same within 5 %", {"time": Measure(1.0, 0.9, 1.1)}),
        Case("size=4", "not compared", "samples only in run 1"),
    ],
    remarks=["the probes differ, 1 and 2: a difference may be theirs"],
    last_line="3 points: 1 slower, 1 same within 5 %, 1 inconclusive",
)

# Of junit-10.xsd: the attributes that an element may have; a star is one that it must.
KNOWN = {
    "testsuites": set(),
    "testsuite": {"name*", "tests*", "failures*", "errors*", "skipped"},
    "testcase": {"name*", "classname"},
    "failure": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
    "properties": set(),  # of a case as well, as pytest's record_property writes them
    "property": {"name*", "value*"},
}


def parsed(text: str) -> ElementTree.Element:
    """JUnit XML that keeps to the schema, with counts that are those of its cases."""
    root = ElementTree.fromstring(text)
    for element in root.iter():
        allowed = KNOWN[element.tag]
        assert set(element.attrib) <= {name.rstrip("*") for name in allowed}
        assert {name[:-1] for name in allowed if name.endswith("*")} <= set(element.attrib)
    (suite,) = root
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
    return suite


def test_junit_fails_what_is_bad_and_skips_what_is_open() -> None:
    suite = parsed(junit.text(FOUND))
    ended = {case.attrib["name"]: [child.tag for child in case] for case in suite.iter("testcase")}
    assert list(ended.values()) == [
        *(["properties", word] for word in ("failure", "skipped", "system-out")),
        ["skipped"],
    ]
    (failure,) = suite.iter("failure")
    assert failure.attrib["type"] == "slower"
    assert failure.text is not None
    assert failure.text.startswith("slower: 100%: a,b")
    assert failure.text.endswith("<c> | & \\x1b[1m")  # XML has no escape character
    # A reader makes a blank of a raw line end in an attribute: there is none, as text or as &#10;.
    for tag in re.findall(r"<[^/!?][^>]*>", junit.text(FOUND)):
        assert not re.search(r"[\r\n]|&#(10|13|xA|xD);", tag), tag
    assert failure.attrib["message"] == "slower: 100%: a,b\\r <c> | & \\x1b[1m"
    said = suite.find("system-out")
    assert said is not None
    assert said.text is not None
    assert said.text.splitlines()[1:] == [*FOUND.remarks, FOUND.last_line]


def test_github_gets_an_error_warnings_and_a_notice_each_in_a_line() -> None:
    lines = github.text(FOUND).split("\n")
    assert lines[0] == (
        "::error title=memlab compare x%3A size=1::slower: 100%25: a,b\\r%0A<c> | & \\x1b[1m"
    )
    assert lines[1] == (
        "::warning title=memlab compare x%3A size=100%25%3A a%2Cb\\r%0A<c> | & \\x1b[1m"
        "::5 more blocks"
    )
    assert lines[2].startswith("::warning title=memlab compare x%3A size=4::")
    said = f"{FOUND.remarks[0]}%0A{FOUND.last_line.replace('%', '%25')}"
    assert lines[3] == f"::notice title=memlab compare x::{said}"
    assert len(lines) == 4


@pytest.mark.parametrize(("count", "shown"), [(10, 10), (11, 9), (50, 9)])
def test_github_shows_ten_of_a_level_and_the_last_one_counts_the_rest(
    count: int, shown: int
) -> None:
    many = [Case(f"size={i}", "slower", "slower") for i in range(count)]
    lines = github.text(Cases("x", "x", many, [], "done")).split("\n")
    assert sum(": size" in line.replace("%3A", ":") for line in lines) == shown
    assert len([line for line in lines if line.startswith("::error")]) == github.ANNOTATIONS
    if count > 10:
        assert f"::error title=x::and {count - 9} more: " in lines[9]


def test_the_summary_is_a_table_that_nothing_in_a_cell_breaks() -> None:
    lines = github.summary(FOUND).split("\n")
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 2 + len(FOUND.cases)
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)
    assert "&lt;c&gt; \\| &amp;" in rows[2]
    assert f"**{FOUND.last_line}**" in lines


def test_a_level_tells_no_user_and_links_no_issue() -> None:
    cases = [Case("app=@octocat", "slower", "as #7 says, a@b.org"), Case("`@x`", "same", "# @ 1")]
    for text in (github.summary(Cases("@x", "#1", cases, ["@y"], "@z")), unmentioned("`@a` #b")):
        assert re.findall(r"[@#]\w", text) == []
    assert unmentioned("### heading, # and @") == "### heading, # and @"


def test_a_summary_stays_below_what_github_shows() -> None:
    many = [Case(f"size={i}", "slower", "slower " * 20) for i in range(20_000)]
    text = github.summary(Cases("x", "x", many, [], "done"))
    assert len(text.encode()) < 1 << 20
    assert "19000 more cases are not shown." in text


def test_bencher_gets_every_number_with_the_ends_it_has() -> None:
    found = json.loads(bmf.text(FOUND))
    values = list(found.values())
    assert values[0] == {"time": {"value": 2.0, "lower_value": 1.5, "upper_value": 2.5}}
    assert values[1] == {"time": {"value": 2.0, "upper_value": 3.0}}
    assert len(values) == 3
    assert all(name.startswith("memlab compare x: size=") for name in found)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """With two runs, the second of which has slower writes."""
    made = Machine(tmp_path / "results.db")
    for made.factor in (1.0, 1.2):
        made.sweep("mmap-write", size=[1, 4096], filesystem="tmpfs", controls=False)
    return made


def ask(machine: Machine, kind: str, *arguments: str) -> Result:
    runs = ["00000001", "00000002"] if kind == "compare" else ["00000001"]
    return CliRunner().invoke(cli, ["--store", str(machine.store), kind, *runs, *arguments])


def test_a_comparison_in_each_format(machine: Machine) -> None:
    suite = parsed(ask(machine, "compare", "--format", "junit").output)
    failed = [
        case.attrib["name"] for case in suite.iter("testcase") if case.find("failure") is not None
    ]
    assert failed == [
        "size=1 B method=write filesystem=tmpfs file_state=cached_4k",
        "size=4 KiB method=write filesystem=tmpfs file_state=cached_4k",
    ]
    lines = ask(machine, "compare", "--format", "github").output.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::notice"]
    found = json.loads(ask(machine, "compare", "--format", "bmf").output)
    name = "memlab compare mmap-write: size=1 B method=write filesystem=tmpfs file_state=cached_4k"
    assert found[name]["time_2gib ratio"]["value"] == pytest.approx(1.2, rel=0.01)
    metric = found[name]["time_2gib"]
    assert metric["lower_value"] <= metric["value"] <= metric["upper_value"]


def test_a_judgement_in_each_format(machine: Machine) -> None:
    suite = parsed(ask(machine, "claims", "--format", "junit").output)
    names = [case.attrib["name"] for case in suite.iter("testcase")]
    assert len(set(names)) == len(names)
    assert any(name.startswith("mmap-write/one-byte (") for name in names)
    lines = ask(machine, "claims", "--format", "github").output.splitlines()
    assert lines[-1].startswith("::notice title=memlab claims mmap-write::")
    found = json.loads(ask(machine, "claims", "--format", "bmf").output)
    ratios = [measures["ratio"] for measures in found.values() if "ratio" in measures]
    assert ratios[0]["lower_value"] < ratios[0]["value"] < ratios[0]["upper_value"]


def test_the_summary_page_is_added_to(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    ask(machine, "compare", "--format", "junit")
    assert page.read_text() == "before\n"
    ask(machine, "compare", "--format", "github")
    assert page.read_text().startswith("before\n### memlab compare mmap-write\n")


@pytest.mark.parametrize("form", ["text", "junit", "github", "bmf"])
def test_a_gate_closes_in_every_format(machine: Machine, form: str) -> None:
    gate = ["--fail-on", "regression", "--format", form]
    assert ask(machine, "compare", *gate).exit_code == 1


@pytest.mark.parametrize("kind", ["compare", "claims"])
def test_json_takes_no_other_format(machine: Machine, kind: str) -> None:
    both = ask(machine, kind, "--json", "--format", "junit")
    assert both.exit_code == 2
    assert "--json is a format too: leave --format junit out" in both.output


@pytest.mark.parametrize("experiment", experiments.names())
def test_no_two_points_share_a_name(experiment: str) -> None:
    declared = experiments.load(experiment)
    points = plan.build(declared, "full", {}).points
    assert len({cases.name(declared, point.at) for point in points}) == len(points)
