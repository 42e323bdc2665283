"""Actions on resources: show what costs money, and delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.data.resources import RESOURCES, ResourceDeletion, ResourcePoller
from tui.console.screens.resource_deletion import ResourceDeletionDialog
from tui.console.screens.resources import ActingResourcesScreen, ResourcesScreen
from tui.pod.resources import CloudResource, describe_effect

if TYPE_CHECKING:
    from tui.console.context import ConsoleContext

NO_RESOURCE = "No resource selected"


class ResourceActions:
    """Open the screen of resources, list them while it is open, and delete one."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self._poller: ResourcePoller | None = None
        self._deletions: dict[str, ResourceDeletion] = {}

    def open(self) -> None:
        """Show the screen and begin to list."""
        context = self._context
        self._poller = ResourcePoller(context.operator, context.store)
        context.tasks.start(RESOURCES.name, self._poller.run(), context.show_error)
        context.push_screen(ResourcesScreen() if context.read_only else ActingResourcesScreen())

    def refresh(self) -> None:
        """List the resources now, if the screen is open."""
        if self._poller is not None:
            self._poller.refresh()

    def close(self) -> None:
        """Leave the screen. Deletions continue."""
        self._context.tasks.cancel(RESOURCES.name)
        self._poller = None
        self._context.pop_screen()

    def delete(self, resource: CloudResource | None) -> None:
        """Ask for the resource's name, then delete it; show a deletion that is already in progress."""
        context = self._context
        if resource is None:
            context.notify(NO_RESOURCE, timeout=3)
            return
        known = context.store.get(RESOURCES).value or ()
        effect = describe_effect([resource], known)[0]
        progress = self._deletions.get(resource.ref)
        context.push_screen(ResourceDeletionDialog(resource, effect, lambda: self._begin(resource), progress))

    def _begin(self, resource: CloudResource) -> ResourceDeletion:
        context = self._context
        progress = self._deletions[resource.ref] = ResourceDeletion(resource)
        context.tasks.start(f"delete {resource.ref}", self._delete(progress), context.show_error)
        return progress

    async def _delete(self, progress: ResourceDeletion) -> None:
        ref = progress.resource.ref
        try:
            await progress.run(self._context.operator)
        finally:
            del self._deletions[ref]
        if progress.problem is not None:
            self._context.show_error(progress.problem)
        else:
            self._context.notify(f"{ref} is deleted", markup=False, timeout=6)
        self.refresh()
        self._context.pollers.refresh()
