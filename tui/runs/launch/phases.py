"""The phases of a gang launch, and how long each one may take on a worker."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from tui.errors import UsageError

PHASES = ("connect", "check", "prepare", "sync", "barrier", "start", "confirm")
"""The phases in order; nothing runs anywhere before `barrier` is done. `check` and `sync` are optional."""


@dataclass(frozen=True)
class PhaseTimeouts:
    """Timeout of each phase on a worker, in seconds. The phases after the barrier have the run's lease."""

    connect: float = 120.0
    """A jump host lets in few connections at a time, so the last workers of a big pod wait for their turns."""
    prepare: float = 90.0
    """Start-up files and conda may be slow on a cold worker."""
    sync: float = 3600.0

    @classmethod
    def parse(cls, words: Iterable[str]) -> PhaseTimeouts:
        """Parse `PHASE=SECONDS` words; the other phases keep their defaults. Raises UsageError."""
        values = dict(map(_pair, words))
        return cls(**values)


_SETTABLE = tuple(field.name for field in fields(PhaseTimeouts))


def _pair(word: str) -> tuple[str, float]:
    phase, _, text = word.partition("=")
    if phase not in _SETTABLE:
        raise UsageError(f"there is no timeout {word!r}", remedy="PHASE=SECONDS, with one of " + ", ".join(_SETTABLE))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"{text!r} is not a number of seconds for {phase}", remedy=f"{phase}=90, for instance")
    return phase, seconds
