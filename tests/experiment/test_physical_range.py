"""A range of physical addresses: however it is spelled, it is stored in one way."""

import pytest

from memlab.experiments.reserved_copy import AUTO, PHYSICAL_RANGE, reserved

SPELLED = [
    "0x40000000+0x4000000",
    "1g+64m",
    "1G+65536k",
    "1GiB + 64MiB",
    "1073741824+67108864",
    "0x40000000+64m",
    "1g+0x4000000",
    "0x40000000-0x43ffffff",
    "0x0000000040000000-0x0000000043FFFFFF",
]


@pytest.mark.parametrize("text", SPELLED)
def test_every_spelling_is_one_level(text: str) -> None:
    assert PHYSICAL_RANGE.parse(text) == SPELLED[0]
    assert PHYSICAL_RANGE.to_field(PHYSICAL_RANGE.check(text)) == SPELLED[0]


def test_the_level_is_parsed_to_itself_and_auto_is_no_range() -> None:
    assert PHYSICAL_RANGE.check(SPELLED[0]) == SPELLED[0]
    assert PHYSICAL_RANGE.parse(AUTO) == AUTO
    at = {"memory": "reserved", "size": 1, "cache": "cached"}
    assert reserved({**at, "range": AUTO}).range == ""
    assert PHYSICAL_RANGE.parse("0xfffffffffffff000+4k") == "0xfffffffffffff000+0x1000"


@pytest.mark.parametrize(
    "text",
    ["", "1g", "+64m", "1g+", "1g+64m+1", "0x+1", "40000000-43ffffff", "1g*2", "-1g+64m", "auto+1"],
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range of physical addresses; write START"):
        PHYSICAL_RANGE.parse(text)


@pytest.mark.parametrize(
    "text", ["1g+0", "0x2000-0x1000", "0xfffffffffffff000+4097", "0x0-0xffffffffffffffff"]
)
def test_an_empty_range_and_one_beyond_the_last_address(text: str) -> None:
    with pytest.raises(ValueError, match="it is empty, or ends beyond the last address"):
        PHYSICAL_RANGE.parse(text)
