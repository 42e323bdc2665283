"""Saved logs in Cloud Storage: each is copied once into a cache and opened from there until the object changes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tui.cloud.storage.buckets import Buckets, BucketUrl, ObjectVersion, parse_url
from tui.errors import CloudError, UsageError
from tui.logs.dialects.dialect import Dialect
from tui.logs.saved_log import SavedLog, open_log
from tui.settings import Settings
from tui.settings.home import make_private

MOST_KEPT_BYTES = 4 * 1024**3
"""Size of the cache: the copies opened longest ago are removed. A larger log is copied for one opening only."""

ANNOUNCED_BYTES = 32 * 1024 * 1024
"""Size from which copying is announced."""

_UNFINISHED = ".part"
_ABANDONED_AFTER_S = 24 * 3600.0
"""Seconds after which an unfinished copy counts as abandoned."""

_TRIES = 3
"""Attempts at an object that is overwritten while it is copied."""

_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100


class BucketLogs:
    """Copies of objects under `cache/objects`: one folder per object, and in it one per generation."""

    def __init__(self, settings: Settings, *, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self.directory = settings.home / "cache" / "objects"
        self._settings = settings
        self._most_bytes = most_bytes

    async def open(
        self,
        text: str,
        *,
        dialects: Sequence[Dialect] = (),
        offline: bool = False,
        note: Callable[[str], None] = lambda _: None,
    ) -> SavedLog:
        """Open the log at `gs://bucket/object`; with `offline`, use the cached copy without a query.

        The cached copy is also used when the service cannot be reached; the log's `staleness_error` then says so.
        Raises UsageError when there is no such bucket or object, or no room; CloudError when it cannot be read.
        """
        url = parse_url(text)
        cached = self._find_cached(url)
        if offline:
            if cached is None:
                raise UsageError(f"{url} is not on this machine", remedy="run it without --offline to read it")
            return self._open(cached, url, dialects)
        try:
            async with Buckets(self._settings) as buckets:
                return await self._fetch(buckets, url, dialects, note)
        except CloudError as error:
            if cached is None or not cached.exists():
                raise
            log = self._open(cached, url, dialects)
            log.staleness_error = CloudError(
                f"{url} may have changed since {_age_of(cached)}", why=str(error.sentence)
            )
            return log

    async def _fetch(
        self, buckets: Buckets, url: BucketUrl, dialects: Sequence[Dialect], note: Callable[[str], None]
    ) -> SavedLog:
        version = await buckets.version(url)
        for _ in range(_TRIES):
            path = self._place(version)
            if path.exists():
                return self._open(path, url, dialects)
            self._make_room(version)
            if version.size >= ANNOUNCED_BYTES:
                note(f"Copying {url}, {version.size / 1e6:,.0f} MB…")
            try:
                return await self._download(buckets, version, path, dialects)
            except UsageError:
                before, version = version, await buckets.version(url)
                if version == before:
                    raise
        raise CloudError(f"{url} cannot be read", why="it keeps being overwritten", remedy="try again later")

    async def _download(
        self, buckets: Buckets, version: ObjectVersion, path: Path, dialects: Sequence[Dialect]
    ) -> SavedLog:
        is_cached = version.size <= self._most_bytes
        file = tempfile.NamedTemporaryFile(dir=self.directory, suffix=_UNFINISHED, delete=not is_cached)  # noqa: SIM115
        unfinished = Path(file.name)
        try:
            await buckets.download(version, file)
            file.flush()
            if not is_cached:
                return self._open(unfinished, version.url, dialects, copy=file)
            file.close()
            self._keep(unfinished, version, path)
        except BaseException:
            file.close()
            unfinished.unlink(missing_ok=True)
            raise
        return self._open(path, version.url, dialects)

    def _keep(self, unfinished: Path, version: ObjectVersion, path: Path) -> None:
        """Move a complete copy into its place and remove those of earlier generations."""
        make_private(path.parent)
        for generation in path.parent.parent.iterdir():
            if generation != path.parent:
                shutil.rmtree(generation, ignore_errors=True)
        unfinished.replace(path)
        os.utime(path, ns=(time.time_ns(), int(version.updated * 1e9)))

    def _open(
        self, path: Path, url: BucketUrl, dialects: Sequence[Dialect], copy: IO[bytes] | None = None
    ) -> SavedLog:
        with suppress(OSError):
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        thresholds = self._settings.thresholds
        return open_log(path, dialects=dialects, thresholds=thresholds, name=str(url), copy=copy)

    def _place(self, version: ObjectVersion) -> Path:
        """Return the path of a version's copy; its name is the object's own, with unsafe characters replaced."""
        name = _STRANGE.sub("-", version.url.name.rpartition("/")[2])[-_LONGEST_NAME:].lstrip(".") or "log"
        return self._folder(version.url) / str(version.generation) / name

    def _folder(self, url: BucketUrl) -> Path:
        service = self._settings.endpoints.get("storage", "")
        return self.directory / hashlib.sha256(f"{service} {url}".encode()).hexdigest()[:32]

    def _find_cached(self, url: BucketUrl) -> Path | None:
        """Return the cached copy, whatever its generation."""
        return next(self._folder(url).glob("*/*"), None)

    def _make_room(self, version: ObjectVersion) -> None:
        """Remove abandoned copies and those opened longest ago. Raises UsageError where there is still no room."""
        make_private(self.directory)
        for unfinished in self.directory.glob(f"*{_UNFINISHED}"):
            with suppress(FileNotFoundError):
                if time.time() - unfinished.stat().st_mtime > _ABANDONED_AFTER_S:
                    unfinished.unlink()
        room = self._most_bytes - min(version.size, self._most_bytes)
        for _accessed, size, path in sorted(self._copies(), reverse=True):
            room -= size
            if room < 0:
                shutil.rmtree(path.parent.parent, ignore_errors=True)
        free = shutil.disk_usage(self.directory).free
        if free < version.size:
            raise UsageError(
                f"{version.url} cannot be copied here",
                why=f"it is {version.size / 1e6:,.0f} MB; {self.directory} has {free / 1e6:,.0f} MB free",
                remedy="free some space, or set TPU_TUI_HOME to a directory on a larger disk",
            )

    def _copies(self) -> list[tuple[float, int, Path]]:
        """Return when each copy was last opened, its size and its path."""
        copies = []
        for path in self.directory.glob("*/*/*"):
            with suppress(FileNotFoundError):
                stat = path.stat()
                copies.append((stat.st_atime, stat.st_size, path))
        return copies


def _age_of(path: Path) -> str:
    """Return when the object of a copy was last written (RFC 3339)."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(path.stat().st_mtime))
