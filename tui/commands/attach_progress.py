"""What `attach` prints of a run: its lines on stdout, its events on stderr."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.terminal.output import ANSWER_IS_NO, Output, format_moment
from tui.errors import OutOfReachError, TpuTuiError
from tui.operator import split_last_lines
from tui.pod.run import LAST_WORDS, RunState
from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from tui.operator import Event, KeeperStatus, Operator, RunDirectory, RunStatus


LINES_SHOWN = 50
"""Lines of a failed worker's log that the suggested command shows."""


async def follow(operator: Operator, directory: RunDirectory, out: Output) -> int:
    """Print a run's lines and events until it has ended; return its exit code."""
    from tui.operator import LogLine

    many = len(directory.run.workers) > 1
    supervisor = KeeperSupervisor(operator, directory, EventPrinter(directory.id, out, directory))
    with announcing_detach(directory.id, out), supervisor:
        async for item in operator.runs.watch(directory):
            if not isinstance(item, LogLine):
                await supervisor.on_event(item)
            elif out.as_json:
                out.line(item.to_json())
            else:
                out.text(f"[{item.worker}] {item.text}" if many else item.text)
    return exit_code(operator.runs.status_of(directory))


@contextlib.contextmanager
def announcing_detach(run: str, out: Output) -> Iterator[None]:
    """Print at Ctrl-C that the run continues, and how to come back to it."""
    try:
        yield
    except asyncio.CancelledError:
        below_the_c = "\n" if sys.stderr.isatty() else ""
        out.note(f"{below_the_c}{run} goes on without this window. tpu-tui attach {run} follows it again.")
        raise


def exit_code(status: RunStatus) -> int:
    """Return the exit code of a run: a launch that failed on an unreachable worker is "out of reach"."""
    if status.state is RunState.SUCCEEDED:
        return 0
    unreached = any(part.phase == "connect" and part.phase_status == "failed" for part in status.workers)
    return OutOfReachError.exit_code if unreached else ANSWER_IS_NO


GROUPING_S = 0.5
"""Time within which the same event of several workers becomes one line."""


class KeeperSupervisor:
    """Prints what happens to a run, and starts another keeper where the run lost its own.

    What happens to many workers is printed a moment later, for all of them; at the latest at the end of a `with`.
    """

    def __init__(self, operator: Operator, directory: RunDirectory, printer: EventPrinter) -> None:
        from tui.operator.keeper_supervision import RestartLimiter

        self._operator = operator
        self._directory = directory
        self._printer = printer
        self._restarts = RestartLimiter()
        self._later: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        if self._later is not None:
            self._later.cancel()
        self._flush()

    def _flush(self) -> None:
        self._later = None
        # A closed pipe is met by the next print, within the command.
        with contextlib.suppress(BrokenPipeError):
            self._printer.flush()

    async def on_event(self, item: Event | KeeperStatus) -> None:
        """Print one event; start a keeper when the event is that there is none.

        Raises OutOfReachError where no keeper can be started.
        """
        pause = self._pause_after(item)
        self._printer.print(item, another_in=pause)
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(GROUPING_S, self._flush)
        if pause is None:
            return
        await asyncio.sleep(pause)
        try:
            await self._operator.runs.ensure_keeper(self._directory)
        except TpuTuiError as error:
            raise self._left_alone(error.sentence) from error

    def _pause_after(self, item: Event | KeeperStatus) -> float | None:
        """Return the seconds until another keeper is started after this event; None where none is to be started."""
        from tui.operator import KeeperStatus

        if self._operator.settings.read_only or not isinstance(item, KeeperStatus) or item.alive or item.stuck:
            return None
        pause = self._restarts.next_pause()
        if pause is None:
            raise self._left_alone("every process that did has ended within the hour")
        return pause

    def _left_alone(self, why: str) -> OutOfReachError:
        run = self._directory.id
        return OutOfReachError(
            f"nobody looks after {run}, and its workers go on",
            why=why,
            remedy=f"see {self._directory.path}/keeper.log; tpu-tui attach {run} looks after it again",
        )


class EventPrinter:
    """Prints on stderr what happens to a run: a phase only when it failed, the same reason and remedy once.

    Failed checks are notes as well, for many workers together. Lines about workers that end alike, or whose
    connections do, are held back until there is another event, or until `flush`.
    """

    def __init__(self, run: str, out: Output, directory: RunDirectory | None = None) -> None:
        self._run = run
        self._out = out
        self._directory = directory
        self._culprit: int | None = None
        """The worker that failed first in this attempt."""
        self._quoted_words = ""
        """Its last lines, once they were printed."""
        self._reasons: dict[tuple[str, str], int | None] = {}
        """The worker that each reason of a failed phase was printed for."""
        self._alike: dict[tuple[str, str], list[int]] = {}
        """The workers that failed like one before them, printed together at the next event."""
        self._pending: dict[str, list[int]] = {}
        """What has happened since the last line, and to which workers."""
        self._remedies: set[str] = set()
        """Remedies that were printed in this attempt."""

    def print(self, item: Event | KeeperStatus, *, another_in: float | None = None) -> None:
        """Print an event that is worth a line; another keeper starts in `another_in` seconds."""
        from tui.operator import Event, KeeperStatus

        if isinstance(item, Event) and item.worker is not None and item.kind in ("link", "exit"):
            self._keep(item.worker, _what_happened(item))
            return
        text = self._attendance(item, another_in) if isinstance(item, KeeperStatus) else self._event(item)
        if text:
            self.flush()
            self._out.note(text)

    def _keep(self, worker: int, what: str) -> None:
        if any(worker in workers for workers in self._pending.values()):
            self.flush()
        self._pending.setdefault(what, []).append(worker)

    def flush(self) -> None:
        """Print the lines that were held back."""
        self._print_alike()
        for what, workers in self._pending.items():
            self._out.note(f"worker{'s' if len(workers) > 1 else ''} {format_ranks(workers)}: {what}")
        self._pending.clear()

    def _print_alike(self) -> None:
        for reason, workers in self._alike.items():
            plural = "s" if len(workers) > 1 else ""
            like = f"for the same reason as on worker {self._reasons[reason]}"
            self._out.note(f"worker{plural} {format_ranks(sorted(workers))}: {reason[0]} failed {like}")
        self._alike.clear()

    def _attendance(self, attended: KeeperStatus, another_in: float | None) -> str:
        if attended.alive:
            return f"{self._run} is looked after again"
        from tui.operator import describe_stuck_keeper, describe_stuck_remedy

        if attended.stuck:
            how, remedy = describe_stuck_keeper(attended), describe_stuck_remedy(self._run, attended)
            return f"nobody looks after {self._run}: {how}, and its figures stand still\n  → {remedy}"
        since = f" since {format_moment(attended.since)}" if attended.since else ""
        if another_in is not None:
            when = f" in {another_in:.0f} s" if another_in else ""
            return (
                f"nobody looks after {self._run}{since}: the process that did has ended, another one is started{when}"
            )
        return (
            f"nobody looks after {self._run}{since}: the process that did has ended. The workers go on, but their "
            "logs are not copied here, and no failure, restart or end is acted on"
            f"\n  → tpu-tui attach {self._run} looks after it again, also from another terminal"
        )

    def _event(self, event: Event) -> str:
        fields = event.fields
        where = "" if event.worker is None else f"worker {event.worker}: "
        if event.kind == "failure":
            self._culprit = event.worker
        if event.kind == "state":
            return self._state(fields)
        if event.kind == "phase" and fields.get("status") == "failed" and fields.get("phase") != "check":
            return self._failed_phase(event.worker, where, fields)
        if event.kind == "note":
            return f"{where}{fields.get('text', '')}{_todo(fields)}"
        return ""

    def _state(self, fields: Mapping[str, Any]) -> str:
        cause, remedy = fields.get("cause") or "", fields.get("remedy") or ""
        todo = "" if remedy in self._remedies or _is_in_cause(remedy, cause) else _todo(fields)
        if fields.get("state") != RunState.STOPPING:
            self._remedies.clear()
        cause, _, words = cause.partition(LAST_WORDS)
        quoted = self._quoted(words) if words and words != self._quoted_words else ""
        self._quoted_words = words or self._quoted_words
        return f"{self._run} {fields.get('state')}{': ' + cause if cause else ''}{quoted}{todo}"

    def _quoted(self, words: str) -> str:
        """Return the culprit's last lines, one below the other, and the command that shows more of them."""
        if self._directory is None or self._culprit is None:
            return LAST_WORDS + words
        lines = split_last_lines(self._directory.log_path(self._culprit), words)
        more = f"\n  → tpu-tui logs {self._run} --worker {self._culprit} --tail {LINES_SHOWN}"
        return "; its last lines:" + "".join(f"\n    {line}" for line in lines) + more

    def _failed_phase(self, worker: int | None, where: str, fields: Mapping[str, Any]) -> str:
        detail = str(fields.get("detail") or "no reason given")
        reason = (str(fields.get("phase")), detail)
        if reason in self._reasons and worker is not None:
            self._alike.setdefault(reason, []).append(worker)
            return ""
        self._reasons[reason] = worker
        remedy = fields.get("remedy") or ""
        todo = "" if remedy in self._remedies else _todo(fields)
        self._remedies.add(remedy)
        return f"{where}{reason[0]} failed: {detail}{todo}"


def _what_happened(event: Event) -> str:
    """Return what happened to a worker's connection or its part of the run."""
    fields = event.fields
    if event.kind == "exit":
        return f"ended, {_how_it_ended(fields)}"
    return f"connection {fields.get('status')}" + (f": {fields['detail']}" if fields.get("detail") else "")


def _todo(fields: Mapping[str, Any]) -> str:
    return f"\n  → {fields['remedy']}" if fields.get("remedy") else ""


def _is_in_cause(remedy: str, cause: str) -> bool:
    """Return whether the cause contains the remedy already."""
    return remedy.lower() in cause.lower() or "tpu-tui attach" in cause


def _how_it_ended(fields: Mapping[str, Any]) -> str:
    if fields.get("signal"):
        return f"killed by signal {fields['signal']}"
    code = fields.get("exit_code")
    return "nobody recorded how" if code is None else f"exit code {code}"
