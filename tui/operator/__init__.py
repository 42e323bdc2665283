"""Everything tpu-tui can do, in one place, for the console and the commands."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.operator.facade import Operator
    from tui.runs.launch.launch_request import LaunchRequest

__all__ = ["LaunchRequest", "Operator"]

_MODULES = {
    "LaunchRequest": "tui.runs.launch.launch_request",
    "Operator": "tui.operator.facade",
}
"""Where each name is defined: a command loads only what it uses."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
