"""The versions of a run according to its record. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tui.pod.run import Run
from tui.runs.record.event_log import Event

VERSIONS = "versions"
"""Event: what the interpreter of the job has, a field for each of `PACKAGES`, null for what is not there."""
PACKAGES = ("torch", "torch_xla", "libtpu")
RUNTIME = "runtime"


def versions_in(event: Event) -> dict[str, str]:
    """Return the versions in an event."""
    return {name: value for name in PACKAGES if isinstance(value := event.get(name), str)}


def all_versions(run: Run, found: Mapping[str, str]) -> dict[str, str | None]:
    """Return the document's `versions`: the slice's runtime, and what the job's interpreter has."""
    return {RUNTIME: run.versions.get(RUNTIME), **{name: found.get(name) for name in PACKAGES}}
