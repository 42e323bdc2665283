"""`attach`: print a run's lines on stdout and its events on stderr until it ends."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import RUN
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import ANSWER_IS_NO, Output, format_moment
from tui.errors import OutOfReachError, TpuTuiError
from tui.operator import Event, KeeperStatus, split_last_lines
from tui.pod.run import LAST_WORDS, RunState
from tui.pod.xrt_cluster import HEARTBEAT
from tui.text.ranks import name_ranks

if TYPE_CHECKING:
    from tui.operator import Operator, RunDirectory, RunStatus


LINES_SHOWN = 50
"""How many lines of a failed worker's log the suggested command shows."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    attach = commands.add("attach", help="follow a run's log; Ctrl-C does not stop the run")
    attach.add_argument("ref", metavar="RUN", help=RUN)
    attach.set_defaults(run=attach_run)


async def attach_run(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Follow the log of a run until it ends."""
    directory = await operator.runs.find(args.ref)
    await operator.runs.ensure_keeper(directory)
    return await follow(operator, directory, out)


async def follow(operator: Operator, directory: RunDirectory, out: Output) -> int:
    """Print a run's lines and events until it ends, but no XRT heartbeats; return its exit code."""
    from tui.operator import LogLine

    many = len(directory.run.workers) > 1
    supervisor = KeeperSupervisor(operator, directory, out)
    with announcing_detach(directory.id, out), supervisor:
        async for item in operator.runs.watch(directory).everything():
            if not isinstance(item, LogLine):
                await supervisor.on_event(item)
            elif out.as_json:
                out.line(item.to_json())
            elif HEARTBEAT not in item.text:
                out.text(f"[{item.worker}] {item.text}" if many else item.text)
    return exit_code(operator.runs.status_of(directory))


@contextlib.contextmanager
def announcing_detach(run: str, out: Output) -> Iterator[None]:
    """On Ctrl-C, say that the run continues and how to follow it again."""
    try:
        yield
    except asyncio.CancelledError:
        below_the_c = "\n" if sys.stderr.isatty() else ""
        out.note(f"{below_the_c}{run} continues in the background. Follow it again with tpu-tui attach {run}.")
        raise


def exit_code(status: RunStatus) -> int:
    """Return the exit code for a run: a launch that failed to connect to a worker counts as unreachable."""
    if status.state is RunState.SUCCEEDED:
        return 0
    unreached = any(part.phase == "connect" and part.phase_status == "failed" for part in status.workers)
    return OutOfReachError.exit_code if unreached else ANSWER_IS_NO


GROUPING_S = 0.5
"""Time within which equal events of several workers become one line."""


class KeeperSupervisor:
    """Prints the events of a run, and starts another keeper when the run has lost its own.

    Events of many workers are printed together a moment later, at the latest at the end of a `with`.
    """

    def __init__(self, operator: Operator, directory: RunDirectory, out: Output) -> None:
        from tui.operator.run_watcher import RestartLimiter

        self._operator = operator
        self._directory = directory
        self._printer = EventPrinter(directory, out)
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
        # A closed pipe fails again at the next print, within the command.
        with contextlib.suppress(BrokenPipeError):
            self._printer.flush()

    async def on_event(self, item: Event | KeeperStatus) -> None:
        """Print one event; start a keeper if the event says that there is none.

        Raises OutOfReachError if no keeper can be started.
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
            raise self._unattended_error(error.sentence) from error

    def _pause_after(self, item: Event | KeeperStatus) -> float | None:
        """Return the seconds to wait before starting another keeper; None where this event calls for none."""
        if self._operator.settings.read_only or not isinstance(item, KeeperStatus) or item.alive or item.stuck:
            return None
        pause = self._restarts.next_pause()
        if pause is None:
            raise self._unattended_error("its keepers exited again and again within the hour")
        return pause

    def _unattended_error(self, why: str) -> OutOfReachError:
        run = self._directory.id
        return OutOfReachError(
            f"{run} has no keeper; its workers keep running",
            why=why,
            remedy=f"see {self._directory.path}/keeper.log; start a keeper with tpu-tui attach {run}",
        )


class EventPrinter:
    """Prints the events of a run on stderr: phases only when they failed, equal reasons and remedies once.

    Lines about workers that fail for a reason already printed, end in the same way, or lose their connections, are
    held back until another event or `flush`, to be printed as one. Failed checks are not printed as phases: they are
    notes as well.
    """

    def __init__(self, directory: RunDirectory, out: Output) -> None:
        self._directory = directory
        self._run = directory.id
        self._out = out
        self._culprit: int | None = None
        """The worker that failed first in this attempt."""
        self._quoted_words = ""
        """Its last lines, once printed."""
        self._reasons: dict[tuple[str, str], int | None] = {}
        """The worker for which each reason of a failed phase was printed."""
        self._pending: dict[str, list[int]] = {}
        """What has happened since the last line, with the workers concerned."""
        self._remedies: set[str] = set()
        """The remedies printed in this attempt."""

    def print(self, item: Event | KeeperStatus, *, another_in: float | None = None) -> None:
        """Print an event if it is worth a line; another keeper starts in `another_in` seconds."""
        if isinstance(item, Event) and item.worker is not None and item.kind in ("link", "exit"):
            self._hold_back(item.worker, _what_happened(item))
            return
        text = self._keeper_text(item, another_in) if isinstance(item, KeeperStatus) else self._event_text(item)
        if text:
            self.flush()
            self._out.note(text)

    def _hold_back(self, worker: int, text: str) -> None:
        if any(worker in workers for workers in self._pending.values()):
            self.flush()
        self._pending.setdefault(text, []).append(worker)

    def flush(self) -> None:
        """Print the lines that were held back."""
        for text, workers in self._pending.items():
            self._out.note(f"{name_ranks('worker', workers)}: {text}")
        self._pending.clear()

    def _keeper_text(self, attended: KeeperStatus, another_in: float | None) -> str:
        if attended.alive:
            return f"{self._run} has a keeper again"
        from tui.operator import describe_stuck_keeper, describe_stuck_remedy

        if attended.stuck:
            how, remedy = describe_stuck_keeper(attended), describe_stuck_remedy(self._run, attended)
            return f"the keeper of {self._run} does not respond: {how}; logs and figures are frozen\n  → {remedy}"
        since = f" (no keeper since {format_moment(attended.since)})" if attended.since else ""
        if another_in is not None:
            when = f"in {another_in:.0f} s" if another_in else "now"
            return f"the keeper of {self._run} has exited{since}; another one starts {when}"
        return (
            f"the keeper of {self._run} has exited{since}. The workers keep running, but logs are not copied and "
            f"failures are not handled\n  → start another keeper with tpu-tui attach {self._run}"
        )

    def _event_text(self, event: Event) -> str:
        fields = event.fields
        prefix = "" if event.worker is None else f"worker {event.worker}: "
        if event.kind == "failure":
            self._culprit = event.worker
        if event.kind == "state":
            return self._state_text(fields)
        if event.kind == "phase" and fields.get("status") == "failed" and fields.get("phase") != "check":
            return self._failed_phase_text(event.worker, prefix, fields)
        if event.kind == "note":
            return f"{prefix}{fields.get('text', '')}{_todo(fields)}"
        return ""

    def _state_text(self, fields: Mapping[str, Any]) -> str:
        cause, remedy = fields.get("cause") or "", fields.get("remedy") or ""
        todo = "" if remedy in self._remedies or _is_in_cause(remedy, cause) else _todo(fields)
        if fields.get("state") != RunState.STOPPING:
            self._remedies.clear()
        cause, _, last_lines = cause.partition(LAST_WORDS)
        quoted = self._quote_lines(last_lines) if last_lines and last_lines != self._quoted_words else ""
        self._quoted_words = last_lines or self._quoted_words
        return f"{self._run} {fields.get('state')}{': ' + cause if cause else ''}{quoted}{todo}"

    def _quote_lines(self, last_lines: str) -> str:
        """Return the culprit's last lines, one per line, and the command that shows more."""
        if self._culprit is None:
            return LAST_WORDS + last_lines
        lines = split_last_lines(self._directory.log_path(self._culprit), last_lines)
        more = f"\n  → tpu-tui logs {self._run} --worker {self._culprit} --tail {LINES_SHOWN}"
        return "; its last lines:" + "".join(f"\n    {line}" for line in lines) + more

    def _failed_phase_text(self, worker: int | None, prefix: str, fields: Mapping[str, Any]) -> str:
        detail = str(fields.get("detail") or "no reason given")
        reason = (str(fields.get("phase")), detail)
        if reason in self._reasons and worker is not None:
            self._hold_back(worker, f"{reason[0]} failed for the same reason as worker {self._reasons[reason]}")
            return ""
        self._reasons[reason] = worker
        remedy = fields.get("remedy") or ""
        todo = "" if remedy in self._remedies else _todo(fields)
        self._remedies.add(remedy)
        return f"{prefix}{reason[0]} failed: {detail}{todo}"


def _what_happened(event: Event) -> str:
    """Describe an event of a worker's connection or process."""
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
    return "exit code unknown" if code is None else f"exit code {code}"
