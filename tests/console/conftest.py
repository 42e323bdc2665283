"""A home of their own for console tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("TPU_TUI_HOME", str(home))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return home
