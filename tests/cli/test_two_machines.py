"""One run seen from two machines, of which the second knows only how to reach the workers."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.commands import DEADLINE, Shell
from tests.cli.conftest import LocalPod
from tests.waiting import wait_until

pytestmark = pytest.mark.timing


def another_machine(pod: LocalPod, directory: Path) -> Shell:
    """Return a terminal with a home of its own and the same profile, as on a colleague's laptop."""
    other = Shell(directory / "other")
    (other.home / "profiles").mkdir(parents=True)
    shutil.copy(pod.shell.home / "profiles" / "local.toml", other.home / "profiles" / "local.toml")
    return other


def _until_stopped(name: str, shell: Shell, run: str) -> None:
    wait_until(
        lambda: shell.call("status", run, "--json").document["state"] == "stopped",
        f"the {name} machine knows the end",
    )


def test_a_run_launched_elsewhere_is_found_mirrored_from_byte_0_and_deleted(pod: LocalPod, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = ("sh", "-c", f"seq 1 2000; echo ready; until [ -e {go} ]; do sleep 0.1; done; echo late; sleep 1000")
    launched = pod.run("launch", "local", "--name", "shared", "--detach", "--json", "--", *job).document["run"]
    other = another_machine(pod, tmp_path)
    found = other.run("runs", "--json")
    assert found.code == 0, found.errors
    assert (launched, "running") in [(row["run"], row["state"]) for row in found.document]
    refused = other.run("runs", "delete", launched)
    assert refused.code == 2
    assert "stop" in refused.errors
    wait_until(lambda: b"ready" in other.call("logs", launched, "--worker", "1").raw, "the other machine has the log")
    with other.start("--read-only", "logs", launched, "--worker", "1", "--follow") as watching:
        assert watching.stdout is not None
        lines = iter(watching.stdout.readline, b"")
        assert b"ready\n" in lines
        go.touch()
        assert b"late\n" in lines
        watching.send_signal(signal.SIGINT)
        assert watching.wait(DEADLINE) == 130
    stopped = other.run("stop", launched, "--json", "--grace", "5")
    assert stopped.document["stopped"], stopped.errors
    _until_stopped("first", pod.shell, launched)
    _until_stopped("other", other, launched)
    mirrors = [(shell.home / "runs" / launched / "worker-001.log").read_bytes() for shell in (pod.shell, other)]
    assert mirrors[0] == mirrors[1]
    assert mirrors[0].startswith(b"1\n2\n3\n")
    deleted = other.call("runs", "delete", launched, "--yes", "--json")
    assert deleted.document[0]["deleted"], "a deletion waits until the keeper has ended"
    assert launched not in [row["run"] for row in other.call("runs", "--json").document]


def test_a_run_that_ended_elsewhere_is_reported_as_ended_and_can_be_deleted(pod: LocalPod, tmp_path: Path) -> None:
    attached = pod.run("launch", "local", "--name", "short", "--skip-checks", "--json", "--", "echo", "hi")
    launched = json.loads(attached.raw.splitlines()[0])["run"]
    other = another_machine(pod, tmp_path)
    found = {row["run"]: row for row in other.run("runs", "--json").document}[launched]
    assert (found["state"], found["exit_codes"]) == ("succeeded", [0] * 4)
    assert other.call("logs", "short", "--worker", "2").raw == b"hi\n"
    twice = other.call("runs", "delete", "short", launched, "--yes", "--json")
    assert ([row["deleted"] for row in twice.document], twice.code) == ([True], 0)
    assert launched not in [row["run"] for row in other.call("runs", "--json").document]
