"""Commands started with closed streams, full disks, other encodings and an unusable home."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.commands import Answer, Shell
from tests.logs.shapes import SAMPLE_LOG
from tests.waiting import wait_until


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """Return the path of a hosts file, which gives a slice to list."""
    path = tmp_path / "lab.txt"
    path.write_text("127.0.0.1:1\n")
    return path


def _run_redirected(shell: Shell, redirection: str, *words: str) -> Answer:
    """Run a command with a redirection of the shell."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "tui.cli", *words]
    done = subprocess.run(command, env=shell.environ, capture_output=True, timeout=90)
    return Answer(done.returncode, done.stdout, done.stderr.decode())


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_counts_as_empty(shell: Shell, hosts: Path, redirection: str) -> None:
    answer = _run_redirected(shell, redirection, "--hosts", str(hosts), "slices", "--json")
    assert answer.code == 0, answer.errors
    assert ('"lab"' in answer.out) == (">&-" not in redirection.split())
    assert answer.errors == ""


def test_an_error_that_cannot_be_written_is_reported_by_the_exit_code_alone(shell: Shell) -> None:
    read, written = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "tui.cli", "status", "nothing"]
    with os.fdopen(written, "wb") as unread:
        assert subprocess.run(command, env=shell.environ, stdout=unread, stderr=unread, timeout=90).returncode == 2
    assert _run_redirected(shell, "2>/dev/full", "status", "nothing").code == 2


@pytest.mark.parametrize(
    "words",
    [("slices", "--json"), ("--help",), ("--version",), ("logs", str(SAMPLE_LOG))],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_answer_that_cannot_be_written_is_reported(
    shell: Shell, hosts: Path, unbuffered: str, words: tuple[str, ...]
) -> None:
    shell.environ["PYTHONUNBUFFERED"] = unbuffered
    answer = _run_redirected(shell, ">/dev/full", "--hosts", str(hosts), *words)
    assert answer.code == 1
    assert "standard output: No space left on device\n  → free some space there" in answer.errors
    assert "Traceback" not in answer.errors
    assert "Exception ignored" not in answer.errors


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_everything_is_written_to_a_stream_that_another_program_left_non_blocking(
    shell: Shell, tmp_path: Path, unbuffered: str
) -> None:
    log = tmp_path / "long.log"
    log.write_text("a line of a long log\n" * 20_000)
    shell.environ["PYTHONUNBUFFERED"] = unbuffered
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    room = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    with shell.start("logs", str(log), stdout=writer) as process, os.fdopen(reader, "rb") as answer:
        os.close(writer)
        wait_until(lambda: process.poll() is not None or unread_bytes(reader) == room, "the pipe is full")
        assert answer.read() == log.read_bytes()
        assert process.wait() == 0


def unread_bytes(pipe: int) -> int:
    """Return the number of unread bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_character_that_the_terminal_lacks_causes_no_error(shell: Shell, hosts: Path) -> None:
    shell.environ["PYTHONIOENCODING"] = "ascii"
    (shell.home / "profiles").mkdir()
    (shell.home / "profiles" / "p.toml").write_text('user = "größe"\n')
    answer = shell.run("--profile", "p", "config", "show")
    assert answer.code == 0, answer.errors
    assert "gr??e" in answer.out


@pytest.mark.parametrize("place", ["/etc/passwd", "/dev/null/x", "/proc"])
@pytest.mark.parametrize("words", [("runs", "--offline"), ("launch", "lab", "--skip-checks", "--", "true")])
def test_an_unusable_home_causes_no_traceback(shell: Shell, hosts: Path, place: str, words: tuple[str, ...]) -> None:
    shell.environ["TPU_TUI_HOME"] = place
    answer = shell.run("--hosts", str(hosts), *words)
    assert "Traceback" not in answer.errors
    assert answer.code in (0, 1, 2) if words[0] == "runs" else answer.code in (1, 2, 3)


@pytest.mark.parametrize("encoding", [{"PYTHONUTF8": "0", "LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}])
def test_json_loses_no_character_that_the_encoding_lacks(shell: Shell, encoding: dict[str, str]) -> None:
    (shell.home / "profiles").mkdir()
    (shell.home / "profiles" / "p.toml").write_text('user = "größe…"\n', encoding="utf-8")
    shell.environ.update(encoding)
    answer = shell.run("--profile", "p", "config", "show", "--json")
    assert answer.code == 0, answer.errors
    assert {"größe…"} <= {str(row["value"]) for row in answer.document}
    assert all(row["meaning"] for row in answer.document)
    for words in (("--help",), ("--profile", "p", "config", "show")):
        assert shell.run(*words).errors == ""


def test_a_home_that_cannot_be_written_to_is_reported_with_a_remedy(shell: Shell, hosts: Path) -> None:
    shell.environ["TPU_TUI_HOME"] = "/dev/null/x"
    answer = shell.run("--hosts", str(hosts), "launch", "lab", "--skip-checks", "--", "true")
    assert "set TPU_TUI_HOME to a directory" in answer.errors
    assert answer.code == 1
    shell.environ["TPU_TUI_HOME"] = "/etc/passwd"
    assert "set TPU_TUI_HOME to a directory" in shell.run("runs", "--offline").errors


def test_a_console_that_a_variable_makes_absurdly_large_is_not_opened(shell: Shell) -> None:
    controller, device = pty.openpty()
    shell.environ.update(TERM="xterm", COLUMNS="99999999999")
    with os.fdopen(controller, "rb", 0) as screen, os.fdopen(device, "wb") as end:
        command = [sys.executable, "-m", "tui.cli"]
        done = subprocess.run(command, env=shell.environ, stdin=end, stdout=end, stderr=end, timeout=90)
        assert done.returncode == 2
        assert b"COLUMNS is 99999999999" in screen.read(10_000)
