"""Commands run as a person runs them: in a process of their own, with a home of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """A terminal on one machine: `TPU_TUI_HOME` and nothing else of ours in the environment."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TPU_TUI_", "CLOUDSDK_"))}
        self.environ = {**kept, "TPU_TUI_HOME": str(home), "HOME": str(home), "CLOUDSDK_CONFIG": str(home / "gcloud")}

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([sys.executable, "-m", "tui.cli", *words], env=self.environ, **{**pipes, **options})

    def run(self, *words: str) -> Answer:
        with self.start(*words) as process:
            out, errors = process.communicate(timeout=DEADLINE)
        return Answer(process.returncode, out, errors.decode())
