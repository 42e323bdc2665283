"""The steps of samples that print none, from the progress bar that their trainer draws again right below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tui.logs.dialects.dialect import Dialect


class HeldSample(NamedTuple):
    """A sample without a step: its dialect and values, its slot and date, and when it came."""

    dialect: Dialect
    values: Mapping[str, bytes]
    where: tuple[int, float | None]
    now: float | None

    def beside(self, bar: Mapping[str, bytes]) -> HeldSample:
        """Return the sample with the step and the pace that a bar shows."""
        return self._replace(values={**bar, **self.values})


@dataclass(slots=True)
class _Bar:
    """A worker's progress bar, and the sample that was printed since it was drawn."""

    drawn: Mapping[str, bytes]
    """Its values when it was drawn last."""
    held: HeldSample | None = None
    is_steady: bool = False
    """Whether it showed the same step above the last sample as below: then it is drawn at every step."""
    is_apart: bool = False
    """Whether samples come in bursts, from a buffer of their own: no bar is drawn between them then."""


class StepBars:
    """Holds a worker's sample until its bar is drawn again: that shows the step at which the sample was printed.

    The bar drawn before it may be older, because tqdm skips drawings when steps are fast. Where no bar was
    drawn, nothing is held.
    """

    def __init__(self) -> None:
        self._bars: dict[int, _Bar] = {}
        """By slot."""

    def add_sample(self, sample: HeldSample) -> list[HeldSample]:
        """Return the samples that need not wait, or no longer."""
        bar = self._bars.get(sample.where[0])
        if bar is None or bar.is_apart:
            return [sample]
        if bar.held is None:
            bar.held = sample
            return []
        held, bar.held, bar.is_apart = bar.held, None, True
        return [held, sample]

    def draw(self, slot: int, values: Mapping[str, bytes]) -> list[HeldSample]:
        """Return the held sample, with the step and the pace of a bar that was drawn unless it is another's."""
        bar = self._bars.setdefault(slot, _Bar(values))
        held, bar.held = bar.held, None
        above, bar.drawn = bar.drawn, values
        if held is None:
            return []
        is_same = above["total"] == values["total"]
        bar.is_steady = is_same and above["step"] == values["step"]
        return [held.beside(values) if is_same else held]

    def finish(self, slot: int | None) -> list[HeldSample]:
        """Return the held sample of a worker, or of all: no bar of theirs will be drawn any more."""
        released = []
        for bar in self._bars.values() if slot is None else filter(None, [self._bars.get(slot)]):
            if bar.held is not None:
                released.append(bar.held.beside(bar.drawn) if bar.is_steady else bar.held)
                bar.held = None
        return released
