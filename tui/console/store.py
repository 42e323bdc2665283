"""What the sources last said, and since when: the one thing between them and the screens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tui.errors import TpuTuiError


@dataclass(frozen=True)
class Reading:
    """A source's last answer. `at` is when it came (monotonic seconds), `problems` what it could not tell."""

    value: Any = None
    at: float | None = None
    problems: tuple[TpuTuiError, ...] = ()
    busy: str = ""
    """What is being done right now, in words; empty when nothing is."""
    revision: int = 0

    def age(self, now: float) -> float | None:
        """Seconds since the value came; None where none ever did."""
        return None if self.at is None else now - self.at


class Store:
    """Readings by name. A failing source keeps its last value, with its age and its problem."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._readings: dict[str, Reading] = {}

    def get(self, name: str) -> Reading:
        """The last reading; an empty one where nothing was ever read."""
        return self._readings.get(name) or Reading()

    def _put(self, name: str, reading: Reading) -> None:
        self._readings[name] = replace(reading, revision=self.get(name).revision + 1)

    def tell(self, name: str, value: Any, problems: tuple[TpuTuiError, ...] = (), *, busy: str = "") -> None:
        """A source answered."""
        self._put(name, Reading(value, self.clock(), problems, busy))

    def fail(self, name: str, problem: TpuTuiError) -> None:
        """A source failed: the old value stays and grows old."""
        self._put(name, replace(self.get(name), problems=(problem,), busy=""))

    def busy(self, name: str, what: str) -> None:
        """A source is at work; an empty text says that it is not any more."""
        if self.get(name).busy != what:
            self._put(name, replace(self.get(name), busy=what))
