from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import DEADLINE, Answer, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a terminal on a machine without settings, keys and runs."""
    return Shell(tmp_path)


class LocalPod:
    """`tpu-tui local up` in one terminal, and a second terminal on the same machine."""

    def __init__(self, shell: Shell, announced: dict[str, Any], process: subprocess.Popen[bytes]) -> None:
        self.shell = shell
        self.announced = announced
        self.process = process

    def run(self, *words: str) -> Answer:
        """Run a command in a process of its own."""
        return self.shell.run(*words)

    def call(self, *words: str) -> Answer:
        """Run a command in this process."""
        return self.shell.call(*words)


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPod]:
    """Run a local pod of 4 workers with 8 cores each for the tests of a module."""
    shell = Shell(tmp_path_factory.mktemp("home"))
    process = shell.start(
        "local", "up", "--workers", "4", "--cores", "8", "--json", "--with-parent", stdin=subprocess.PIPE
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.communicate(timeout=DEADLINE)[1].decode())
    yield LocalPod(shell, json.loads(line), process)
    process.communicate(timeout=DEADLINE)
