"""Find the steps of samples without one in the progress bar that their trainer redraws right below."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from tui.logs.dialects.catalogue_files import expand_parts
from tui.logs.dialects.dialect import Dialect
from tui.logs.files.log_stream import LogStream

_LONGEST_WAIT_S = 1.0
"""Seconds for which a sample is held if no other line comes."""
_MOST_MISSES = 3
"""Consecutive samples without a bar below them, after which no sample of that worker is held."""


class HeldSample(NamedTuple):
    """A sample: its stream, dialect and values, its slot and date, and the time of its arrival."""

    stream: LogStream
    dialect: Dialect
    values: Mapping[str, bytes]
    where: tuple[int, float | None]
    now: float | None


class StepBars:
    """Holds a worker's sample until its next line: if that is a bar, it shows the step of the sample.

    A bar above the sample may be older, because tqdm skips redraws when steps are fast. Samples that arrive in
    bursts, from a separate buffer, have no bar below them.
    """

    def __init__(self) -> None:
        self._held: dict[int, HeldSample] = {}
        """By slot."""
        self._misses: Counter[int] = Counter()
        self._totals: dict[int, bytes] = {}
        """The total of each worker's newest bar, by slot: a bar with another total may be an evaluation's."""

    @property
    def is_waiting(self) -> bool:
        """Return whether a sample is held."""
        return bool(self._held)

    def add(self, sample: HeldSample) -> list[HeldSample]:
        """Hold a sample; return those that are not held: an earlier one, or this one if no bar is expected."""
        slot = sample.where[0]
        if self._misses[slot] >= _MOST_MISSES:
            return [sample]
        before, self._held[slot] = self._held.get(slot), sample
        return [] if before is None else [before]

    def take(self, slot: int, line: bytes) -> list[HeldSample]:
        """Return the held sample of a worker, whose next line came; a blank line does not count."""
        if slot not in self._held or not line.strip():
            return []
        bar = _bar().match(line)
        self._misses[slot] = 0 if bar is not None else self._misses[slot] + 1
        return [self._pop(slot, bar)]

    def _pop(self, slot: int, bar: re.Match[bytes] | None) -> HeldSample:
        """Return the held sample of a worker, with the step that the bar below shows, if there is one."""
        sample = self._held.pop(slot)
        if bar is None:
            return sample
        values = {name: value for name, value in bar.groupdict().items() if value is not None}
        before, self._totals[slot] = self._totals.get(slot), values["printed_steps"]
        is_same = before in (None, values["printed_steps"])
        return sample._replace(values={**values, **sample.values}) if is_same else sample

    def finish(self, slot: int | None) -> list[HeldSample]:
        """Return the held sample of a worker (None: of all workers), since no other line will come."""
        return [self._held.pop(held) for held in [*self._held] if slot in (None, held)]

    def expire(self, now: float) -> list[HeldSample]:
        """Return the samples that have been held for too long; a bar ends only when it is redrawn, a step later."""
        late = {slot: sample for slot, sample in self._held.items() if now - (sample.now or 0.0) > _LONGEST_WAIT_S}
        return [self._pop(slot, _bar().match(b"".join(sample.stream.held))) for slot, sample in late.items()]


@cache
def _bar() -> re.Pattern[bytes]:
    """Return the pattern of a tqdm bar without other text."""
    return re.compile(
        expand_parts(
            rb"\s{0,8}\d{1,3}%\|[^|\n]{0,1000}\| (?&STEP)/(?P<printed_steps>\d{1,12}) "
            rb"\[(?&BAR_RATE)[^\]\n]{1,80}\]\s{0,8}$"
        )
    )
