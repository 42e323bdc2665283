"""Receive the signals that end a run, wherever and however they arrive.

Python runs a signal's handler in a process's first thread only, and nothing wakes that thread where the kernel gave
the signal to another: that happens with the second of two signals at once, as systemd sends SIGTERM and SIGHUP to a
session when a VM is shut down. libtpu also replaces Python's handlers with its own ("SIGTERM received by PID",
pytorch/xla#3947), which end the process. So the signals are blocked in every thread, where no handler counts, and a
thread of each process waits for them.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Collection
from multiprocessing.synchronize import Lock

from trainer.errors import STOPPED
from trainer.progress import is_log_unread, write_error

START_UP_GRACE_S = 2.0  # after which a rank that is still starting ends
OVERDUE_S = 5.0  # later, the kernel ends a rank that was not killed

OnSignal = Callable[[signal.Signals], None]


class StopSignal:
    """Whether the run is to end; the training loop checks this between steps, and so finishes each step."""

    def __init__(self, report_lock: Lock) -> None:
        """Set up with the lock that one of a worker's ranks takes to report what concerns all of them."""
        self.received = False
        self.is_training = False  # there is something to save, and a loop that checks for signals
        self._report_lock = report_lock
        self._reporting = threading.Lock()

    @property
    def requested(self) -> bool:
        """Return whether a signal requested the end, or the log's reader has gone, as in any pipeline."""
        return self.received or is_log_unread()

    @property
    def is_early(self) -> bool:
        """Return whether a signal came before there was anything to save."""
        return self.received and not self.is_training

    def receive(self, grace: float) -> None:
        """Record a signal. The kernel ends the process if it still runs some time after `grace` seconds.

        Before there is anything to save, the process ends by itself: it may wait for something that never comes.
        """
        if not self.received:
            signal.alarm(math.ceil(grace + OVERDUE_S))
            overdue = threading.Timer(START_UP_GRACE_S, self._end_if_early)
            overdue.daemon = True
            overdue.start()
        self.received = True

    def _end_if_early(self) -> None:
        if self.is_early:
            self.report_early_end()
            os._exit(STOPPED)

    def report_early_end(self) -> None:
        """Report the end before the first step, unless a rank of this worker has reported that or an error."""
        with self._reporting:  # another thread may end the process once this one has written the line
            if self._report_lock.acquire(block=False):
                write_error("Stopping on SIGTERM before the first step.")


def block_signals() -> Collection[signal.Signals]:
    """Block the signals that end a run, in this thread and all threads and processes it starts, for `await_signals`.

    They are SIGTERM, SIGHUP (a closed terminal) and SIGINT (Ctrl-C), except those that the parent process ignores, as
    `nohup` and a shell's `&` do.
    """
    stops = {signal.SIGTERM}
    stops |= {number for number in (signal.SIGHUP, signal.SIGINT) if signal.getsignal(number) != signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    return stops


def await_signals(on_signal: OnSignal) -> None:
    """Start a thread that waits for the blocked signals and calls `on_signal` with each."""
    stops = block_signals()

    def wait() -> None:
        while True:
            on_signal(signal.Signals(signal.sigwait(stops)))

    threading.Thread(target=wait, name="signals", daemon=True).start()
    for number in stops:  # for a thread that unblocks them, as multiprocessing does while it starts its tracker
        signal.signal(number, lambda number, _: on_signal(signal.Signals(number)))
