"""The environment in which a Python process of another directory finds this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import tui

PACKAGE_ROOT = Path(tui.__file__).resolve().parents[1]
"""The directory from which `tui` and `trainer` are imported."""


def explain_import_error(error: ImportError) -> str:
    """Return a sentence for a module that is missing in a process that began with it installed."""
    return f"tpu-tui was replaced or removed while this process ran ({error})"


def python_path(environment: Mapping[str, str]) -> str:
    """Return the PYTHONPATH of `environment` with this package's directory first."""
    return os.pathsep.join([str(PACKAGE_ROOT), *filter(None, [environment.get("PYTHONPATH")])])
