"""Tests of the output of a command on many workers: equal output is shown once; long and odd output is marked."""

from __future__ import annotations

from collections.abc import Sequence

from tests.console.stage import a_slice
from tui.console.data.exec_progress import ExecProgress
from tui.console.render.exec_output import MAX_LINES, MAX_LINES_PER_OUTPUT, make_output_lines
from tui.errors import OutOfReachError
from tui.ssh.results import CommandResult


def _execution(count: int = 4) -> ExecProgress:
    return ExecProgress(a_slice(count=count), "df", range(count), begun=100.0)


def _answer(
    worker: int, out: bytes = b"", err: bytes = b"", *, code: int | None = 0, signal: str = ""
) -> CommandResult:
    return CommandResult(worker, code, signal or None, out, err, timed_out=False)


def _text(execution: ExecProgress, now: float = 112.0) -> list[str]:
    return [cell.text for cell in make_output_lines(execution, now)]


def _done(answers: Sequence[CommandResult]) -> ExecProgress:
    execution = _execution(len(answers))
    for answer in answers:
        execution.record_answer(answer)
    execution.finish()
    return execution


def test_equal_outputs_are_shown_once_with_their_workers() -> None:
    same = [_answer(worker, b"python 3.10\n") for worker in (3, 1, 0)]
    shown = _text(_done([*same, _answer(2, b"python 3.8\n", b"old\n", code=1)]))
    assert shown == ["workers 0-1,3 (3)", "python 3.10", "", "worker 2 (1) · exit 1", "python 3.8", "old"]


def test_a_command_without_output_is_shown_as_such() -> None:
    assert _text(_done([_answer(0), _answer(1)])) == ["workers 0-1 (2)", "no output"]


def test_a_signal_is_named() -> None:
    assert _text(_done([_answer(0, code=None, signal="KILL")]))[0] == "worker 0 (1) · killed by SIGKILL"


def test_missing_answers_are_counted_in_seconds_and_named_at_the_end() -> None:
    execution = _execution()
    execution.record_answer(_answer(1, b"x"))
    assert _text(execution)[-1] == "waiting for workers 0,2-3, 12s · Esc cancels"
    execution.finish()
    assert _text(execution)[-1] == "cancelled: no answer from workers 0,2-3"


def test_an_unreachable_worker_is_shown_with_its_whole_error() -> None:
    execution = _execution(2)
    execution.record_answer(_answer(0, b"x"))
    execution.record_answer(OutOfReachError("no login", worker=1, why="connection refused", remedy="is it up?"))
    execution.finish()
    shown = "\n".join(_text(execution))
    assert "worker 1" in shown
    assert "connection refused" in shown
    assert "is it up?" in shown
    assert "cancelled" not in shown


def test_output_is_shown_without_control_characters() -> None:
    shown = _text(_done([_answer(0, b"\x1b]0;title\x07\x1b[2J[red]x[/]\n\xff\x00", b"10 %\r90 %\r")]))
    assert not any(character < " " for line in shown for character in line)
    assert "[red]x[/]" in shown[1]
    assert shown[-1].endswith("90 %")


def test_a_long_output_is_cut_to_its_first_and_last_lines() -> None:
    lines = 10 * MAX_LINES_PER_OUTPUT
    shown = _text(_done([_answer(0, b"\n".join(b"%d" % n for n in range(lines)), b"went wrong")]))
    assert shown[1] == "0"
    assert shown[-2:] == [str(lines - 1), "went wrong"]
    assert f"… {lines - MAX_LINES_PER_OUTPUT:,} lines left out …" in shown
    assert len(shown) == MAX_LINES_PER_OUTPUT + 3


def test_many_different_long_outputs_are_cut_and_the_cut_is_reported() -> None:
    answers = [_answer(worker, b"%d\n" % worker * MAX_LINES_PER_OUTPUT) for worker in range(64)]
    shown = _text(_done(answers))
    assert len(shown) == MAX_LINES + 1
    assert shown[-1] == "… and more (tpu-tui exec my-tpu -- COMMAND shows everything)"
