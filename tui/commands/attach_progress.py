"""What a person sees of a run that they follow: its lines on stdout, what happens to it on stderr."""

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
    """Show a run's lines and events until it has ended; the exit code that says how."""
    from tui.operator import LogLine

    many = len(directory.run.workers) > 1
    looking_after = LookingAfter(operator, directory, Teller(directory.id, out, directory))
    with goes_on_without_us(directory.id, out), looking_after:
        async for item in operator.runs.watch(directory):
            if not isinstance(item, LogLine):
                await looking_after.heed(item)
            elif out.as_json:
                out.line(item.to_json())
            else:
                out.text(f"[{item.worker}] {item.text}" if many else item.text)
    return exit_code(operator.runs.status_of(directory))


@contextlib.contextmanager
def goes_on_without_us(run: str, out: Output) -> Iterator[None]:
    """Say at Ctrl-C that the run is left alone, and how to come back to it."""
    try:
        yield
    except asyncio.CancelledError:
        below_the_c = "\n" if sys.stderr.isatty() else ""
        out.note(f"{below_the_c}{run} goes on without this window. tpu-tui attach {run} follows it again.")
        raise


def exit_code(status: RunStatus) -> int:
    """0 for a success; a launch that failed on a worker nobody could reach is out of reach, all else a no."""
    if status.state is RunState.SUCCEEDED:
        return 0
    unreached = any(part.phase == "connect" and part.phase_status == "failed" for part in status.workers)
    return OutOfReachError.exit_code if unreached else ANSWER_IS_NO


TOGETHER = 0.5
"""Seconds in which workers to which the same happens are told of in one line."""


class LookingAfter:
    """Tells what happens to a run, and gives it another keeper where it lost its own, as `attach` does once.

    What happens to many workers is told a moment later, of all of them; at the latest when the body of a `with` ends.
    """

    def __init__(self, operator: Operator, directory: RunDirectory, teller: Teller) -> None:
        from tui.operator.keeper_supervision import RestartLimiter

        self._operator = operator
        self._directory = directory
        self._teller = teller
        self._restarts = RestartLimiter()
        self._later: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        if self._later is not None:
            self._later.cancel()
        self._tell_rest()

    def _tell_rest(self) -> None:
        self._later = None
        # That nobody reads any more is met by whoever tells next, within the command.
        with contextlib.suppress(BrokenPipeError):
            self._teller.tell_rest()

    async def heed(self, item: Event | KeeperStatus) -> None:
        """Tell one thing; start a keeper when it is that there is none.

        Raises OutOfReachError when none is to be had.
        """
        pause = self._pause_after(item)
        self._teller.tell(item, another_in=pause)
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(TOGETHER, self._tell_rest)
        if pause is None:
            return
        await asyncio.sleep(pause)
        try:
            await self._operator.runs.ensure_keeper(self._directory)
        except TpuTuiError as error:
            raise self._left_alone(error.sentence) from error

    def _pause_after(self, item: Event | KeeperStatus) -> float | None:
        """Seconds until another keeper is started on this news; None: none is, nor ever for one who only looks on."""
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


class Teller:
    """Says on stderr what happens to a run: a phase only when it failed, the reason and remedy of many workers once.

    Failed checks are notes besides, of many workers together. Of workers that end alike, or whose connections do,
    it keeps what it has to say until something else is to be told, or `tell_rest` asks for it.
    """

    def __init__(self, run: str, out: Output, directory: RunDirectory | None = None) -> None:
        self._run = run
        self._out = out
        self._directory = directory
        self._culprit: int | None = None
        """The worker that failed first in this attempt."""
        self._told_words = ""
        """Its last lines, once they were told."""
        self._reasons: dict[tuple[str, str], int | None] = {}
        """The worker that each reason of a failed phase was told of."""
        self._alike: dict[tuple[str, str], list[int]] = {}
        """The workers that failed like one before them, told together when something else is."""
        self._kept: dict[str, list[int]] = {}
        """What has happened since something was told, and to which workers."""
        self._remedies: set[str] = set()
        """Those told of this attempt."""

    def tell(self, item: Event | KeeperStatus, *, another_in: float | None = None) -> None:
        """Say one thing, where it is worth a line; another keeper is to be there `another_in` seconds."""
        from tui.operator import Event, KeeperStatus

        if isinstance(item, Event) and item.worker is not None and item.kind in ("link", "exit"):
            self._keep(item.worker, _what_happened(item))
            return
        text = self._attendance(item, another_in) if isinstance(item, KeeperStatus) else self._event(item)
        if text:
            self.tell_rest()
            self._out.note(text)

    def _keep(self, worker: int, what: str) -> None:
        if any(worker in workers for workers in self._kept.values()):
            self.tell_rest()
        self._kept.setdefault(what, []).append(worker)

    def tell_rest(self) -> None:
        """Say what is kept of workers to which the same happened."""
        self._tell_of_those_alike()
        for what, workers in self._kept.items():
            self._out.note(f"worker{'s' if len(workers) > 1 else ''} {format_ranks(workers)}: {what}")
        self._kept.clear()

    def _tell_of_those_alike(self) -> None:
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
        todo = "" if remedy in self._remedies or _is_told(remedy, cause) else _todo(fields)
        if fields.get("state") != RunState.STOPPING:
            self._remedies.clear()
        cause, _, words = cause.partition(LAST_WORDS)
        quoted = self._quoted(words) if words and words != self._told_words else ""
        self._told_words = words or self._told_words
        return f"{self._run} {fields.get('state')}{': ' + cause if cause else ''}{quoted}{todo}"

    def _quoted(self, words: str) -> str:
        """The culprit's last lines, one below the other, and the command that shows more of them."""
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
    """What befell a worker's connection or its part of the run."""
    fields = event.fields
    if event.kind == "exit":
        return f"ended, {_how_it_ended(fields)}"
    return f"connection {fields.get('status')}" + (f": {fields['detail']}" if fields.get("detail") else "")


def _todo(fields: Mapping[str, Any]) -> str:
    return f"\n  → {fields['remedy']}" if fields.get("remedy") else ""


def _is_told(remedy: str, cause: str) -> bool:
    """Whether the cause ends with what to do already."""
    return remedy.lower() in cause.lower() or "tpu-tui attach" in cause


def _how_it_ended(fields: Mapping[str, Any]) -> str:
    if fields.get("signal"):
        return f"killed by signal {fields['signal']}"
    code = fields.get("exit_code")
    return "nobody recorded how" if code is None else f"exit code {code}"
