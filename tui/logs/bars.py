"""What single lines cannot tell: which of two like bars trains, and samples that are spread over lines."""

from __future__ import annotations

from collections.abc import Mapping

from tui.logs.snapshot import UNKNOWN

MOST_HELD = 8192
"""Unfinished samples held: one of each worker of the largest pod, and then some."""


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

    def is_training(self, slot: int, told: Mapping[str, bytes]) -> bool:
        """Whether a worker's bar (`step` of `total`) belongs to a training epoch."""
        step, total = int(told.get("step", 0)), told.get("total", b"")
        full = self._full.get(slot)
        if full is not None:
            return full == (step, total)
        if total.isdigit() and step >= int(total):
            self._full[slot] = (step, total)
        return True


class Summaries:
    """Some jobs tell an epoch's loss and no step's, others both: an epoch's is their sum then, and no sample."""

    def __init__(self) -> None:
        self._stepped: set[int] = set()

    def told(self, slot: int, sample: Mapping[str, bytes]) -> None:
        """Note what a worker's sample tells."""
        if "step" in sample and "loss" in sample:
            self._stepped.add(slot)

    def is_sample(self, slot: int, epoch: int) -> bool:
        """Whether the loss of an epoch is all that a worker tells."""
        return epoch != UNKNOWN and slot not in self._stepped


class Parts:
    """Samples that trainers print over several lines: a step, and its figures beneath it or above.

    What is told again belongs to the next sample.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[int, str], dict[str, bytes]] = {}

    def add(self, slot: int, name: str, news: Mapping[str, bytes]) -> Mapping[str, bytes] | None:
        """Add what a line of a worker told; all that is known of the sample, once its step and loss are."""
        held = self._held.setdefault((slot, name), {})
        if not held.keys().isdisjoint(news):
            held.clear()
        held.update(news)
        while len(self._held) > MOST_HELD:
            del self._held[next(iter(self._held))]
        return held if {"step", "loss"} <= held.keys() else None
