"""A worker's SSH session for a launch: it stays open until the launch is decided, and then follows the log."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.aio.timeouts import within
from tui.checks.workers.check_facts import ASK_TIMEOUT_S, END, SILENT, late_error
from tui.errors import LaunchError, TpuTuiError, WorkerError
from tui.pod.worker import Worker
from tui.ssh.exec.script_protocol import Answer, Call, channel_errors, no_answer_error, parse_line

if TYPE_CHECKING:
    import asyncssh

_MAX_LINE_BYTES = 64 * 1024
_MOST_ANSWERS = 10_000
"""Of a check, which has some dozens: a worker may answer without end."""
_MOST_NOTES = 100
_LAST_OUTPUT_S = 2.0
"""Seconds to wait for the standard error of a session that ended."""

_OTHER_RUN = re.compile(r"run (?P<run>\S+) pid (?P<pid>\S+) command (?P<command>.*)")
_REFUSALS = {
    "busy": ("another run is alive here", "stop it first, or wait for it: `tpu-tui runs`"),
    "device": ("the TPU is held by another process", "end that process, or `docker stop` its container"),
    "command": ("the command cannot run here", "is it installed? Try --sync, --venv, --conda-env or --workdir"),
    "directory": ("cannot make the run's directory", "make run_root writable there"),
    "full": ("no room for the log", "free some space on the worker's disk"),
    "program": ("a program is missing here", "the worker needs sh, coreutils and util-linux"),
    "tag": ("cannot mark the run's processes", "raise the hard limit on file locks (ulimit) on that worker"),
    "stopped": ("the run was stopped for good", "launch it as a new run"),
    "elsewhere": ("a keeper on another machine launches this attempt", ""),
    "cut": ("the launch data did not arrive whole", "launch again"),
}


class RunStoppedError(LaunchError):
    """A person stopped the run, as its workers know: nothing failed."""


class AlreadyLaunchedError(LaunchError):
    """Another keeper launches the same attempt, or has launched it."""


class WorkerSession:
    """A worker's open launch session: it takes words and returns answers.

    It is opened with the launch's command, or with that of a check which the launch follows (`Call.command_of_two`).
    """

    call: Call
    """The last call, without the data that was sent for it."""

    def __init__(self, worker: Worker, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.worker = worker
        self.process = process
        self.notes: list[str] = []
        self._has_queried = False
        self._last_output = b""
        """The last line of output that is not an answer."""
        self._decided = ""
        self._stopped = False
        """Whether the worker decided so because a person stopped the run."""
        self._runs = False
        self._ahead: asyncio.Task[Answer] | None = None

    @property
    def has_ended(self) -> bool:
        """Return whether the session is known to have ended."""
        return self.process.is_closing() or self.process.stdout.at_eof()

    async def answers_to(self, call: Call) -> list[Answer]:
        """Make a check's call and return its answers. Raises WorkerError if it does not end in time."""
        self._has_queried = True
        self._send_call(call, call.input)
        answers: list[Answer] = []

        async def read_answers() -> None:
            while not answers or answers[-1].word != END:
                answers.append(await self._next(SILENT))
                if len(answers) > _MOST_ANSWERS:
                    raise WorkerError(SILENT, worker=self.worker.index, why="it answers without end")

        try:
            await within(read_answers(), ASK_TIMEOUT_S)
        except asyncio.TimeoutError as error:
            raise late_error(self.worker.index) from error
        return answers

    def begin(self, call: Call) -> None:
        """Make the launch's call."""
        self._send_call(call, call.next_input if self._has_queried else call.input)

    def _send_call(self, call: Call, data: bytes) -> None:
        self.call = replace(call, script=b"", data=b"")
        try:
            self.process.stdin.write(data)
        except BrokenPipeError:
            return  # the session has ended: its answers say why
        except channel_errors() as error:
            raise self._broken_error(error) from error

    async def expect(self, word: str) -> Answer:
        """Wait for an answer. Raises LaunchError for a refusal, WorkerError for a lost connection."""
        ahead, self._ahead = self._ahead, None
        return await (ahead or self._answer(word))

    def read_ahead(self, word: str, lost: Callable[[WorkerSession, TpuTuiError], None]) -> None:
        """Begin to read an answer that is not due yet, so that `lost` is called at once if the session ends.

        A worker that gave up because its lease was over is not lost: another worker kept it waiting. The next
        `expect` must be for the same word.
        """

        def report_loss(reading: asyncio.Task[Answer]) -> None:
            if self._ahead is reading and not reading.cancelled():
                error = reading.exception()
                if isinstance(error, TpuTuiError) and not self._decided:
                    lost(self, error)

        self._ahead = asyncio.ensure_future(self._answer(word))
        self._ahead.add_done_callback(report_loss)

    async def _answer(self, word: str) -> Answer:
        while True:
            answer = await self._next(f"the launch ended without its answer ({word})")
            self._runs = self._runs or answer.word == "running"
            if answer.word == word:
                return answer
            if answer.word == "refused":
                raise refusal_error(self.worker, answer)
            if answer.word == "note" and len(self.notes) < _MOST_NOTES:
                self.notes.append(answer.text)
            if answer.word in ("disarmed", "aborted"):
                self._decided = answer.word
                self._stopped = answer.has("stopped")

    async def _next(self, lacking: str) -> Answer:
        """Return the next answer; `lacking` describes what is missing if the session ends instead."""
        while True:
            try:
                line = await self.process.stdout.readline()
            except channel_errors() as error:
                raise self._broken_error(error) from error
            if not line:
                raise await self._end_error(lacking)
            answer = parse_line(self.call.nonce, line[:_MAX_LINE_BYTES])
            if answer is not None:
                return answer
            self._last_output = line[:_MAX_LINE_BYTES]

    async def _end_error(self, lacking: str) -> TpuTuiError:
        stderr = b""
        with suppress(asyncio.TimeoutError, *channel_errors()):
            stderr = await within(self.process.stderr.read(_MAX_LINE_BYTES), _LAST_OUTPUT_S)
        if self._stopped:
            return RunStoppedError(_REFUSALS["stopped"][0], worker=self.worker.index)
        if self._decided:
            return LaunchError(f"the worker {self._decided} the launch", worker=self.worker.index)
        return no_answer_error(self.worker.index, lacking, stderr, self.process.exit_status, self._last_output)

    def _broken_error(self, error: Exception) -> WorkerError:
        return WorkerError("the connection broke", worker=self.worker.index, why=str(error))

    def send(self, word: bytes) -> None:
        """Write a word at once."""
        self.process.stdin.write(word)

    async def close(self, patience: float) -> None:
        """Close the session; an undecided worker takes the end of input as a no, and has some seconds to answer."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            ahead.cancel()
            await asyncio.wait({ahead})
        if not self._runs:
            with suppress(*channel_errors()):
                self.process.stdin.write_eof()
            with suppress(asyncio.TimeoutError, TpuTuiError):
                await within(self._answer(""), patience)
        self.process.close()


def refusal_error(worker: Worker, answer: Answer) -> LaunchError:
    """Return the error for a worker that refused to prepare."""
    kind, _, text = answer.text.partition(" ")
    what, remedy = _REFUSALS.get(kind, ("refused the launch", ""))
    if kind == "command" and text.startswith("command not found"):
        what, text = text, ""
    if kind == "command" and text.startswith("command is not executable"):
        what, text, remedy = text, "", "chmod +x it, or name what runs it: `-- python …`, `-- sh …`"
    if kind == "busy" and (match := _OTHER_RUN.fullmatch(text)) is not None:
        command = match["command"] if match["pid"] == "?" else f"pid {match['pid']}, command {match['command']}"
        text = f"{match['run']} ({command})"
    error = {"stopped": RunStoppedError, "elsewhere": AlreadyLaunchedError}.get(kind, LaunchError)
    return error(what, worker=worker.index, why=text.strip(), remedy=remedy)
