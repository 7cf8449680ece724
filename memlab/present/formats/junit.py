"""JUnit XML, as Jenkins, GitLab and GitHub's report actions read it.

The elements and attributes are those of Jenkins' schema (junit-10.xsd of its xUnit plugin), to
which pytest holds its own. A case has no time: what was timed is the result, not its cost.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from memlab.present.cases import Case, Cases
from memlab.text.printable import printable

_NO_CHARACTERS = str.maketrans(
    "\ufffe\uffff", "\ufffd\ufffd"
)  # https://www.w3.org/TR/xml/#charsets


def text(cases: Cases) -> str:
    standings = Counter(case.standing for case in cases.cases)
    counts = {
        "tests": str(len(cases.cases)),
        "failures": str(standings["bad"]),
        "errors": "0",
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {"name": _line(cases.suite), **counts, "skipped": str(standings["open"])},
    )
    for case in cases.cases:
        _add(suite, cases.suite, case)
    message = ElementTree.SubElement(suite, "system-out")
    message.text = _clean("\n".join([cases.title, *cases.remarks, cases.last_line]))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _add(suite: ElementTree.Element, classname: str, case: Case) -> None:
    attributes = {"classname": _line(classname), "name": _line(case.name)}
    element = ElementTree.SubElement(suite, "testcase", attributes)
    if case.measures:
        properties = ElementTree.SubElement(element, "properties")
    for name, measure in case.measures.items():
        ends = {"": measure.value, " low": measure.low, " high": measure.high}
        for end, value in ends.items():
            if value is not None:
                words = {"name": _line(f"{name}{end}"), "value": repr(value)}
                ElementTree.SubElement(properties, "property", words)
    if case.standing == "bad":
        failure = {"type": _line(case.word), "message": _line(case.text)}
        ElementTree.SubElement(element, "failure", failure).text = _clean(case.text)
    elif case.standing == "open":
        why = {"type": _line(case.word), "message": _line(case.text)}
        ElementTree.SubElement(element, "skipped", why)
    else:
        ElementTree.SubElement(element, "system-out").text = _clean(case.text)


def _clean(words: str) -> str:
    return printable(words, keep="\n").translate(_NO_CHARACTERS)


def _line(words: str) -> str:
    """Of an attribute, whose line ends a reader makes blanks of (XML, 3.3.3)."""
    return " ".join(_clean(words).split())
