"""Ranks of a pod that take part in the record of the first failure, each in a process that a test can freeze."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trainer.distributed import failures
from trainer.distributed.failures import Failure, FailureRecord

# Ranks are forked from a clean process: a fork of a process with the threads of other tests can abort in PyTorch.
CONTEXT = multiprocessing.get_context("forkserver")
HOST = "127.0.0.1"


def _take_part(rank: int, port: int, entered: int, timeouts: tuple[float, float], pipe: Connection) -> None:
    """Run a rank: send its store's port, then execute the actions that the pipe requests and send their results."""
    failures.ACK_TIMEOUT_S, failures.ANSWER_TIMEOUT_S = timeouts
    patience = timedelta(seconds=60)
    store = TCPStore(HOST, port, None, is_master=rank == 0, wait_for_workers=False, timeout=patience)
    record = FailureRecord(store, rank, 4)
    record.entered = entered
    pipe.send(store.port)
    actions = {
        "call": lambda: record.find(lambda: False),
        "report": record.report_error,
        "leave": record.shutdown,
    }
    while True:
        pipe.send(actions[pipe.recv()]())


class Rank:
    """One rank in a separate process, which a test can freeze and kill."""

    def __init__(self, rank: int, port: int, entered: int) -> None:
        """Start it, at the port of rank 0's store; rank 0 itself takes a free one, 0."""
        self._pipe, child_end = CONTEXT.Pipe()
        timeouts = (failures.ACK_TIMEOUT_S, failures.ANSWER_TIMEOUT_S)
        self._process = CONTEXT.Process(target=_take_part, args=(rank, port, entered, timeouts, child_end))
        self._process.start()

    def await_port(self) -> int:
        """Wait until the rank is ready; return the port of rank 0's store."""
        port: int = self._pipe.recv()
        return port

    def call(self) -> None:
        self._pipe.send("call")

    def found(self) -> Failure:
        found: Failure = self._pipe.recv()
        return found

    def report(self) -> None:
        self._pipe.send("report")

    def reports(self) -> bool:
        """Return the answer to `report`."""
        reports: bool = self._pipe.recv()
        return reports

    def shutdown(self) -> None:
        self._pipe.send("leave")

    def has_left(self, within: float) -> bool:
        return self._pipe.poll(within)

    def signal(self, number: signal.Signals) -> None:
        pid = self._process.pid
        assert pid is not None
        os.kill(pid, number)
        while number == signal.SIGSTOP and any(state != "T" for state in _states(pid)):
            time.sleep(0.01)  # its threads stop one by one; the test's timeout bounds this loop

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _states(pid: int) -> list[str]:
    """Return the state letter of each of a process's threads."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return [stat.rpartition(")")[2].split()[0] for stat in stats]
