"""Actions that create slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.console.data.ongoing_work import CreationProgress
from tui.console.data.pollers import SLICES
from tui.console.data.tasks import to_problem
from tui.console.screens.pod import PodScreen
from tui.console.screens.slices.create import CreateDialog
from tui.console.screens.slices.creation import CreationDialog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.console.context import ConsoleContext
    from tui.errors import TpuTuiError
    from tui.pod.creation.slice_request import SliceRequest
    from tui.pod.slice import Slice

ON_HOSTS = "The machines of a hosts file are not Cloud TPU slices: with --hosts, no slice can be created."


class CreateActions:
    """Ask what slice to create, create it, and show how it comes up."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self._refused: Mapping[str, str] = {}
        """The fields of the form whose creation failed last; empty after a success."""

    def ask_new_slice(self, slice_: Slice | None) -> None:
        """Ask which slice to create; the form begins as a failed creation left it, else with this slice's type."""
        context = self._context
        if context.operator.settings.hosts:
            context.notify(ON_HOSTS, severity="warning", timeout=6)
            return
        zones = context.operator.settings.zones
        texts = {"zone": zones[0] if zones else ""}
        if slice_ is not None:
            kind = {"zone": slice_.zone, "type": slice_.accelerator_type, "version": slice_.runtime_version}
            texts |= {name: text for name, text in kind.items() if text}
        used_paths = {existing.path for existing in context.store.get(SLICES).value or ()}
        for path in context.ongoing.running_creations():
            used_paths.update(context.ongoing.creations[path].slice_paths)
        dialog = CreateDialog({**texts, **self._refused}, used_paths)
        context.push_screen(dialog, lambda request: self.begin(request, dialog.sent))

    def show(self, path: str) -> None:
        """Show a creation that is in progress or has failed."""
        progress = self._context.ongoing.creations.get(path)
        if progress is not None:
            self._context.push_screen(CreationDialog(progress), lambda _: self._choose(progress))

    def _choose(self, progress: CreationProgress) -> None:
        """Put the pod screen's cursor on the slice: the next keys are meant for it."""
        if isinstance(self._context.screen, PodScreen):
            self._context.screen.choose_slice(progress.slice_paths[0])

    def begin(self, request: SliceRequest | None, texts: Mapping[str, str]) -> None:
        """Create the requested slice, and show the progress; `texts` are the fields of the form."""
        if request is None:
            return
        context = self._context
        progress = CreationProgress(request, context.store.clock())
        context.ongoing.creations.pop(progress.path, None)
        context.ongoing.creations[progress.path] = progress
        context.tasks.start(f"create {progress.path}", self._create(progress, texts))
        self.show(progress.path)

    async def _create(self, progress: CreationProgress, texts: Mapping[str, str]) -> None:
        """Create the slice; a failed creation stays listed, with its error and the output of its scripts."""
        context, clock = self._context, self._context.store.clock
        problem: TpuTuiError | None = None
        try:
            async for step in context.operator.slices.create(progress.request):
                if not progress.lines:
                    context.pollers.refresh()
                progress.record(step, clock())
            context.ongoing.creations.pop(progress.path, None)
            self._refused = {}
            context.notify(f"{progress.path} is READY", timeout=6)
        except Exception as error:
            problem, self._refused = to_problem(error, f"create {progress.path}"), texts
            screen = context.screen
            if not (isinstance(screen, CreationDialog) and screen.progress is progress):
                context.show_error(problem)
        finally:
            progress.finish(problem, clock())
            context.pollers.refresh()
