"""The rows of the per-core view and other small records of a snapshot, and their JSON."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tui.text.numbers import significant

UNKNOWN = -1
"""In integer columns: not in the log."""

HAS_LOSS, HAS_RATE, HAS_GLOBAL_RATE = 1, 2, 4
"""Bits of `Snapshot.known`: a NaN whose bit is set was printed as `nan`, one whose bit is not set is unknown."""


class FirstNan(NamedTuple):
    """The first non-finite loss of a core since its loss was last finite; None is unknown.

    `offset` says where its line begins in the log of `worker` (a saved log: in the file, unpacked), in bytes; text
    that a carriage return redraws is a line of its own. Of a sample on several lines it is the last one's.
    """

    epoch: int | None
    step: int | None
    time: str | None
    worker: int | None
    offset: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the place as `cores --json` prints it."""
        return self._asdict()

    def __str__(self) -> str:
        """Return `epoch 1 step 60`, as far as it is known."""
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
    """What `rate` counts in a second: `examples/s`, `it/s` or `tokens/s`."""
    pace: float | None = None
    """Its own rate as a share of the median core's, over its newest few samples."""
    first_nan: FirstNan | None = None
    """Where its loss became no finite number; it stays when the loss is finite again, which `state` shows."""

    def to_json(self) -> dict[str, Any]:
        """Return the row that `cores --json` prints (names are stable); non-finite numbers become strings."""
        row = {name: json_number(value) for name, value in self._asdict().items()}
        return row | {"first_nan": self.first_nan.to_json() if self.first_nan else None}


class Spread(NamedTuple):
    """Median, smallest and largest of the cores' newest values; NaNs are left out."""

    median: float
    min: float
    max: float

    def to_json(self) -> dict[str, Any]:
        """Return the three numbers as `status --json` prints them."""
        return {name: json_figure(value) for name, value in self._asdict().items()}


class EpochSummary(NamedTuple):
    """What the job itself printed about one epoch. Accuracies in per cent, times in seconds, rates in examples/s."""

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
    """What is known about one worker; `worker` is None where lines name none."""

    worker: int | None
    address: str | None
    lines: int
    samples: int
    cores: int
    """Rows of the per-core view that live on it."""
    last_seen: float | None
    """UTC seconds of its newest line, where known."""
    ended: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the worker as reports print it."""
        return {
            "worker": self.worker,
            "address": self.address,
            "lines": self.lines,
            "samples": self.samples,
            "cores": self.cores,
            "ended": self.ended,
        }


def optional_int(value: Any) -> int | None:
    """Return a column's integer; None if unknown."""
    number = int(value)
    return None if number == UNKNOWN else number


def json_number(value: Any) -> Any:
    """Return a value for JSON: non-finite floats become `"nan"`, `"inf"`, `"-inf"`."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def json_figure(value: Any) -> Any:
    """Return a computed value for JSON, as `json_number`, without the digits of binary arithmetic."""
    return json_number(significant(value) if isinstance(value, float) else value)
