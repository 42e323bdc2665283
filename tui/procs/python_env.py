"""Start Python processes that find this package, from any directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import tui

PACKAGE_ROOT = Path(tui.__file__).resolve().parents[1]
"""The directory from which `tui` and `trainer` are imported."""


def module_command(name: str) -> tuple[str, ...]:
    """Return the command that runs a module of this package.

    Unlike that of `python -m`, its process imports nothing from the current directory, which may be anyone's.
    """
    path = f"import sys; sys.path[:] = [{str(PACKAGE_ROOT)!r}, *filter(None, sys.path)]"
    return sys.executable, "-c", f"{path}; import runpy; runpy.run_module({name!r}, None, '__main__', True)"


def explain_import_error(error: ImportError) -> str:
    """Describe a module that went missing while the process was running."""
    return f"tpu-tui was replaced or removed while this process ran ({error})"


def python_path(environment: Mapping[str, str]) -> str:
    """Return the PYTHONPATH of `environment` with this package's directory first."""
    return os.pathsep.join([str(PACKAGE_ROOT), *filter(None, [environment.get("PYTHONPATH")])])
