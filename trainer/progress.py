"""Write the log lines that consoles read, in the form of PyTorch/XLA's own test utilities, and compute their rates.

Each line is one write(2), newline included, so that processes that share a log never mix their lines.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

T = TypeVar("T")

SMOOTHING = 0.4  # share of the former rate in the new one, as in torch_xla's RateTracker
HIDDEN = ("Cc", "Cf", "Cs")  # Unicode's categories of controls, format characters and surrogates
HARMLESS = "\t\u200c\u200d"  # exceptions: tabs, and the joiners that some scripts and emoji need
FULL = (errno.ENOSPC, errno.EDQUOT)  # errors of a full disk or quota

_losing = False  # whether lines are being lost to a full disk
_unread = False  # whether the log's reader has gone


def one_line(text: str) -> str:
    """Return a text as one line without escape sequences, since it may hold names from untrusted data."""
    line = " ".join(text.splitlines())
    if line.isprintable():
        return line
    return "".join(
        "\ufffd" if unicodedata.category(char) in HIDDEN and char not in HARMLESS else char for char in line
    )


def write_line(text: str, descriptor: int = 1) -> None:
    """Write a text as one line, which `one_line` makes harmless, with a single write(2).

    A line that cannot be written is lost: Ctrl-C ends `| tee log` at once, and must not keep the trainer from saving.
    A full disk is reported once on standard error: the training is worth more than its log.
    """
    global _losing, _unread
    try:
        sys.stdout.flush()
        _write(descriptor, f"{one_line(text)}\n".encode())
    except OSError as error:
        if not _losing and error.errno in FULL:
            _losing = True
            write_error(f"Lines of the log are being lost: {error.strerror}. Make room for it.")
        _unread = _unread or (descriptor == 1 and error.errno == errno.EPIPE)


def _write(descriptor: int, line: bytes) -> None:
    """Write a line; in a pipe that another process made non-blocking, wait until there is room for all of it."""
    while True:
        with contextlib.suppress(BlockingIOError):
            os.write(descriptor, line)
            return
        select.select([], [descriptor], [])


def write_error(sentence: str) -> None:
    """Write a sentence as one line to standard error."""
    write_line(sentence, descriptor=2)


def is_log_unread() -> bool:
    """Return whether the log's reader has gone, as `| head` does when it has enough."""
    return _unread


def every_core(cores: int) -> str:
    """Return `each of 4 cores` or `the only core`."""
    return f"each of {cores} cores" if cores > 1 else "the only core"


def format_count(number: int, noun: str) -> str:
    """Return `1 shard` or `2 shards`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class RateTracker:
    """Measures samples per second: `rate` is smoothed between calls, `global_rate` counts from the start.

    It computes what torch_xla's RateTracker does, which measures time with a clock that may be set meanwhile.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = self._last = clock()
        self._pending = self._total = 0
        self._smoothed: float | None = None

    def add(self, samples: int) -> None:
        """Count samples that have been trained on."""
        self._pending += samples
        self._total += samples

    def rate(self) -> float:
        """Return the moving average, updated with what was added since the last call."""
        now = self._clock()
        if now > self._last:
            latest = self._pending / (now - self._last)
            former = latest if self._smoothed is None else self._smoothed
            self._smoothed = (1 - SMOOTHING) * latest + SMOOTHING * former
            self._pending, self._last = 0, now
        return self._smoothed or 0.0

    def global_rate(self) -> float:
        """Return all samples divided by all time since the start."""
        elapsed = self._clock() - self._started
        return self._total / elapsed if elapsed > 0 else 0.0


class WaitTimer:
    """Measures how long a loop waits for its input."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.seconds = 0.0

    def time_items(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the same items, adding up the time until each comes."""
        iterator = iter(items)
        while True:
            started_at = self._clock()
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self.seconds += self._clock() - started_at
            yield item


def waiting_line(epoch: int, waits: Sequence[float], took: float) -> str:
    """Return the line of how many seconds the replicas waited for data in an epoch that took `took` seconds."""
    mean, longest = sum(waits) / len(waits), max(waits)
    return (
        f"Epoch {epoch} waited for data {mean:.2f} s, {100 * mean / max(took, 1e-9):.1f}% of the time; "
        f"longest {longest:.2f} s on core {waits.index(longest)}"
    )


def clock(now: datetime) -> str:
    """Return the time of day with which every line ends."""
    return now.strftime("%H:%M:%S")


def training_line(label: str, epoch: int, step: int, loss: float, rate: float, overall: float, now: datetime) -> str:
    """Return the line of a core's progress within an epoch; rates are in samples per second."""
    return (
        f"| Training Device={label} Epoch={epoch} Step={step} Loss={loss:.5f} "
        f"Rate={rate:.2f} GlobalRate={overall:.2f} Time={clock(now)}"
    )


def test_line(label: str, epoch: int, step: int, accuracy: float, now: datetime) -> str:
    """Return the line of a core's progress within an evaluation; `accuracy` is in percent so far."""
    return f"| Test Device={label} Step={step} Epoch={epoch} Accuracy={accuracy:.2f} Time={clock(now)}"


def train_begin_line(epoch: int, now: datetime) -> str:
    """Return the line with which an epoch begins."""
    return f"Epoch {epoch} train begin {clock(now)}"


def train_end_line(epoch: int, took: float, samples: int, slice_rate: float, now: datetime) -> str:
    """Return the line with which an epoch's training ends; `slice_rate` is the sum over the cores."""
    return (
        f"Epoch {epoch} train end {clock(now)}, Epoch Time={duration(took)}, "
        f"Replica Train Samples={samples}, Reduced GlobalRate={slice_rate:.2f}"
    )


def test_end_line(epoch: int, reduced: float, replica: float, samples: int, now: datetime) -> str:
    """Return the line with which an evaluation ends; accuracies in percent, of the slice and of this replica."""
    return (
        f"Epoch {epoch} test end {clock(now)}, Reduced Accuracy={reduced:.2f}%, "
        f"Replica Accuracy={replica:.2f}%, Replica Test Samples={samples}"
    )


def improved_line(epoch: int, before: float | None, accuracy: float, *, saving: bool) -> str:
    """Return the line for the best evaluation so far; accuracies are in percent."""
    then = " - saving model..." if saving else ""
    return f"Epoch {epoch} validation accuracy improved from {before or 0.0:.2f}% to {accuracy:.2f}%{then}"


def total_lines(took: float, best: float | None, rate: float | None) -> list[str]:
    """Return the last lines of a run; `best` is in percent, None where nothing was evaluated.

    `rate` is the slice's average over all epochs, without evaluations; None where nothing was trained.
    """
    accuracy = [] if best is None else [f"Max Accuracy: {best:.2f}%"]
    average = [] if rate is None else [f"Avg. Global Rate: {rate:.2f} examples per second"]
    return [f"Total Train Time: {duration(took)}", *accuracy, *average]


def duration(seconds: float) -> str:
    """Return `0:41:25` or `1 day, 1:01:01`."""
    return str(timedelta(seconds=round(seconds)))
