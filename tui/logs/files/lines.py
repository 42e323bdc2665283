"""Split bytes into whole lines with their offsets, to show and copy logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from tui.logs.log_time import LOG_TIME, WALL_TIME, format_time

LONGEST_LINE_BYTES = 1024 * 1024
"""A longer line is handed out in pieces of this many bytes."""

ESCAPE = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Escape sequences for colours and titles."""


def without_escapes(text: bytes) -> bytes:
    """Return the text without escape sequences for colours and titles."""
    return ESCAPE.sub(b"", text) if b"\x1b" in text else text


_GLUED = re.compile(rb"(?<=it/s\]|s/it\])(?=[A-Z{\[\t]|(?:epoch|step|iter|train)(?![a-z]))")
"""Where a bar of tqdm ends right before other text, without a line end between them."""


def segments_of(line: bytes) -> list[bytes]:
    """Return the successive texts of one line: redrawn ones, and text right after a progress bar.

    syslog writes a backspace, a carriage return and an escape as `#010`, `#015` and `#033`.
    """
    if b"#0" in line:
        line = line.replace(b"#010", b"\b").replace(b"#015", b"\r").replace(b"#033", b"\x1b")
    segments = line.split(b"\r") if b"\r" in line else [line]
    if b"it/s]" not in line and b"s/it]" not in line:
        return segments
    return [text for segment in segments for text in _GLUED.split(segment)]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log; `offset` is where it begins, in bytes, `time` when it arrived (Unix time)."""

    is_wall_time: ClassVar[bool] = True
    """Whether `time` is Unix time; otherwise it is the log's own, without an offset."""

    worker: int | None
    offset: int
    time: float | None
    data: bytes
    """The line without its end."""

    @property
    def text(self) -> str:
        """Return the line as text with invalid UTF-8 replaced; it is not safe for a terminal."""
        return self.data.decode("utf-8", "replace")

    def to_json(self) -> dict[str, Any]:
        """Return the line as `attach --json` and `logs --json` print it."""
        kind = WALL_TIME if self.is_wall_time else LOG_TIME
        moment = None if self.time is None else format_time(self.time, kind)
        return {"worker": self.worker, "offset": self.offset, "time": moment, "text": self.text}


class Cutter:
    """Cuts chunks of bytes into lines without their ends, with the offset of each."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        """Where the next line begins."""
        self._held: list[bytes] = []
        self._size = 0

    def cut(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that this chunk completes."""
        first, newline, rest = data.partition(b"\n")
        self._held.append(first)
        self._size += len(first)
        if newline:
            yield from self._give(1)
            for line in rest.split(b"\n")[:-1]:
                yield self.offset, line
                self.offset += len(line) + 1
            last = rest[rest.rfind(b"\n") + 1 :]
            self._held, self._size = [last], len(last)
        while self._size > LONGEST_LINE_BYTES:
            text = b"".join(self._held)
            yield self.offset, text[:LONGEST_LINE_BYTES]
            self.offset += LONGEST_LINE_BYTES
            self._held, self._size = [text[LONGEST_LINE_BYTES:]], len(text) - LONGEST_LINE_BYTES

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """Yield the last line if it has no line end."""
        if self._size:
            yield from self._give(0)

    def _give(self, end: int) -> Iterator[tuple[int, bytes]]:
        line = b"".join(self._held)
        yield self.offset, line
        self.offset += len(line) + end
        self._held, self._size = [], 0


@lru_cache(maxsize=64)
def _core_pattern(core: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:Device=xla:\d{1,4}/%d(?!\d)|\[xla:\d{1,4}/%d\]|\[xla:%d\])" % (core, core, core))


def names_core(line: bytes, core: int) -> bool:
    """Return whether a line names the core with this ordinal."""
    return _core_pattern(core).search(line) is not None
