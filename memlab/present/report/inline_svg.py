"""A figure as SVG that can stand inside an HTML page beside others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from xml.etree import ElementTree

from matplotlib.figure import Figure

from memlab.present.figures.layout import WIDE

_REFERENCE = re.compile(r"url\(#([^()]+)\)")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # which XML 1.0 has no way to write
_LEFT_OUT = ("metadata", "style")  # the licence's URLs, and a rule for every element of the page


def inline(figure: Figure, label: str, prefix: str) -> str:
    """An <svg> element without size, namespace or URL, read out as `label`. Its --wide is its width
    beside that of a wide figure: the page shows the text of all figures at one size by it.

    matplotlib numbers the parts of every figure alike; `prefix`, one a page, tells them apart.
    """
    written = BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(_CONTROL.sub(b"", written.getvalue()))
    for element in list(root.iter()):
        _tidy(element, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    share = float(root.attrib["viewBox"].split()[2]) / WIDE
    root.attrib.update({"role": "img", "aria-label": label, "style": f"--wide: {share:.5g}"})
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _tidy(element: ElementTree.Element, prefix: str) -> None:
    for child in list(element):
        if _local(child.tag) in _LEFT_OUT:
            element.remove(child)
    element.tag = _local(element.tag)
    attributes = dict(_attributes(element, prefix))
    element.attrib.clear()
    element.attrib.update(attributes)


def _attributes(element: ElementTree.Element, prefix: str) -> Iterator[tuple[str, str]]:
    for qualified, value in element.attrib.items():
        name = _local(qualified)
        if name == "id":
            value = f"{prefix}-{value}"
        elif name == "href":
            value = f"#{prefix}-{value.removeprefix('#')}"
        yield name, _REFERENCE.sub(rf"url(#{prefix}-\1)", value)


def _local(name: str) -> str:
    """A name without its namespace, which HTML gives to <svg> itself."""
    return name.rpartition("}")[2]
