from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import tui

pytestmark = pytest.mark.py310


def test_every_module_can_be_imported_by_this_python() -> None:
    names = [module.name for module in pkgutil.walk_packages(tui.__path__, "tui.")]
    assert {"tui.cli", "tui.runs.keeper", "tui.console.app", "tui.localpod.pod"} <= set(names)

    done = subprocess.run([sys.executable, "-c", f"import {', '.join(names)}"], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
