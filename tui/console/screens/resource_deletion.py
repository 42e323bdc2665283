"""The question before a resource is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tui.console.screens.change import ChangeDialog
from tui.settings.command_line import command_line

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
        super().__init__(f"This permanently deletes {effect}.", begin, progress, resource.name)
        self.title = f"delete {resource.ref}"
        self._resource = resource

    def equivalent(self) -> str:
        """Return the command that deletes the resource."""
        return command_line(self.console.operator.settings, "resources", "delete", self._resource.ref)
