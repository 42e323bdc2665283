from __future__ import annotations

import pytest

from tui.checks.check_row import CheckRow
from tui.checks.grouped_rows import digest
from tui.checks.port_checks import peers_of
from tui.checks.port_matrix import Matrix, port_matrices


def row(status: str, check: str, worker: int | None, detail: str, remedy: str | None = None) -> CheckRow:
    return CheckRow(check, worker, None, None, status, None, detail, remedy)


def probe(worker: int, peer: int, port: int, state: str) -> CheckRow:
    status = "fail" if state == "filtered" else "pass"
    return CheckRow("ports", worker, peer, port, status, state, f"it is {state}", None)


def square(count: int, port: int, bad: frozenset[tuple[int, int]] = frozenset()) -> list[CheckRow]:
    pairs = [(one, other) for one in range(count) for other in range(count) if one != other]
    return [probe(one, other, port, "filtered" if (one, other) in bad else "closed") for one, other in pairs]


def test_the_worst_comes_first_and_equal_rows_are_one_finding() -> None:
    rows = [row("pass", "disk", index, f"{90 - index} GiB free") for index in range(4)]
    rows += [row("warn", "lockfile", index, "left behind", "rm it") for index in (0, 2)]
    rows += [row("fail", "device", 3, "in use by pid 7"), row("unknown", "versions", 1, "no answer")]

    found = digest(rows)

    assert [(one.status, one.check, one.where, one.detail) for one in found.findings] == [
        ("fail", "device", "worker 3", "in use by pid 7"),
        ("unknown", "versions", "worker 1", "no answer"),
        ("warn", "lockfile", "workers 0,2", "left behind"),
        ("pass", "disk", "workers 0-3", "87–90 GiB free"),
    ]
    assert found.counts == {"fail": 1, "unknown": 1, "warn": 1, "pass": 1}, (
        "findings are counted as they are shown, for any number of workers"
    )
    assert found.summary == "1 failed, 1 unknown, 1 warning, 1 passed"
    assert not found.ok
    assert digest(rows[:4]).ok


@pytest.mark.parametrize("workers", [1, 4, 64])
def test_the_count_of_checks_is_the_same_for_any_number_of_workers(workers: int) -> None:
    rows = [row("pass", check, index, "fine") for check in ("disk", "clock", "chips") for index in range(workers)]
    rows += [row("warn", check, index, "high") for check in ("load", "memory") for index in range(workers)]
    rows += [*square(workers, 8476), probe(0, 0, 8476, "closed")]
    assert digest(rows).summary == "2 warnings, 4 passed"
    assert digest([]).summary == "nothing was checked"


def test_numbers_that_differ_become_a_range_but_pids_an_example() -> None:
    rows = [row("warn", "device", index, f"in use by run a-1 (pid {700 + index})", "stop it") for index in range(4)]
    rows += [row("warn", "load", index, f"{index}.5 on 2 CPUs") for index in (9, 10)]
    rows += [row("fail", "chips", index, f"{index} chips found", f"start {index}") for index in (1, 2)]

    assert [(one.check, one.where, one.detail) for one in digest(rows).findings] == [
        ("chips", "worker 1", "1 chips found"),
        ("chips", "worker 2", "2 chips found"),
        ("device", "workers 0-3", "in use by run a-1 (pid 700 and 3 more)"),
        ("load", "workers 9-10", "9.5–10.5 on 2 CPUs"),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no answer from 10.0.0.1", "no answer from 10.0.0.2"),
        ("python 3.10.1", "python 3.11.1"),
        ("in use by run a-1", "in use by run a-2"),
        ("open", "closed"),
    ],
)
def test_rows_that_differ_in_a_name_are_separate_unless_they_passed(one: str, other: str) -> None:
    assert len(digest([row("warn", "x", 0, one), row("warn", "x", 1, other)]).findings) == 2
    [finding] = digest([row("pass", "x", 0, one), row("pass", "x", 1, other)]).findings
    assert (finding.where, finding.detail) == ("workers 0-1", "")


def test_two_rows_that_every_worker_has_are_joined_in_one_finding() -> None:
    rows = [
        row("pass", "disk", worker, f"{worker}.5 GiB free on {place}")
        for worker in (1, 2)
        for place in ("home", "/tmp")
    ]
    [finding] = digest(rows).findings
    assert (finding.where, finding.detail) == ("workers 1-2", "1.5–2.5 GiB free on home; 1.5–2.5 GiB free on /tmp")


def test_ports_that_get_through_are_one_sentence_and_no_matrix() -> None:
    found = digest(square(4, 22) + square(4, 8476))

    assert [one.detail for one in found.findings] == ["tcp:22,8476 all 12 pairs get through"]
    assert found.matrices == ()


def test_the_worker_at_the_end_of_every_filtered_pair_is_named() -> None:
    into_2 = frozenset((one, 2) for one in (0, 1, 3))
    (bad, good) = digest(square(4, 8476, into_2)).findings

    assert bad.detail == "tcp:8476 filtered for 3 of 12 pairs, each to worker 2: it is filtered"
    assert good.detail == "tcp:8476 9 of 12 pairs get through"
    both = digest(square(4, 8476, into_2 | {(2, 0)})).findings[0]
    assert "each from or to worker 2" in both.detail
    one = digest(square(4, 8476, frozenset({(1, 3)}))).findings[0]
    assert one.detail.startswith("tcp:8476 filtered from worker 1 to worker 3:")
    every = digest(square(2, 8476, frozenset({(0, 1), (1, 0)}))).findings[0]
    assert every.detail.startswith("tcp:8476 filtered for all 2 pairs:")


def the_only(matrices: list[Matrix]) -> Matrix:
    (matrix,) = matrices
    return matrix


def test_thirty_two_workers_fit_eighty_columns() -> None:
    lines = the_only(port_matrices(square(32, 8476, frozenset({(31, 5)})))).lines(78)

    assert max(map(len, lines)) <= 78
    names = [f"{worker:>2}" for worker in order(32, 5, 31)]
    assert lines[0] == "   " + "".join(name[0] for name in names)
    assert lines[1] == "   " + "".join(name[1] for name in names)
    assert [line for line in lines if "X" in line] == ["31 X" + " " + "·" * 30]


def order(count: int, *first: int) -> list[int]:
    return [*first, *(worker for worker in range(count) if worker not in first)]


def test_if_not_all_workers_fit_the_worst_are_shown() -> None:
    pairs = [(one, other) for one in range(200) for other in peers_of(one, 200)]
    rows = [probe(one, other, 8476, "filtered" if one == 150 else "closed") for one, other in pairs]

    lines = the_only(port_matrices(rows)).lines(78)

    assert max(map(len, lines)) <= 78
    assert lines[-1] == "and 126 more workers"
    assert "X" in next(line for line in lines if line.startswith("150 "))
    assert not any("?" in line for line in lines), "a pair that was not sampled is blank"
