"""What a bench finds, and how it is measured: CPU time and peak memory of whole processes, ours beside a peer's."""

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
"""Each process is measured so often, ours and the peers' in turn; medians are told."""


_BYTECODE = tempfile.TemporaryDirectory(prefix="bytecode-")


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was measured, how much, and what it should be (empty: nothing is asked)."""

    what: str
    value: str
    target: str = ""
    met: bool | None = None


def at_most(what: str, value: float, limit: float, unit: str, digits: int = 2) -> Figure:
    """A figure that should not be above a limit."""
    return Figure(what, f"{value:,.{digits}f} {unit}", f"≤ {limit:,g} {unit}", value <= limit)


def at_least(what: str, value: float, limit: float, unit: str, digits: int = 2) -> Figure:
    """A figure that should not be below a limit."""
    return Figure(what, f"{value:,.{digits}f} {unit}", f"≥ {limit:,g} {unit}", value >= limit)


@dataclass(frozen=True)
class Cost:
    """What a process took: CPU seconds (its own and the system's for it), peak memory in MB (10⁶ bytes)."""

    cpu: float
    memory: float


def cost_of(argv: Sequence[str], *, home: Path) -> Cost:
    """Run a process to its end, output thrown away.

    Ours finds its modules compiled, as it does where it is installed.
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


def costs_in_turn(ways: dict[str, Callable[[], Cost]], rounds: int = ROUNDS) -> dict[str, Cost]:
    """The median cost of each way; they take turns, so that a busy machine slows all alike."""
    seen: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seen[name].append(way())
    return {
        name: Cost(median(cost.cpu for cost in costs), median(cost.memory for cost in costs))
        for name, costs in seen.items()
    }
