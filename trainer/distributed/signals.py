"""Whether a run is to end: the signals that ask for it, heard wherever and however they arrive.

Python runs a signal's handler in a process's first thread only, and nothing wakes that one where the kernel gave the
signal to another: it does so with the second of two that come at once, as systemd sends SIGTERM and SIGHUP to a
session when a VM is shut down. And libtpu puts handlers of its own in the place of Python's ("SIGTERM received by
PID", pytorch/xla#3947), which end the process. So the signals are blocked in every thread, where no handler counts,
and a thread of each process waits for them.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Collection

from trainer.errors import STOPPED
from trainer.progress import is_log_unread, write_line

START_UP_GRACE_S = 2.0  # seconds after which a rank that is still coming up ends
OVERDUE_S = 5.0  # seconds later at which a rank ends that nobody was there to kill

OnSignal = Callable[[signal.Signals], None]


class StopSignal:
    """Whether the run is to end. The loop looks between steps: a step that has begun is finished."""

    def __init__(self) -> None:
        self.received = False
        self.is_training = False  # there is something to save, and a loop that looks

    @property
    def requested(self) -> bool:
        """By a signal, or because nobody reads the log any more, as any program in a pipeline ends then."""
        return self.received or is_log_unread()

    def receive(self, grace: float) -> None:
        """A signal has come. What has not ended `grace` seconds later, and nobody has killed, the kernel ends.

        Before there is anything to save, the process ends by itself: it may be waiting for what never comes.
        """
        if not self.received:
            signal.alarm(math.ceil(grace + OVERDUE_S))
            overdue = threading.Timer(START_UP_GRACE_S, self._end_if_idle)
            overdue.daemon = True
            overdue.start()
        self.received = True

    def _end_if_idle(self) -> None:
        if not self.is_training:
            write_line("Stopping on SIGTERM before the first step.", descriptor=2)
            os._exit(STOPPED)


def block_signals() -> Collection[signal.Signals]:
    """Block what ends a run, in this thread and all that it starts, processes too; it waits for `await_signals`.

    SIGTERM; SIGHUP, which a closed terminal sends; SIGINT, which is Ctrl-C. Not what whoever started this has
    ignored, as `nohup` and a shell's `&` do.
    """
    stops = {signal.SIGTERM}
    stops |= {each for each in (signal.SIGHUP, signal.SIGINT) if signal.getsignal(each) != signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    return stops


def await_signals(on_signal: OnSignal) -> None:
    """Have a thread of this process wait for the signals that are blocked, and call `receive` with each."""
    stops = block_signals()

    def wait() -> None:
        while True:
            on_signal(signal.Signals(signal.sigwait(stops)))

    threading.Thread(target=wait, name="signals", daemon=True).start()
    for number in stops:  # for a thread that lets them through: multiprocessing does, while it starts its tracker
        signal.signal(number, lambda number, _: on_signal(signal.Signals(number)))
