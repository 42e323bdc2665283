"""The requirements of a local pod: Linux, and memory for the demo's training."""

from __future__ import annotations

import sys
from pathlib import Path

from tui.errors import TpuTuiError, UsageError
from tui.text.printable import format_count

GIB = 1 << 30
TRAINER_BYTES = int(1.1 * GIB)
"""One trainer process on XLA's CPU device with the demo's small ResNet; PyTorch and the compiler take most of it."""
WORKER_BYTES = 20 << 20
"""One worker's host process and the processes that supervise a job."""
POD_BYTES = int(0.5 * GIB)
"""The API, the bucket and the console together."""


def require_linux() -> None:
    """Raise UsageError, which names an alternative, on a system that cannot run a local pod."""
    if not sys.platform.startswith("linux"):
        raise UsageError(
            "a local pod needs Linux",
            why=f"its guardian finds processes in /proc, which {sys.platform} does not have",
            remedy="run it on a Linux machine or in a container; tpu-tui replay FILE shows a saved log here",
        )


def memory_needed(workers: int, cores: int) -> int:
    """Return the bytes that a pod of this shape needs while the demo trains on it: one trainer process per core."""
    return POD_BYTES + workers * (WORKER_BYTES + cores * TRAINER_BYTES)


def memory_available(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the bytes free for new processes on the machine and in this cgroup (v2); None if unknown."""
    figures = [figure for figure in (_machine(proc), _cgroup(proc, cgroups)) if figure is not None]
    return min(figures, default=None)


def _machine(proc: Path) -> int | None:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) * 1024 if sizes else None


def _cgroup(proc: Path, cgroups: Path) -> int | None:
    try:
        path = next(line[3:] for line in (proc / "self/cgroup").read_text().splitlines() if line.startswith("0::"))
        directory = cgroups / path.lstrip("/")
        limit = (directory / "memory.max").read_text().strip()
        if limit == "max":
            return None
        statistics = dict(line.split() for line in (directory / "memory.stat").read_text().splitlines())
        used = int((directory / "memory.current").read_text()) - int(statistics.get("inactive_file", 0))
        return max(0, int(limit) - used)
    except (OSError, StopIteration, ValueError):
        return None


def check_memory(workers: int, cores: int) -> None:
    """Raise TpuTuiError if the demo's training would not fit; unknown memory counts as enough."""
    available, needed = memory_available(), memory_needed(workers, cores)
    if available is None or available >= needed:
        return
    fits = max((n for n in range(1, workers) if memory_needed(n, cores) <= available), default=1)
    size = f"{format_count(workers, 'worker')} with {format_count(cores, 'core')} each"
    raise TpuTuiError(
        f"the demo needs {needed / GIB:.1f} GiB to train on {size}",
        why=f"{available / GIB:.1f} GiB are free",
        remedy=f"use --workers {fits}{' --cores 1' if cores > 1 else ''}, or --job rehearsal, which does not train",
    )
