"""Watch the local pod of a run, with which the run ends.

The pod writes its id and its process into the profile `local` of the same home. However the pod ends, its guardian
removes that file first.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tui.errors import TpuTuiError
from tui.runs.record.run_directory import RunDirectory
from tui.settings import LOCAL_PROFILE
from tui.settings.profiles import Profile, profile_path, read_profile

POD_GONE = "the local pod that it ran on has ended, and every process of the run with it"
POLL_INTERVAL_S = 0.25
"""A check that finds the file unchanged costs one stat and one kill(2) with signal 0."""


class LocalPodWatch:
    """Watches the local pod on which a run was launched; `pod` is its id."""

    def __init__(self, path: Path, pod: str) -> None:
        self.pod = pod
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._profile: Profile | None = None

    @classmethod
    def for_run(cls, directory: RunDirectory) -> LocalPodWatch | None:
        """Return the watch for a run of the profile `local`; None if no pod is on record."""
        home = directory.path.parent.parent
        recorded = (event.get("pod") for event in directory.events()[0] if event.kind == "state")
        pod = next(filter(None, recorded), None) or _pod_of(_read(home))
        return cls(profile_path(home, LOCAL_PROFILE), str(pod)) if pod else None

    def is_alive(self) -> bool:
        """Return whether the pod is still alive."""
        try:
            file_stat = self._path.stat()
        except OSError:
            return False
        signature = (file_stat.st_ino, file_stat.st_mtime_ns)
        if signature != self._seen:
            self._profile = _read(self._path.parent.parent)
            self._seen = signature
        return _pod_of(self._profile) == self.pod and self._profile is not None and self._profile.belongs_to_live_pod

    async def wait_gone(self) -> None:
        """Wait until the pod is gone."""
        while True:
            if not self.is_alive():
                return
            await asyncio.sleep(POLL_INTERVAL_S)


def _read(home: Path) -> Profile | None:
    try:
        return read_profile(home, LOCAL_PROFILE, Path.home())
    except TpuTuiError:
        return None


def _pod_of(profile: Profile | None) -> str | None:
    return str(profile.local["pod"]) if profile is not None and profile.local.get("pod") else None
