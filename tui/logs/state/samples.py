"""Batches of samples for the table of cores, as columns: a row for each line with a step, a loss or a rate."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from tui.logs._compat_numpy import np, npt, places_of
from tui.logs.snapshot import HAS_GLOBAL_RATE, HAS_LOSS, HAS_RATE, LOG_TIME, NO_TIME, UNKNOWN, WALL_TIME
from tui.logs.state.rate_kinds import RateKind
from tui.logs.vectorized.packed_digits import LOSS_DECIMALS, RATE_DECIMALS, Words, clock_seconds, decimal

CLOCK_BYTES = 24
"""Room for the longest clock a dialect prints, `Wed Dec  4 01:41:29 2019`."""

ALL_KNOWN = HAS_LOSS | HAS_RATE | HAS_GLOBAL_RATE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(eq=False)
class Samples:
    """A batch of samples as columns, in arrival order. -1 and NaN are unknown, as in `Snapshot`."""

    slot: Ints
    core: Ints
    device: Ints
    epoch: Ints
    step: Ints
    loss: Floats
    rate: Floats
    global_rate: Floats
    known: npt.NDArray[np.uint8]
    clock: npt.NDArray[np.bytes_]
    time: Floats
    time_kind: npt.NDArray[np.uint8]
    seen: Floats
    rate_kind: npt.NDArray[np.uint8]
    """What `rate` counts, and whose it is (`RateKind`)."""
    offset: Ints
    """Where the line begins in its stream, in bytes; -1 unknown."""

    def __len__(self) -> int:
        return len(self.slot)

    def part(self, places: Any) -> Samples:
        """Return some of the samples: a slice or an array of places."""
        return Samples(*(getattr(self, name)[places] for name in SAMPLE_FIELDS))

    def parse(self) -> Samples:
        """Return the samples with all columns and all numbers."""
        return self

    def losses_and_rates(self, places: Ints) -> tuple[Floats, Floats]:
        """Return losses and rates of some samples as numbers."""
        return self.loss[places], self.rate[places]

    def clocks(self) -> Floats:
        """Return each sample's clock in seconds of the day, NaN unknown."""
        return clock_seconds(self.clock.view(np.uint64).reshape(len(self), -1)[:, 0])

    def known_rates(self) -> tuple[Ints | None, Floats | Words]:
        """Return the rates of samples that have one, and which samples these are (None: all)."""
        has_rate = (self.known & HAS_RATE) > 0
        return (None, self.rate) if has_rate.all() else (places_of(has_rate), self.rate[has_rate])


SAMPLE_FIELDS = tuple(each.name for each in fields(Samples))

TABLE_FIELDS = tuple(name for name in SAMPLE_FIELDS if name not in ("slot", "core", "device", "offset"))
"""What the table keeps of a row's newest sample."""

SAMPLE_TYPES: dict[str, Any] = {
    "slot": np.int64, "core": np.int64, "device": np.int64, "epoch": np.int64, "step": np.int64,
    "loss": np.float64, "rate": np.float64, "global_rate": np.float64, "known": np.uint8,
    "clock": f"S{CLOCK_BYTES}", "time": np.float64, "time_kind": np.uint8, "seen": np.float64,
    "rate_kind": np.uint8, "offset": np.int64,
}  # fmt: skip


@dataclass(eq=False)
class UnparsedSamples:
    """A batch of samples from plain training lines; losses and rates are digits still, a byte each (see `decimal`).

    Most samples of a long log are superseded within their batch: turning only the last ones into numbers saves a
    tenth of reading it.
    """

    core: Ints
    device: Ints
    epoch: Ints
    step: Ints
    loss: Words
    rate: Words
    global_rate: Words
    clock: Words
    """The eight bytes of the clock."""
    slot: Ints = field(init=False)
    time: Floats = field(init=False)
    seen: Floats = field(init=False)
    """These three come from the lines' prefixes, once those have been read."""

    def __len__(self) -> int:
        return len(self.core)

    def part(self, places: Any) -> UnparsedSamples:
        """Return some of the samples: a slice or an array of places."""
        part = UnparsedSamples.__new__(UnparsedSamples)
        part.__dict__.update({name: column[places] for name, column in self.__dict__.items()})
        return part

    def set_source(self, slot: Ints, time: Floats, seen: Floats) -> None:
        """Set the slot and the times of each sample."""
        self.slot, self.time, self.seen = slot, time, seen

    def losses_and_rates(self, places: Ints) -> tuple[Floats, Floats]:
        """Return losses and rates of some samples as numbers."""
        loss, rate = decimal(np.stack((self.loss[places], self.rate[places])), _DECIMALS[:2])
        return loss, rate

    def clocks(self) -> Floats:
        """Return each sample's clock in seconds of the day, NaN unknown."""
        return clock_seconds(self.clock)

    def known_rates(self) -> tuple[Ints | None, Floats | Words]:
        """Return the rates, still as digits (see `rates_from`), of all samples."""
        return None, self.rate

    def parse(self) -> Samples:
        """Return the samples with all columns and all numbers."""
        size = len(self)
        clock = np.zeros(size, f"S{CLOCK_BYTES}")
        clock.view(np.uint64).reshape(size, CLOCK_BYTES // 8)[:, 0] = self.clock
        loss, rate, global_rate = decimal(np.stack((self.loss, self.rate, self.global_rate)), _DECIMALS)
        kind = np.where(np.isnan(self.time), NO_TIME, LOG_TIME)
        return Samples(
            slot=self.slot,
            core=self.core,
            device=self.device,
            epoch=self.epoch,
            step=self.step,
            loss=loss,
            rate=rate,
            global_rate=global_rate,
            known=np.full(size, ALL_KNOWN, np.uint8),
            clock=clock,
            time=self.time,
            time_kind=np.where(np.isnan(self.seen), kind, WALL_TIME).astype(np.uint8),
            seen=self.seen,
            rate_kind=np.full(size, RateKind.EXAMPLES, np.uint8),
            offset=np.full(size, UNKNOWN, np.int64),
        )


_DECIMALS = np.array([[LOSS_DECIMALS], [RATE_DECIMALS], [RATE_DECIMALS]])


def rates_from(rates: Floats | Words) -> Floats:
    """Return rates as numbers, from numbers or from a plain line's digits."""
    return decimal(rates.view(np.uint64), RATE_DECIMALS) if rates.dtype == np.uint64 else rates.view(np.float64)


Record = tuple[int, int, int, int, int, float, float, float, int, bytes, float, int, float, int, int]
"""One sample, in the order of `Samples`' fields."""


def samples_from(records: list[Record]) -> Samples:
    """Return a batch of single samples."""
    columns = zip(*records, strict=True)
    arrays = (np.array(column, SAMPLE_TYPES[name]) for name, column in zip(SAMPLE_FIELDS, columns, strict=True))
    return Samples(*arrays)
