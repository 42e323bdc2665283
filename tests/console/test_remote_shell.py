"""Tests of shells on workers: the console's work goes on while one has the terminal."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.console.driving import opened_pod, until
from tests.console.stage import StageOperator
from tui.console.app import ConsoleApp
from tui.pod.slice import Slice

SSH = """#!/bin/sh
cd "${0%/*}"
: >begun
waited=0
until [ -e end ]; do
    [ "$waited" -lt 500 ] || exit 3
    waited=$((waited + 1))
    sleep 0.02
done
: >ended
"""
"""A program in place of ssh that waits until the file `end` is beside it, for ten seconds at most."""


async def test_the_event_loop_runs_while_a_shell_has_the_terminal(
    operator: StageOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)

    async def ssh_command(_slice: Slice, _worker: int) -> list[str]:
        return [str(tmp_path / "ssh")]

    monkeypatch.setattr(operator.slices, "ssh_command", ssh_command)
    monkeypatch.setattr(ConsoleApp, "suspend", lambda _: contextlib.nullcontext())  # a test's terminal has no driver
    async with opened_pod(operator) as (app, pilot):
        await pilot.press("s")
        await until(pilot, (tmp_path / "begun").exists)
        (tmp_path / "end").touch()
        await until(pilot, lambda: not app.tasks.is_running("shell"))
    assert (tmp_path / "ended").exists()
