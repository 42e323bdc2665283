"""The run screen: headline, cores, charts, logs; for a live run, an old one, or a saved log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal

from tui.console.data.run_feed import Feed, RunFeed
from tui.console.render import run_summary
from tui.console.render.describe import describe_core
from tui.console.render.freshness import is_live, is_unattended, stale_workers
from tui.console.screens.base import REMOTE_SHELL_BINDINGS, MainScreen
from tui.console.screens.breakpoints import NARROW, SHORT, TALL
from tui.console.screens.dialog import TextDialog
from tui.console.screens.run_layout import (
    LayoutInputs,
    divide_height,
    get_upper_room,
    has_room_for_logs,
    reserve_rows,
)
from tui.console.widgets.panes.chart_panes import ChartPanes
from tui.console.widgets.panes.cores_pane import CoresPane
from tui.console.widgets.panes.logs_pane import LogsPane
from tui.console.widgets.problem_panel import ProblemPanel
from tui.console.widgets.tab_bar import TabBar
from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.line_view import LineView
from tui.logs.state.straggler_cost import seconds_per_step

if TYPE_CHECKING:
    from tui.logs.saved_log import SavedLog
    from tui.operator import RunDirectory

PANES = ("cores", "charts", "logs")
READ_PAUSE_S = 0.01
"""Seconds between two steps of reading while the logs are far ahead, for keys and for painting."""

PACE_INTERVAL_S = 2.0
"""Seconds between two looks at how long a step takes."""
PACE_TIME_DIVISOR = 50
"""Working that out may take one part in this many of the loop's time."""


class RunScreen(MainScreen):
    """One run, or a saved log. Keys here change nothing."""

    TITLE = "run"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="back"),
        Binding("l", "logs", "Logs", tooltip="Logs, a failed worker's first", id="logs"),
        Binding("f", "follow", "Follow", tooltip="Follow the end of the log, or stop", id="follow"),
        Binding("left_square_bracket", "log(-1)", "Previous log", key_display="[", show=False, id="log.previous"),
        Binding("right_square_bracket", "log(1)", "Next log", key_display="]", show=False, id="log.next"),
        *(
            Binding(f"{number}", f"pane('{name}')", name.capitalize(), show=False, id=f"pane.{name}")
            for number, name in enumerate(PANES, 1)
        ),
        Binding("z", "zoom", "Zoom", tooltip="Zoom pane", id="zoom"),
    ]

    def __init__(self, feed: Feed, *, at: str = "cores") -> None:
        super().__init__()
        self.feed = feed
        self._at = at
        self._upper_pane = "cores"
        self._trouble = ProblemPanel(id="trouble")
        self._cores = CoresPane()
        self._charts = ChartPanes(id="pane-charts")
        self._logs = LogsPane(feed)
        self._panes = dict(zip(PANES, (self._cores, self._charts, self._logs), strict=True))
        self._upper = Horizontal(self._cores, self._charts, id="upper")
        self._lower = Container(self._logs, id="lower")
        self._reading = False
        self._second = 0
        self._showed_figures = False
        self._pace = run_summary.Pace()
        self._pace_due = 0.0
        self._shape: LayoutInputs | None = None
        self._zoomed = False

    def compose_panes(self) -> ComposeResult:
        """Lay out cores and charts above the logs; behind tabs if there is no room for all."""
        self._bring(self._at)
        yield self._trouble
        yield TabBar([(name, f"{n + 1} {name}") for n, name in enumerate(PANES)], id="pane-tabs")
        yield self._upper
        yield self._lower

    def on_mount(self) -> None:
        """Read a first piece at once, so that the first paint shows something."""
        self.feed.poll()
        now = time.time()
        self.headline.show(run_summary.format_headline(self.feed, now))
        self._logs.take_workers()
        self._logs.open()
        self._show_cores(now)
        self._show_trouble(now)
        self._bring(self._at)
        self._share_height()
        self.call_after_refresh(self._arrive)

    def _arrive(self) -> None:
        self._show_cores(time.time())
        self._share_height()
        self.action_pane(self._at)
        self._charts.load()
        self.ready = True
        self.tick()

    def on_unmount(self) -> None:
        """Close files."""
        self.ready = False
        self.feed.close()
        if isinstance(self.feed, RunFeed):
            self.actions.runs.stop_catch_up(self.feed.directory)

    # --- data in ------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Read a little more and repaint what differs; figures and log in turn, so that no tick is long."""
        fresh = self.feed.poll()
        now = time.time()
        if fresh or int(now) != self._second:
            self._second = int(now)
            self.headline.show(run_summary.format_headline(self.feed, now, self._measure_pace()))
            self._show_trouble(now)
            self._restart_keeper_if_missing(now)
            self._logs.take_workers()
            self._show_cores(now)
        self._share_height()
        self._showed_figures = fresh and not self._showed_figures
        if not self._showed_figures:
            self._logs.take(is_seen=self._lower.display)
            self._charts.take(self.feed.snapshot)
            self._charts.set_note(run_summary.format_reading_progress(self.feed))
        if self.feed.is_behind and not self._reading:
            self._reading = True
            self.set_timer(READ_PAUSE_S, self._read_on)

    def _measure_pace(self) -> run_summary.Pace:
        """Return the pace as of some seconds ago: it is worked out from the whole history."""
        started_at, snapshot = time.monotonic(), self.feed.snapshot
        if started_at >= self._pace_due and snapshot is not None and is_live(self.feed.status):
            self._pace = run_summary.Pace(
                seconds_per_step(snapshot) or self._pace.seconds_per_step, snapshot.seconds_left()
            )
            took = time.monotonic() - started_at
            self._pace_due = started_at + max(PACE_INTERVAL_S, PACE_TIME_DIVISOR * took)
        return self._pace

    def _read_on(self) -> None:
        """Read on in small steps until nothing is left."""
        if self.ready and self.feed.is_behind:
            self.feed.read()
            self.set_timer(READ_PAUSE_S, self._read_on)
        else:
            self._reading = False

    def _show_trouble(self, now: float) -> None:
        problem = self.feed.problem or self.app.ongoing.catch_up_errors.get(self.feed.title)
        attends, reads = not self.app.read_only, self._is_read_here
        self._trouble.show(run_summary.find_problem(self.feed, now, attends=attends, reads=reads, problem=problem))

    @property
    def _is_read_here(self) -> bool:
        """Return whether this console copies the run's logs itself, without an error."""
        return self.app.ongoing.catch_up_errors.get(self.feed.title, self) is None

    def _restart_keeper_if_missing(self, now: float) -> None:
        """Ask for a keeper if the run on the screen lost its own."""
        if is_unattended(self.feed.status, now) and isinstance(self.feed, RunFeed):
            self.actions.runs.ensure_keeper(self.feed.directory)

    def _show_cores(self, now: float) -> None:
        unseen = frozenset[int]() if self._is_read_here else stale_workers(self.feed.status, now)
        self._cores.take(self.feed, unseen)

    def _share_height(self) -> None:
        used = len(self.headline.lines) + self._trouble.rows(self.app.size.width) + 1
        shape = LayoutInputs(
            rows=run_summary.count_expected_rows(self.feed),
            room=get_upper_room(self.app.size.height, used),
            started=bool(self.feed.snapshot is not None and len(self.feed.snapshot)),
            one_at_a_time=self._one_at_a_time,
            stacked=self._stacked,
            charts_in_front=self._upper_pane == "charts",
        )
        if shape == self._shape:
            return
        if self._shape is not None and shape.stacked != self._shape.stacked:
            self._bring(self._at)
        self._shape, parts = shape, divide_height(shape)
        self.set_class(parts.few, "-few")
        self.set_class(not shape.started, "-phases")
        self._cores.styles.height = parts.cores
        self._upper.styles.height = parts.upper

    @property
    def _stacked(self) -> bool:
        """Return whether the logs fit beneath, but only one pane above them."""
        if self._zoomed or not (self.has_class(NARROW) or self.has_class(SHORT)):
            return False
        trouble = reserve_rows(self._trouble.rows(self.app.size.width))
        rows = run_summary.count_expected_rows(self.feed) + trouble
        return self.has_class(TALL) or has_room_for_logs(rows, self.app.size.height)

    @property
    def _one_at_a_time(self) -> bool:
        """Return whether one pane fills the screen."""
        return self._zoomed or ((self.has_class(SHORT) or self.has_class(NARROW)) and not self._stacked)

    # --- what keys act on -----------------------------------------------------------------------------------------

    def chosen_run(self) -> RunDirectory | None:
        """Return the run on the screen; None for a saved log."""
        return self.feed.directory if isinstance(self.feed, RunFeed) else None

    def chosen_worker(self) -> int | None:
        """Return the worker of the log that is shown."""
        return self._logs.worker

    def reportable(self) -> RunDirectory | SavedLog | None:
        """Return the run or the saved log."""
        return self.chosen_run() or self.feed.saved

    def filter_target(self) -> LineView | None:
        """Return the focused pane, else the log."""
        target = super().filter_target()
        return self._logs.log_pane if target is None or target is self._cores.phases else target

    def action_logs(self) -> None:
        """Show the logs; after a failure, the log of the worker that failed."""
        status = self.feed.status
        worker = None if status is None else run_summary.find_failed_worker(status)
        if worker is not None and self._logs.worker is None:
            self.show_log(str(worker))
        else:
            self.action_pane("logs")

    @on(ProblemPanel.LogRequested)
    def _open_trouble(self, event: ProblemPanel.LogRequested) -> None:
        self.show_log(str(event.worker))

    def action_back(self) -> None:
        """Clear the filter, else leave the zoom, else go back to the pod screen or quit."""
        if self.drop_filter():
            return
        if self._zoomed:
            self.action_zoom()
        elif len(self.app.screen_stack) > 1:
            self.app.pop_screen()
        else:
            self.actions.ask_quit()

    def action_zoom(self) -> None:
        """Show the focused pane alone, or all panes again; `1 2 3` bring up the others."""
        self._zoomed = not self._zoomed
        self.set_class(self._zoomed, "-zoomed")
        self._bring(next((name for name, pane in self._panes.items() if pane.has_focus_within), self._at))
        self.query_one("#pane-tabs", TabBar).choose(self._at)

    def action_pane(self, name: str) -> None:
        """Focus a pane; on a narrow screen, bring it up."""
        self.query_one("#pane-tabs", TabBar).choose(name)
        self._bring(name)
        with_keys = {"cores": self._cores.table, "charts": self._charts, "logs": self._logs.log_pane}
        self.set_focus(with_keys[name])

    def _bring(self, name: str) -> None:
        if name != "logs":
            self._upper_pane = name
        current = (name, self._upper_pane) if self._stacked else (name,)
        for key, pane in self._panes.items():
            pane.set_class(key in current, "-current")
        self._upper.set_class(self._one_at_a_time and name == "logs", "-away")
        self._lower.set_class(self._one_at_a_time and name != "logs", "-away")
        self._at = name
        self._charts.redraw_soon()
        self.call_after_refresh(self._charts.load)

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002
        """Choose the panes that fit now."""
        self.call_after_refresh(lambda: self._bring(self._at))

    @on(TabBar.TabChosen)
    def _chosen(self, event: TabBar.TabChosen) -> None:
        self._bring(event.key)
        if event.tabs.has_focus:  # it was clicked
            self.action_pane(event.key)

    @on(LineTable.RowOpened)
    def _open(self, event: LineTable.RowOpened) -> None:
        """Open the log of the worker of a core, or show why its launch failed."""
        if event.table is not self._cores.phases:
            core = self._cores.cores.core_of(event.key)
            worker = None if core is None else core.worker
        elif (failed := run_summary.explain_failed_launch(self.feed.status, event.key)) is not None:
            if self.app.is_on_top(self):
                self.app.push_screen(TextDialog(*failed))
            return
        else:
            worker = event.key if isinstance(event.key, int) else None
        if worker in self.feed.workers:
            self.show_log(str(worker))

    def show_log(self, which: str) -> None:
        """Show the merged log or a worker's."""
        self._logs.choose(which)
        self.action_pane("logs")

    def action_log(self, by: int) -> None:
        """Show the next or previous worker's log."""
        self._logs.step(by)

    def action_follow(self) -> None:
        """Follow the log, or stop following."""
        log = self._logs.log_pane
        log.set_follow(not log.follow)

    def description(self) -> tuple[str, str]:
        """Describe the core under the cursor, or the run."""
        core = self._cores.chosen_core()
        if core is not None:
            return f"core {core.core}", describe_core(core)
        return self.feed.title, run_summary.describe_feed(self.feed)


class ActingRunScreen(RunScreen):
    """The run screen with the keys that change something: not used with `--read-only`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x,ctrl+k", "stop_run", "Stop", tooltip="Stop the run; asks first", id="stop"),
        Binding("n", "new_run", "New run", tooltip="New run like this one; asks first", id="new"),
        *REMOTE_SHELL_BINDINGS,
    ]

    def action_new_run(self) -> None:
        """Ask what to launch, with this run's slice and command filled in."""
        self.actions.launching.ask_repeat(self.chosen_run())

    def action_shell(self) -> None:
        """Open a shell on the worker of the log that is shown."""
        self.actions.remote_shell.open_shell(self.chosen_run(), self.chosen_worker())

    def action_execute(self) -> None:
        """Ask for a command to run on the workers of the run's slice."""
        self.actions.remote_shell.ask_command(self.chosen_run())
