"""The screen of resources: what costs money, what uses it, and a key that deletes it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.console.data.pollers import RESOURCES
from tui.console.render.describe import format_document
from tui.console.render.equivalent_commands import make_command_rows
from tui.console.render.resource_rows import RESOURCE_COLUMNS, count_resources, make_resource_row
from tui.console.screens.base import MainScreen
from tui.console.screens.equivalents import EquivalentsDialog
from tui.console.widgets.panes.pane import Pane
from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.line_view import LineView
from tui.console.widgets.tables.row_table import RowTable
from tui.pod.resources import CloudResource
from tui.settings.command_line import command_line


class ResourcesScreen(MainScreen):
    """Slices, queued resources, groups, disks, images, buckets …; what costs money first. Keys change nothing."""

    TITLE = "resources"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="back"),
        Binding("r", "refresh", "Refresh", tooltip="Refresh the list of resources", id="refresh"),
        Binding("dollar_sign", "back", "Back", show=False, id="resources.back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._resources: dict[str, CloudResource] = {}
        self._seen: tuple[int, int] | None = None
        self._table = RowTable(RESOURCE_COLUMNS, empty="Listing resources…", id="resources")
        self._pane = Pane("resources", self._table, id="pane-resources")

    def compose_panes(self) -> ComposeResult:
        """Lay out one table."""
        yield self._pane

    def on_mount(self) -> None:
        """Focus the table, and begin to list."""
        self.app.tasks.start(RESOURCES.name, self.app.pollers.list_resources(), self.app.show_error)
        self._table.focus()
        self.ready = True
        self.tick()

    def on_unmount(self) -> None:
        """List no more. Deletions continue."""
        self.app.tasks.cancel(RESOURCES.name)

    def tick(self) -> None:
        """Show a new listing; once per second also the resources' ages."""
        now = self.app.store.clock()
        self.headline.show(self.app.format_headline())
        reading = self.app.store.get(RESOURCES)
        mark = (int(now), reading.revision)
        if mark == self._seen:
            return
        self._seen = mark
        resources = reading.value or ()
        self._resources = {resource.ref: resource for resource in resources}
        if reading.at is not None or reading.problems:
            self._table.set_empty("The resources could not be listed." if reading.problems else "No resources")
        self._table.show([make_resource_row(resource) for resource in resources])
        self._pane.show_reading(reading, now, count_resources(resources))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key that exports a run's report."""
        return False if action == "export" else super().check_action(action, parameters)

    def chosen_resource(self) -> CloudResource | None:
        """Return the resource under the cursor."""
        return self._resources.get(str(self._table.cursor_key))

    def filter_target(self) -> LineView | None:
        """Return the table."""
        return self._table

    def description(self) -> tuple[str, str]:
        """Return the resource under the cursor in full."""
        chosen = self.chosen_resource()
        return ("No resource selected", "") if chosen is None else (chosen.ref, format_document(chosen.to_json()))

    def action_equivalents(self) -> None:
        """Show the commands that do in a shell what keys do here."""
        settings, chosen = self.app.operator.settings, self.chosen_resource()
        commands = [("list", command_line(settings, "resources"))]
        if not settings.read_only:
            if chosen is not None:
                commands.append(("delete", command_line(settings, "resources", "delete", chosen.ref)))
            commands.append(("clean up", command_line(settings, "resources", "delete", "--unused")))
        self.app.push_screen(EquivalentsDialog(make_command_rows(commands)))

    @on(LineTable.RowOpened)
    def _open(self) -> None:
        if self.app.is_on_top(self):
            self.action_describe()

    def action_refresh(self) -> None:
        """List the resources at once."""
        self.app.pollers.refresh_resources()

    def action_back(self) -> None:
        """Clear the filter, else go back to the screen before."""
        if not self.drop_filter() and self.app.is_on_top(self):
            self.app.pop_screen()


class ActingResourcesScreen(ResourcesScreen):
    """The screen with the key that deletes: not used with `--read-only`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d,delete", "delete_resource", "Delete", tooltip="Delete the resource; asks first", id="delete")
    ]

    def action_delete_resource(self) -> None:
        """Ask for the name of the chosen resource, then delete it."""
        self.actions.resources.delete(self.chosen_resource())
