"""The phases of a gang launch, and how long each of them may take on one worker."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from tui.errors import UsageError

PHASES = ("connect", "check", "prepare", "sync", "barrier", "start", "confirm")
"""In their order; up to `barrier` nothing runs anywhere. `check` and `sync` are there where they were asked for."""


@dataclass(frozen=True)
class PhaseTimeouts:
    """Seconds that each worker has for a phase. The words after the barrier have the run's lease."""

    connect: float = 120.0
    """A jump host lets in few at a time, so the last of a big pod waits for its turn."""
    prepare: float = 90.0
    """Login files and conda on a cold worker."""
    sync: float = 3600.0

    @classmethod
    def parse(cls, words: Iterable[str]) -> PhaseTimeouts:
        """Read `PHASE=SECONDS` words; the phases not named keep their default. Raises UsageError."""
        values = dict(map(_pair, words))
        return cls(**values)


_SETTABLE = tuple(field.name for field in fields(PhaseTimeouts))


def _pair(word: str) -> tuple[str, float]:
    phase, _, text = word.partition("=")
    if phase not in _SETTABLE:
        raise UsageError(
            f"no timeout {word!r} can be set", remedy="PHASE=SECONDS, with one of " + ", ".join(_SETTABLE)
        )
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"{text!r} is no number of seconds for {phase}", remedy=f"{phase}=90, for instance")
    return phase, seconds
