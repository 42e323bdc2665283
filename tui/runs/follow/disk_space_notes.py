"""Notes about a full disk of a worker, and about space on it again: the more changes, the rarer the notes.

A worker may report any number of changes, and each note takes space on the disk here.
"""

from __future__ import annotations

import asyncio

from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Least time between the first two notes, and its upper limit: it doubles with each note."""
ROOM = "room"
DISK_TEXTS = {
    "full": "the disk of this worker is full: the job waits in its write, nothing is lost",
    ROOM: "there is room on the disk of this worker again: the job goes on",
}
"""The text of a note for each word of a worker."""


class DiskSpaceNotes:
    """Notes about the free space on one worker's disk; `close` them when the worker is no longer followed."""

    def __init__(self, directory: RunDirectory, worker: int) -> None:
        self._directory = directory
        self._worker = worker
        self._noted = self._newest = ""
        self._changes = 0
        """Changes since the last note."""
        self._pause_s = FIRST_PAUSE_S
        self._noting: asyncio.Future[None] | None = None

    async def report(self, word: str) -> None:
        """Note whether the disk is full, if that has changed; a new follower does not repeat the note on record."""
        if not self._noted:
            self._noted = self._newest = self._word_on_record()
        self._changes += word != self._newest
        self._newest = word
        if self._newest != self._noted and (self._noting is None or self._noting.done()):
            self._noting = asyncio.ensure_future(self._note())
            await asyncio.sleep(0)  # the first note is written before anything else happens

    def _word_on_record(self) -> str:
        for note in reversed(status_of(self._directory).notes):
            for word, text in DISK_TEXTS.items():
                if note.startswith(f"worker {self._worker}: {text}"):
                    return word
        return ROOM

    async def _note(self) -> None:
        """Note the newest change, and after each pause the next one, until there is none."""
        while self._newest != self._noted:
            left_out, self._changes, self._noted = self._changes - 1, 0, self._newest
            more = f" ({left_out} changes before it are left out)" if left_out else ""
            await record(self._directory, "note", worker=self._worker, text=DISK_TEXTS[self._noted] + more)
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def close(self) -> None:
        """Note nothing more."""
        if self._noting is not None:
            self._noting.cancel()
