"""Notes on the room on a worker's disk: changes that follow each other are noted ever more rarely.

A worker may report any number of changes; each note takes room on the disk here.
"""

from __future__ import annotations

import asyncio

from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Least time between the first two notes, and its limit: it doubles with each note."""
ROOM = "room"
ROOM_TEXTS = {
    "full": "the disk of this worker is full: the job waits in its write, nothing is lost",
    ROOM: "there is room on the disk of this worker again: the job goes on",
}
"""What each word of a worker means."""


class RoomNotes:
    """Notes on one worker's room; `close` them when it is no longer followed."""

    def __init__(self, directory: RunDirectory, worker: int) -> None:
        self._directory = directory
        self._worker = worker
        self._noted = self._newest = ""
        self._changes = 0
        """How many times the room has changed since the last note."""
        self._pause_s = FIRST_PAUSE_S
        self._noting: asyncio.Future[None] | None = None

    async def report(self, room: str) -> None:
        """Note what the worker says of its room if that has changed, once however often it is followed anew."""
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
        """Note the newest change, and go on for as long as there is another one after the pause."""
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
