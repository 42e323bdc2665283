"""Saved logs on this machine and in buckets, the dialects to read them with, and the state of the cores in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tui.errors import UsageError
from tui.logs.dialects.dialect import Dialect
from tui.logs.saved_log import SavedLog, open_log
from tui.logs.snapshot import Snapshot
from tui.operator.bucket_logs import BucketLogs
from tui.pod.log_refs import path_of
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.run_directory import RunDirectory
from tui.settings import Settings


class Logs:
    """Reads saved logs and the mirrors of runs with the profile's dialects."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def open(
        self, ref: str, *, offline: bool = False, note: Callable[[str], None] = lambda _: None
    ) -> SavedLog:
        """Open the saved log at a path, at `gs://bucket/object` or piped in (`-`).

        With `offline`, no bucket is queried for a newer log; `note` receives a line before a long wait. Raises
        UsageError, and CloudError for a bucket that cannot or must not be read.
        """
        if ref.startswith("gs://"):
            logs = BucketLogs(self._settings)
            return await logs.open(ref, dialects=self.dialects, offline=offline, note=note)
        return open_log(path_of(ref), dialects=self.dialects, thresholds=self._settings.thresholds)

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """The profile's own dialects. Raises UsageError for one that is malformed."""
        if not self._settings.dialects:
            return ()
        from tui.logs.dialects.user_dialects import user_dialects

        return user_dialects(self._settings.dialects)

    @cached_property
    def dialect_problem(self) -> UsageError | None:
        """What is wrong with the profile's own dialects, if anything: a run then has a state but no figures."""
        if self._settings.dialects:
            try:
                _ = self.dialects
            except UsageError as error:
                return error
        return None

    async def snapshot(self, source: RunDirectory | SavedLog) -> Snapshot:
        """Return the state of each core at the end of a run's mirror or of a saved log."""
        if not isinstance(source, RunDirectory):
            return source.snapshot()
        reader = RunReader(source, dialects=self.dialects, thresholds=self._settings.thresholds)
        more = True
        while more:
            more = reader.poll()
            await asyncio.sleep(0)
        return reader.snapshot()

    async def core_rows(
        self, source: RunDirectory | SavedLog, by: str = "core", *, reverse: bool = False
    ) -> list[dict[str, Any]]:
        """Return the rows that `cores --json` prints; those of a saved log are cached until it changes."""
        if not isinstance(source, RunDirectory):
            return source.core_rows(by=by, reverse=reverse, cache=self._settings.home / "cache")
        snapshot = (await self.snapshot(source)).sorted(by, reverse)
        return [row.to_json() for row in snapshot.rows()]
