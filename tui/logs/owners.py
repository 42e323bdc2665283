"""Which worker said a line of a log that several wrote into: by xla_dist's prefix, or by another tool's label."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.logs.carriers import read_carrier
from tui.logs.lines import without_escapes
from tui.logs.prefix import read_prefix

if TYPE_CHECKING:
    from tui.logs.demux import Demux


@dataclass(frozen=True)
class Owners:
    """What a log that has been read through tells about who says its lines."""

    numbers: Mapping[tuple[int | None, str | None], int]
    """The worker of each (number, address) that lines name."""
    labels: Collection[bytes] = ()
    """Hosts and tasks that stood before samples."""
    xla_dist: bool = False
    carried: bool = False
    """Whether tools other than xla_dist have put labels before lines."""

    @classmethod
    def learned(cls, demux: Demux, *, xla_dist: bool) -> Owners:
        """What a demultiplexer has learned from the whole log."""
        from tui.logs.snapshot import UNKNOWN
        from tui.logs.view import worker_numbers

        numbers = worker_numbers(demux).tolist()
        known = {(s.number, s.address): n for s, n in zip(demux.slots, numbers, strict=True) if n != UNKNOWN}
        return cls(known, demux.labels(), xla_dist, demux.is_carried)

    def read(self, line: bytes) -> tuple[int | None, float | None]:
        """The worker that said a line (None: nobody named), and the line's own date and time (None: it has none)."""
        prefix = read_prefix(line, self.xla_dist)
        if prefix is not None:
            key = (prefix.number, prefix.address)
            return None if prefix.own else self.numbers.get(key, prefix.number), prefix.moment
        carrier = read_carrier(without_escapes(line), self.labels) if self.carried else None
        if carrier is None:
            return None, None
        return self.numbers.get((carrier.number, carrier.address), carrier.number), None
