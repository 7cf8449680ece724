"""Levels as text and as Python values: good ones read exactly, bad ones refused in one line."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memlab import experiments
from memlab.errors import BadLevels
from memlab.experiment.levels import check_levels, read_levels

EXPERIMENT = experiments.load("mmap-write")
KIB, MIB = 2**10, 2**20

BAD = {
    "size": "write -p size=1B,100B,512B",
    "size=": "write -p size=1B,100B,512B",
    "method=": "write -p method=mmap,write",
    "populate=": "write -p populate=no",
    "": "factors: size, method",
    "=4k": "factors: size, method",
    "siz=4k": "no factor 'siz'; did you mean size?",
    "mehtod=mmap": "did you mean method?",
    "file-size=1m": "did you mean file_size?",
    "zzz=1": "factors: size, method, filesystem, file_state",
    "-p": "no factor '-p'",
    "size=4q": "size: '4q' is not a size",
    "size=-1": "size: '-1' is not a size",
    "size=1e3": "size: '1e3' is not a size",
    "size=nan": "size: 'nan' is not a size",
    "size=1.5": "size: '1.5' is not a whole number of bytes",
    "size=99999999999T": "larger than any file",
    "size=4k size=8k": "size: '4k size=8k' is not a size",
    "size=4k\nx": "is not a size",
    "size\n": "write -p size=",
    "size=1,,2": "size: '1,,2' has an empty level",
    "size=1..4k": "write its step too",
    "size=4k..1*2": "does not rise",
    "size=1..4k*1": "does not rise",
    "size=0..4k*2": "does not rise",
    "size=0..4000+1": "over 1024 levels",
    "method=mmpa": "did you mean mmap? (choose from mmap, write, pwrite, writev, io_uring, ",
    "method=MMAP": "choose from mmap, write, pwrite, writev, io_uring",
    "method=mmap,fwrite": "invalid value 'fwrite'; did you mean write?",
    "file_state=cached": "did you mean cached_4k? (choose from cached_4k, cached_1m",
    "filesystem=ext4": "choose from dir, tmpfs",
    "advice=sequntial": "did you mean sequential?",
    "populate=maybe": "populate: 'maybe' is neither yes nor no",
    "sync=2": "sync: '2' is neither yes nor no",
    "slice=10": "slice: '10' is not a duration",
    "slice=10 parsecs": "such as 10ms",
    "slice=-1ms": "slice: '-1ms' is not a duration",
}


@pytest.mark.parametrize("assignment", BAD)
def test_bad_assignment_is_named_in_one_line(assignment: str) -> None:
    with pytest.raises(BadLevels) as refused:
        read_levels(EXPERIMENT, [assignment])
    assert BAD[assignment] in str(refused.value)
    assert "\n" not in str(refused.value)


def read_or_refused(assignment: str) -> list[object]:
    """The levels, or the lines of the refusal."""
    try:
        (levels,) = read_levels(EXPERIMENT, [assignment]).values()
    except BadLevels as refused:
        return list(str(refused).splitlines())
    return list(dict.fromkeys(levels))


@given(st.text(max_size=20))
def test_any_text_gives_levels_or_one_line(text: str) -> None:
    assert len(read_or_refused(text)) == 1
    for factor in ("size", "method", "populate", "slice"):
        assert read_or_refused(f"{factor}={text}")


@given(st.text(max_size=20))
def test_a_refusal_is_one_line(text: str) -> None:
    assume("," not in text and ".." not in text)  # at most one level
    for factor in ("size", "method", "populate", "slice"):
        assert len(read_or_refused(f"{factor}={text}")) == 1


def test_levels_are_read() -> None:
    levels = read_levels(
        EXPERIMENT,
        ["size=1,4k..64k*4,4096", "method = mmap", "populate=yes,no", "slice=5ms,0"],
    )
    assert levels == {
        "size": [1, 4 * KIB, 16 * KIB, 64 * KIB],
        "method": ["mmap"],
        "populate": [True, False],
        "slice": [0.005, 0.0],
    }


def test_a_factor_is_given_once() -> None:
    with pytest.raises(BadLevels, match="-p size is given twice; write its levels in one list"):
        read_levels(EXPERIMENT, ["size=1", "size=2"])


GOOD_VALUES = [
    ("size", 4096, [4096]),
    ("size", "4k", [4096]),
    ("size", [4096, "4k", 1.0], [4096, 1]),
    ("size", (1, 2), [1, 2]),
    ("size", range(1, 3), [1, 2]),
    ("size", np.array([1, 100]), [1, 100]),
    ("size", np.int64(5), [5]),
    ("method", "mmap", ["mmap"]),
    ("method", ["mmap", "write"], ["mmap", "write"]),
    ("populate", True, [True]),
    ("populate", [0, 1], [False, True]),
    ("slice", "10ms", [0.01]),
    ("slice", 1, [1.0]),
]


@pytest.mark.parametrize(("name", "value", "levels"), GOOD_VALUES)
def test_python_value_is_a_level(name: str, value: object, levels: list[object]) -> None:
    checked = check_levels(EXPERIMENT, {name: value})
    assert checked == {name: levels}
    assert [type(level) for level in checked[name]] == [type(level) for level in levels]


BAD_VALUES = [
    ("nosuch", 1, "no factor 'nosuch'"),
    ("siz", 1, "did you mean size?"),
    ("size", [], "size: no level given; for example 1B,100B,512B"),
    ("size", None, "size: "),
    ("size", True, "size: True is not a whole number"),
    ("size", 1.5, "size: 1.5 is not a whole number"),
    ("size", -1, "size: -1 is not a whole number"),
    ("size", float("nan"), "size: "),
    ("size", float("inf"), "size: "),
    ("size", "4q", "size: '4q' is not a size"),
    ("size", b"4k", "size: "),
    ("size", [[1]], "size: "),
    ("size", object(), "size: "),
    ("method", 3, "method: invalid value '3' (choose from mmap, write"),
    ("method", None, "method: "),
    ("method", "mmpa", "did you mean mmap?"),
    ("populate", 2, "populate: '2' is neither yes nor no"),
    ("populate", None, "populate: "),
    ("slice", float("nan"), "slice: nan is not a duration"),
    ("slice", -1, "slice: -1 is not a duration"),
    ("slice", True, "slice: True is not a duration"),
    ("slice", [None], "slice: "),
]


@pytest.mark.parametrize(("name", "value", "words"), BAD_VALUES)
def test_bad_python_value_is_named_in_one_line(name: str, value: object, words: str) -> None:
    with pytest.raises(BadLevels) as refused:
        check_levels(EXPERIMENT, {name: value})
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
