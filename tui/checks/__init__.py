"""Checks: whether a slice can work, a row each, named by worker, with what to do about it."""

from __future__ import annotations

from tui.checks.ports import DEFAULT_PORTS, check_ports
from tui.checks.reachability import check_reachability
from tui.checks.row import CheckRow
from tui.checks.run import run_checks
from tui.checks.slice_state import slice_rows

__all__ = ["DEFAULT_PORTS", "CheckRow", "check_ports", "check_reachability", "run_checks", "slice_rows"]
