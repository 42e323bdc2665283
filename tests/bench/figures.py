"""Figures of a bench and their measurement: CPU time and peak memory of whole processes, compared with a peer's."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROUNDS = 5
"""How often each process is measured, alternating with the peers'; figures are medians."""


_BYTECODE = tempfile.TemporaryDirectory(prefix="bytecode-")


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was measured, its value, and the target (empty: none)."""

    what: str
    value: str
    target: str = ""
    met: bool | None = None


def at_most(what: str, value: float, limit: float, unit: str, digits: int = 2) -> Figure:
    """Return a figure whose target is at most `limit`."""
    return Figure(what, f"{value:,.{digits}f} {unit}", f"≤ {limit:,g} {unit}", value <= limit)


def at_least(what: str, value: float, limit: float, unit: str, digits: int = 2) -> Figure:
    """Return a figure whose target is at least `limit`."""
    return Figure(what, f"{value:,.{digits}f} {unit}", f"≥ {limit:,g} {unit}", value >= limit)


@dataclass(frozen=True)
class Cost:
    """Resources that a process used: CPU seconds (user and system), and peak memory in MB (10⁶ bytes)."""

    cpu: float
    memory: float


def cost_of(argv: Sequence[str], *, home: Path) -> Cost:
    """Run a process to its end, with its output discarded, and return its cost.

    Modules of tpu-tui are compiled by then, as they are once installed.
    """
    environ = {**os.environ, "LC_ALL": "C", "TPU_TUI_HOME": str(home), "PYTHONPYCACHEPREFIX": _BYTECODE.name}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=environ)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{argv[0]} failed with code {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e6)


def costs_in_turn(commands: dict[str, Callable[[], Cost]], rounds: int = ROUNDS) -> dict[str, Cost]:
    """Return the median cost of each command; commands alternate, so that a busy machine slows all equally."""
    seen: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            seen[name].append(command())
    return {
        name: Cost(median(cost.cpu for cost in costs), median(cost.memory for cost in costs))
        for name, costs in seen.items()
    }
