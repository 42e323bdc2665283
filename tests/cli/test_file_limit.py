"""Large pods, used by a process that may open few files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import DEADLINE, Answer, Shell
from tests.sshd import needs_sshd, openssh_worker

pytestmark = [needs_sshd, pytest.mark.timing]
WORKERS = 40
"""More workers than the low limit has connections for, and than the lowest has open files for."""
LOWEST, LOW, RAISABLE = "ulimit -n 36", "ulimit -n 64", "ulimit -Sn 64; ulimit -Hn 4096"


class Big:
    """A hosts file of many addresses of this machine, all served by one sshd."""

    def __init__(self, shell: Shell, options: tuple[str, ...]) -> None:
        self.shell = shell
        self._options = options

    def run(self, limits: str, *words: str) -> Answer:
        """Run a command in a process with these limits of open files."""
        command = [sys.executable, "-m", "tui.cli", *self._options, *words]
        done = subprocess.run(
            ["sh", "-c", f'{limits}; exec "$@"', "sh", *command],
            env=self.shell.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=2 * DEADLINE,
        )
        return Answer(done.returncode, done.stdout, done.stderr.decode())


@pytest.fixture
def big(tmp_path: Path) -> Iterator[Big]:
    shell = Shell(tmp_path / "home")
    shell.home.mkdir()
    with openssh_worker(tmp_path, host="0.0.0.0") as server:
        hosts = tmp_path / "lab.txt"
        hosts.write_text("".join(f"root@127.0.0.{number}:{server.port}\n" for number in range(1, WORKERS + 1)))
        yield Big(shell, ("--hosts", str(hosts), "--identity", str(server.identity), "--host-keys", "accept-new"))


def test_a_soft_limit_is_raised_as_far_as_needed(big: Big) -> None:
    answer = big.run(RAISABLE, "exec", "lab", "--json", "--", "true")
    assert answer.code == 0, answer.errors
    assert [row["exit_code"] for row in answer.document] == [0] * WORKERS
    answer = big.run(RAISABLE, "launch", "lab", "--name", "many", "--skip-checks", "--", "echo", "here")
    assert answer.code == 0, answer.errors
    assert "Traceback" not in answer.errors
    logs = big.run(LOWEST, "logs", "many", "--offline")
    assert (logs.code, logs.raw.count(b"here\n")) == (0, WORKERS), logs.errors


def test_a_hard_limit_is_reported_with_the_command_that_raises_it(big: Big) -> None:
    answer = big.run(LOW, "exec", "lab", "--json", "--", "true")
    assert answer.code == 3
    assert "Traceback" not in answer.errors
    assert "ulimit -Hn" in answer.errors
    assert 0 in [row["exit_code"] for row in answer.document]


def test_a_launch_beyond_the_limit_is_refused_before_it_begins(big: Big) -> None:
    answer = big.run(LOW, "launch", "lab", "--skip-checks", "--", "true")
    assert answer.code == 2
    assert f"{WORKERS} workers need {2 * WORKERS + 48} open files: a process may open 64 here" in answer.errors
    assert "ulimit -Hn" in answer.errors
    assert not list(big.shell.home.glob("runs/*/keeper"))
