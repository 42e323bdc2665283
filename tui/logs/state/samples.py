"""Batches of samples for the table of cores, as columns with a row for each line with a step, a loss or a rate."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tui.logs._compat_numpy import Floats, Ints, np, npt
from tui.logs.core_row import HAS_GLOBAL_RATE, HAS_LOSS, HAS_RATE
from tui.logs.packed_digits import Figures, clock_seconds

CLOCK_BYTES = 24
"""The length of the longest clock that a dialect reads, `Wed Dec  4 01:41:29 2019`."""

ALL_KNOWN = HAS_LOSS | HAS_RATE | HAS_GLOBAL_RATE


@dataclass(eq=False)
class Samples:
    """A batch of samples as columns, in arrival order. -1 and NaN are unknown, as in `Snapshot`."""

    slot: Ints
    core: Ints
    device: Ints
    epoch: Ints
    step: Ints
    loss: Figures
    rate: Figures
    global_rate: Figures
    known: npt.NDArray[np.uint8]
    clock: npt.NDArray[np.bytes_]
    time: Floats
    time_kind: npt.NDArray[np.uint8]
    seen: Floats
    rate_kind: npt.NDArray[np.uint8]
    """What `rate` counts, for a core or the whole job (`RateKind`)."""
    offset: Ints
    """The byte at which the line begins in its log; -1 unknown."""

    def __len__(self) -> int:
        return len(self.slot)

    def part(self, places: Any) -> Samples:
        """Return some of the samples, by a slice or by an array of indices."""
        return Samples(*(getattr(self, name)[places] for name in SAMPLE_FIELDS))

    def clocks(self) -> Floats:
        """Return each sample's clock in seconds of the day, NaN unknown."""
        return clock_seconds(self.clock.view(np.uint64).reshape(len(self), -1)[:, 0])


SAMPLE_FIELDS = tuple(field.name for field in fields(Samples))

TABLE_FIELDS = tuple(name for name in SAMPLE_FIELDS if name not in ("slot", "core", "device", "offset"))
"""Fields of a row's newest sample that the table keeps."""

SAMPLE_TYPES: dict[str, Any] = {
    "slot": np.int64, "core": np.int64, "device": np.int64, "epoch": np.int64, "step": np.int64,
    "loss": np.float64, "rate": np.float64, "global_rate": np.float64, "known": np.uint8,
    "clock": f"S{CLOCK_BYTES}", "time": np.float64, "time_kind": np.uint8, "seen": np.float64,
    "rate_kind": np.uint8, "offset": np.int64,
}  # fmt: skip


Record = tuple[int, int, int, int, int, float, float, float, int, bytes, float, int, float, int, int]
"""One sample, in the order of `Samples`' fields."""


def samples_from(records: list[Record]) -> Samples:
    """Return a batch of single samples."""
    columns = zip(*records, strict=True)
    arrays = (np.array(column, SAMPLE_TYPES[name]) for name, column in zip(SAMPLE_FIELDS, columns, strict=True))
    return Samples(*arrays)
