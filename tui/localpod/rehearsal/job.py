"""The rehearsal job: `python -m tui.localpod.rehearsal` prints what a trainer would print, and trains nothing.

Use it to try launch, logs, stop and failure policy without waiting for a compiler. Each worker runs one process. It
reads TPU_TUI_WORKER, TPU_TUI_WORKERS and TPU_TUI_CORES, and holds the worker's devices open.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn

from tui.localpod.rehearsal.log_format import (
    BATCH,
    LOG_FORMATS,
    PREFIXES,
    LogFormat,
    accuracy_figures,
    glued,
    run_figures,
    step_figures,
)
from tui.localpod.rehearsal.log_noise import noise

STOPPED = 143
"""128 + SIGTERM: the trainer's exit code after SIGTERM."""
BROKEN_PIPE = 141
TYPICAL_RATE = 250.0
"""Samples per second of one core."""
STRAGGLER_FACTOR = 3
"""How many times slower a straggler is."""
_SHORTEST_WAIT_S = 0.002
"""Shorter waits are skipped, to reach high rates."""
_NOISE_SHARE = 0.2
_GLUED_SHARE = 0.05


class _Terminated(Exception):
    """SIGTERM was received."""


class Rehearsal:
    """The rehearsal of one worker. Its output depends only on the options, the seed and the clock."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.format: LogFormat = LOG_FORMATS[options.dialect]
        self.random = random.Random(f"{options.seed} {options.worker}")
        self.cores = [self._ordinal(local) for local in range(options.cores)]
        self.where = "before the first step"
        self._began = datetime.now()
        self._former_loss: float | None = None
        self._run = run_figures(epochs=options.epochs, steps=options.steps, cores=options.workers * options.cores)
        self._due = time.monotonic()
        self._is_terminated = self._is_sleeping = False

    def _ordinal(self, local: int) -> int:
        if self.options.interleave:
            return int(local * self.options.workers + self.options.worker)
        return int(self.options.worker * self.options.cores + local)

    def run(self) -> None:
        """Print the whole log. Raises SystemExit for `--crash-at` and on SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN if self.options.ignore_term else self._on_term)
        try:
            self._print_log()
        except _Terminated:
            self._end_on_term()

    def _print_log(self) -> None:
        self.print_line(
            "REHEARSAL: nothing is trained here; every figure below is made up by python -m tui.localpod.rehearsal "
            f"(seed {self.options.seed})"
        )
        self._print_as_leader(self.format.opening)
        for epoch in range(1, self.options.epochs + 1):
            self._run_epoch(epoch)
        self.print_line("REHEARSAL: done; nothing was trained")

    def _run_epoch(self, epoch: int) -> None:
        began = datetime.now()
        self._print_as_leader(self.format.epoch_begin, epoch=epoch)
        for step in range(self.options.steps):
            total = (epoch - 1) * self.options.steps + step
            self.where = f"epoch {epoch}, step {step}"
            self._misbehave(total)
            self._run_step(epoch, step, total)
        accuracies = accuracy_figures(epoch)
        for local, core in enumerate(self.cores if self.format.test else ()):
            figures = self._sample(local, core, epoch, 0, epoch * self.options.steps)
            if figures is not None and core not in self.options.straggler:
                self._print_all(self.format.test, **figures, **accuracies)
        now = datetime.now()
        samples = self.options.steps * BATCH
        result = {
            "epoch": epoch,
            "epoch_duration": _whole_seconds(now - began),
            "duration": _whole_seconds(now - self._began),
            "samples": samples,
            "test_samples": samples // 5,
            "global_rate": TYPICAL_RATE * self.options.cores * self.options.workers,
        }
        self._print_as_leader(self.format.epoch_end, **result, **accuracies)
        if epoch == self.options.epochs:
            self._print_as_leader(self.format.closing, **result, **accuracies)

    def _run_step(self, epoch: int, step: int, total: int) -> None:
        order = list(enumerate(self.cores if self.format.per_core else self.cores[:1]))
        self.random.shuffle(order)
        lines: list[str] = []
        for local, core in order:
            figures = self._sample(local, core, epoch, step, total)
            if figures is not None:
                lines += [template.format_map(figures) for template in self.format.step]
        if self.options.junk and len(lines) > 1 and lines[0].startswith("|") and self.random.random() < _GLUED_SHARE:
            lines[:2] = glued(lines[0], lines[1])
        for line in lines:
            self._pace(len(lines))
            self.print_line(line)
            if self.options.junk and self.random.random() < _NOISE_SHARE:
                self._write(noise(self.random))
        if not lines:
            self._pace(1)

    def _sample(self, local: int, core: int, epoch: int, step: int, total: int) -> dict[str, Any] | None:
        """Return a core's figures at this step; None for a straggler, which makes every third one."""
        rate = TYPICAL_RATE * self.random.uniform(0.95, 1.05)
        if core in self.options.straggler:
            if total % STRAGGLER_FACTOR:
                return None
            total, rate = total // STRAGGLER_FACTOR, rate / STRAGGLER_FACTOR
            epoch, step = total // self.options.steps + 1, total % self.options.steps
        loss = 0.4 + 6.5 * math.exp(-3 * total / max(50, self.options.steps * self.options.epochs))
        loss += self.random.gauss(0, 0.02)
        if any(core == nan_core and total >= nan_step for nan_core, nan_step in self.options.nan):
            loss = math.nan
        former, self._former_loss = self._former_loss, loss
        figures = step_figures(
            epoch=epoch,
            step=step,
            steps=self.options.steps,
            total=total,
            loss=loss,
            rate=rate,
        )
        return {
            **self._run,
            **figures,
            "core": core,
            "device": 1 if local == 0 and self.options.worker == 0 else 0,
            "global_rate": rate * 0.98,
            "former_loss": loss if former is None else former,
            "time": datetime.now(),
        }

    def _misbehave(self, total: int) -> None:
        if self.options.crash_at == total and self.options.worker == self.options.crash_worker:
            self._crash()
        if any(self.options.worker == worker and total == step for worker, step in self.options.silent):
            while True:
                self._sleep(3600)

    def _crash(self) -> NoReturn:
        text = (
            "Traceback (most recent call last):\n"
            '  File "rehearsal", line 1, in <module>\n'
            f"RuntimeError: REHEARSAL: worker {self.options.worker} crashes on request, at {self.where}\n"
        )
        os.write(2, text.encode())
        raise SystemExit(self.options.exit_code)

    def print_line(self, line: str) -> None:
        """Print one line, prefix and newline included, in one write."""
        prefix = PREFIXES[self.options.prefix].format(
            time=datetime.now(), address=self.options.address, worker=self.options.worker
        )
        self._write(f"{prefix}{line}\n".encode())

    def _print_all(self, templates: Sequence[str], **figures: Any) -> None:
        for template in templates:
            self.print_line(template.format_map(figures))

    def _print_as_leader(self, templates: Sequence[str], **figures: Any) -> None:
        """Print lines that only the first worker prints."""
        if self.options.worker == 0:
            self._print_all(templates, time=datetime.now(), **self._run, **figures)

    def _write(self, data: bytes) -> None:
        if self._is_terminated:
            raise _Terminated
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def _pace(self, lines: int) -> None:
        """Wait until the next line is due; one step has `lines` lines."""
        rate = self.options.rate
        if rate is None:
            rate = lines / self.options.interval if self.options.interval else 0
        if not rate:
            return
        ahead = self._due - time.monotonic()
        if ahead > _SHORTEST_WAIT_S:
            self._sleep(ahead)
        self._due = max(self._due, time.monotonic() - 1) + 1 / rate

    def _sleep(self, seconds: float) -> None:
        self._is_sleeping = True
        try:
            if self._is_terminated:
                raise _Terminated
            time.sleep(seconds)
        finally:
            self._is_sleeping = False

    def _on_term(self, *_: object) -> None:
        self._is_terminated = True
        if self._is_sleeping:
            raise _Terminated

    def _end_on_term(self) -> NoReturn:
        """Print the last line after SIGTERM and exit."""
        self._is_terminated = False
        self.print_line(f"REHEARSAL: SIGTERM received at {self.where}; ending")
        raise SystemExit(STOPPED)


def _whole_seconds(span: timedelta) -> str:
    return str(timedelta(seconds=int(span.total_seconds())))


def _core_at_step(text: str) -> tuple[int, int]:
    number, separator, step = text.partition("@")
    if not separator or not number.isdecimal() or not step.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not NUMBER@STEP")
    return int(number), int(step)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _from_environment(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default


def _own_address() -> str:
    fields = os.environ.get("SSH_CONNECTION", "").split()
    return fields[2] if len(fields) == 4 else "127.0.0.1"


def build_parser() -> argparse.ArgumentParser:
    """Return the rehearsal's command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tui.localpod.rehearsal",
        description="Print what a trainer would print. Nothing is trained. Steps count from 0 over all epochs.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--steps", type=_positive, default=100, help="steps per epoch (100)")
    add("--epochs", type=_positive, default=3)
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--interval", type=float, default=1.0, help="seconds per step (1); 0: as fast as possible")
    pace.add_argument("--rate", type=float, help="lines per second instead")
    add("--dialect", choices=tuple(LOG_FORMATS), default="torch_xla")
    add("--prefix", choices=tuple(PREFIXES), default="none", help="the launcher's prefix of every line")
    add("--cores", type=_positive, default=max(1, _from_environment("TPU_TUI_CORES", 1)), help="cores of this worker")
    add("--worker", type=int, default=_from_environment("TPU_TUI_WORKER", 0))
    add("--workers", type=_positive, default=max(1, _from_environment("TPU_TUI_WORKERS", 1)))
    add("--address", default=_own_address(), help="this worker's address in prefixes")
    add("--interleave", action="store_true", help="deal core ordinals out worker by worker, as PJRT may do")
    add("--straggler", type=int, action="append", default=[], metavar="CORE", help="a core at a third of the pace")
    add("--nan", type=_core_at_step, action="append", default=[], metavar="CORE@STEP")
    add("--crash-at", type=int, metavar="STEP")
    add("--crash-worker", type=int, default=0, metavar="N", help="which worker crashes (0)")
    add("--exit-code", type=int, default=1, help="exit code of the crash (1)")
    add(
        "--silent",
        type=_core_at_step,
        action="append",
        default=[],
        metavar="WORKER@STEP",
        help="hang, printing nothing",
    )
    add("--junk", action="store_true", help="also print other things that real logs contain")
    add("--ignore-term", action="store_true", help="ignore SIGTERM")
    add("--no-devices", action="store_true", help="do not open the files of TPU_TUI_DEVICES")
    add("--seed", type=int, default=0)
    return parser


def _hold_devices() -> Iterator[int]:
    """Open the devices as libtpu would, so that checks find the process that uses them."""
    for path in os.environ.get("TPU_TUI_DEVICES", "").split(":"):
        with contextlib.suppress(OSError):
            yield os.open(path, os.O_RDWR)


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse and return the exit code."""
    rehearsal = Rehearsal(build_parser().parse_args(arguments))
    descriptors = [] if rehearsal.options.no_devices else list(_hold_devices())
    try:
        rehearsal.run()
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return 0
