"""Factors that are enums of C: their levels come from the binding."""

import sys

import pytest

from memlab import probe
from memlab.errors import NotBuilt
from memlab.experiment import ENUM, Factor, enum_levels

METHODS = ("mmap", "write", "pwrite", "writev", "io_uring", "dontcache")


def test_levels_are_those_of_the_enum_in_its_order() -> None:
    assert enum_levels("mmap_write", "method") == METHODS
    assert tuple(probe.params("mmap_write")["method"]) == METHODS


def test_a_factor_takes_its_probes_levels() -> None:
    factor = Factor("method", ENUM, help="").of("mmap_write")
    assert (factor.kind.levels, factor.quick) == (METHODS, METHODS)
    assert factor.kind.check("write") == "write"
    with pytest.raises(ValueError, match=r"^invalid value 'wirte'; did you mean write\? \(choose"):
        factor.kind.check("wirte")


def test_named_levels_stay() -> None:
    factor = Factor("method", ENUM, help="", quick=["mmap"]).of("mmap_write")
    assert (factor.kind.levels, factor.quick) == (METHODS, ["mmap"])


@pytest.mark.parametrize("param", ["size_bytes", "metod"])
def test_a_factor_that_is_no_enum_of_the_probe(param: str) -> None:
    with pytest.raises(ValueError, match=f"probe mmap_write has no param '{param}' that is an"):
        Factor(param, ENUM, help="").of("mmap_write")


def test_probes_that_are_not_compiled_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "memlab._built", None)
    with pytest.raises(NotBuilt, match="pip install"):
        enum_levels("mmap_write", "method")
