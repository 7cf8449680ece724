"""The port between host and guest: what arrives in pieces is whole, what is damaged is noticed."""

import json
import zlib
from typing import Any

import pytest

from memlab.machines.guest.stream import Damaged, Packer, Unpacker

MESSAGES: list[dict[str, Any]] = [{"ask": "trial", "with": {"x": 1.5}}, {"answer": None}, {}]


def packed() -> bytes:
    packer = Packer()
    return b"".join(packer.pack(message) for message in MESSAGES)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_messages_come_out_as_they_went_in_however_they_are_cut(size: int) -> None:
    unpacker, text = Unpacker(), packed()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found = [message for piece in pieces for message in unpacker.feed(piece)]
    assert found == [{"number": i} | message for i, message in enumerate(MESSAGES)]


def test_a_line_of_the_console_is_no_message() -> None:
    unpacker = Unpacker()
    with pytest.raises(Damaged, match=r"is not a message: b'\[ 3\.14\] Out of memory"):
        list(unpacker.feed(b"[ 3.14] Out of memory: Killed process 7\n"))


def test_json_without_its_checksum_is_no_message() -> None:
    text = json.dumps({"number": 0, "answer": {"outcome": "ok"}}).encode()
    with pytest.raises(Damaged):
        list(Unpacker().feed(text + b"\n"))


@pytest.mark.parametrize("at", range(9, 60, 5))
def test_one_changed_byte_is_noticed(at: int) -> None:
    text = bytearray(Packer().pack({"answer": {"outcome": "ok", "detail": "nothing to say"}}))
    text[at] ^= 1
    with pytest.raises(Damaged):
        list(Unpacker().feed(bytes(text)))


def test_a_lost_message_is_noticed_by_the_next() -> None:
    packer = Packer()
    packer.pack({"answer": 1})
    with pytest.raises(Damaged, match="message 1 came where 0 was due"):
        list(Unpacker().feed(packer.pack({"answer": 2})))


def test_the_check_is_the_crc_of_the_text() -> None:
    check, _, text = Packer().pack({"alive": 1}).rstrip(b"\n").partition(b" ")
    assert int(check, 16) == zlib.crc32(text)
