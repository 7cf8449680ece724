"""Messages between host and guest, a line each, over a virtio serial port.

A line is the CRC-32 of a JSON text, and the text. Messages are numbered from 0 in each
direction, so that one that is lost or damaged on its way, or a line that something else wrote to
the port, is noticed and never taken for an answer.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

from memlab.errors import CannotRun
from memlab.observe.virtualization import GUEST_PORT

PORT = GUEST_PORT


class Damaged(CannotRun):
    """What arrived is not a message, or not the next one."""


class Packer:
    """Numbers the messages of one direction."""

    def __init__(self) -> None:
        self._sent = 0

    def pack(self, message: dict[str, Any]) -> bytes:
        text = json.dumps({"number": self._sent} | message, separators=(",", ":")).encode()
        self._sent += 1
        return b"%08x %s\n" % (zlib.crc32(text), text)


class Unpacker:
    """Turns what arrives, in pieces of any size, into messages. Damaged where it cannot."""

    def __init__(self) -> None:
        self._pending = b""
        self._taken = 0

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        *lines, self._pending = (self._pending + piece).split(b"\n")
        for line in lines:
            yield self._message(line)

    def _message(self, line: bytes) -> dict[str, Any]:
        check, _, text = line.partition(b" ")
        if check != b"%08x" % zlib.crc32(text):
            raise Damaged(f"a line on the port is not a message: {line[:60]!r}")
        message: dict[str, Any] = json.loads(text)
        if message["number"] != self._taken:
            raise Damaged(f"message {message['number']} came where {self._taken} was due")
        self._taken += 1
        return message
