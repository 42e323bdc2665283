"""The environment in which a Python process of another directory finds this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import tui

PACKAGE_ROOT = Path(tui.__file__).resolve().parents[1]
"""The directory from which `tui` and `trainer` are imported."""


def python_path(environment: Mapping[str, str]) -> str:
    """Return the PYTHONPATH of `environment` with this package's directory first."""
    return os.pathsep.join([str(PACKAGE_ROOT), *filter(None, [environment.get("PYTHONPATH")])])
