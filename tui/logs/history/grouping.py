"""Group the samples of a batch by their row."""

from __future__ import annotations

from typing import Any, NamedTuple

from tui.logs._compat_numpy import Ints, np, npt, places_of

MOST_ROWS = 65_536
"""Most rows, twice the cores of the largest pod. A row's number fits 16 bits, which numpy sorts fastest."""


def ends_of(values: npt.NDArray[Any]) -> Ints:
    """Return the last index of each run of equal values."""
    edges = places_of(values[1:] != values[:-1])
    ends = np.empty(len(edges) + 1, np.int64)
    ends[:-1], ends[-1] = edges, len(values) - 1
    return ends


class RowGroups(NamedTuple):
    """Samples of a batch grouped by row, in arrival order within each row."""

    order: Ints
    """Indices in the batch."""
    ordered: npt.NDArray[np.uint16]
    """The row of each sample, ascending."""
    rows: Ints
    """The rows that occur; for each, its first and last index in `order`, and its number of samples."""
    starts: Ints
    ends: Ints
    sizes: Ints

    @classmethod
    def of(cls, rows: npt.NDArray[np.integer[Any]]) -> RowGroups:
        """Group the samples of a batch, given the row of each."""
        short = rows.astype(np.uint16, copy=False)
        order = short.argsort(kind="stable")
        ordered = short[order]
        ends = ends_of(ordered)
        starts = np.zeros_like(ends)
        np.add(ends[:-1], 1, out=starts[1:])
        return cls(order, ordered, ordered[starts].astype(np.int64), starts, ends, ends - starts + 1)
