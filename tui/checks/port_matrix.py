"""The ports between workers as a matrix of sources and destinations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tui.checks.check_row import CheckRow
from tui.checks.port_checks import is_pair_probed

SIGNS = {"open": "o", "closed": "·", "filtered": "X", None: "?"}
"""One character per pair, readable without colour."""
LEGEND = "rows: from, columns: to; X filtered, ? unknown, · closed (nothing listens yet), o open"


@dataclass(frozen=True)
class Matrix:
    """One port: `cells[i][j]` is its state at `workers[j]` seen from `workers[i]`: open, closed, filtered or None.

    Workers with the most filtered pairs come first.
    """

    port: int
    workers: tuple[int, ...]
    cells: tuple[tuple[str | None, ...], ...]
    filtered: int
    unknown: int

    def lines(self, columns: int = 80) -> list[str]:
        """Return the matrix as text, a line per worker; the diagonal and unsampled pairs are blank.

        A matrix that would be wider than `columns` has no gaps between its columns and writes the digits of worker
        numbers downwards; if it is still too wide, it shows the worst workers only.
        """
        width = max(len(str(worker)) for worker in self.workers)
        apart = (width + 1) * (len(self.workers) + 1) - 1 <= columns
        shown = len(self.workers) if apart else min(len(self.workers), columns - width - 1)
        names = [f"{worker:>{width}}" for worker in self.workers[:shown]]
        if apart:
            heads = [" " * (width + 1) + " ".join(names)]
        else:
            heads = [" " * (width + 1) + "".join(name[digit] for name in names) for digit in range(width)]
        lines = [self._line(row, width, shown, width if apart else 0) for row in range(shown)]
        left_out = [f"and {len(self.workers) - shown} more workers"] if shown < len(self.workers) else []
        return [*heads, *lines, *left_out]

    def _line(self, row: int, width: int, shown: int, cell_width: int) -> str:
        signs = (self._sign(row, column) for column in range(shown))
        between = " " if cell_width else ""
        return f"{self.workers[row]:>{width}} " + between.join(f"{sign:>{cell_width}}" for sign in signs)

    def _sign(self, row: int, column: int) -> str:
        is_probed = is_pair_probed(self.workers[row], self.workers[column], len(self.workers))
        return SIGNS[self.cells[row][column]] if is_probed else " "


def port_matrices(rows: Iterable[CheckRow]) -> list[Matrix]:
    """Return a matrix for each probed port, the port with the most filtered pairs first."""
    by_port: dict[int, dict[tuple[int, int], str | None]] = {}
    workers: set[int] = set()
    for row in rows:
        if row.check != "ports" or row.worker is None:
            continue
        workers.add(row.worker)
        if row.peer is not None and row.port is not None:
            workers.add(row.peer)
            by_port.setdefault(row.port, {})[row.worker, row.peer] = row.state
    matrices = [_matrix(port, pairs, workers) for port, pairs in by_port.items()]
    return sorted(matrices, key=lambda matrix: (-matrix.filtered, -matrix.unknown, matrix.port))


def _matrix(port: int, pairs: dict[tuple[int, int], str | None], workers: set[int]) -> Matrix:
    filtered = dict.fromkeys(workers, 0)
    for pair, state in pairs.items():
        if state == "filtered":
            for worker in pair:
                filtered[worker] += 1
    order = tuple(sorted(workers, key=lambda worker: (-filtered[worker], worker)))
    cells = tuple(tuple(pairs.get((source, target)) for target in order) for source in order)
    return Matrix(
        port,
        order,
        cells,
        sum(state == "filtered" for state in pairs.values()),
        sum(state is None for state in pairs.values()),
    )
