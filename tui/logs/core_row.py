"""The rows of the per-core view and other records of a snapshot, and their JSON."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tui.text.numbers import round_figure

UNKNOWN = -1
"""In integer columns: the log does not say."""

HAS_LOSS, HAS_RATE, HAS_GLOBAL_RATE = 1, 2, 4
"""Bits of `Snapshot.known`: a NaN whose bit is set was printed as `nan`; without the bit, the value is unknown."""


class FirstNan(NamedTuple):
    """The first non-finite loss of a core since its loss was last finite; None is unknown.

    `offset` is the byte at which its line begins in the log of `worker` (of a saved log: in the unpacked file). Text
    after a carriage return counts as another line. For a sample on several lines, it is the offset of the last.
    """

    epoch: int | None
    step: int | None
    time: str | None
    worker: int | None
    offset: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the record as `cores --json` prints it."""
        return self._asdict()

    def __str__(self) -> str:
        """Return `epoch 1 step 60` without what is unknown; `unknown` if both are."""
        parts = (("epoch", self.epoch), ("step", self.step))
        return " ".join(f"{name} {value}" for name, value in parts if value is not None) or "unknown"


class CoreRow(NamedTuple):
    """One row of the per-core view; None is unknown. `lag` is in steps behind the median, negative when ahead."""

    core: int | None
    device: str | None
    worker: int | None
    address: str | None
    epoch: int | None
    step: int | None
    loss: float | None
    rate: float | None
    global_rate: float | None
    time: str | None
    clock: str | None
    lag: int | None
    state: str
    rate_unit: str | None = None
    """The unit of `rate`: `examples/s`, `it/s` or `tokens/s`."""
    pace: float | None = None
    """The core's rate as a share of the median core's, over its newest few samples."""
    first_nan: FirstNan | None = None
    """Where the loss became non-finite; the record stays once the loss is finite again, as `state` shows."""

    def to_json(self) -> dict[str, Any]:
        """Return the row that `cores --json` prints (names are stable); non-finite numbers become strings."""
        row = {name: json_number(value) for name, value in self._asdict().items()}
        return row | {"first_nan": self.first_nan.to_json() if self.first_nan else None}


class Spread(NamedTuple):
    """Median, smallest and largest of the cores' newest values, without NaNs."""

    median: float
    min: float
    max: float

    def to_json(self) -> dict[str, Any]:
        """Return the three numbers as `status --json` prints them."""
        return {name: json_figure(value) for name, value in self._asdict().items()}


class EpochSummary(NamedTuple):
    """What the job printed about an epoch: accuracies in per cent, times in seconds, rates in examples/s."""

    epoch: int
    train_began: str | None = None
    train_ended: str | None = None
    seconds: float | None = None
    replica_samples: int | None = None
    reduced_global_rate: float | None = None
    test_ended: str | None = None
    accuracy: float | None = None
    replica_accuracy: float | None = None
    replica_test_samples: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the epoch as reports print it."""
        return {name: json_number(value) for name, value in self._asdict().items()}


class WorkerFacts(NamedTuple):
    """What is known about one worker; `worker` is None for lines that name no worker."""

    worker: int | None
    address: str | None
    lines: int
    samples: int
    cores: int
    """Rows of the per-core view that are on this worker."""
    last_seen: float | None
    """UTC seconds of its newest line, where known."""
    ended: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the worker as reports print it."""
        document = self._asdict()
        del document["last_seen"]
        return document


def optional_int(value: Any) -> int | None:
    """Return an integer of a column; None if unknown."""
    number = int(value)
    return None if number == UNKNOWN else number


def json_number(value: Any) -> Any:
    """Return a value for JSON: non-finite floats become `"nan"`, `"inf"`, `"-inf"`."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def json_figure(value: Any) -> Any:
    """Return a computed value for JSON as `json_number` does, without the noise digits of binary arithmetic."""
    return json_number(round_figure(value) if isinstance(value, float) else value)
