"""Everything tpu-tui can do, in one place: the console and the commands both call this, and nothing below it."""

from __future__ import annotations

from tui.operator.runs import Operator, rfc3339
from tui.runs.launch.launch_request import LaunchRequest

__all__ = ["LaunchRequest", "Operator", "rfc3339"]
