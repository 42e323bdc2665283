"""The environment in which a Python process finds this package from any directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import tui

PACKAGE_ROOT = Path(tui.__file__).resolve().parents[1]
"""The directory from which `tui` and `trainer` are imported."""


def explain_import_error(error: ImportError) -> str:
    """Describe a module that went missing while the process was running."""
    return f"tpu-tui was replaced or removed while this process ran ({error})"


def python_path(environment: Mapping[str, str]) -> str:
    """Return the PYTHONPATH of `environment` with this package's directory first."""
    return os.pathsep.join([str(PACKAGE_ROOT), *filter(None, [environment.get("PYTHONPATH")])])
