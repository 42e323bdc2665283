"""A home of their own for console tests."""

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
    """Two slices: one that works, and a slice that was preempted."""
    return StageOperator(own_home, a_slice(), a_slice("spare", 1, state="PREEMPTED", health=None))
