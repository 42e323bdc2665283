"""Requests of the user. Screens, the palette and actions send these; `actions` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.logs.saved_log import SavedLog
    from tui.operator import RunDirectory
    from tui.pod.resources import CloudResource
    from tui.pod.slice import Slice


class Intent:
    """Base of all requests."""


@dataclass(frozen=True)
class SliceHighlighted(Intent):
    """The cursor is on a slice."""

    slice_: Slice | None


@dataclass(frozen=True)
class CheckRequested(Intent):
    """Run every check of a slice."""

    slice_: Slice | None


@dataclass(frozen=True)
class SliceChangeRequested(Intent):
    """Ask, then `start`, `stop` or `delete` a slice."""

    slice_: Slice | None
    action: str


@dataclass(frozen=True)
class NewSliceRequested(Intent):
    """Ask which slice to create; the form begins with the type of this one."""

    slice_: Slice | None


@dataclass(frozen=True)
class CreationRequested(Intent):
    """Show a creation that is in progress or has failed."""

    path: str


@dataclass(frozen=True)
class NewRunRequested(Intent):
    """Ask what to launch."""

    slice_: Slice | None


@dataclass(frozen=True)
class RepeatRunRequested(Intent):
    """Ask what to launch, filled in from a run."""

    directory: RunDirectory | None


@dataclass(frozen=True)
class OpenRunRequested(Intent):
    """Show a run."""

    directory: RunDirectory | None
    pane: str = "cores"


@dataclass(frozen=True)
class StopRunRequested(Intent):
    """Ask, then stop a run."""

    directory: RunDirectory | None


@dataclass(frozen=True)
class ReportRequested(Intent):
    """Write a report of a run or of a saved log."""

    source: RunDirectory | SavedLog | None


@dataclass(frozen=True)
class KeeperRequested(Intent):
    """Start a keeper for a run that has none; a read-only console copies the logs itself."""

    directory: RunDirectory


@dataclass(frozen=True)
class RunClosed(Intent):
    """The screen of a run was left."""

    directory: RunDirectory


@dataclass(frozen=True)
class LeaveRunRequested(Intent):
    """Go back to the pod screen, or quit where there is none."""


@dataclass(frozen=True)
class ShellRequested(Intent):
    """Open a shell on a worker of a slice, or of a run's slice."""

    target: Slice | RunDirectory | None
    worker: int | None


@dataclass(frozen=True)
class ExecRequested(Intent):
    """Ask for a command to run on the workers of a slice, or of a run's slice."""

    target: Slice | RunDirectory | None


@dataclass(frozen=True)
class TextRequested(Intent):
    """Show a text."""

    title: str
    text: str


@dataclass(frozen=True)
class EquivalentsRequested(Intent):
    """Show what can be done with a slice and a run as commands for a shell."""

    slice_: Slice | None
    directory: RunDirectory | None
    worker: int | None


@dataclass(frozen=True)
class ResourcesRequested(Intent):
    """Show what costs money."""


@dataclass(frozen=True)
class ResourcesClosed(Intent):
    """Leave the screen of resources."""


@dataclass(frozen=True)
class ResourceDeletionRequested(Intent):
    """Ask for the name of a resource, then delete it."""

    resource: CloudResource | None


@dataclass(frozen=True)
class QuitRequested(Intent):
    """Show what continues without the console, then quit."""
