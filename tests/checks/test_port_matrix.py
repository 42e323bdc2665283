from __future__ import annotations

from tui.checks.check_row import CheckRow
from tui.checks.port_matrix import port_matrices


def probe(worker: int, peer: int, port: int, state: str | None) -> CheckRow:
    status = {"open": "pass", "closed": "pass", "filtered": "fail"}.get(state or "", "unknown")
    return CheckRow("ports", worker, peer, port, status, state, "")


def test_the_port_and_the_worker_with_most_filtered_pairs_come_first() -> None:
    rows = [probe(one, other, 22, "open") for one in range(3) for other in range(3) if one != other]
    rows += [probe(one, other, 8476, "filtered" if 2 in (one, other) else "closed") for one, other in PAIRS]

    first, second = port_matrices(rows)

    assert (first.port, first.filtered, first.workers[0]) == (8476, 4, 2)
    assert first.lines() == ["  2 0 1", "2   X X", "0 X   ·", "1 X ·  "]
    assert (second.port, second.filtered, second.workers) == (22, 0, (0, 1, 2))


PAIRS = [(one, other) for one in range(3) for other in range(3) if one != other]


def test_an_unknown_state_is_a_question_mark() -> None:
    silent = CheckRow("ports", 1, None, None, "unknown", None, "no port can be probed from it")

    (matrix,) = port_matrices([probe(0, 1, 22, "open"), silent])

    assert matrix.lines() == ["  0 1", "0   o", "1 ?  "]
