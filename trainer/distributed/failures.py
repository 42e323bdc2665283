"""Report each failure once: in one line, by the rank that knows the cause, while all others end silently.

Which rank failed first is settled at the only place that all workers share at that time:

1. Before there are ranks (wrong arguments, no TPU): at the coordinator's address. Worker 0 serves its sentence there,
   and a worker that would print the same one stays silent (`print_once`).
2. When all ranks have come: they compare their settings, and rank 0 reports who was started differently
   (`compare_settings`).
3. From then on: in the record at rank 0's store, which is written once (`FailureRecord`). A rank with an error
   records that it reports one. A rank that loses another in a collective calls on all ranks to answer, and records
   which ranks are silent or behind.

A rank that dies silently, killed by the kernel for example, is reported by the launcher that started it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from trainer.config import read_coordinator, read_integer
from trainer.errors import (
    PARTNER_LOST,
    REFUSED,
    STOPPED,
    ConfigError,
    PartnerLostError,
    PartnersMissingError,
    ReportedElsewhereError,
    StoppedError,
    TrainerError,
)
from trainer.progress import write_error

if TYPE_CHECKING:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

T = TypeVar("T")
Address = tuple[str, int]


def report(
    error: TrainerError,
    *,
    debug: bool = False,
    who: str = "",
    may_report: Callable[[], bool] = lambda: True,
    write: Callable[[str], None] = write_error,
) -> int:
    """Report an error if no other rank does, and return the exit code that belongs to it."""
    is_own = not isinstance(error, (ReportedElsewhereError, PartnersMissingError)) and may_report()
    if debug:
        traceback.print_exception(error)
    elif is_own:
        write(f"{who}{error}")
    if isinstance(error, PartnerLostError):
        return PARTNER_LOST
    return STOPPED if isinstance(error, StoppedError) else REFUSED


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


# --- 1. before there are ranks -------------------------------------------------------------------------------------

MEETING_TIMEOUT_S = 5.0  # in which workers that were started together meet the same error
MEETING_POLL_S = 0.1
MARK = b"worker 0 does not start: "
LONGEST_BYTES = 65536  # bytes of a sentence


def print_once(sentence: str, environ: Mapping[str, str]) -> None:
    """Print on standard error why this worker does not start, unless worker 0 prints the same sentence."""
    worker, workers, address = _place(environ)
    if worker == 0 or address is None or _reason_of_worker_0(address) != sentence:
        write_error(sentence)
    if worker == 0 and workers > 1 and address is not None:
        _serve_reason(sentence, address, workers - 1)


def _place(environ: Mapping[str, str]) -> tuple[int, int, Address | None]:
    """Return this worker, how many there are, and worker 0's address; 0, 1, None for a bad environment."""
    try:
        worker, workers = read_integer(environ, "TPU_TUI_WORKER", 0), read_integer(environ, "TPU_TUI_WORKERS", 1)
        return worker, workers, read_coordinator(environ)
    except ConfigError:
        return 0, 1, None


def _serve_reason(sentence: str, address: Address, others: int) -> None:
    deadline = time.monotonic() + MEETING_TIMEOUT_S
    with contextlib.suppress(OSError):  # not this machine's address, or taken: then each worker prints it
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        with socket.create_server(address, family=family, backlog=others) as listener:
            while others and (remaining := deadline - time.monotonic()) > 0:
                listener.settimeout(remaining)
                caller, _ = listener.accept()
                with caller:
                    caller.sendall(MARK + sentence.encode())
                others -= 1


def _reason_of_worker_0(address: Address) -> str:
    """Return why worker 0 does not start; empty where it starts, or gives no reason."""
    deadline = time.monotonic() + MEETING_TIMEOUT_S
    while (remaining := deadline - time.monotonic()) > 0:
        with contextlib.suppress(OSError):
            return read_reason(address, remaining)
        time.sleep(MEETING_POLL_S)
    return ""


def read_reason(address: Address, timeout: float) -> str:
    """Return why worker 0 does not start; empty where something else listens there. Raises OSError if nothing does.

    A store closes the connection at once, as this end does, so a healthy start is not delayed.
    """
    with socket.create_connection(address, timeout=timeout) as worker_0:
        answer = b""
        with contextlib.suppress(OSError):
            worker_0.shutdown(socket.SHUT_WR)
            answer = worker_0.makefile("rb").read(LONGEST_BYTES)
    return answer.removeprefix(MARK).decode("utf-8", "replace") if answer.startswith(MARK) else ""


# --- 2. when all ranks have come: who was started differently? ------------------------------------------------------


def compare_settings(settings_by_worker: Sequence[tuple[int, Mapping[str, object]]]) -> None:
    """Raise TrainerError for the first worker whose settings (by option) differ from those of the first worker."""
    _, first = settings_by_worker[0]
    for worker, settings in settings_by_worker:
        odd = [option for option in sorted({*settings, *first}) if settings.get(option) != first.get(option)]
        if odd:
            differences = [
                f"{option} is {_value(settings.get(option))} instead of {_value(first.get(option))}" for option in odd
            ]
            raise TrainerError(
                f"Worker {worker} was started with different arguments than worker 0",
                why=", ".join(differences),
                remedy="Start all workers with the same arguments",
            )


def _value(value: object) -> str:
    return "none" if value is None else str(value)


# --- 3. from then on: who failed first? -----------------------------------------------------------------------------

RECORD = "failure/record"  # the store's key of the Failure, which is written once
CALL = "failure/call"  # the key that wakes all ranks: a roll is called, or the record is written
ACKS = "failure/acks"  # the key of how many ranks have read the record
ACK_TIMEOUT_S = 2.0  # for rank 0, which has the store, to wait until all ranks have read the record
ANSWER_TIMEOUT_S = 3.0  # enough for a thread of a busy process on an overloaded machine
POLL_INTERVAL_S = 0.1
FOR_EVER = timedelta(days=3650)


@dataclass(frozen=True)
class Failure:
    """The rank that reports an error; or ranks that did not answer, or that came less far than the others."""

    reporting: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, text: bytes) -> Failure:
        """Parse the content of the record."""
        return cls(**{name: tuple(ranks) for name, ranks in json.loads(text).items()})


class FailureRecord:
    """One rank's view of the record of the first failure, which all ranks share through the store at rank 0.

    A thread of each rank waits for the call, at no cost: it sleeps in the kernel until the store's server wakes it.
    So each rank knows the record even when rank 0 and its store have gone.
    """

    def __init__(self, store: TCPStore, rank: int, world: int, cores: int = 1) -> None:
        self.entered = 0  # collectives that this rank has begun; a frozen rank has begun fewer
        self._store, self._rank, self._world, self._cores = store, rank, world, cores
        self._failure: Failure | None = None
        self._store_is_lost = False  # it has ended with rank 0, or does not answer a question
        self._settled = threading.Event()  # nothing more can be learned
        try:
            connection = store.clone()  # type: ignore[attr-defined]  # its own connection, which waiting keeps busy
        except RuntimeError as error:
            raise PartnerLostError("Worker 0's rank 0 ended", why=str(error).splitlines()[0]) from error
        threading.Thread(target=self._listen, args=(connection,), name="failure record", daemon=True).start()

    @property
    def is_settled(self) -> bool:
        """Return whether a rank has failed, or rank 0 has ended, so that no further collective can succeed."""
        return self._settled.is_set()

    def report_error(self) -> bool:
        """Record that this rank reports an error; return False if another rank reports one.

        If the store is gone or frozen and no report is known, this rank reports: two reports are better than none.
        """
        own = Failure(reporting=(self._rank,))
        recorded = self._failure or self._ask_store(lambda: self._write(own)) or own
        return recorded.reporting in ((), own.reporting)

    def shutdown(self) -> None:
        """Wait, before this rank ends, until it has read the record; rank 0, which has the store, waits for all."""
        deadline = time.monotonic() + ACK_TIMEOUT_S
        self._settled.wait(ACK_TIMEOUT_S)
        if self._rank == 0 and self._failure is not None and self._failure.reporting:
            while self._store.add(ACKS, 0) < self._world and time.monotonic() < deadline:
                time.sleep(POLL_INTERVAL_S)

    def explain(self, lost: PartnerLostError, stopping: Callable[[], bool]) -> PartnerLostError:
        """Return the loss of a partner with the ranks that caused it, if they are found within a few seconds."""
        failure = self.find(stopping)
        ranks = failure.reporting or failure.silent or failure.behind
        if not ranks:
            return lost
        names, hint = format_ranks(ranks, self._cores), f"See the last lines of worker {ranks[0] // self._cores}"
        if failure.reporting:
            return PartnerLostError(f"{names} ended, and has reported why", remedy=hint)
        if failure.silent:
            remedy = f"{hint}, and check whether that machine still answers"
            return PartnerLostError(f"{names} ended or froze", why=lost.why, remedy=remedy)
        if ranks == (self._rank,):
            remedy = "Check whether its input hangs, or its machine is much slower"
            return PartnerLostError("The others ended, since this rank did not reach the next step", remedy=remedy)
        remedy = f"{hint}, and check whether its input hangs"
        return PartnerLostError(f"{names} fell behind the others", why=lost.why, remedy=remedy)

    def find(self, stopping: Callable[[], bool]) -> Failure:
        """Return the recorded failure, or call the roll to find it, which takes some seconds unless the run stops."""
        threading.Thread(target=self._call_roll, name="roll call", daemon=True).start()
        deadline = time.monotonic() + ANSWER_TIMEOUT_S + 1
        while not self._settled.wait(POLL_INTERVAL_S) and time.monotonic() < deadline and not stopping():
            pass
        if self._failure is not None:
            return self._failure
        lost = self._rank != 0 and self._store_is_lost and not stopping()
        return Failure(silent=(0,) if lost else ())

    def _listen(self, store: TCPStore) -> None:
        """Wait for the call, answer it unless the record is written, and read the record."""
        try:
            store.wait([CALL], FOR_EVER)
            if not store.check([RECORD]):
                store.set(_answer_key(self._rank), str(self.entered))
                store.wait([RECORD], FOR_EVER)
            self._failure = Failure.from_json(store.get(RECORD))
            store.add(ACKS, 1)
        except RuntimeError:
            self._store_is_lost = True
        self._settled.set()

    def _call_roll(self) -> None:
        """Call the roll unless another rank has; watch whether the store still answers until the record is read."""
        rank = str(self._rank)
        try:
            self._store_is_lost = True  # until it answers
            is_first = self._store.compare_set(CALL, "", rank) == rank.encode()
            self._store_is_lost = False
            if is_first:
                self._write(self._count_answers())
            while not self._settled.wait(POLL_INTERVAL_S):
                self._store_is_lost = True
                self._store.check([RECORD])
                self._store_is_lost = False
        except RuntimeError:
            self._store_is_lost = True
            self._settled.set()

    def _count_answers(self) -> Failure:
        answers: dict[int, int] = {}
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while len(answers) < self._world and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
            unanswered = [rank for rank in range(self._world) if rank not in answers]
            answers |= {
                rank: int(self._store.get(_answer_key(rank)))
                for rank in unanswered
                if self._store.check([_answer_key(rank)])
            }
        silent = tuple(rank for rank in range(self._world) if rank not in answers)
        behind = tuple(rank for rank, entered in answers.items() if entered < max(answers.values()))
        return Failure(silent=silent, behind=() if silent else behind)

    def _write(self, failure: Failure) -> Failure:
        """Record a failure unless one is recorded already, wake all ranks, and return the recorded one."""
        recorded = Failure.from_json(self._store.compare_set(RECORD, "", json.dumps(asdict(failure))))
        self._store.compare_set(CALL, "", "written")
        return recorded

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


def _answer_key(rank: int) -> str:
    return f"failure/answered/{rank}"
