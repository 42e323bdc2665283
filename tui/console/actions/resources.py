"""Actions on resources: show what costs money, and delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.data.ongoing_work import ChangeProgress
from tui.console.data.resources import RESOURCES, ResourcePoller
from tui.console.data.tasks import to_problem
from tui.console.screens.resource_deletion import ResourceDeletionDialog
from tui.console.screens.resources import ActingResourcesScreen, ResourcesScreen
from tui.pod.resources import SLICE, CloudResource, describe_effect

if TYPE_CHECKING:
    from tui.console.context import ConsoleContext

NO_RESOURCE = "No resource selected"


class ResourceActions:
    """Open the screen of resources, list them while it is open, and delete one."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self._poller: ResourcePoller | None = None

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
        progress = context.ongoing.changes.get(_key(resource))
        if progress is not None and progress.action != "delete":
            context.notify(f"{progress.action} of {resource.ref} is in progress", timeout=4)
            return
        resources = context.store.get(RESOURCES).value or ()
        effect = describe_effect([resource], resources)[0]
        context.push_screen(ResourceDeletionDialog(resource, effect, lambda: self._begin(resource), progress))

    def _begin(self, resource: CloudResource) -> ChangeProgress:
        context = self._context
        progress = context.ongoing.changes[_key(resource)] = ChangeProgress("delete")
        context.tasks.start(f"delete {resource.ref}", self._delete(resource, progress))
        return progress

    async def _delete(self, resource: CloudResource, progress: ChangeProgress) -> None:
        context = self._context
        try:
            async for step in context.operator.resources.delete([resource]):
                if step.text:
                    progress.lines.append(step.text)
                progress.problem = step.problem or progress.problem
        except Exception as error:
            progress.problem = to_problem(error, f"delete {resource.ref}")
        finally:
            progress.done = True
            context.ongoing.changes.pop(_key(resource), None)
        if progress.problem is not None:
            context.show_error(progress.problem)
        else:
            context.notify(f"{resource.ref} is deleted", timeout=6)
        self.refresh()
        context.pollers.refresh()


def _key(resource: CloudResource) -> str:
    """Return the key of a deletion in progress, the same as on the screen of slices."""
    return resource.path if resource.kind == SLICE else resource.ref
