"""What a person sees of a run that they follow: its lines on stdout, what happens to it on stderr."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.output import Output
from tui.errors import OutOfReachError
from tui.pod.run import RunState

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.runs.directory import Event, RunDirectory
    from tui.runs.status import RunStatus

ANSWER_IS_NO = 1


async def follow(operator: Operator, directory: RunDirectory, out: Output) -> int:
    """Show a run's lines and events until it has ended; the exit code that says how."""
    from tui.runs.lines import LogLine

    many = len(directory.run.workers) > 1
    try:
        async for item in operator.watch(directory):
            if not isinstance(item, LogLine):
                tell_event(item, directory, out)
            elif out.as_json:
                out.line(item.to_json())
            else:
                out.text(f"[{item.worker}] {item.text}" if many else item.text)
    except asyncio.CancelledError:
        out.note(f"\n{directory.id} goes on without this window. tpu-tui attach {directory.id} follows it again.")
        raise
    return exit_code(operator.status_of(directory))


def exit_code(status: RunStatus) -> int:
    """0 for a success; a launch that failed on a worker nobody could reach is out of reach, all else a no."""
    if status.state is RunState.SUCCEEDED:
        return 0
    unreached = any(part.phase == "connect" and part.phase_status == "failed" for part in status.workers)
    return OutOfReachError.exit_code if unreached else ANSWER_IS_NO


def tell_event(event: Event, directory: RunDirectory, out: Output) -> None:
    """Say on stderr what happened to the run; a phase only when it failed, once for all workers when it is done."""
    fields = event.fields
    where = "" if event.worker is None else f"worker {event.worker}: "
    if event.kind == "state":
        cause, remedy = fields.get("cause") or "", fields.get("remedy") or ""
        todo = f"\n  → {remedy}" if remedy and not _is_told(remedy, cause) else ""
        out.note(f"{directory.id} {fields.get('state')}{': ' + cause if cause else ''}{todo}")
    elif event.kind == "phase" and fields.get("status") == "failed":
        out.note(f"{where}{fields.get('phase')} failed: {fields.get('detail') or 'no reason given'}")
    elif event.kind == "link":
        detail = f": {fields['detail']}" if fields.get("detail") else ""
        out.note(f"{where}connection {fields.get('status')}{detail}")
    elif event.kind == "exit":
        out.note(f"{where}ended, {_how_it_ended(fields)}")
    elif event.kind == "note":
        out.note(f"{where}{fields.get('text', '')}")


def _is_told(remedy: str, cause: str) -> bool:
    """Whether the cause ends with what to do already."""
    return remedy.lower() in cause.lower() or "tpu-tui attach" in cause


def _how_it_ended(fields: Mapping[str, Any]) -> str:
    if fields.get("signal"):
        return f"killed by signal {fields['signal']}"
    code = fields.get("exit_code")
    return "nobody recorded how" if code is None else f"exit code {code}"
