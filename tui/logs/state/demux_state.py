"""Everything that the demultiplexer knows, in one plain object that its readers share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.logs.state.core_table import CoreTable
from tui.logs.state.epoch_book import EpochBook
from tui.logs.state.line_counts import LineCounts, LogSource
from tui.logs.state.sample_queue import SampleQueue
from tui.logs.state.samples import Record
from tui.logs.state.stragglers import CoreThresholds

MOST_SOURCES = 8192
"""Most sources that are distinguished: four times the workers of the largest pod."""

AT_THE_END = frozenset({"total_train_time", "average_global_rate"})
"""Names of facts that a job prints at its end."""

_NAN = float("nan")


@dataclass(eq=False)
class DemuxState:
    """Sources of lines, the table of cores, samples queued for it, epochs, facts and counters.

    A `slot` is the index of a source in `sources`.
    """

    thresholds: CoreThresholds
    table: CoreTable
    queue: SampleQueue = field(init=False)
    counts: LineCounts = field(default_factory=LineCounts)
    sources: list[LogSource] = field(default_factory=list)
    epochs: EpochBook = field(default_factory=EpochBook)
    facts: dict[str, Any] = field(default_factory=dict)
    matched: dict[str, int] = field(default_factory=dict)
    """The number of lines that each dialect has matched."""
    lines: int = 0
    bytes: int = 0
    samples: int = 0
    overlong: int = 0
    """Lines too long to be read whole."""
    first_moment: float = _NAN
    last_moment: float = _NAN
    stragglers: tuple[Sequence[int], Sequence[int]] = ((), ())
    """Rows that were behind and rows that were slow when all sources were last read equally far."""
    _slots: dict[tuple[int | None, str | None], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queue = SampleQueue(self.table)

    def slot_for(self, number: int | None, address: str | None) -> int:
        """Return the slot of a worker with this number and address, making it if it is new."""
        key = (number, address)
        slot = self._slots.get(key)
        if slot is None:
            if len(self.sources) >= MOST_SOURCES:
                return self._slots.get((None, None), 0)
            slot = self._slots[key] = len(self.sources)
            self.sources.append(LogSource(number, address))
        return slot

    def slot_or_unnamed(self, slot: int | None) -> int:
        """Return the slot; for None, the slot of lines that name no worker."""
        return self.slot_for(None, None) if slot is None else slot

    def add_sample(self, record: Record) -> None:
        """Add a sample of the current line."""
        self.queue.add(record)
        self.samples += 1
        self.sources[record[0]].samples += 1

    def count_match(self, dialect: str, lines: int = 1) -> None:
        """Count lines that a dialect has matched."""
        self.matched[dialect] = self.matched.get(dialect, 0) + lines

    def add_moments(self, first: float, last: float) -> None:
        """Extend the time span of the dates in the log."""
        if not first >= self.first_moment:
            self.first_moment = first
        if not last <= self.last_moment:
            self.last_moment = last

    def restart(self) -> None:
        """Note that the job was restarted on all workers: earlier samples are not compared with later ones."""
        self.queue.flush()
        self.stragglers = (), ()
        self.table.restart(self.epochs.offset)
        self.epochs.restart()
        self.facts = {name: value for name, value in self.facts.items() if name not in AT_THE_END}
