"""A run's first pane: the launch phases of each worker, and every core as soon as one reports a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import ContentSwitcher

from tui.console.render import launch_phases, run_summary
from tui.console.render.freshness import is_launching
from tui.console.widgets.panes.pane import Pane
from tui.console.widgets.tables.core_table_widget import CoreTableWidget
from tui.console.widgets.tables.row_table import RowTable
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.console.data.run_feed import Feed
    from tui.console.widgets.tables.line_table import LineTable
    from tui.logs.core_row import CoreRow
    from tui.logs.snapshot import Snapshot

CORES, PHASES = "cores", "phases"


class CoresPane(Pane):
    """Two tables, of which one is visible, filled from the feed."""

    def __init__(self) -> None:
        self.cores = CoreTableWidget(id=CORES)
        self.phases = RowTable(launch_phases.PHASE_COLUMNS, empty="Waiting for the first event", id=PHASES)
        self._tables = ContentSwitcher(self.phases, self.cores, initial=PHASES)
        super().__init__("cores", self._tables, id="pane-cores")

    @property
    def table(self) -> LineTable:
        """Return the visible table."""
        return self.cores if self._tables.current == CORES else self.phases

    def take(self, feed: Feed, unseen: frozenset[int]) -> None:
        """Show the feed; `unseen` are the workers with frozen figures."""
        if not (self.phases.is_mounted and self.cores.is_mounted):
            return
        snapshot = feed.snapshot
        if snapshot is None or not len(snapshot):
            self._tables.current = PHASES
            self.phases.set_empty(launch_phases.explain_no_phases(feed))
            self.phases.show(launch_phases.make_phase_rows(feed))
            self.set_title(launch_phases.format_phase_title(feed))
        else:
            self._bring_cores()
            self._show(snapshot, feed, unseen)

    def _bring_cores(self) -> None:
        """Replace the phases by the cores; the focus goes with them."""
        if self._tables.current != CORES:
            had_keys = self.phases.has_focus
            self._tables.current = CORES
            if had_keys:
                self.cores.focus()

    def _show(self, snapshot: Snapshot, feed: Feed, unseen: frozenset[int]) -> None:
        reading = not feed.has_caught_up
        status = feed.status
        failed = None if status is None or is_launching(status) else run_summary.find_failed_worker(status)
        self.cores.show(snapshot, unseen, reading=reading, is_launching=is_launching(status), failed_worker=failed)
        self.set_title("cores")
        self.set_subtitle(self._format_note(snapshot, is_reading=reading))

    def _format_note(self, snapshot: Snapshot, *, is_reading: bool) -> str:
        """Return the number of rows, their order, and whether the logs are still being read."""
        table = self.cores
        total = format_count(len(snapshot), snapshot.noun)
        count = f"{table.row_count()} of {total} with “{table.filter_text}”" if table.filter_text else total
        title = next((column.title for column in table.columns if column.key == table.sort_key), "core")
        order = f"{count} · by {title}{' descending' if table.sort_reverse else ''}"
        return f"{order} · still reading" if is_reading else order

    def chosen_core(self) -> CoreRow | None:
        """Return the core under the cursor if the table has the focus."""
        return self.cores.core_of(self.cores.cursor_key) if self.cores.has_focus else None
