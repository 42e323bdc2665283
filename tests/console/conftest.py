"""The stage that console tests share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("console_stage", Path(__file__).with_name("stage.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
stage = importlib.util.module_from_spec(_SPEC)
sys.modules["console_stage"] = stage
_SPEC.loader.exec_module(stage)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("TPU_TUI_HOME", str(home))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return home
