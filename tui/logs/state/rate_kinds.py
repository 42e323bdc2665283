"""What a rate counts, for a core or the whole job: only cores' rates of the same unit add up."""

from __future__ import annotations

import enum

from tui.logs._compat_numpy import Bools, Floats, np, npt

UNITS = (None, "examples/s", "it/s", "tokens/s")
"""Names of units (stable), by the lowest two bits of a `RateKind`; None: the lines do not say what is counted."""

_UNIT_BITS = 3


class RateKind(enum.IntEnum):
    """What a printed rate counts per second, and whether it is a core's or the whole job's.

    Never added up are rates of an unknown kind, of steps, of one of several devices of a process, and of the whole
    job.
    """

    UNKNOWN = 0
    EXAMPLES = 1
    """Examples (pictures, sequences, frames) of the core or process that prints the line."""
    STEPS = 2
    """Steps, which all cores make together."""
    TOKENS = 3
    """Tokens of the core or process that prints the line."""
    EXAMPLES_A_DEVICE = 5
    TOKENS_A_DEVICE = 7
    EXAMPLES_OF_ALL = 9
    TOKENS_OF_ALL = 11


_A_DEVICE = (RateKind.EXAMPLES_A_DEVICE, RateKind.TOKENS_A_DEVICE)
_OF_ALL = (RateKind.EXAMPLES_OF_ALL, RateKind.TOKENS_OF_ALL)

Kinds = npt.NDArray[np.uint8]


def unit_of(kind: int) -> str | None:
    """Return the unit of a rate; None if unknown."""
    return UNITS[kind & _UNIT_BITS]


def common_unit(kinds: Kinds) -> str | None:
    """Return the common unit of rates; None if their units differ or are unknown."""
    units = set((kinds & _UNIT_BITS).tolist())
    return UNITS[units.pop()] if len(units) == 1 else None


def total_rate(rates: Floats, kinds: Kinds, *, are_cores: bool) -> float | None:
    """Return the rate of the whole pod from the printed rates; None if it cannot be known.

    Rates of cores are added; the rate of the whole job, which each process prints, counts once. Rates of one device
    add up only if every row is a core (`are_cores`), not a process with an unknown number of devices.
    """
    if len(kinds) and (kinds == kinds[0]).all() and int(kinds[0]) in _OF_ALL:
        return float(np.median(rates))
    return float(rates.sum()) if can_add_up(kinds, are_cores=are_cores) else None


def can_add_up(kinds: Kinds, *, are_cores: bool) -> bool:
    """Return whether rates of these kinds are parts of the pod's rate (see `total_rate`)."""
    kind = int(kinds[0]) if len(kinds) and (kinds == kinds[0]).all() else RateKind.UNKNOWN
    return kind in (RateKind.EXAMPLES, RateKind.TOKENS) or (kind in _A_DEVICE and are_cores)


def compares(kinds: Kinds) -> Bools:
    """Return which rates compare cores; a rate of the whole job says nothing about one core."""
    return np.isin(kinds, _OF_ALL, invert=True)
