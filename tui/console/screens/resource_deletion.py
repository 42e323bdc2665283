"""The question before a resource is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tui.console.screens.change import ChangeDialog

if TYPE_CHECKING:
    from tui.console.data.ongoing_work import ChangeProgress
    from tui.pod.resources import CloudResource


class ResourceDeletionDialog(ChangeDialog):
    """Shows what is lost with a resource, and asks for its name."""

    BEGIN = "Delete it"
    KEEP = "Keep it"

    def __init__(
        self,
        resource: CloudResource,
        effect: str,
        begin: Callable[[], ChangeProgress],
        progress: ChangeProgress | None = None,
    ) -> None:
        question, command = f"This permanently deletes {effect}.", ("resources", "delete", resource.ref)
        super().__init__(question, begin, progress, resource.name, title=f"delete {resource.ref}", command=command)
