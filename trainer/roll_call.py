"""Who is missing when ranks wait for one another in vain: asked only then, through the store at rank 0.

A thread of each rank waits for the call, at no cost: it sleeps in the kernel until the store's server wakes it. Who
meets the failure first calls, and lets all know who answered: rank 0 may be gone when the next one meets it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trainer.errors import PartnerLostError

CALL, CALLERS, VERDICT = "roll-call/now", "roll-call/callers", "roll-call/verdict"
PATIENCE = 3.0  # seconds to answer: a thread of a process that computes on an overloaded machine does so
POLL = 0.1  # seconds
FOR_EVER = timedelta(days=3650)


@dataclass(frozen=True)
class Missing:
    """What a roll call showed: ranks that did not answer, or that answer but came less far than the others."""

    silent: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()


class RollCall:
    """One rank's part in it."""

    def __init__(self, store: TCPStore, rank: int, world: int) -> None:
        self.entered = 0  # things that all ranks do together, begun by this one: who froze is behind
        self._store, self._rank, self._world = store, rank, world
        self._verdict: Missing | None = None
        self._lost = False  # rank 0's store has been asked something and does not answer, or it has ended
        self._settled = threading.Event()
        try:
            own = store.clone()  # type: ignore[attr-defined]  # a connection of its own: waiting keeps it busy
        except RuntimeError as error:
            raise PartnerLostError("Worker 0's rank 0 ended", why=str(error).splitlines()[0]) from error
        threading.Thread(target=self._answer, args=(own,), name="roll call", daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether others have given up, or rank 0 has ended: nothing can be done together any more."""
        return self._settled.is_set()

    def missing(self, stopping: Callable[[], bool]) -> Missing:
        """Call the roll, or hear what another rank found; takes some seconds, unless the run is to stop."""
        threading.Thread(target=self._call, name="caller", daemon=True).start()
        deadline = time.monotonic() + PATIENCE + 1
        while not self._settled.wait(POLL) and time.monotonic() < deadline and not stopping():
            pass
        if self._verdict is not None:
            return self._verdict
        lost = self._rank != 0 and self._lost and not stopping()
        return Missing(silent=(0,) if lost else ())

    def _answer(self, store: TCPStore) -> None:
        try:
            store.wait([CALL], FOR_EVER)
            store.set(_answered(self._rank), str(self.entered))
            store.wait([VERDICT], FOR_EVER)
            told = json.loads(store.get(VERDICT))
            self._verdict = Missing(tuple(told["silent"]), tuple(told["behind"]))
            self._settled.set()
        except RuntimeError:
            self._give_up()

    def _give_up(self) -> None:
        """Rank 0 has ended, and its store with it."""
        self._lost = True
        self._settled.set()

    def _call(self) -> None:
        try:
            self._lost = True
            first = self._store.add(CALLERS, 1) == 1
            self._lost = False
            if first:
                self._store.set(CALL, "1")
                self._store.set(VERDICT, json.dumps(vars(self._judge())))
            while not self._settled.wait(POLL):
                self._lost = True
                self._store.check([VERDICT])
                self._lost = False
        except RuntimeError:
            self._give_up()

    def _judge(self) -> Missing:
        came: dict[int, int] = {}
        deadline = time.monotonic() + PATIENCE
        while len(came) < self._world and time.monotonic() < deadline:
            time.sleep(POLL)
            due = [rank for rank in range(self._world) if rank not in came]
            came |= {
                rank: int(self._store.get(_answered(rank))) for rank in due if self._store.check([_answered(rank)])
            }
        silent = tuple(rank for rank in range(self._world) if rank not in came)
        behind = tuple(rank for rank, entered in came.items() if entered < max(came.values()))
        return Missing(silent, () if silent else behind)


def told(ranks: Sequence[int], cores: int) -> str:
    """`Rank 5 (worker 1, core 1)`; `Ranks 4, 5, 6 and 7 (worker 1)`; all workers have as many cores."""
    if len(ranks) == 1:
        return f"Rank {ranks[0]} (worker {ranks[0] // cores}, core {ranks[0] % cores})"
    workers = sorted({rank // cores for rank in ranks})
    noun = "worker" if len(workers) == 1 else "workers"
    return f"Ranks {_listed(ranks)} ({noun} {_listed(workers)})"


def _listed(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last


def _answered(rank: int) -> str:
    return f"roll-call/answered/{rank}"
