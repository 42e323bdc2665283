"""What a rate counts and whose it is: only rates of one unit that each core has for itself add up."""

from __future__ import annotations

import enum

from tui.logs._compat_numpy import Bools, Floats, np, npt

UNITS = (None, "examples/s", "it/s", "tokens/s")
"""Names of units (stable), by the lowest two bits of a `RateKind`; None: no line says what is counted."""

_UNIT_BITS = 3


class RateKind(enum.IntEnum):
    """What a printed rate counts per second, and whether it is a core's or the job's.

    A rate of `UNKNOWN` kind, of steps, of one device among the many that a process drives, or of the whole job is
    never added to another's.
    """

    UNKNOWN = 0
    EXAMPLES = 1
    """Examples (pictures, sequences, frames) of the core, or of the process, whose line it is."""
    STEPS = 2
    """Steps: all that take part in one make the same."""
    TOKENS = 3
    """Tokens of the core, or of the process, whose line it is."""
    EXAMPLES_A_DEVICE = 5
    TOKENS_A_DEVICE = 7
    EXAMPLES_OF_ALL = 9
    TOKENS_OF_ALL = 11


_A_DEVICE = (RateKind.EXAMPLES_A_DEVICE, RateKind.TOKENS_A_DEVICE)
_OF_ALL = (RateKind.EXAMPLES_OF_ALL, RateKind.TOKENS_OF_ALL)

Kinds = npt.NDArray[np.uint8]


def unit_of(kind: int) -> str | None:
    """Return the name of what a rate of a kind counts."""
    return UNITS[kind & _UNIT_BITS]


def common_unit(kinds: Kinds) -> str | None:
    """Return the unit that all these rates have; None where they differ, or it is unknown."""
    units = set((kinds & _UNIT_BITS).tolist())
    return UNITS[units.pop()] if len(units) == 1 else None


def total_rate(rates: Floats, kinds: Kinds, *, are_cores: bool) -> float | None:
    """Return the rate of the whole pod from those of its cores; None where it cannot be known.

    Cores' own rates are added; a rate of the whole job, which each process repeats, counts once. A rate of one
    device adds up only where every row is a core (`are_cores`), not a process with devices of an unknown number.
    """
    if len(kinds) and (kinds == kinds[0]).all() and int(kinds[0]) in _OF_ALL:
        return float(np.median(rates))
    return float(rates.sum()) if add_up(kinds, are_cores=are_cores) else None


def add_up(kinds: Kinds, *, are_cores: bool) -> bool:
    """Return whether rates of these kinds are each a part of what the whole pod does (see `total_rate`)."""
    kind = int(kinds[0]) if len(kinds) and (kinds == kinds[0]).all() else RateKind.UNKNOWN
    return kind in (RateKind.EXAMPLES, RateKind.TOKENS) or (kind in _A_DEVICE and are_cores)


def compares(kinds: Kinds) -> Bools:
    """Return which rates are a core's own: one of the whole job says nothing about one core."""
    return np.isin(kinds, _OF_ALL, invert=True)
