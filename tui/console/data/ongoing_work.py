"""What the console itself is doing or has done to runs and slices: no record on disk holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tui.console.data.delete_progress import DeleteProgress
    from tui.console.data.stop_progress import StopProgress
    from tui.errors import TpuTuiError


@dataclass
class OngoingWork:
    """Work that outlives the screens that show it."""

    stops: dict[str, StopProgress] = field(default_factory=dict)
    """Stops in progress, by run ID."""
    deletions: dict[str, DeleteProgress] = field(default_factory=dict)
    """Deletions in progress, by the slice's path."""
    catch_up_errors: dict[str, TpuTuiError | None] = field(default_factory=dict)
    """Runs whose logs a read-only console copies itself, by ID, each with the error if copying fails."""
    code_sources: dict[str, Path] = field(default_factory=dict)
    """By run ID, the directory that was copied to the workers for a run launched here."""
