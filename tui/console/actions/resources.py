"""Delete resources that cost money."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tui.console.actions.slices import begin_change
from tui.console.data.pollers import RESOURCES
from tui.console.screens.change import ResourceDeletionDialog
from tui.pod.resources import SLICE, CloudResource, describe_effect

if TYPE_CHECKING:
    from tui.console.base_app import BaseApp
    from tui.console.data.ongoing_work import ChangeProgress
    from tui.errors import TpuTuiError

NO_RESOURCE = "No resource selected"


class ResourceActions:
    """Ask, then delete a resource."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app

    def delete(self, resource: CloudResource | None) -> None:
        """Ask for the resource's name, then delete it; show a deletion that is already in progress."""
        app = self._app
        if resource is None:
            app.notify(NO_RESOURCE, timeout=3)
            return
        path = resource.path if resource.kind == SLICE else resource.ref  # a slice's is that of the pod screen, too
        progress = app.ongoing.changes.get(path)
        if progress is not None and progress.action != "delete":
            app.notify(f"{progress.action} of {resource.ref} is in progress", timeout=4)
            return
        resources = app.store.get(RESOURCES).value or ()
        effect = describe_effect([resource], resources)[0]

        def begin() -> ChangeProgress:
            return begin_change(app, "delete", resource.ref, self._delete(resource), path=path)

        app.push_screen(ResourceDeletionDialog(resource, effect, begin, progress))

    async def _delete(self, resource: CloudResource) -> AsyncIterator[str]:
        """Delete a resource and yield each step. Raises the problem that prevented it."""
        problem: TpuTuiError | None = None
        try:
            async for step in self._app.operator.resources.delete([resource]):
                if step.text:
                    yield step.text
                problem = step.problem or problem
        finally:
            self._app.pollers.refresh_resources()
        if problem is not None:
            raise problem
