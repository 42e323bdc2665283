"""Read a run's mirror as samples of every core's state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tui.logs.demux import Demux
from tui.logs.dialects.dialect import Dialect
from tui.logs.dialects.registry import BUILT_IN
from tui.logs.snapshot import Snapshot
from tui.runs.read.mirror_tail import POLL_BUDGET_BYTES, MirrorTail, Span
from tui.runs.record.run_directory import RunDirectory


class RunReader:
    """The sorted state of every core of a live or past run, brought up to date by polling."""

    def __init__(self, directory: RunDirectory, *, dialects: Sequence[Dialect] = (), **options: Any) -> None:
        """Begin at byte 0. A user's `dialects` are tried before the built-in ones; `options` are those of `Demux`."""
        run = directory.run
        addresses = {worker.index: worker.internal_ip or worker.external_ip for worker in run.workers}
        self.directory = directory
        self.tail = MirrorTail(directory)
        self.demux = Demux(
            dialects=(*dialects, *BUILT_IN),
            addresses={index: address for index, address in addresses.items() if address},
            **options,
        )
        self._attempts: dict[int, int] = {}
        for worker in run.workers:
            self.demux.feed(worker.index, b"")

    def poll(self, budget_bytes: int = POLL_BUDGET_BYTES) -> bool:
        """Read at most `budget_bytes` new bytes; return whether anything was new. Repeat until nothing is."""
        changed = self.tail.read_events()
        if changed:
            for worker in self.directory.run.workers:
                self.demux.set_ended(worker.index, self.tail.is_over or worker.index in self.tail.ended)
        has_read = False
        for span in self.tail.read(budget_bytes):
            if self._attempts.get(span.worker, 0) != span.attempt:
                self._begin_log(span)
            self.demux.feed(span.worker, span.data, now=span.time)
            has_read = True
        if self.tail.is_over and not has_read:
            self.demux.finish()
        return has_read or changed

    def poll_newest(self, worker: int, most: int) -> bool:
        """Read a worker's newest whole lines, at most `most` bytes of them, and skip earlier ones.

        Return whether there were new ones. Use either this or `poll` on a reader, not both.
        """
        data = self.tail.read_newest(worker, most)
        if data:
            self.demux.feed(worker, data, now=time.time())
        return bool(data)

    def _begin_log(self, span: Span) -> None:
        """Begin another log of a worker; the first log of an attempt means that all workers were restarted."""
        self.demux.finish(span.time, worker=span.worker)
        self.demux.begin_log(span.worker)
        if span.attempt > max(self._attempts.values(), default=0):
            self.demux.restart()
        self._attempts[span.worker] = span.attempt

    def snapshot(self, now: float | None = None) -> Snapshot:
        """Return every core's state by what was read; `now` is the present unless given."""
        return self.demux.snapshot(time.time() if now is None else now, partial=self.tail.is_ahead)
