"""The rehearsal job: `python -m tui.localpod.rehearsal` prints what a trainer would, and trains nothing.

It is for trying launch, logs, stop and failure policy without waiting for a compiler. One process a worker; who it is
comes from TPU_TUI_WORKER, TPU_TUI_WORKERS and TPU_TUI_CORES. While it runs it holds the worker's devices open.
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
from datetime import datetime
from typing import NoReturn

from tui.localpod.rehearsal.log_format import LOG_FORMATS, PREFIXES, EpochEnd, LogFormat, RehearsedStep, glued
from tui.localpod.rehearsal.log_noise import noise

STOPPED = 143
"""128 + SIGTERM, as the trainer ends when it obeyed one."""
BROKEN_PIPE = 141
TYPICAL_RATE = 250.0
"""Samples a second of one core."""
STRAGGLER_FACTOR = 3
"""How many times slower the straggler is."""
_MEANT_AHEAD = 0.002
"""Seconds: shorter waits are left out, so that high rates are kept."""
_NOISE_SHARE = 0.2
_GLUED_SHARE = 0.05


class _Terminated(Exception):
    """SIGTERM came."""


class Rehearsal:
    """One worker's part. Its output depends only on the options, the seed and the clock."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.speech: LogFormat = LOG_FORMATS[options.dialect]()
        self.random = random.Random(f"{options.seed} {options.worker}")
        self.cores = [self._ordinal(local) for local in range(options.cores)]
        self.where = "before the first step"
        self._began = self._epoch_began = datetime.now()
        self._due = time.monotonic()
        self._terminated = self._sleeping = False
        self._accuracy = 0.0

    def _ordinal(self, local: int) -> int:
        if self.options.interleave:
            return int(local * self.options.workers + self.options.worker)
        return int(self.options.worker * self.options.cores + local)

    def run(self) -> None:
        """Print the whole log. Raises SystemExit for `--crash-at`, _Terminated on SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN if self.options.ignore_term else self._on_term)
        self.say(
            "REHEARSAL: nothing is trained here; every figure below is made up by python -m tui.localpod.rehearsal "
            f"(seed {self.options.seed})"
        )
        if self.options.worker == 0 and self.speech.tells_epochs:
            self._say_all(self.speech.opening())
        for epoch in range(1, self.options.epochs + 1):
            self._epoch(epoch)
        self.say("REHEARSAL: done; nothing was trained")

    def _epoch(self, epoch: int) -> None:
        leads = self.options.worker == 0
        self._epoch_began = datetime.now()
        if leads and self.speech.tells_beginnings:
            self._say_all(self.speech.epoch_begin(epoch, self._epoch_began))
        for step in range(self.options.steps):
            total = (epoch - 1) * self.options.steps + step
            self.where = f"epoch {epoch}, step {step}"
            self._mishaps(total)
            self._step(epoch, step, total)
        if self.speech.tells_epochs:
            self._evaluate(epoch)
            if leads:
                self._end_epoch(epoch)

    def _step(self, epoch: int, step: int, total: int) -> None:
        order = list(enumerate(self.cores if self.speech.is_per_core else self.cores[:1]))
        self.random.shuffle(order)
        lines: list[str] = []
        for local, core in order:
            one = self._sample(local, core, epoch, step, total)
            if one is not None:
                lines += self.speech.sample(one)
        if self.options.junk and len(lines) > 1 and lines[0].startswith("|") and self.random.random() < _GLUED_SHARE:
            lines[:2] = glued(lines[0], lines[1])
        for line in lines:
            self._pace(len(lines))
            self.say(line)
            if self.options.junk and self.random.random() < _NOISE_SHARE:
                self._write(noise(self.random))
        if not lines:
            self._pace(1)

    def _sample(self, local: int, core: int, epoch: int, step: int, total: int) -> RehearsedStep | None:
        """Return what a core prints at this step; a straggler prints every third step only."""
        slow = core in self.options.straggler
        if slow and step % STRAGGLER_FACTOR:
            return None
        factor = STRAGGLER_FACTOR if slow else 1
        rate = TYPICAL_RATE * self.random.uniform(0.95, 1.05) / factor
        loss = 0.4 + 6.5 * math.exp(-3 * total / max(50, self.options.steps * self.options.epochs))
        loss += self.random.gauss(0, 0.02)
        if any(core == who and total >= when for who, when in self.options.nan):
            loss = math.nan
        return RehearsedStep(
            core=core,
            device=1 if local == 0 and self.options.worker == 0 else 0,
            epoch=epoch,
            step=step // factor,
            total=total // factor,
            steps=self.options.steps,
            loss=loss,
            rate=rate,
            global_rate=rate * 0.98,
            time=datetime.now(),
        )

    def _evaluate(self, epoch: int) -> None:
        self._accuracy = 100 * (1 - math.exp(-epoch / 4))
        for local, core in enumerate(self.cores):
            last = self._sample(local, core, epoch, 0, epoch * self.options.steps)
            if last is not None:
                self._say_all(self.speech.test(last, self._accuracy))

    def _end_epoch(self, epoch: int) -> None:
        rate = TYPICAL_RATE * self.options.cores * self.options.workers
        former = 100 * (1 - math.exp(-(epoch - 1) / 4))
        end = EpochEnd(epoch, self.options.steps, self._epoch_began, datetime.now(), rate, self._accuracy, former)
        self._say_all(self.speech.epoch_end(end))
        if epoch == self.options.epochs:
            self._say_all(self.speech.closing(self._began, end))

    def _mishaps(self, total: int) -> None:
        if self.options.crash_at == total and self.options.worker == self.options.crash_worker:
            self._crash()
        if any(self.options.worker == who and total == when for who, when in self.options.silent):
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

    def say(self, line: str) -> None:
        """One line, prefix and newline included, in one write."""
        prefix = PREFIXES[self.options.prefix].format(
            time=datetime.now(), address=self.options.address, worker=self.options.worker
        )
        self._write(f"{prefix}{line}\n".encode())

    def _say_all(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.say(line)

    def _write(self, data: bytes) -> None:
        if self._terminated:
            raise _Terminated
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def _pace(self, lines: int) -> None:
        """Wait until the next line is due; `lines` make up one step."""
        rate = self.options.rate
        if rate is None:
            rate = lines / self.options.interval if self.options.interval else 0
        if not rate:
            return
        ahead = self._due - time.monotonic()
        if ahead > _MEANT_AHEAD:
            self._sleep(ahead)
        self._due = max(self._due, time.monotonic() - 1) + 1 / rate

    def _sleep(self, seconds: float) -> None:
        self._sleeping = True
        try:
            if self._terminated:
                raise _Terminated
            time.sleep(seconds)
        finally:
            self._sleeping = False

    def _on_term(self, *_: object) -> None:
        self._terminated = True
        if self._sleeping:
            raise _Terminated

    def obey(self) -> NoReturn:
        """The last line after SIGTERM."""
        self._terminated = False
        self.say(f"REHEARSAL: SIGTERM received at {self.where}; ending")
        raise SystemExit(STOPPED)


def _core_at_step(text: str) -> tuple[int, int]:
    who, separator, when = text.partition("@")
    if not separator or not who.isdecimal() or not when.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not NUMBER@STEP")
    return int(who), int(when)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count")
    return int(text)


def _from_environment(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise


def _own_address() -> str:
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else "127.0.0.1"


def build_parser() -> argparse.ArgumentParser:
    """The rehearsal's command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tui.localpod.rehearsal",
        description="Print what a trainer would print. Nothing is trained. Steps count from 0 over all epochs.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--steps", type=_positive, default=100, help="steps an epoch (100)")
    add("--epochs", type=_positive, default=3)
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--interval", type=float, default=1.0, help="seconds a step (1); 0: as fast as it goes")
    pace.add_argument("--rate", type=float, help="lines a second instead")
    add("--dialect", choices=tuple(LOG_FORMATS), default="torch_xla")
    add("--prefix", choices=tuple(PREFIXES), default="none", help="what the launcher puts before every line")
    add("--cores", type=_positive, default=max(1, _from_environment("TPU_TUI_CORES", 1)), help="cores of this worker")
    add("--worker", type=int, default=_from_environment("TPU_TUI_WORKER", 0))
    add("--workers", type=_positive, default=max(1, _from_environment("TPU_TUI_WORKERS", 1)))
    add("--address", default=_own_address(), help="this worker's address in prefixes")
    add("--interleave", action="store_true", help="core ordinals dealt out worker by worker, as PJRT may do")
    add("--straggler", type=int, action="append", default=[], metavar="CORE", help="a core three times slower")
    add("--nan", type=_core_at_step, action="append", default=[], metavar="CORE@STEP")
    add("--crash-at", type=int, metavar="STEP")
    add("--crash-worker", type=int, default=0, metavar="N", help="which worker crashes (0)")
    add("--exit-code", type=int, default=1, help="what it crashes with (1)")
    add(
        "--silent", type=_core_at_step, action="append", default=[], metavar="WORKER@STEP", help="hang without a word"
    )
    add("--junk", action="store_true", help="also what else stands in real logs")
    add("--ignore-term", action="store_true", help="do not obey SIGTERM")
    add("--no-devices", action="store_true", help="leave the files of TPU_TUI_DEVICES alone")
    add("--seed", type=int, default=0)
    return parser


def _hold_devices() -> Iterator[int]:
    """Open the devices as libtpu would, so that checks find their owner."""
    for path in os.environ.get("TPU_TUI_DEVICES", "").split(":"):
        with contextlib.suppress(OSError):
            yield os.open(path, os.O_RDWR)


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse; returns the exit code."""
    rehearsal = Rehearsal(build_parser().parse_args(arguments))
    held = [] if rehearsal.options.no_devices else list(_hold_devices())
    try:
        try:
            rehearsal.run()
        except _Terminated:
            rehearsal.obey()
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        for descriptor in held:
            os.close(descriptor)
    return 0
