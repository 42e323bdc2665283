"""What the sources last said, and since when: the one thing between them and the screens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tui.errors import TpuTuiError

Value = TypeVar("Value")


@dataclass(frozen=True)
class DataSource(Generic[Value]):
    """What a source is called, and by its type what it answers."""

    name: str


@dataclass(frozen=True)
class SourceReading(Generic[Value]):
    """A source's last answer. `at` is when it came (monotonic seconds), `problems` what it could not tell."""

    value: Value | None = None
    at: float | None = None
    problems: tuple[TpuTuiError, ...] = ()
    busy: str = ""
    """What is being done right now, in words; empty when nothing is."""
    revision: int = 0

    def age(self, now: float) -> float | None:
        """Seconds since the value came; None where none ever did."""
        return None if self.at is None else now - self.at


class Store:
    """The newest readings. A failing source keeps its last value, with its age and its problem."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._readings: dict[DataSource[Any], SourceReading[Any]] = {}

    def get(self, source: DataSource[Value]) -> SourceReading[Value]:
        """The last reading; an empty one where nothing was ever read."""
        return self._readings.get(source) or SourceReading()

    def _set(self, source: DataSource[Value], reading: SourceReading[Value]) -> None:
        self._readings[source] = replace(reading, revision=self.get(source).revision + 1)

    def put(
        self, source: DataSource[Value], value: Value, problems: tuple[TpuTuiError, ...] = (), *, busy: str = ""
    ) -> None:
        """A source answered."""
        self._set(source, SourceReading(value, self.clock(), problems, busy))

    def fail(self, source: DataSource[Any], problem: TpuTuiError) -> None:
        """A source failed: the old value stays and grows old."""
        self._set(source, replace(self.get(source), problems=(problem,), busy=""))

    def set_busy(self, source: DataSource[Any], what: str) -> None:
        """A source is at work; an empty text says that it is not any more."""
        if self.get(source).busy != what:
            self._set(source, replace(self.get(source), busy=what))
