"""Which runs of this machine the settings lead to: those of a project, or of a hosts file's machines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError

if TYPE_CHECKING:
    from tui.pod.run import Run
    from tui.pod.slice import Slice
    from tui.settings import Settings


class RunScope:
    """Separates the runs that the settings lead to from others of this machine; in doubt a run is in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._machines = _machines(settings)

    def includes(self, run: Run) -> bool:
        """Return whether the settings lead to a run's workers. A run of the Cloud TPU API has a zone."""
        if self._settings.hosts:
            return run.zone is None and self._is_on_machines(run)
        if self._settings.project is None:
            return True
        return run.zone is not None and run.project in (None, self._settings.project)

    def _is_on_machines(self, run: Run) -> bool:
        machines = self._machines
        if machines is None or run.slice == machines.name:
            return True
        hosts = {worker.internal_ip or worker.external_ip or worker.hostname for worker in machines.workers}
        return any((one.internal_ip or one.external_ip or one.hostname) in hosts for one in run.workers)


def _machines(settings: Settings) -> Slice | None:
    if settings.hosts:
        from tui.cloud.hosts_file import read_hosts

        with contextlib.suppress(TpuTuiError, OSError):
            return read_hosts(settings.hosts)
    return None


def hidden_note(count: int, shown_by: str) -> str:
    """Return that runs are not listed, and what lists them; empty where there are none."""
    return f"{count} run{'s' if count > 1 else ''} of other projects hidden: {shown_by}" if count else ""
