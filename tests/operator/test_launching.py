"""The work that planning a launch takes in the command's own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.sshd import make_key

_PLAN = """
import asyncio, sys
from tui.operator import LaunchRequest, Operator
from tui.pod.job_options import JobOptions
from tui.settings import load

async def plan():
    operator = Operator(load({"hosts": sys.argv[1], "identity": sys.argv[2]}))
    slice_ = await operator.slices.get("lab")
    spec = await operator.launches.plan(LaunchRequest(slice_, JobOptions(("true",))))
    unneeded = {"asyncssh", "tui.ssh.fleet", "tui.runs.launch.gang", "tui.runs.follow.follower"} & set(sys.modules)
    print(spec.access.identity, spec.access.client_keys, *unneeded)
    await operator.close()

asyncio.run(plan())
"""


def _planned(tmp_path: Path, passphrase: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "lab.txt").write_text("127.0.0.1\n")
    make_key(tmp_path / "key", passphrase=passphrase)
    words = [sys.executable, "-c", _PLAN, str(tmp_path / "lab.txt"), str(tmp_path / "key")]
    environ = {"TPU_TUI_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(words, capture_output=True, text=True, timeout=100, env=environ)


def test_a_key_without_a_passphrase_and_the_login_are_left_to_the_keeper(tmp_path: Path) -> None:
    assert _planned(tmp_path, "").stdout.split() == [str(tmp_path / "key"), "None"]


def test_a_locked_key_without_a_terminal_stops_the_launch_before_it_begins(tmp_path: Path) -> None:
    assert "ssh-add" in _planned(tmp_path, "correct horse").stderr
