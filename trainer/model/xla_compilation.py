"""Announce each graph that XLA compiles, and report graphs compiled after the second run of a step."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as metrics
import torch_xla.runtime as xr

from trainer.errors import ConfigError, TrainerError
from trainer.progress import write_error, write_line
from trainer.storage.urls import normalise

SETTLED = 2  # steps in which a graph may be compiled: the first has other inputs than those after it
NANOSECONDS = 1e9
CACHE_PATH = "XLA_PERSISTENT_CACHE_PATH"  # the variable in which torch_xla finds its cache's directory
_CACHING = threading.Lock()


class Compilation:
    """Announces the first run of each graph, and counts graphs that later runs compile."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._runs: Counter[str] = Counter()
        self.late = 0  # graphs compiled after a step's second run, each of which stalls the slice

    @contextlib.contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Surround one run of a step: announce that the first run compiles, count graphs that later runs compile."""
        self._runs[what] += 1
        if self._runs[what] == 1:
            write_line(f"Compiling the {what} for {self._label}, once; this can take a minute ...")
            started_at = time.monotonic()
            yield
            xm.wait_device_ops()
            write_line(f"Compiled the {what} for {self._label} in {time.monotonic() - started_at:.1f} s")
            return
        before = count_compilations()
        yield
        more = count_compilations() - before
        if more and self._runs[what] > SETTLED:
            self.late += more
            write_line(f"Compiled the {what} for {self._label} again, at its run {self._runs[what]}: shapes changed?")

    def metrics_line(self, epoch: int) -> str:
        """Return the line with XLA's counts so far in this process."""
        return (
            f"Epoch {epoch} metrics of {self._label}: {count_compilations()} graphs compiled "
            f"in {_seconds('CompileTime'):.1f} s, {self.late} after step {SETTLED}; "
            f"{_seconds('TransferToDeviceTime'):.1f} s of transfers to the device"
        )

    def serve_profiler(self, port: int) -> None:
        """Let TensorBoard's profiler, or xp.trace, connect to this process."""
        import torch_xla.debug.profiler as profiler

        try:
            self._profiler = profiler.start_server(port)  # None on all but the first rank of each worker
        except RuntimeError as error:
            why = str(error).splitlines()[0]
            raise TrainerError(
                f"The profiler cannot listen on port {port}", why=why, remedy="Give another --profiler-port"
            ) from error
        if self._profiler is not None:
            write_line(f"The profiler of {self._label} listens on port {port}")


def use_compilation_cache(directory: str) -> None:
    """Let this process find the graphs that it compiled in an earlier run; call it before the first graph.

    Each process has its own directory, since all write at once; two replicas on TPU v2 and v3 share a process. A
    directory that the user set in the environment takes precedence.
    """
    with _CACHING:
        if CACHE_PATH in os.environ:
            return
        try:
            path = Path(normalise(directory)) / f"process-{os.environ.get('PJRT_LOCAL_PROCESS_RANK', '0')}"
            path.mkdir(parents=True, exist_ok=True)
        except (OSError, ConfigError) as error:
            why = f"{directory}: {error.strerror}." if isinstance(error, OSError) else str(error)
            write_error(f"Compiled graphs are not kept for the next run. {why}")
            return
        xr.initialize_cache(str(path))


def count_compilations() -> int:
    """Return the number of graphs compiled so far in this process."""
    return int(metrics.counter_value("UncachedCompile") or 0)  # type: ignore[no-untyped-call]


def _seconds(name: str) -> float:
    metric = metrics.metric_data(name)  # type: ignore[no-untyped-call]
    return 0.0 if metric is None else float(metric[1]) / NANOSECONDS
