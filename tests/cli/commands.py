"""Commands run as a user runs them: in a process of their own, with a home of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tui.cli import main

DEADLINE = 90


@dataclass(frozen=True)
class Answer:
    """What one command printed and how it ended."""

    code: int
    raw: bytes
    errors: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def document(self) -> Any:
        return json.loads(self.raw)


class Shell:
    """A terminal on one machine, whose environment holds `TPU_TUI_HOME` and no other variable of tpu-tui."""

    def __init__(self, home: Path) -> None:
        self.home = home
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("TPU_TUI_", "CLOUDSDK_"))
        }
        self.environ = {
            **inherited,
            "TPU_TUI_HOME": str(home),
            "HOME": str(home),
            "CLOUDSDK_CONFIG": str(home / "gcloud"),
        }

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([sys.executable, "-m", "tui.cli", *words], env=self.environ, **{**pipes, **options})

    def run(self, *words: str) -> Answer:
        with self.start(*words) as process:
            out, errors = process.communicate(timeout=DEADLINE)
        return Answer(process.returncode, out, errors.decode())

    def call(self, *words: str) -> Answer:
        """Run a command in this process, which is much faster than a process of its own; return its answer."""
        with patch.dict(os.environ, self.environ, clear=True), _streams() as (out, errors):
            try:
                code = main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
            sys.stdout.flush()
            sys.stderr.flush()
            return Answer(code, out.getvalue(), errors.getvalue().decode())


class Question:
    """A command at a terminal, and what it has printed there."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self._controller, device = os.openpty()
        self.process = shell.start(*words, stdin=device, stderr=device, start_new_session=True)
        os.close(device)
        self._written = b""

    @property
    def shown(self) -> str:
        """What the command has printed at the terminal."""
        return self._written.decode("utf-8", "replace")

    def __enter__(self) -> Question:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._controller)

    def waits_for(self, text: str) -> None:
        """Read the terminal until it shows a text."""
        deadline = time.monotonic() + DEADLINE
        while text not in self.shown:
            assert self._read(), f"the command ended: {self.shown}"
            assert time.monotonic() < deadline, self.shown

    def answers(self, text: str) -> Answer:
        """Type an answer and return how the command ended."""
        os.write(self._controller, text.encode())
        return self.ends()

    def ends(self) -> Answer:
        """Return what the command printed on stdout and how it ended."""
        out = self.process.communicate(timeout=DEADLINE)[0]
        while self._read():
            pass
        return Answer(self.process.returncode, out, self.shown)

    def _read(self) -> bool:
        """Read from the terminal; return whether the command still has it open."""
        try:
            self._written += os.read(self._controller, 4096)
        except OSError:
            return False
        return True


@contextlib.contextmanager
def _streams() -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Replace the standard streams by an empty input and two buffers, and yield the buffers."""
    out, errors = io.BytesIO(), io.BytesIO()
    with (
        Path(os.devnull).open() as nothing,
        patch.object(sys, "stdin", nothing),
        patch.object(sys, "stdout", io.TextIOWrapper(out, "utf-8")),
        patch.object(sys, "stderr", io.TextIOWrapper(errors, "utf-8", errors="backslashreplace")),
    ):
        yield out, errors
