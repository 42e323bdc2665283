"""Whose it is to do what was asked for a run's end: one directory's, of all the copies of it that there may be.

Directories are copied, and restored from backups that are older than the run's end. So whoever is about to act leaves
its number with every worker first, and whoever finds another's there lets it be.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError
from tui.runs.record.run_directory import EVENTS_FILE, RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.calls import build_call
from tui.ssh.exec.script_protocol import parse_answers

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

IDENTITY = "launched_from"
"""Field of a launch's first event that says which directory it was launched from."""
COPY_DELAY_S = 30.0
"""Seconds that a copy leaves to the directory that it was made of."""
CLAIM_TIMEOUT_S = 30.0
_NUMBER_BYTES = 7
"""A shell's numbers have 63 bits."""


def identity_of(directory: RunDirectory) -> str:
    """What a copy of the directory does not have: where its file system keeps it."""
    return f"{directory.path.stat().st_ino}-{(directory.path / EVENTS_FILE).stat().st_ino}"


def is_copy(directory: RunDirectory) -> bool:
    """Whether it is not the directory that the run was launched from, as far as its events tell."""
    known = (event.get(IDENTITY) for event in directory.events()[0] if event.kind == "state")
    return next((told for told in known if told), None) not in (None, identity_of(directory))


async def refusal_reason(directory: RunDirectory, fleet: Fleet) -> str:
    """Why what was asked for the end is not this directory's to do; empty where it is, of which the workers know."""
    copied = is_copy(directory)
    if copied:
        await asyncio.sleep(COPY_DELAY_S)
    told = [] if status_of(directory).slice_is_gone else await _told_by_workers(directory, fleet)
    if any(number != _number(directory) for number in told):
        return "another copy of this run's directory has seen to it, or does"
    if copied and not told:
        return "this is a copy of the directory that launched the run, and no worker tells whether it was done there"
    return ""


def _number(directory: RunDirectory) -> int:
    digest = hashlib.sha256(identity_of(directory).encode()).digest()
    return int.from_bytes(digest[:_NUMBER_BYTES], "big")


async def _told_by_workers(directory: RunDirectory, fleet: Fleet) -> list[int]:
    """The number that each worker in reach now has."""
    asking = (_told_by(directory, fleet, worker.index) for worker in directory.run.workers)
    return [number for number in await asyncio.gather(*asking) if number is not None]


async def _told_by(directory: RunDirectory, fleet: Fleet, index: int) -> int | None:
    made = build_call("entitle", directory.id, index, _number(directory), run_root=directory.run.run_root)
    try:
        asking = fleet.run(index, made.command, input=made.input, timeout=CLAIM_TIMEOUT_S)
        done = await asyncio.wait_for(asking, CLAIM_TIMEOUT_S)
    except (TpuTuiError, asyncio.TimeoutError):
        return None
    for answer in parse_answers(made.nonce, done.stdout):
        if answer.word == "entitled" and (number := answer.number_at(0)) is not None:
            return number
    return None
