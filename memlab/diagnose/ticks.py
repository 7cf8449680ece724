"""Samples some time apart: where threads sleep, and what some files say. ticks.c takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import cache

from memlab.errors import NotBuilt
from memlab.files import folders

_TEXT_BYTES, _CONTENT_BYTES = 128, 8192
_KNOWN_MAX = 64
_FUNCTIONS = (
    "statuses", "namespaces", "mapping_marks", "open_counts", "read_counts",
    "page_flags",
)  # fmt: skip
_READINGS_MAX = 256
"""Their texts are kept till then: a look of 10 s takes none apart between its samples."""


class Pause(IntEnum):
    """Why ticks.c returns."""

    DONE = 0
    ENDED = 1
    ASKS = 2
    INTERRUPTED = 3


class _Ticks(ctypes.Structure):
    _fields_ = (
        ("threads", ctypes.c_void_p), ("known", ctypes.c_void_p), ("counts", ctypes.c_void_p),
        ("text", ctypes.c_void_p), ("files", ctypes.c_void_p), ("begins", ctypes.c_void_p),
        ("contents", ctypes.c_void_p), ("lengths", ctypes.c_void_p),
        ("wait_ns", ctypes.c_longlong), ("until_ns", ctypes.c_longlong),
        ("pidfd", ctypes.c_int), ("count", ctypes.c_int), ("at", ctypes.c_int),
        ("at_once", ctypes.c_int), ("thread", ctypes.c_int),
        ("known_count", ctypes.c_int), ("file_count", ctypes.c_int),
        ("every", ctypes.c_int), ("since", ctypes.c_int), ("reads", ctypes.c_int),
    )  # fmt: skip


@cache
def library() -> ctypes.CDLL:
    """Of this version. Raises `NotBuilt`."""
    path, why = folders.compiled() / "launch/ticks.so", "it is of another version"
    try:
        binary = ctypes.CDLL(str(path))
        size = ctypes.c_int.in_dll(binary, "ticks_bytes").value
        if size == ctypes.sizeof(_Ticks) and all(getattr(binary, name) for name in _FUNCTIONS):
            binary.page_flags.restype = ctypes.c_longlong
            return binary
    except (OSError, ValueError, AttributeError) as error:
        why = str(error).removeprefix(f"{path}: ")
    raise NotBuilt(f"{path}: {why}; `pip install .` in the checkout builds it")


Reading = tuple[bytes | None, ...]
"""What the files said at one tick; None of one that could not be read."""


class Ticks:
    """Ticks of one look; whoever opened the files closes them behind it."""

    def __init__(
        self,
        files: Sequence[int] = (),
        *,
        begins: Sequence[int] = (),
        every: int = 1,
        pidfd: int = -1,
        take: Callable[[Reading], None] = lambda _: None,
    ) -> None:
        """At every so many ticks the files are read, at most 8 KiB from where each begins; `pidfd`
        is of the process whose end is the end. `take` gets each reading, when many are there or at
        `hand_over`."""
        self.readings: list[Reading] = []
        """Those that are not handed over."""
        self._take = take
        self._files = (ctypes.c_int * len(files))(*files)
        self._begins = (ctypes.c_longlong * len(files))(*begins)
        self._text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._texts: list[bytes] = []
        self._known = ctypes.create_string_buffer(_KNOWN_MAX * _TEXT_BYTES)
        self._counts = (ctypes.c_longlong * _KNOWN_MAX)()
        self._state = _Ticks(
            known=ctypes.addressof(self._known), counts=ctypes.addressof(self._counts),
            text=ctypes.addressof(self._text), files=ctypes.addressof(self._files),
            begins=ctypes.addressof(self._begins),
            pidfd=pidfd, file_count=len(files), every=every,
        )  # fmt: skip

    def read(self) -> None:
        """The files now, beside the ticks."""
        self._state.since = self._state.every - 1
        self.run(1, 0.0, (), lambda _, __: True)

    def run(
        self, count: int, wait_s: float, threads: Sequence[int], ask: Callable[[int, bytes], bool]
    ) -> bool:
        """So many ticks, each after a wait; False if the process ends. `threads` are descriptors of
        wchan, an equal number for each tick, -1 for one that is passed over. `ask` gets the place
        of a thread and what its wchan says, and answers whether the same may be counted from here
        on."""
        state, files = self._state, self._state.file_count
        wchans = (ctypes.c_int * len(threads))(*threads)
        reads = count // state.every + 1
        contents = (ctypes.c_char * (reads * files * _CONTENT_BYTES))()
        lengths = (ctypes.c_int * (reads * files))()
        state.threads, state.contents = ctypes.addressof(wchans), ctypes.addressof(contents)
        state.lengths = ctypes.addressof(lengths)
        state.wait_ns, state.until_ns = round(wait_s * 1e9), 0
        state.count, state.at, state.at_once = count, 0, len(threads) // count
        state.thread, state.reads = -1, 0
        tick = library().tick
        while (pause := tick(ctypes.byref(state))) not in (Pause.DONE, Pause.ENDED):
            if pause == Pause.ASKS:
                text, of = self._text.value, state.at * state.at_once + state.thread - 1
                if ask(of, text) and state.known_count < _KNOWN_MAX:
                    self._know(text)
        for at in range(0, state.reads * files, files or 1):
            self.readings.append(
                tuple(
                    contents[i * _CONTENT_BYTES : i * _CONTENT_BYTES + lengths[i]]
                    if lengths[i] >= 0
                    else None
                    for i in range(at, at + files)
                )
            )
        if len(self.readings) >= _READINGS_MAX:
            self.hand_over()
        return bool(pause == Pause.DONE)

    def hand_over(self) -> None:
        """The readings so far."""
        for one in self.readings:
            self._take(one)
        self.readings.clear()

    def _know(self, text: bytes) -> None:
        place = len(self._texts) * _TEXT_BYTES
        ctypes.memmove(ctypes.addressof(self._known) + place, text, len(text))
        self._texts.append(text)
        self._state.known_count += 1

    def counted(self) -> Iterator[tuple[bytes, int]]:
        """How often each text was read that was not asked about."""
        return zip(self._texts, self._counts, strict=False)
