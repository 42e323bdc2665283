"""Progress bars that look alike for training and evaluation: which of them trains."""

from __future__ import annotations

import re

from tui.logs.snapshot import UNKNOWN


class Bars:
    """Keras draws the same bar when it trains and when it evaluates, but names an epoch only before training.

    So a bar that begins again after it was full, with no epoch named in between, is an evaluation's.
    """

    def __init__(self) -> None:
        self._full: dict[int, tuple[int, bytes]] = {}
        """Of each worker whose bar is full: its last step and total."""
        self._epochs: dict[int, int] = {}

    def begin(self, slot: int, epoch: int) -> None:
        """An epoch of a worker was named."""
        self._full.pop(slot, None)
        self._epochs[slot] = epoch

    def epoch_of(self, slot: int) -> int:
        """The epoch that a worker named last."""
        return self._epochs.get(slot, UNKNOWN)

    def is_training(self, slot: int, bar: re.Match[bytes]) -> bool:
        """Whether a worker's bar (`step` of `total`) belongs to a training epoch."""
        told = bar.groupdict()
        step, total = int(told.get("step") or 0), told.get("total") or b""
        full = self._full.get(slot)
        if full is not None:
            return full == (step, total)
        if total.isdigit() and step >= int(total):
            self._full[slot] = (step, total)
        return True
