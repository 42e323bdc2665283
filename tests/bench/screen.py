"""Cost of the screen: 16,384 cores next to a log of 100,000 lines a second, and the whole console on a live run.

Each case is a separate process on a pseudo-terminal, which is drained and typed into as by a user.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import resource
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, at_most

SECONDS = 10.0
WARM_UP = 3.0
FEW, MANY = 32, 16_384
LOG_RATE = 100_000
"""Lines a second into the log pane."""
WORKERS, CORES, RATE = 64, 8, 1000
"""The live run: workers, cores of each, lines a second of each."""
BATCHES = 10
"""Appends a second to every log."""
KEY_EVERY = 0.087
"""Seconds between two keys: no fraction of the tick intervals, so that keys come at any moment between two ticks."""
COLUMNS, LINES = 200, 60


def figures() -> Iterator[Figure]:
    """Yield shares of a core, milliseconds from key to paint, and megabytes."""
    few, many = widgets(FEW), widgets(MANY)
    yield at_most(f"{MANY:,} rows at 10 Hz + {LOG_RATE:,} lines/s, share of a core", 100 * many["cpu"], 30, "%", 1)
    yield at_most(f"the same against {FEW} rows", many["cpu"] / few["cpu"], 1.3, "×")
    yield at_most("key to paint, median", many["key"][0], 15, "ms", 1)
    yield at_most("key to paint, p99", many["key"][1], 50, "ms", 1)
    yield at_most("memory, widgets", many["memory"], 100, "MB", 0)
    whole = console()
    yield at_most(f"console on {WORKERS} workers × {RATE:,} lines/s, share of a core", 100 * whole["cpu"], 35, "%", 1)
    yield at_most("its event loop late, p99", whole["late"][0], 50, "ms", 1)
    yield at_most("its event loop late, worst", whole["late"][1], 250, "ms", 1)
    yield at_most("its memory", whole["memory"], 150, "MB", 0)


# --- the terminal and the writers of logs -------------------------------------------------------------------------


def widgets(rows: int) -> dict[str, Any]:
    """Measure the two widgets alone, with a growing log."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name, "log")
        line = (
            b"| Training Device=xla:0/3 Epoch=1 Step=1234 Loss=5.43587 Rate=241.12 GlobalRate=236.29 Time=14:48:29\n"
        )
        with log.open("wb", buffering=0) as file:
            return on_terminal(
                ["widgets", str(rows), str(log)], lambda turn: file.write(line * (LOG_RATE // BATCHES))
            )


def console() -> dict[str, Any]:
    """Measure the whole console on a run directory that grows as a keeper makes it grow.

    This process holds the keeper's lock: without a keeper the console would log in to the workers itself.
    """
    from tui.pod.job_options import JobOptions
    from tui.pod.run import Run
    from tui.pod.worker import Worker
    from tui.runs.record.directory_lock import DirectoryLock
    from tui.runs.record.run_directory import RunDirectory

    with tempfile.TemporaryDirectory() as name:
        workers = tuple(Worker(index, internal_ip=f"10.0.0.{index + 1}") for index in range(WORKERS))
        run = Run(id="bench-20260101-000000-abcd", slice="bench", job=JobOptions(("x",)), workers=workers)
        directory = RunDirectory.create(Path(name), run)
        directory.append_event("state", state="running", cause=None)
        lock = DirectoryLock.take(directory)
        assert lock is not None
        lock.sign()
        ends = [0] * WORKERS

        def write(turn: int) -> None:
            lock.beat()
            for worker in range(WORKERS):
                data = _lines(worker, turn)
                with directory.log_path(worker).open("ab") as file:
                    file.write(data)
                ends[worker] += len(data)
                directory.append_arrival(worker, ends[worker], time.time())

        try:
            return on_terminal(["console", str(directory.path), name], write)
        finally:
            lock.close()


def _lines(worker: int, turn: int) -> bytes:
    each = RATE // BATCHES
    return b"".join(_line(worker * CORES + n % CORES, turn * each // CORES + n // CORES) for n in range(each))


def _line(core: int, step: int) -> bytes:
    """Return one training line; importing the tests' own shapes would load hypothesis into the measured process."""
    fields = f"Epoch=1 Step={step} Loss=6.87500 Rate=258.47 GlobalRate=250.00 Time=02:38:57"
    return f"| Training Device=xla:{core % 2}/{core} {fields}\n".encode()


def on_terminal(arguments: list[str], write: Any) -> dict[str, Any]:
    """Run a case on a terminal: write its logs, type, drain its output; return what it measured of itself."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with tempfile.NamedTemporaryFile("r") as answer:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.screen", *arguments, answer.name],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )
        os.close(terminal)
        began = time.monotonic()
        turns, keys = 0, 0
        while process.poll() is None:
            now = time.monotonic() - began
            if now * BATCHES > turns:
                write(turns)
                turns += 1
            if now > WARM_UP and (now - WARM_UP) / KEY_EVERY > keys:
                os.write(screen, b"j" if keys % 40 < 20 else b"k")
                keys += 1
            if select.select([screen], [], [], 0.005)[0]:
                try:
                    os.read(screen, 1 << 20)
                except OSError:
                    break
        process.wait()
        os.close(screen)
        found: dict[str, Any] = json.load(answer)
        return found


# --- the process that is measured ---------------------------------------------------------------------------------


class Watch:
    """Measurements of CPU time, key-to-paint times and the event loop's lateness after a warm-up."""

    def __init__(self, answer: Path) -> None:
        self._answer = answer
        self.keys: list[float] = []
        self._late: list[float] = []

    async def go(self, app: Any) -> None:
        """Measure, write the results, and exit the app."""
        await asyncio.sleep(WARM_UP)
        cpu, began = time.process_time(), time.monotonic()
        while (now := time.monotonic()) - began < SECONDS:
            await asyncio.sleep(0.01)
            self._late.append(time.monotonic() - now - 0.01)
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        found = {
            "cpu": share,
            "memory": peak,
            "key": _points(self.keys, 0.5, 0.99),
            "late": _points(self._late, 0.99, 1),
        }
        self._answer.write_text(json.dumps(found))
        app.exit()


def _points(seconds: list[float], *shares: float) -> list[float]:
    """Return percentiles in milliseconds; a share of 1 is the maximum."""
    ordered = sorted(seconds) or [0.0]
    return [1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in shares]


def show_widgets(rows: int, log: Path, answer: Path) -> None:
    """Show a core table and a log pane, fed as the run screen feeds them."""
    from dataclasses import replace

    from textual import events
    from textual.app import App, ComposeResult

    from tui.console.data.line_index import FileLines
    from tui.console.widgets.log.log_pane import LogPane
    from tui.console.widgets.tables.core_table_widget import CoreTableWidget
    from tui.procs.gc_policy import freeze_existing_objects

    watch = Watch(answer)
    first = _snapshot(rows)

    class Widgets(App[None]):
        CSS = "CoreTableWidget { height: 2fr; } LogPane { height: 1fr; }"

        def compose(self) -> ComposeResult:
            yield CoreTableWidget()
            yield LogPane()

        def on_mount(self) -> None:
            self.query_one(CoreTableWidget).focus()
            self.query_one(LogPane).open(FileLines(log), show_worker=False)
            self.turn = 0
            self.set_interval(1 / 10, self.show_cores)
            self.set_interval(1 / 15, self.query_one(LogPane).tick)
            self.run_worker(watch.go(self))

        def show_cores(self) -> None:
            self.turn += 1
            fresh = replace(first, loss=first.loss - self.turn / 1000, step=first.step + self.turn)
            self.query_one(CoreTableWidget).show(fresh)

        async def on_event(self, event: events.Event) -> None:
            if isinstance(event, events.Key):
                self.call_after_refresh(lambda: watch.keys.append(time.monotonic() - event.time))
            await super().on_event(event)

    freeze_existing_objects()
    Widgets().run()


def _snapshot(rows: int) -> Any:
    from tui.logs.demux import Demux

    demux = Demux()
    for step in range(10):
        for core in range(rows):
            demux.feed(core // CORES, _line(core, step), now=float(step))
    return demux.snapshot(now=10.0)


def show_console(directory: Path, home: Path, answer: Path) -> None:
    """Show the console as `tpu-tui open` does."""
    from tui.console.app import ConsoleApp
    from tui.operator import Operator
    from tui.procs.gc_policy import freeze_existing_objects
    from tui.runs.record.run_directory import RunDirectory
    from tui.settings import Settings

    watch = Watch(answer)
    styles_directory = Path(sys.modules[ConsoleApp.__module__].__file__ or "").parent
    sheets = [styles_directory / path for path in ConsoleApp.CSS_PATH]

    class Console(ConsoleApp):
        CSS_PATH = [*sheets]  # noqa: RUF012 - Textual declares it so

        def on_mount(self) -> None:
            super().on_mount()
            self.run_worker(watch.go(self))

    freeze_existing_objects()
    operator = Operator(Settings(home=home, project="bench", zones=(), read_only=True))
    Console(operator, open_run=RunDirectory.open(directory)).run()


def main(arguments: list[str]) -> None:
    """Run one case."""
    kind, first, second, answer = arguments
    if kind == "widgets":
        show_widgets(int(first), Path(second), Path(answer))
    else:
        show_console(Path(first), Path(second), Path(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
