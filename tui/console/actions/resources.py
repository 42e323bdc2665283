"""Actions on resources: show what costs money, and delete it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tui.console.actions.slices import begin_change
from tui.console.data.pollers import RESOURCES
from tui.console.screens.resource_deletion import ResourceDeletionDialog
from tui.console.screens.resources import ActingResourcesScreen, ResourcesScreen
from tui.pod.resources import SLICE, CloudResource, describe_effect

if TYPE_CHECKING:
    from tui.console.context import ConsoleContext
    from tui.console.data.ongoing_work import ChangeProgress
    from tui.errors import TpuTuiError

NO_RESOURCE = "No resource selected"


class ResourceActions:
    """Open the screen of resources, list them while it is open, and delete one."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context

    def open(self) -> None:
        """Show the screen and begin to list."""
        context = self._context
        context.tasks.start(RESOURCES.name, context.pollers.list_resources(), context.show_error)
        context.push_screen(ResourcesScreen() if context.read_only else ActingResourcesScreen())

    def close(self) -> None:
        """Leave the screen. Deletions continue."""
        self._context.tasks.cancel(RESOURCES.name)
        self._context.pop_screen()

    def delete(self, resource: CloudResource | None) -> None:
        """Ask for the resource's name, then delete it; show a deletion that is already in progress."""
        context = self._context
        if resource is None:
            context.notify(NO_RESOURCE, timeout=3)
            return
        path = resource.path if resource.kind == SLICE else resource.ref  # a slice's is that of the pod screen, too
        progress = context.ongoing.changes.get(path)
        if progress is not None and progress.action != "delete":
            context.notify(f"{progress.action} of {resource.ref} is in progress", timeout=4)
            return
        resources = context.store.get(RESOURCES).value or ()
        effect = describe_effect([resource], resources)[0]

        def begin() -> ChangeProgress:
            return begin_change(context, "delete", resource.ref, self._delete(resource), path=path)

        context.push_screen(ResourceDeletionDialog(resource, effect, begin, progress))

    async def _delete(self, resource: CloudResource) -> AsyncIterator[str]:
        """Delete a resource and yield each step. Raises the problem that prevented it."""
        problem: TpuTuiError | None = None
        try:
            async for step in self._context.operator.resources.delete([resource]):
                if step.text:
                    yield step.text
                problem = step.problem or problem
        finally:
            self._context.pollers.refresh_resources()
        if problem is not None:
            raise problem
