"""Scale a training's settings to another slice type, and advise whether a larger slice is worth it."""

from __future__ import annotations

from tui.planning.plan import Plan, make_plan
from tui.planning.scaling_ladder import FinishedRun, Ladder, Rung, is_comparable, make_ladders

__all__ = ["FinishedRun", "Ladder", "Plan", "Rung", "is_comparable", "make_ladders", "make_plan"]
