"""The versions of packages that a run's record holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tui.pod.run import Run
from tui.runs.record.event_log import Event

VERSIONS = "versions"
"""Event: the versions in the job's interpreter, a field for each of `PACKAGES`, null for a missing package."""
PACKAGES = ("torch", "torch_xla", "libtpu")
RUNTIME = "runtime"


def versions_in(event: Event) -> dict[str, str]:
    """Return the versions in an event."""
    return {name: value for name in PACKAGES if isinstance(value := event.get(name), str)}


def all_versions(run: Run, found: Mapping[str, str]) -> dict[str, str | None]:
    """Return the document's `versions`: that of the slice's runtime, and those in the job's interpreter."""
    return {RUNTIME: run.versions.get(RUNTIME), **{name: found.get(name) for name in PACKAGES}}
