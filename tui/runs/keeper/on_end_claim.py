"""Claim the right to carry out `--on-end`, so that only one of several copies of a run's directory acts.

Directories are copied, and restored from backups that are older than the end of the run. So a keeper that is about to
act first leaves the number of its directory with every worker, and does not act if it finds another number.
"""

from __future__ import annotations

import asyncio
import hashlib

from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.pod.slice import INSTANCE_GROUP
from tui.runs.record.run_directory import EVENTS_FILE, RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.calls import build_call
from tui.ssh.exec.script_protocol import parse_answers
from tui.ssh.fleet import Fleet

IDENTITY = "launched_from"
"""Field of a launch's first event that identifies the directory from which it was launched."""
COPY_DELAY_S = 30.0
"""Head start of the original directory over a copy."""
CLAIM_TIMEOUT_S = 30.0
_NUMBER_BYTES = 7
"""A shell's numbers have 63 bits."""


def identity_of(directory: RunDirectory) -> str:
    """Return the directory's inode numbers, which differ in a copy."""
    return f"{directory.path.stat().st_ino}-{(directory.path / EVENTS_FILE).stat().st_ino}"


def is_copy(directory: RunDirectory) -> bool:
    """Return whether, by its events, the run was launched from another directory."""
    identities = (event.get(IDENTITY) for event in directory.events()[0] if event.kind == "state")
    return next(filter(None, identities), None) not in (None, identity_of(directory))


async def refusal_reason(directory: RunDirectory, fleet: Fleet) -> str:
    """Claim `--on-end` for this directory; return why its keeper must not act, empty if it may."""
    copied = is_copy(directory)
    if copied:
        await asyncio.sleep(COPY_DELAY_S)
    claims = await _claim_on_workers(directory, fleet)
    if any(number != _number(directory) for number in claims):
        return "another copy of this run's directory does it, or has done it"
    if copied and not claims:
        return "this is a copy of the directory that launched the run, and no worker knows whether it was done there"
    return ""


def _number(directory: RunDirectory) -> int:
    digest = hashlib.sha256(identity_of(directory).encode()).digest()
    return int.from_bytes(digest[:_NUMBER_BYTES], "big")


async def _claim_on_workers(directory: RunDirectory, fleet: Fleet) -> list[int]:
    """Return the number that each reachable worker now holds: the first one that it received.

    On a slice that is gone, no worker answers; in a group that lost single VMs, the others do.
    """
    status = status_of(directory)
    if status.slice_is_gone and directory.run.source != INSTANCE_GROUP:
        return []
    indices = [part.worker for part in status.workers if not status.slice_is_gone or part.link != "lost"]
    claims = (_claim_on(directory, fleet, index) for index in indices)
    return [number for number in await asyncio.gather(*claims) if number is not None]


async def _claim_on(directory: RunDirectory, fleet: Fleet, index: int) -> int | None:
    call = build_call("entitle", directory.id, index, _number(directory), run_root=directory.run.run_root)
    try:
        running = fleet.run(index, call.command, input=call.input, timeout=CLAIM_TIMEOUT_S)
        result = await within(running, CLAIM_TIMEOUT_S)
    except (TpuTuiError, asyncio.TimeoutError):
        return None
    for answer in parse_answers(call.nonce, result.stdout):
        if answer.word == "entitled" and (number := answer.number_at(0)) is not None:
            return number
    return None
