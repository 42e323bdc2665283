"""`exec` as a user runs it: lines while it runs, groups at the end, and a Ctrl-C that keeps the output so far."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import LocalPod
from tests.waiting import is_running, wait_until

pytestmark = pytest.mark.timing

RANK = "w=$(basename $(dirname $HOME)); w=${w#w-}"


def test_live_lines_carry_their_worker_and_come_while_the_command_runs(pod: LocalPod, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"{RANK}; echo early; while [ ! -e {go} ]; do sleep 0.05; done; printf late"
    with pod.shell.start("exec", "local", "--live", "--worker", "0,2", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        early = sorted(process.stdout.readline() for _ in range(2))
        assert process.poll() is None, (early, process.communicate())
        go.touch()
        rest, errors = process.communicate(timeout=60)
    assert (early, process.returncode) == ([b"0: early\n", b"2: early\n"], 0), errors.decode()
    assert sorted(rest.splitlines()) == [b"0: late", b"2: late"]
    assert "workers 0,2 (2)" in errors.decode()


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_keeps_the_output_so_far_and_ends_the_command(pod: LocalPod, tmp_path: Path, as_json: bool) -> None:
    pid = tmp_path / "pid"
    script = f"{RANK}; echo $$ >{pid}; while :; do echo from $w; sleep 0.2; done"
    controller, device = os.openpty()
    words = ["exec", "local", "--worker", "3", *["--live"] * (not as_json), *["--json"] * as_json, "--"]
    with pod.shell.start(*words, "sh", "-c", script, stderr=device) as process:
        os.close(device)
        assert process.stdout is not None
        first = b"" if as_json else process.stdout.readline()
        wait_until(lambda: pid.exists() and pid.read_text().strip(), "the command runs", seconds=60)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    printed = _all_of(controller).decode()
    assert process.returncode == 130
    assert "no answer yet from worker 3" in printed
    assert "Traceback" not in printed
    if as_json:
        (row,) = json.loads(out)
        assert (row["worker"], row["exit_code"]) == (3, None)
    else:
        assert first == b"3: from 3\n"
        assert "worker 3 (1) · interrupted" in printed
    wait_until(lambda: not is_running(int(pid.read_text())), "the command ended", seconds=60)


def test_ctrl_c_groups_the_output_so_far(pod: LocalPod) -> None:
    controller, device = os.openpty()
    script = f"{RANK}; sleep 2; echo from $w; sleep 600"
    with pod.shell.start("exec", "local", "--worker", "3", "--", "sh", "-c", script, stderr=device) as process:
        os.close(device)
        seen = b""
        while b"3: from 3" not in seen:
            seen += os.read(controller, 65536)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == (b"from 3\n", 130)
    assert b"interrupted" in _all_of(controller)


def _all_of(terminal: int) -> bytes:
    """Return the rest of a terminal's output after every writer has closed it."""
    seen = b""
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 65536):
            seen += data
    os.close(terminal)
    return seen


def test_a_terminal_shows_lines_of_a_slow_command_and_groups_at_the_end(pod: LocalPod) -> None:
    controller, device = os.openpty()
    script = "for i in 1 2 3; do echo line $i; sleep 1; done"
    with pod.shell.start("exec", "local", "--worker", "0,1", "--", "sh", "-c", script, stderr=device) as process:
        os.close(device)
        out, _ = process.communicate(timeout=60)
    seen = _all_of(controller)
    assert out == b"line 1\nline 2\nline 3\n"
    assert b"1: line 3" in seen
    assert b"workers 0-1 (2)" in seen


def test_a_closed_output_ends_a_live_command_and_no_worker_is_blamed(pod: LocalPod, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"[ -e {pid} ] || echo $$ >{pid}; while :; do echo line; sleep 0.05; done"
    with pod.shell.start("exec", "local", "--live", "--worker", "1", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1: line\n"
        process.stdout.close()
        process.wait(60)
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (0, b"")
    wait_until(lambda: not is_running(int(pid.read_text())), "the command ended", seconds=60)


def test_one_word_with_blanks_is_a_command_line_and_several_words_are_not(pod: LocalPod) -> None:
    line = pod.call("exec", "local", "--worker", "0", "--json", "--", "printf 'b\\na\\n' | sort; echo $((1 + 1))")
    assert line.document[0]["stdout"] == "a\nb\n2\n"
    words = pod.call("exec", "local", "--worker", "0", "--json", "--", "echo", "a | b")
    assert words.document[0]["stdout"] == "a | b\n"
