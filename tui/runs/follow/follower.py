"""Follow a worker's log: copy it into its mirror, byte for byte, through any number of lost connections.

A follower starts at the mirror's length and ends only when the worker has reported how its part ended *and* the
mirror has exactly the reported size. Anything less is a lost link: it reconnects for as long as the run lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.aio.backoff import backoff
from tui.errors import TpuTuiError, WorkerError
from tui.pod.run import RunState
from tui.runs.failure_rules import WorkerOutcome
from tui.runs.follow.disk_space_notes import DISK_TEXTS, DiskSpaceNotes
from tui.runs.health.reachability import Reachability
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.log_mirror import Mirror, record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.calls import MOST_EXIT_CODE, build_call, follow_timeout_s, parse_outcome, poll_interval_s
from tui.ssh.errors import Reason, SshError
from tui.ssh.exec.script_protocol import (
    READ_BYTES,
    Answer,
    Call,
    answer_marker,
    channel_errors,
    parse_answers,
    parse_line,
)
from tui.ssh.fleet import Fleet
from tui.text.durations import format_duration
from tui.text.printable import one_line

if TYPE_CHECKING:
    import asyncssh

    from tui.runs.launch.worker_session import WorkerSession

MAX_CHATTER_BYTES = 1024 * 1024
"""Bytes that start-up files may print before the log begins."""
MAX_TRAILER_BYTES = 64 * 1024
MAX_ANSWERS = 64
_NEEDS_A_PERSON = (Reason.HOST_KEY_CHANGED, Reason.HOST_KEY_UNKNOWN, Reason.DENIED)
"""Reasons for a lost link that only a person can remove."""
EMPTY_SESSION_PAUSE_S = 1.0
"""Pause in seconds after a session that was shorter than this and brought nothing."""


@dataclass(eq=False)
class Follower:
    """One worker's log of one attempt, followed to its end.

    `reachability` is informed when the worker answers or is lost, and limits how long it is retried. `reached` is
    called whenever the worker answers, `ending` when the job has ended but processes that it left behind have not.
    `launch_session` launched the job and sends the log from its first byte on.
    """

    directory: RunDirectory
    fleet: Fleet
    worker: int
    attempt: int
    reachability: Reachability = field(default_factory=lambda: Reachability(KeeperTimeouts()))
    reached: Callable[[], Awaitable[None]] | None = None
    ending: Callable[[WorkerOutcome], None] | None = None
    launch_session: WorkerSession | None = None

    def __post_init__(self) -> None:
        self._mirror = Mirror(self.directory, self.worker)
        self._waits: Iterator[float] = backoff()
        self._disk_space = DiskSpaceNotes(self.directory, self.worker)
        self._recorded: set[str] = set()

    async def run(self) -> WorkerOutcome:
        """Follow until the worker's part has ended and its mirror is complete, or the worker is given up."""
        try:
            await self._mirror.open()
            while (outcome := await self._attempt()) is None:
                pass
            await self._mirror.flush()
        finally:
            self._close()
        return outcome

    async def _attempt(self) -> WorkerOutcome | None:
        """Run one session; a failure is recorded once and followed by a growing pause."""
        began, size = asyncio.get_running_loop().time(), self._mirror.size
        try:
            outcome = await self._once()
            brief = asyncio.get_running_loop().time() - began < EMPTY_SESSION_PAUSE_S
            if brief and outcome is None and self._mirror.size == size:
                await asyncio.sleep(EMPTY_SESSION_PAUSE_S)
            return outcome
        except TpuTuiError as error:
            await self._link_lost(error)
            return await self._wait(error)

    async def _wait(self, error: TpuTuiError) -> WorkerOutcome | None:
        """Wait before the next session; return the outcome of a worker that is given up instead."""
        if await self.reachability.wait_before_retry(self.worker, next(self._waits)):
            return None
        out = format_duration(self.reachability.seconds_unreachable(self.worker))
        reason = self.reachability.gone_reason(self.worker)
        why = f"is gone: {reason}" if reason else f"could not be reached for {out} ({error.explanation})"
        return WorkerOutcome(None, size=self._mirror.size, recorded=False, unreachable=why)

    async def catch_up(self) -> None:
        """Bring the mirror to the log's end at the time of the call. Raises WorkerError."""
        try:
            await self._mirror.open()
            await self._once(to_present=True)
        finally:
            self._close()

    def _close(self) -> None:
        self._mirror.close()
        self._disk_space.close()

    async def _once(self, to_present: bool = False) -> WorkerOutcome | None:
        """Mirror what the log has grown by in one session; return the outcome if the log is complete then."""
        process, call = await self._session()
        trailer = asyncio.ensure_future(self._trailer(process, call))
        try:
            head, rest = await self._head(process, call)
            await self._link_restored()
            if head.word == "norun":
                ran = status_of(self.directory).state is RunState.RUNNING
                return WorkerOutcome(None, size=self._mirror.size, recorded=False, absent=not ran, removed=ran)
            if head.word == "log":
                await self._copy(process, rest, self._size_in(head) if to_present else None)
            else:
                await self._record_short_log(head)
            return None if to_present else await self._judge(head, await trailer)
        except channel_errors() as error:
            raise _broken_error(self.worker, error) from error
        finally:
            trailer.cancel()
            process.close()

    def _size_in(self, head: Answer) -> int:
        """Return the log's size from the worker's answer. Raises WorkerError if there is none."""
        size = head.number_at(0)
        if size is None:
            raise WorkerError("its answer does not say how long its log is", worker=self.worker)
        return size

    async def _session(self) -> tuple[asyncssh.SSHClientProcess[bytes], Call]:
        """Open a session that sends the log from the mirror's end on; the first one is the launch's own, if any."""
        launch_session, self.launch_session = self.launch_session, None
        if launch_session is not None:
            if not self._mirror.size:
                return launch_session.process, launch_session.call
            launch_session.process.close()
        run = self.directory.run
        numbers = (self._mirror.size, follow_timeout_s(), self.attempt)
        pace = poll_interval_s(len(run.workers))
        call = build_call("follow", run.id, self.worker, *numbers, run_root=run.run_root, pace=pace)
        process = await self.fleet.process(self.worker, call.command)
        try:
            process.stdin.write(call.input)
        except channel_errors() as error:
            process.close()
            raise _broken_error(self.worker, error) from error
        return process, call

    async def _head(self, process: asyncssh.SSHClientProcess[bytes], call: Call) -> tuple[Answer, bytes]:
        """Return the answer that precedes the log, and the log's first bytes; skip what start-up files print."""
        buffer, skipped, marker = b"", 0, answer_marker(call.nonce)
        while skipped + len(buffer) < MAX_CHATTER_BYTES + READ_BYTES:
            data = await process.stdout.read(READ_BYTES)
            if not data:
                raise WorkerError("the follower did not start", worker=self.worker, why=one_line(buffer[-200:]))
            buffer += data
            begin = 0
            while (begin := buffer.find(marker, begin)) >= 0 and (end := buffer.find(b"\n", begin)) >= 0:
                answer = parse_line(call.nonce, buffer[begin:end])
                begin = end + 1
                if answer is not None and answer.word in ("log", "short", "norun"):
                    return answer, buffer[begin:]
            complete = buffer.rfind(b"\n") + 1
            skipped += complete
            buffer = buffer[complete:]
        raise WorkerError(
            "a start-up file there prints without end", worker=self.worker, remedy="look at ~/.bashrc on that worker"
        )

    async def _copy(self, process: asyncssh.SSHClientProcess[bytes], data: bytes, goal: int | None) -> None:
        """Append bytes until the stream ends, or the mirror is `goal` bytes long."""
        while True:
            if data:
                await self._mirror.append(data)
                self.reachability.mark_grown(self.worker)
                self._waits = backoff()
            if goal is not None and self._mirror.size >= goal:
                return
            data = await process.stdout.read(READ_BYTES)
            if not data:
                return
            self.reachability.mark_reachable(self.worker)

    async def _judge(self, head: Answer, trailer: list[Answer]) -> WorkerOutcome | None:
        """Return the outcome in a session's last answers; None if another session is needed."""
        for answer in trailer:
            size = answer.number("size")
            complete = size is not None and (size == self._mirror.size or head.word == "short")
            if answer.word == "end" and complete:
                return parse_outcome(answer)
            if answer.word == "lost" and complete:
                if _was_rebooted(answer.name("boot"), answer.name("was")):
                    await self._record_once("the machine was rebooted; how its part of the run ended is not recorded")
                return WorkerOutcome(answer.number("code", MOST_EXIT_CODE), size=self._mirror.size, recorded=False)
        return None

    async def _trailer(self, process: asyncssh.SSHClientProcess[bytes], call: Call) -> list[Answer]:
        """Collect the answers on standard error; report a full disk and the job's end at once."""
        answers: list[Answer] = []
        rest = b""
        with suppress(*channel_errors()):
            while data := await process.stderr.read(READ_BYTES):
                lines, newline, rest = (rest + data).rpartition(b"\n")
                rest = rest[-MAX_TRAILER_BYTES:]
                for answer in parse_answers(call.nonce, lines) if newline else []:
                    if answer.word in DISK_TEXTS:
                        await self._disk_space.report(answer.word)
                    elif answer.word == "ending":
                        outcome = parse_outcome(answer)
                        if self.ending is not None and outcome.exit_code is not None:
                            self.ending(outcome)
                    else:
                        answers = [*answers, answer][-MAX_ANSWERS:]
        return answers

    async def _record_short_log(self, head: Answer) -> None:
        rebooted = _was_rebooted(head.word_at(1), head.word_at(2))
        why = "a power loss there?" if rebooted else "the job or another program there cut it short"
        text = f"its log is shorter than the {self._mirror.size} bytes of the mirror ({why}): the mirror is kept"
        # A console that may not start a keeper catches up every few seconds, each time with a new follower.
        if f"worker {self.worker}: {text}" not in status_of(self.directory).notes:
            await self._record_once(text, subject=why)

    async def _link_lost(self, error: TpuTuiError) -> None:
        """Record a lost link once, and once more for each reason that only a person can remove."""
        needs_person = (
            isinstance(error, SshError)
            and error.reason in _NEEDS_A_PERSON
            and error.explanation not in self._recorded
        )
        if self.reachability.mark_unreachable(self.worker) or needs_person:
            self._recorded.add(error.explanation)
            await record(self.directory, "link", worker=self.worker, status="lost", detail=error.explanation)

    async def _link_restored(self) -> None:
        was_out = self.reachability.is_unreachable(self.worker)
        self.reachability.mark_reachable(self.worker)
        if self.reached is not None:
            await self.reached()
        if was_out:
            detail = f"following continues at byte {self._mirror.size}"
            await record(self.directory, "link", worker=self.worker, status="restored", detail=detail)

    async def _record_once(self, text: str, *, subject: str | None = None) -> None:
        """Record a note unless there was one about the same subject, by default its text."""
        if (subject or text) not in self._recorded:
            self._recorded.add(subject or text)
            await record(self.directory, "note", worker=self.worker, text=text)


def _was_rebooted(boot: str | None, boot_of_run: str | None) -> bool:
    """Return whether a worker has been booted since a run began; its files may have lost which boot that was."""
    return bool(boot_of_run) and boot != boot_of_run


def _broken_error(worker: int, error: Exception) -> WorkerError:
    return WorkerError("the connection broke", worker=worker, why=one_line(str(error)) or type(error).__name__)
