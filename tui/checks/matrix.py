"""The ports between workers as a square: from whom, to whom; and rows with the worst first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tui.checks.row import CheckRow

SEVERITY = {"fail": 0, "unknown": 1, "warn": 2, "pass": 3}
"""How soon a row is shown; unknown is not fine."""
SIGNS = {"open": "o", "closed": "·", "filtered": "X", None: "?"}
"""One character a pair: readable without colour."""


@dataclass(frozen=True)
class Matrix:
    """One port: `cells[i][j]` is what `workers[i]` found at `workers[j]`: open, closed, filtered, or None (not told).

    Workers with the most filtered pairs come first, those that reach everybody last.
    """

    port: int
    workers: tuple[int, ...]
    cells: tuple[tuple[str | None, ...], ...]
    filtered: int
    unknown: int

    def lines(self) -> list[str]:
        """The square as text, a line a worker; on the diagonal a blank, `?` where nothing was told or tried."""
        width = max(len(str(worker)) for worker in self.workers)
        head = " " * (width + 1) + " ".join(f"{worker:>{width}}" for worker in self.workers)
        return [head, *(self._line(place, width) for place in range(len(self.workers)))]

    def _line(self, place: int, width: int) -> str:
        signs = (" " if other == place else SIGNS[cell] for other, cell in enumerate(self.cells[place]))
        return f"{self.workers[place]:>{width}} " + " ".join(f"{sign:>{width}}" for sign in signs)


def worst_first(rows: Iterable[CheckRow]) -> list[CheckRow]:
    """The rows by severity, then check, worker, peer and port."""

    def place(row: CheckRow) -> tuple[int, str, int, int, int]:
        numbers = (-1 if number is None else number for number in (row.worker, row.peer, row.port))
        worker, peer, port = numbers
        return SEVERITY.get(row.status, 0), row.check, worker, peer, port

    return sorted(rows, key=place)


def port_matrices(rows: Iterable[CheckRow]) -> list[Matrix]:
    """A matrix for each port that was probed, the one with the most filtered pairs first."""
    by_port: dict[int, dict[tuple[int, int], str | None]] = {}
    workers: set[int] = set()
    for row in rows:
        if row.check != "ports" or row.worker is None:
            continue
        workers.add(row.worker)
        if row.peer is not None and row.port is not None:
            workers.add(row.peer)
            by_port.setdefault(row.port, {})[row.worker, row.peer] = row.state
    found = [_matrix(port, pairs, workers) for port, pairs in by_port.items()]
    return sorted(found, key=lambda matrix: (-matrix.filtered, -matrix.unknown, matrix.port))


def _matrix(port: int, pairs: dict[tuple[int, int], str | None], workers: set[int]) -> Matrix:
    bad = dict.fromkeys(workers, 0)
    for pair, state in pairs.items():
        if state == "filtered":
            for worker in pair:
                bad[worker] += 1
    order = tuple(sorted(workers, key=lambda worker: (-bad[worker], worker)))
    cells = tuple(tuple(pairs.get((one, other)) for other in order) for one in order)
    return Matrix(
        port,
        order,
        cells,
        sum(state == "filtered" for state in pairs.values()),
        sum(state is None for state in pairs.values()),
    )
