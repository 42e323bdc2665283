from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import DEADLINE, Shell
from tests.waiting import is_running
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.timing


def test_when_local_up_has_returned_its_runs_have_no_keeper(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    words = ("local", "up", "--workers", "1", "--cores", "1", "--json", "--with-parent")
    with shell.start(*words, stdin=subprocess.PIPE) as pod:
        assert pod.stdout is not None
        assert pod.stdout.readline(), pod.communicate(timeout=DEADLINE)[1].decode()
        job = ("python3", "-m", "tui.localpod.rehearsal", "--interval", "0.2", "--steps", "100000")
        launched = shell.run("launch", "local", "--detach", "--json", "--", *job)
        assert launched.code == 0, launched.errors
        directory = RunDirectory.open(Path(json.loads(launched.out)["directory"]))
        keeper = directory.keeper_status()
        assert keeper.alive
        assert keeper.pid is not None

        pod.communicate(timeout=DEADLINE)

        assert not directory.keeper_status().alive
        assert not is_running(keeper.pid)
    states = [event.get("state") for event in directory.events()[0] if event.kind == "state"]
    assert states[-1] == "lost"
