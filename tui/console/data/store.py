"""The last answer of each source, and its age. Sources write to the store, screens read from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tui.errors import TpuTuiError

Value = TypeVar("Value")


@dataclass(frozen=True)
class DataSource(Generic[Value]):
    """A source's name, and by its type what it answers."""

    name: str


@dataclass(frozen=True)
class SourceReading(Generic[Value]):
    """A source's last answer. `at` is its time (monotonic seconds), `problems` are the errors."""

    value: Value | None = None
    at: float | None = None
    problems: tuple[TpuTuiError, ...] = ()
    busy: str = ""
    """What the source is doing right now, as text; empty when it is idle."""
    notes: tuple[str, ...] = ()
    """What is missing from the answer, although nothing failed."""
    revision: int = 0

    def age(self, now: float) -> float | None:
        """Return the seconds since the value came; None before the first one."""
        return None if self.at is None else now - self.at


class Store:
    """The newest readings. A failing source keeps its last value, with its age and its problem."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._readings: dict[DataSource[Any], SourceReading[Any]] = {}

    def get(self, source: DataSource[Value]) -> SourceReading[Value]:
        """Return the last reading; an empty one before the first."""
        return self._readings.get(source) or SourceReading()

    def _set(self, source: DataSource[Value], reading: SourceReading[Value]) -> None:
        self._readings[source] = replace(reading, revision=self.get(source).revision + 1)

    def put(
        self,
        source: DataSource[Value],
        value: Value,
        problems: tuple[TpuTuiError, ...] = (),
        *,
        busy: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        """Store a source's answer."""
        self._set(source, SourceReading(value, self.clock(), problems, busy, notes))

    def drop(self, source: DataSource[Any]) -> None:
        """Forget all that a source answered."""
        self._readings.pop(source, None)

    def fail(self, source: DataSource[Any], problem: TpuTuiError) -> None:
        """Store a source's failure. The old value stays, with its age."""
        self._set(source, replace(self.get(source), problems=(problem,), busy=""))

    def set_busy(self, source: DataSource[Any], what: str) -> None:
        """Set what a source is doing; an empty text when it is done."""
        if self.get(source).busy != what:
            self._set(source, replace(self.get(source), busy=what))
