"""Fixtures of the console's tests: a home of their own and an operator without connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.stage import StageOperator, a_slice
from tests.sshd import sshd

__all__ = ["sshd"]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("TPU_TUI_HOME", str(home))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return home


@pytest.fixture
def operator(own_home: Path) -> StageOperator:
    """Return an operator with two slices: one that is ready, and one that was preempted."""
    return StageOperator(own_home, a_slice(), a_slice("spare", 1, state="PREEMPTED", health=None))
