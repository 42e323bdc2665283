"""A run's last pane: the merged log, and each worker's behind a tab of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.containers import Vertical

from tui.console.data.run_feed import MERGED
from tui.console.render.run_summary import find_failed_worker
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.panes.pane import Pane
from tui.console.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from tui.console.data.line_index import LineSource
    from tui.console.data.run_feed import Feed


class LogsPane(Pane):
    """One log at a time, of the newest attempt."""

    def __init__(self, feed: Feed) -> None:
        self.log_pane = LogPane(id="log")
        self._tabs = TabBar(id="log-tabs")
        super().__init__("logs", Vertical(self._tabs, self.log_pane), id="pane-logs")
        self._feed = feed
        self._source: LineSource | None = None
        self._attempt = 0

    @property
    def worker(self) -> int | None:
        """Return the worker of the log that is shown; None for the merged log."""
        return None if self._tabs.active in ("", MERGED) else int(self._tabs.active)

    def take_workers(self) -> None:
        """Show a tab per worker of the feed; the failed one comes first and is marked."""
        status = self._feed.status
        failed = None if status is None else find_failed_worker(status)
        workers = sorted(self._feed.workers, key=lambda worker: worker != failed)
        names = (
            (str(worker), f"✗ worker {worker}" if worker == failed else f"worker {worker}") for worker in workers
        )
        self._tabs.set_items([(MERGED, "merged"), *names], bad=() if failed is None else (str(failed),))

    def choose(self, which: str) -> None:
        """Show the merged log or, by its number, a worker's."""
        self._tabs.choose(which)

    def step(self, by: int) -> None:
        """Show the next or the previous worker's log."""
        self._tabs.action_step(by)

    @on(TabBar.TabChosen)
    def _chosen(self, event: TabBar.TabChosen) -> None:
        event.stop()
        self.open()

    def open(self) -> None:
        """Show the chosen log from its end."""
        which, status = self._tabs.active, self._feed.status
        self._attempt = status.attempt if status else 0
        self._source = self._feed.log(which)
        self._feed.add_arrivals(self._source)
        self.log_pane.open(self._source, show_worker=which == MERGED)

    def take(self, *, is_seen: bool) -> None:
        """Show new lines while visible; open the new file of another attempt."""
        status = self._feed.status
        if status is not None and status.attempt != self._attempt:
            self.open()
        if is_seen and self._source is not None:
            self._feed.add_arrivals(self._source)
            self.log_pane.tick()

    @on(LogPane.SummaryChanged)
    def _changed(self, event: LogPane.SummaryChanged) -> None:
        event.stop()
        self.set_subtitle(self.log_pane.summary)
