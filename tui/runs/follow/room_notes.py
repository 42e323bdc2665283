"""Notes about the room on a worker's disk: the more changes a worker reports, the more rarely they are noted.

A worker may report any number of changes, and each note takes room on the disk here.
"""

from __future__ import annotations

import asyncio

from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Least time between the first two notes, and its upper limit: it doubles with each note."""
ROOM = "room"
ROOM_TEXTS = {
    "full": "the disk of this worker is full: the job waits in its write, nothing is lost",
    ROOM: "there is room on the disk of this worker again: the job goes on",
}
"""The text of a note for each word of a worker."""


class RoomNotes:
    """Notes about the room on one worker's disk; `close` them when the worker is no longer followed."""

    def __init__(self, directory: RunDirectory, worker: int) -> None:
        self._directory = directory
        self._worker = worker
        self._noted = self._newest = ""
        self._changes = 0
        """How many times the room has changed since the last note."""
        self._pause_s = FIRST_PAUSE_S
        self._noting: asyncio.Future[None] | None = None

    async def report(self, room: str) -> None:
        """Note whether there is room, if that has changed; a new follower does not repeat the note on record."""
        if not self._noted:
            self._noted = self._newest = self._room_on_record()
        self._changes += room != self._newest
        self._newest = room
        if self._newest != self._noted and (self._noting is None or self._noting.done()):
            self._noting = asyncio.ensure_future(self._note())
            await asyncio.sleep(0)  # the first note is written before anything else happens

    def _room_on_record(self) -> str:
        for note in reversed(status_of(self._directory).notes):
            for room, text in ROOM_TEXTS.items():
                if note.startswith(f"worker {self._worker}: {text}"):
                    return room
        return ROOM

    async def _note(self) -> None:
        """Note the newest change, and after each pause the next one, until there is none."""
        while self._newest != self._noted:
            left_out, self._changes, self._noted = self._changes - 1, 0, self._newest
            more = f" ({left_out} changes before it are left out)" if left_out else ""
            await record(self._directory, "note", worker=self._worker, text=ROOM_TEXTS[self._noted] + more)
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def close(self) -> None:
        """Note nothing more."""
        if self._noting is not None:
            self._noting.cancel()
