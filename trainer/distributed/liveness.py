"""Find the ranks that are missing when a collective fails, through the store at rank 0.

A thread of each rank waits for the call, at no cost: it sleeps in the kernel until the store's server wakes it. The
rank that meets the failure first calls, and publishes which ranks answered, since rank 0 may be gone when the next
one meets it. For the same reason a rank that reports an error publishes that it does.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trainer.errors import PartnerLostError

T = TypeVar("T")

CALL, CALLERS, VERDICT = "roll-call/now", "roll-call/callers", "roll-call/verdict"
REPORTERS, ACKS = "roll-call/reporters", "roll-call/acks"
CALLED = b"called"  # CALL's value; otherwise it is the number of the rank that reports an error
ACK_TIMEOUT_S = 2.0  # that rank 0, which has the store, waits until all ranks know of the report
ANSWER_TIMEOUT_S = 3.0  # enough for a thread of a busy process on an overloaded machine
POLL_INTERVAL_S = 0.1
FOR_EVER = timedelta(days=3650)


@dataclass(frozen=True)
class MissingRanks:
    """Ranks that ended and reported why, that did not answer, or that came less far than the others."""

    ended: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()


class RollCall:
    """One rank's part in roll calls, and in deciding which rank reports an error."""

    def __init__(self, store: TCPStore, rank: int, world: int) -> None:
        self.entered = 0  # collectives that this rank has begun; a frozen rank has begun fewer
        self._store, self._rank, self._world = store, rank, world
        self._verdict: MissingRanks | None = None
        self._lost = False  # rank 0's store has ended, or does not answer a question
        self._settled = threading.Event()
        self._ended: tuple[int, ...] = ()  # the rank that has reported an error
        self._unacknowledged = threading.Lock()
        try:
            own = store.clone()  # type: ignore[attr-defined]  # its own connection, which waiting keeps busy
        except RuntimeError as error:
            raise PartnerLostError("Worker 0's rank 0 ended", why=str(error).splitlines()[0]) from error
        threading.Thread(target=self._answer, args=(own,), name="roll call", daemon=True).start()

    @property
    def over(self) -> bool:
        """Return whether others have given up, or rank 0 has ended, so that no collective can succeed any more."""
        return self._settled.is_set()

    def report_error(self) -> bool:
        """Announce that this rank reports an error; return False if another rank has done so.

        If the store is gone or frozen, and no report known, this rank reports: better twice than never.
        """
        if self._ended:
            return False
        is_first = self._ask_store(self._count_reporter)
        return not self._ended if is_first is None else is_first

    def shutdown(self) -> None:
        """Wait, on rank 0, which has the store, until all ranks know which rank reports an error."""
        self._ask_store(self._wait_for_acks)

    def _ask_store(self, ask: Callable[[], T]) -> T | None:
        """Return the store's answer; None if it is gone, or if its process is frozen and does not answer in time."""
        answers: list[T] = []

        def wait() -> None:
            with contextlib.suppress(RuntimeError):
                answers.append(ask())

        asking = threading.Thread(target=wait, name="asking", daemon=True)
        asking.start()
        asking.join(ANSWER_TIMEOUT_S)
        return answers[0] if answers else None

    def _count_reporter(self) -> bool:
        is_first = self._store.add(REPORTERS, 1) == 1
        if is_first:
            self._store.compare_set(CALL, "", str(self._rank))
        return is_first

    def _wait_for_acks(self) -> None:
        deadline = time.monotonic() + ACK_TIMEOUT_S
        self._count_ack(self._store)
        if self._rank == 0 and self._store.add(REPORTERS, 0):
            while self._store.add(ACKS, 0) < self._world and time.monotonic() < deadline:
                time.sleep(POLL_INTERVAL_S)

    def _count_ack(self, store: TCPStore) -> None:
        """Count one rank that rank 0 need not wait for."""
        if self._unacknowledged.acquire(blocking=False):
            store.add(ACKS, 1)

    def missing(self, stopping: Callable[[], bool]) -> MissingRanks:
        """Call the roll, or wait for another rank's result; takes some seconds, unless the run is to stop."""
        threading.Thread(target=self._call, name="caller", daemon=True).start()
        deadline = time.monotonic() + ANSWER_TIMEOUT_S + 1
        while not self._settled.wait(POLL_INTERVAL_S) and time.monotonic() < deadline and not stopping():
            pass
        if self._ended:
            return MissingRanks(ended=self._ended)
        if self._verdict is not None:
            return self._verdict
        lost = self._rank != 0 and self._lost and not stopping()
        return MissingRanks(silent=(0,) if lost else ())

    def _answer(self, store: TCPStore) -> None:
        try:
            store.wait([CALL], FOR_EVER)
            if (called := store.get(CALL)) != CALLED:
                self._ended = (int(called),)
                self._settled.set()
                self._count_ack(store)
                return
            store.set(_answer_key(self._rank), str(self.entered))
            store.wait([VERDICT], FOR_EVER)
            verdict = json.loads(store.get(VERDICT))
            self._verdict = MissingRanks(silent=tuple(verdict["silent"]), behind=tuple(verdict["behind"]))
            self._settled.set()
        except RuntimeError:
            self._give_up()

    def _give_up(self) -> None:
        """Record that rank 0 has ended, and its store with it."""
        self._lost = True
        self._settled.set()

    def _call(self) -> None:
        try:
            self._lost = True
            first = self._store.add(CALLERS, 1) == 1
            self._lost = False
            if first and self._store.compare_set(CALL, "", CALLED.decode()) == CALLED:
                self._store.set(VERDICT, json.dumps(vars(self._judge())))
            while not self._settled.wait(POLL_INTERVAL_S):
                self._lost = True
                self._store.check([VERDICT])
                self._lost = False
        except RuntimeError:
            self._give_up()

    def _judge(self) -> MissingRanks:
        came: dict[int, int] = {}
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while len(came) < self._world and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
            due = [rank for rank in range(self._world) if rank not in came]
            came |= {
                rank: int(self._store.get(_answer_key(rank)))
                for rank in due
                if self._store.check([_answer_key(rank)])
            }
        silent = tuple(rank for rank in range(self._world) if rank not in came)
        behind = tuple(rank for rank, entered in came.items() if entered < max(came.values()))
        return MissingRanks(silent=silent, behind=() if silent else behind)


def format_ranks(ranks: Sequence[int], cores: int) -> str:
    """Return `Rank 5 (worker 1, core 1)` or `Ranks 4, 5, 6 and 7 (worker 1)`, for `cores` per worker."""
    if len(ranks) == 1:
        return f"Rank {ranks[0]} (worker {ranks[0] // cores}, core {ranks[0] % cores})"
    workers = sorted({rank // cores for rank in ranks})
    noun = "worker" if len(workers) == 1 else "workers"
    return f"Ranks {_join_numbers(ranks)} ({noun} {_join_numbers(workers)})"


def _join_numbers(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last


def _answer_key(rank: int) -> str:
    return f"roll-call/answered/{rank}"
