"""A launch is looked at before it begins: what speaks against it is named, and can be overruled."""

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
    assert "disk: " in refused.errors
    assert "worker" in refused.errors
    assert "--skip-checks" in refused.errors
    assert refused.out == ""
    assert lab.runs == []
    allowed = lab.launch("--skip-checks")
    assert allowed.code == 0, allowed.errors
    assert "disk:" not in allowed.errors
    assert len(lab.runs) == 1


def test_a_warning_is_shown_and_the_launch_goes_on(lab: Lab) -> None:
    lab.write_profile(disk_free_gib=1e9)
    answer = lab.launch()
    assert answer.code == 0, answer.errors
    assert "disk: " in answer.errors
    assert len(lab.runs) == 1


def test_a_worker_that_cannot_be_reached_is_out_of_reach_and_nothing_is_launched(lab: Lab) -> None:
    lab.write_profile()
    lab.workers[1].stop()
    answer = lab.launch()
    assert answer.code == 3
    assert "worker 1: reachability: " in answer.errors
    assert lab.runs == []


def test_a_dry_run_looks_at_nothing_and_shows_what_is_done_at_the_end(lab: Lab) -> None:
    lab.write_profile(disk_full_gib=1e9)
    answer = lab.launch("--dry-run", "--on-end", "report", "--on-end", "command:echo done")
    assert answer.code == 0, answer.errors
    assert "on end: write the report" in answer.out
    assert "on end: run here, with sh: echo done" in answer.out
    refused = lab.launch("--dry-run", "--on-end", "delete-slice")
    assert (refused.code, refused.out) == (2, "")


def test_a_threshold_that_is_no_while_is_refused(lab: Lab) -> None:
    lab.write_profile(lost_after_seconds=-5.0)
    answer = lab.launch("--dry-run")
    assert answer.code == 2
    assert "lost_after_seconds is -5" in answer.errors
