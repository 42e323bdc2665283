"""Tests of ctrl-z: the terminal is given back, and the resumed console paints its whole screen again."""

from __future__ import annotations

import os
import pty
import select
import signal
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

    def __init__(self, log: Path) -> None:
        self._screen, terminal = pty.openpty()
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tui.cli", "replay", str(log)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
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
def terminal(tmp_path: Path) -> Iterator[_Terminal]:
    log = tmp_path / "run.log"
    log.write_bytes(b"".join(training_line(core, 1, step, 2.5, 250.0) for step in range(5) for core in range(8)))
    made = _Terminal(log)
    yield made
    made.close()


def test_a_resumed_console_paints_its_whole_screen_again(terminal: _Terminal) -> None:
    terminal.until(lambda: NEVER_CHANGES in terminal.written)
    terminal.settle()
    process = psutil.Process(terminal.process.pid)
    terminal.press(b"\x1a")
    terminal.until(lambda: process.status() == psutil.STATUS_STOPPED)
    terminal.until(lambda: b"\x1b[?1049l" in terminal.written)
    terminal.written = b""
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.until(lambda: NEVER_CHANGES in terminal.written)
