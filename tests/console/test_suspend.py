"""Tests of ctrl-z and of shells: the terminal is given back, and the console then paints its whole screen again."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import psutil
import pytest

from tests.console.stage import training_line

pytestmark = pytest.mark.timing

DEADLINE = 60.0
NEVER_CHANGES = b"vs median"
"""The title of a column, which no tick repaints."""


class _Terminal:
    """A console on a terminal of 100 columns and 30 lines, and what it wrote there."""

    def __init__(self, *words: str, **environ: str) -> None:
        self._screen, terminal = pty.openpty()
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tui.cli", *words],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", **environ},
        )
        os.close(terminal)
        self.written = b""

    def press(self, key: bytes) -> None:
        os.write(self._screen, key)

    def until(self, what: Callable[[], bool]) -> None:
        """Read the console's output until a condition holds."""
        end = time.monotonic() + DEADLINE
        while not what():
            assert time.monotonic() < end, self.written[-2000:]
            if select.select([self._screen], [], [], 0.05)[0]:
                self.written += os.read(self._screen, 65536)

    def settle(self) -> None:
        """Read the console's output until none has come for a second."""
        while select.select([self._screen], [], [], 1.0)[0]:
            self.written += os.read(self._screen, 65536)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)


@pytest.fixture
def open_console() -> Iterator[Callable[..., _Terminal]]:
    """Return a function that opens a console on a terminal of its own."""
    opened: list[_Terminal] = []

    def start(*words: str, **environ: str) -> _Terminal:
        opened.append(_Terminal(*words, **environ))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def test_a_resumed_console_paints_its_whole_screen_again(
    open_console: Callable[..., _Terminal], tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"".join(training_line(core, 1, step, 2.5, 250.0) for step in range(5) for core in range(8)))
    terminal = open_console("replay", str(log))
    terminal.until(lambda: NEVER_CHANGES in terminal.written)
    terminal.settle()
    process = psutil.Process(terminal.process.pid)
    terminal.press(b"\x1a")
    terminal.until(lambda: process.status() == psutil.STATUS_STOPPED)
    terminal.until(lambda: b"\x1b[?1049l" in terminal.written)
    terminal.written = b""
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.until(lambda: NEVER_CHANGES in terminal.written)


def test_a_console_takes_the_terminal_back_if_a_shell_cannot_be_started(
    open_console: Callable[..., _Terminal], tmp_path: Path
) -> None:
    (tmp_path / "lab.txt").write_text("me@127.0.0.1\n")
    terminal = open_console("--hosts", str(tmp_path / "lab.txt"), TPU_TUI_HOME=str(tmp_path / "home"), PATH="")
    terminal.until(lambda: b"lab" in terminal.written)
    terminal.settle()
    terminal.press(b"s")
    terminal.until(lambda: b"cannot start ssh" in terminal.written)


def test_ctrl_c_ends_a_shell_that_does_not_connect_and_leaves_the_console_open(
    open_console: Callable[..., _Terminal], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (tmp_path / "lab.txt").write_text(f"me@127.0.0.1:{silent.getsockname()[1]}\n")
        terminal = open_console("--hosts", str(tmp_path / "lab.txt"), TPU_TUI_HOME=str(tmp_path / "home"))
        terminal.until(lambda: b"lab" in terminal.written)
        terminal.settle()
        process = psutil.Process(terminal.process.pid)
        terminal.press(b"s")
        terminal.until(lambda: [child.name() for child in process.children()] == ["ssh"])
        terminal.written = b""
        os.killpg(process.pid, signal.SIGINT)  # as the terminal sends it
        terminal.until(lambda: b"lab" in terminal.written)
        terminal.settle()
        terminal.press(b"?")
        terminal.until(lambda: b"on this screen" in terminal.written)
