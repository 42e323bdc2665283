"""Checks: whether a slice can work, a row each, named by worker, with what to do about it."""

from __future__ import annotations

from tui.checks.matrix import Matrix, port_matrices
from tui.checks.ports import DEFAULT_PORTS, check_ports
from tui.checks.reachability import check_reachability
from tui.checks.region import check_launch
from tui.checks.row import CheckRow
from tui.checks.run import before_launch, run_checks
from tui.checks.slice_state import slice_rows

__all__ = [
    "DEFAULT_PORTS",
    "CheckRow",
    "Matrix",
    "before_launch",
    "check_launch",
    "check_ports",
    "check_reachability",
    "port_matrices",
    "run_checks",
    "slice_rows",
]
