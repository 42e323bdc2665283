"""The workers are checked before a launch begins; failed checks are named, and can be overruled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Shell
from tests.cli.lab import Lab
from tests.sshd import OpensshWorker, needs_sshd, sshd

__all__ = ["sshd"]
pytestmark = needs_sshd


@pytest.fixture
def lab(shell: Shell, sshd: Callable[..., OpensshWorker], tmp_path: Path) -> Lab:
    return Lab(shell, [sshd(index=index, bare=True) for index in range(2)], tmp_path)


def test_a_failed_check_refuses_the_launch_and_can_be_overruled(lab: Lab) -> None:
    lab.write_profile(disk_full_gib=1e9)
    refused = lab.launch()
    assert refused.code == 1
    assert refused.errors.count("disk: ") == 3, "home, /tmp and the cause"
    assert "workers 0-1: disk: " in refused.errors
    assert "--skip-checks" in refused.errors
    (refused_run,) = lab.runs
    status = lab.shell.call("status", refused_run, "--offline", "--json").document
    assert status["state"] == "failed"
    assert "checks of the launch failed: workers 0-1: disk: " in status["cause"]
    assert not list((lab.workers[0].home / ".tpu-tui").glob("runs/*")), "nothing is left on a worker"
    allowed = lab.launch("--skip-checks")
    assert allowed.code == 0, allowed.errors
    assert "disk:" not in allowed.errors


def test_a_warning_is_shown_and_the_launch_goes_on(lab: Lab) -> None:
    lab.write_profile(disk_free_gib=1e9)
    answer = lab.launch()
    assert answer.code == 0, answer.errors
    assert "disk: " in answer.errors
    assert len(lab.runs) == 1


def test_an_unreachable_worker_is_named_and_nothing_is_launched(lab: Lab) -> None:
    lab.write_profile()
    lab.workers[1].stop()
    answer = lab.launch()
    assert answer.code == 3
    assert "worker 1: connect failed: " in answer.errors
    assert [lab.shell.call("status", run, "--offline", "--json").document["state"] for run in lab.runs] == ["failed"]


def test_a_dry_run_checks_no_worker_and_shows_the_actions_at_the_end(lab: Lab) -> None:
    lab.write_profile(disk_full_gib=1e9)
    answer = lab.launch("--dry-run", "--on-end", "report", "--on-end", "command:echo done")
    assert answer.code == 0, answer.errors
    assert "on end: write the report" in answer.out
    assert answer.out.endswith("\non end: run here, with sh: echo done\n")
    refused = lab.launch("--dry-run", "--on-end", "delete-slice")
    assert (refused.code, refused.out) == (2, "")


def test_a_threshold_that_is_a_negative_duration_is_refused(lab: Lab) -> None:
    lab.write_profile(lost_after_seconds=-5.0)
    answer = lab.launch("--dry-run")
    assert answer.code == 2
    assert "lost_after_seconds is -5" in answer.errors
