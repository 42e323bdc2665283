from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tui.checks.check_thresholds import CheckThresholds
from tui.checks.workers.check_facts import Clock, Code, Facts, facts_from
from tui.checks.workers.consistency import clock_rows, code_rows, version_rows
from tui.ssh.exec.script_protocol import Answer

LIMITS = CheckThresholds()


def facts(worker: int, ahead: float = 0.0, error: float = 0.01, **versions: str) -> Facts:
    return Facts(worker, clock=Clock(ahead, error), versions={"python": "3.10.12", **versions})


def test_workers_that_agree_are_one_row() -> None:
    (row,) = version_rows([facts(index, torch="2.9.0", torch_xla="2.9.0") for index in range(4)])

    assert (row.worker, row.status) == (None, "pass")
    assert row.detail == "python 3.10.12, torch 2.9.0, torch_xla 2.9.0 on all 4 workers"


def test_the_odd_one_out_is_named_even_when_it_lacks_the_package() -> None:
    (row,) = version_rows([facts(0, torch="2.9.0"), facts(1), facts(2, torch="2.9.0")])

    assert (row.worker, row.status, row.detail) == (1, "fail", "torch none here, 2.9.0 on workers 0,2")


def test_without_a_majority_no_worker_is_blamed() -> None:
    (row,) = version_rows([facts(0, torch="2.9.0"), facts(1, torch="2.8.0")])

    assert (row.worker, row.status) == (None, "fail")
    assert row.detail == "torch differs: 2.9.0 on worker 0; 2.8.0 on worker 1"


def test_no_python_anywhere_is_a_warning_and_no_answer_is_unknown() -> None:
    (missing,) = version_rows([Facts(0, python_missing="venv/bin/python")])
    silent, present = version_rows([Facts(0), facts(1)])

    assert (missing.status, missing.detail) == ("warn", "command not found: venv/bin/python")
    assert (silent.worker, silent.status, present.status) == (0, "unknown", "pass")


def test_another_patch_release_of_python_is_a_warning_and_another_minor_release_fails() -> None:
    patch = [replace(facts(index), versions={"python": f"3.10.{12 + (index == 2)}"}) for index in range(3)]
    minor = [replace(facts(index), versions={"python": f"3.1{index == 2:d}.1"}) for index in range(3)]

    assert [(row.worker, row.status) for row in version_rows(patch)] == [(2, "warn")]
    assert [(row.worker, row.status) for row in version_rows(minor)] == [(2, "fail")]


def test_why_an_interpreter_does_not_answer_is_reported() -> None:
    (row,) = version_rows([Facts(0, python_fault="no virtual environment at /opt/v")])

    assert row.detail == "its Python does not answer: no virtual environment at /opt/v"


def test_jax_is_reported_if_there_is_no_torch() -> None:
    (row,) = version_rows([facts(0, jax="0.4.30")])

    assert row.detail == "python 3.10.12, jax 0.4.30"


def code(worker: int, hash_: str | None, state: str = "same") -> Facts:
    return Facts(worker, code=Code(hash_ * 12, state) if hash_ else None)


def test_the_worker_with_other_code_is_named_with_what_the_others_have() -> None:
    odd, lacking = code_rows([code(0, "a"), code(1, "b"), code(2, "a"), code(3, None), code(4, "a")])

    assert odd.detail == "synced code bbbbbbbbbbbb here, aaaaaaaaaaaa on workers 0,2,4"
    assert (odd.worker, odd.status, lacking.worker) == (1, "warn", 3)
    assert "none here" in lacking.detail


def test_changed_code_is_reported_per_worker_and_unchanged_code_is_one_row() -> None:
    (changed,) = code_rows([code(0, "a"), code(1, "a", "changed"), code(2, "a", "slow")])
    (same,) = code_rows([code(index, "a") for index in range(3)])
    (tie,) = code_rows([code(0, "a"), code(1, "b")])

    assert (changed.worker, changed.status, "changed after it was synced" in changed.detail) == (1, "warn", True)
    assert (same.status, same.detail) == ("pass", "aaaaaaaaaaaa was synced last on all 3 workers")
    assert (tie.worker, tie.detail) == (None, f"synced code differs: {'a' * 12} on worker 0; {'b' * 12} on worker 1")
    assert code_rows([code(0, None)]) == []


def test_torch_xla_needs_the_torch_of_its_release() -> None:
    rows = version_rows([facts(0, torch="2.8.1", torch_xla="2.9.0")])

    assert [row.status for row in rows] == ["pass", "fail"]
    assert "torch~=2.9.0" in (rows[1].remedy or "")


def test_a_clock_that_is_off_is_named_and_this_machines_too() -> None:
    (one,) = clock_rows([facts(0), facts(1, 400.0), facts(2)], LIMITS)
    (here,) = clock_rows([facts(index, 61.0) for index in range(3)], LIMITS)

    assert (one.worker, one.status) == (1, "fail")
    assert one.detail == "its clock is 7 min ahead of the other workers'"
    assert (here.worker, here.status) == (None, "warn")
    assert here.detail == "this machine's clock is 61 s behind the workers'"


def test_two_clocks_are_compared_with_this_machines() -> None:
    rows = clock_rows([facts(0), facts(1, -5.0)], LIMITS)

    assert [(row.worker, row.detail) for row in rows] == [(1, "its clock is 5 s behind this machine's")]


def test_a_slow_answer_is_no_skew_and_no_clock_is_unknown() -> None:
    (row,) = clock_rows([facts(0, 2.5, error=2.5), facts(1)], LIMITS)
    assert row.status == "pass"
    assert [row.status for row in clock_rows([Facts(0)], LIMITS)] == ["unknown"]


@given(st.floats(-1e5, 1e5), st.lists(st.floats(0, 10), min_size=5, max_size=5), st.floats(1e9, 2e9))
def test_the_true_offset_is_within_the_reported_error(skew: float, waits: list[float], sent: float) -> None:
    first = sent + waits[0]
    second = first + waits[1]
    answers = [Answer("clock", f"{first + skew:.9f}"), Answer("clock", f"{second + skew:.9f}")]

    clock = facts_from(0, answers, sent, second + waits[2]).clock

    assert clock is not None
    assert abs(clock.ahead - skew) <= clock.error + 1e-4
    assert clock.error <= (waits[0] + waits[2]) / 2 + 1e-4
