"""Actions that create slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.data.ongoing_work import CreationProgress
from tui.console.data.pollers import SLICES
from tui.console.data.tasks import to_problem
from tui.console.screens.slices.create import CreateDialog
from tui.console.screens.slices.creation import CreationDialog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.console.base_app import BaseApp
    from tui.errors import TpuTuiError
    from tui.pod.creation.slice_request import SliceRequest
    from tui.pod.slice import Slice

ON_HOSTS = "The machines of a hosts file are not Cloud TPU slices: with --hosts, no slice can be created."


class CreateActions:
    """Ask what slice to create, create it, and show how it comes up."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app
        self._refused: Mapping[str, str] = {}
        """The fields of the form whose creation failed last; empty after a success."""

    def ask_new_slice(self, slice_: Slice | None) -> None:
        """Ask which slice to create; the form begins as a failed creation left it, else with this slice's type."""
        app = self._app
        if app.operator.settings.hosts:
            app.notify(ON_HOSTS, severity="warning", timeout=6)
            return
        zones = app.operator.settings.zones
        texts = {"zone": zones[0] if zones else ""}
        if slice_ is not None:
            kind = {"zone": slice_.zone, "type": slice_.accelerator_type, "version": slice_.runtime_version}
            texts |= {name: text for name, text in kind.items() if text}
        used_paths = {existing.path for existing in app.store.get(SLICES).value or ()}
        for path in app.ongoing.running_creations():
            used_paths.update(app.ongoing.creations[path].slice_paths)
        dialog = CreateDialog({**texts, **self._refused}, used_paths)
        app.push_screen(dialog, lambda request: self.begin(request, dialog.sent))

    def show(self, path: str) -> None:
        """Show a creation that is in progress or has failed."""
        progress = self._app.ongoing.creations.get(path)
        if progress is not None:
            dialog = CreationDialog(progress, lambda: self.ask_new_slice(None))
            self._app.push_screen(dialog, lambda _: self._app.choose_slice(progress.slice_paths[0]))

    def begin(self, request: SliceRequest | None, texts: Mapping[str, str]) -> None:
        """Create the requested slice, and show the progress; `texts` are the fields of the form."""
        if request is None:
            return
        app = self._app
        progress = CreationProgress(request, app.store.clock())
        app.ongoing.creations.pop(progress.path, None)
        app.ongoing.creations[progress.path] = progress
        app.tasks.start(f"create {progress.path}", self._create(progress, texts))
        self.show(progress.path)

    async def _create(self, progress: CreationProgress, texts: Mapping[str, str]) -> None:
        """Create the slice; a failed creation stays listed, with its error and the output of its scripts."""
        app, clock = self._app, self._app.store.clock
        problem: TpuTuiError | None = None
        try:
            async for step in app.operator.slices.create(progress.request):
                if not progress.lines:
                    app.pollers.refresh()
                progress.record(step, clock())
            app.ongoing.creations.pop(progress.path, None)
            self._refused = {}
            app.notify(f"{progress.path} is READY", timeout=6)
        except Exception as error:
            problem, self._refused = to_problem(error, f"create {progress.path}"), texts
            screen = app.screen
            if not (isinstance(screen, CreationDialog) and screen.progress is progress):
                app.show_error(problem)
        finally:
            progress.finish(problem, clock())
            app.pollers.refresh()
