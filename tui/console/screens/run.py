"""The run screen: headline, cores, charts, logs; for a live run, an old one, or a saved log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.widgets import ContentSwitcher

from tui.console import run_view
from tui.console.document import document
from tui.console.feed import MERGED, Feed, RunFeed
from tui.console.screens.base import NARROW, ON_WORKERS, SHORT, TALL, MainScreen, size_up
from tui.console.screens.shares import Shape, leaves_room_for_logs, room_above, shares
from tui.console.touch import is_launching, left_alone, out_of_touch
from tui.console.widgets.chart_panes import ChartPanes
from tui.console.widgets.core_table import CoreTable
from tui.console.widgets.filter_bar import FilterBar
from tui.console.widgets.headline import Headline
from tui.console.widgets.keys_line import KeysLine
from tui.console.widgets.line_table import LineTable
from tui.console.widgets.log_pane import LogPane
from tui.console.widgets.pane import Pane
from tui.console.widgets.row_table import RowTable
from tui.console.widgets.tab_line import TabLine
from tui.console.widgets.trouble import Trouble

if TYPE_CHECKING:
    from tui.logs.archive import SavedLog
    from tui.runs.directory import RunDirectory

PANES = ("cores", "charts", "logs")
BREATH = 0.01
"""Seconds between two goes at reading while the logs are far ahead: for keys, and for what is to be painted."""


class RunScreen(MainScreen):
    """One run from its directory; keys here only look."""

    TITLE = "run"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="back"),
        Binding("l", "logs", "Logs", id="logs"),
        Binding("f", "follow", "Follow", id="follow"),
        Binding("left_square_bracket", "log(-1)", "Previous log", key_display="[", show=False, id="log.previous"),
        Binding("right_square_bracket", "log(1)", "Next log", key_display="]", show=False, id="log.next"),
        Binding("1", "pane('cores')", "Cores", show=False, id="pane.cores"),
        Binding("2", "pane('charts')", "Charts", show=False, id="pane.charts"),
        Binding("3", "pane('logs')", "Logs", show=False, id="pane.logs"),
        Binding("z", "zoom", "Zoom", tooltip="One pane alone, or all of them", id="zoom"),
    ]

    def __init__(self, feed: Feed, *, at: str = "cores") -> None:
        super().__init__()
        self.feed = feed
        self._at = at
        self._upper_pane = "cores"
        self._cores = CoreTable(id="cores")
        self._phases = RowTable(run_view.PHASE_COLUMNS, empty="nothing has happened yet", id="phases")
        self._log = LogPane(id="log")
        self._logs = TabLine(id="log-tabs")
        self._headline = Headline(id="headline")
        self._trouble = Trouble(id="trouble")
        self._cores_pane = Pane(
            "cores", ContentSwitcher(self._phases, self._cores, initial="phases"), id="pane-cores"
        )
        self._charts_pane = ChartPanes(id="pane-charts")
        self._logs_pane = Pane("logs", Vertical(self._logs, self._log), id="pane-logs")
        self._upper = Horizontal(self._cores_pane, self._charts_pane, id="upper")
        self._lower = Container(self._logs_pane, id="lower")
        self._reading = False
        self._second = 0
        self._showed_figures = False
        self._which = ""
        self._attempt = 0
        self._source: object = None
        self._shape: Shape | None = None
        self._zoomed = False
        self._trouble_rows = 0
        """The most rows that trouble took: panes that come and go with each word of it would be a flicker."""

    def compose(self) -> ComposeResult:
        """Cores and charts above the logs; behind tabs where there is no room for them all."""
        size_up(self)
        self._bring(self._at)
        yield self._headline
        yield self._trouble
        yield TabLine([(name, f"{n + 1} {name}") for n, name in enumerate(PANES)], id="pane-tabs")
        yield self._upper
        yield self._lower
        yield FilterBar()
        yield KeysLine()

    def on_mount(self) -> None:
        """Read a first piece at once, so that the first paint says something."""
        self.feed.poll()
        now = time.time()
        self._headline.show(run_view.headline(self.feed, now))
        self._take_workers()
        self._open_log(MERGED)
        self._show_cores(now)
        self._show_trouble(now)
        self._bring(self._at)
        self._share_height()
        self.call_after_refresh(self._arrive)

    def _arrive(self) -> None:
        self._show_cores(time.time())
        self._share_height()
        self.action_pane(self._at)
        self._charts_pane.load()
        self.ready = True
        self.tick()

    def on_unmount(self) -> None:
        """Give back files."""
        self.ready = False
        self.feed.close()
        if isinstance(self.feed, RunFeed):
            self.console.flows.let_go(self.feed.directory)

    # --- data in ------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Read a little more and repaint what differs; figures and log in turns, so that no tick is long."""
        fresh = self.feed.poll()
        now = time.time()
        if fresh or int(now) != self._second:
            self._second = int(now)
            self._headline.show(run_view.headline(self.feed, now))
            self._show_trouble(now)
            self._look_after(now)
            self._take_workers()
            self._show_cores(now)
        self._share_height()
        self._showed_figures = fresh and not self._showed_figures
        if not self._showed_figures:
            self._take_log()
            self._charts_pane.take(self.feed.snapshot)
        if self.feed.is_behind and not self._reading:
            self._reading = True
            self.set_timer(BREATH, self._read_on)

    def _read_on(self) -> None:
        """Catch up, a little at a time."""
        if self.ready and self.feed.is_behind:
            self.feed.read()
            self.set_timer(BREATH, self._read_on)
        else:
            self._reading = False

    def _show_trouble(self, now: float) -> None:
        problem = self.feed.problem or self.console.flows.kept_up.get(self.feed.title)
        attends, reads = not self.console.read_only, self._is_read_here
        self._trouble.show(run_view.trouble(self.feed, now, attends=attends, reads=reads, problem=problem))

    @property
    def _is_read_here(self) -> bool:
        """Whether this console brings the run's logs up to date itself, and nothing hinders it."""
        return self.console.flows.kept_up.get(self.feed.title, self) is None

    def _look_after(self, now: float) -> None:
        """Have a run that was left alone while one looks at it followed again."""
        if left_alone(self.feed.status, now) and isinstance(self.feed, RunFeed):
            self.console.flows.attend(self.feed.directory)

    def _take_workers(self) -> None:
        items = [(MERGED, "merged"), *((str(worker), f"worker {worker}") for worker in self.feed.workers)]
        self._logs.set_items(items)

    def _show_cores(self, now: float) -> None:
        snapshot = self.feed.snapshot
        pane = self._cores_pane
        switcher = pane.body
        assert isinstance(switcher, ContentSwitcher)
        if not (self._phases.is_mounted and self._cores.is_mounted):
            return
        if snapshot is not None and len(snapshot):
            if switcher.current != "cores":
                had_keys = self._phases.has_focus
                switcher.current = "cores"
                if had_keys:
                    self._cores.focus()
            unseen = frozenset[int]() if self._is_read_here else out_of_touch(self.feed.status, now)
            self._cores.show(
                snapshot, unseen, reading=not self.feed.caught_up, is_launching=is_launching(self.feed.status)
            )
            pane.set_title("cores")
            pane.set_subtitle(run_view.core_note(snapshot, self._cores, reading=not self.feed.caught_up))
        else:
            switcher.current = "phases"
            self._phases.show(run_view.phase_rows(self.feed))
            pane.set_title(run_view.phase_title(self.feed))

    def _share_height(self) -> None:
        trouble = self._trouble.rows(self.app.size.width)
        self._trouble_rows = max(self._trouble_rows, trouble)
        used = len(self._headline.lines) + trouble + 1
        shape = Shape(
            rows=run_view.rows_expected(self.feed),
            room=room_above(self.app.size.height, used),
            started=bool(self.feed.snapshot is not None and len(self.feed.snapshot)),
            one_at_a_time=self._one_at_a_time,
            stacked=self._stacked,
            charts_in_front=self._upper_pane == "charts",
        )
        if shape == self._shape:
            return
        if self._shape is not None and shape.stacked != self._shape.stacked:
            self._bring(self._at)
        self._shape, parts = shape, shares(shape)
        self.set_class(parts.few, "-few")
        self.set_class(not shape.started, "-phases")
        self._cores_pane.styles.height = parts.cores
        self._upper.styles.height = parts.upper

    @property
    def _stacked(self) -> bool:
        """Whether there is height for the logs beneath, and room for only one of the panes above them."""
        if self._zoomed or not (self.has_class(NARROW) or self.has_class(SHORT)):
            return False
        rows = run_view.rows_expected(self.feed) + self._trouble_rows
        return self.has_class(TALL) or leaves_room_for_logs(rows, self.app.size.height)

    @property
    def _one_at_a_time(self) -> bool:
        """Whether one pane fills the screen."""
        return self._zoomed or ((self.has_class(SHORT) or self.has_class(NARROW)) and not self._stacked)

    def _open_log(self, which: str) -> None:
        self._which = which
        self._attempt = self.feed.status.attempt if self.feed.status else 0
        source = self.feed.log(which)
        self._source = source
        self.feed.follow_merged(source)
        self._log.open(source, show_worker=which == MERGED)

    def _take_log(self) -> None:
        if self.feed.status is not None and self.feed.status.attempt != self._attempt:
            self._open_log(self._which)
        if self._lower.display:
            self.feed.follow_merged(self._source)  # type: ignore[arg-type]
            self._log.tick()

    # --- what keys act on -----------------------------------------------------------------------------------------

    def chosen_run(self) -> RunDirectory | None:
        """The run on the screen; None for a saved log."""
        return self.feed.directory if isinstance(self.feed, RunFeed) else None

    def chosen_worker(self) -> int | None:
        """The worker whose log is shown."""
        return None if self._which == MERGED else int(self._which)

    def reportable(self) -> RunDirectory | SavedLog | None:
        """The run, or the saved log."""
        return self.chosen_run() or self.feed.saved

    def filter_target(self) -> LineTable | LogPane | None:
        """The focused pane, else the log."""
        target = super().filter_target()
        return self._log if target is None or target is self._phases else target

    def action_logs(self) -> None:
        """The logs; of a run of which a worker failed, the log of that one."""
        status = self.feed.status
        worker = None if status is None else run_view.failed_worker(status)
        if worker is not None and self._which == MERGED:
            self.show_log(str(worker))
        else:
            self.action_pane("logs")

    @on(Trouble.Opened)
    def _open_trouble(self, event: Trouble.Opened) -> None:
        self.show_log(str(event.worker))

    def action_back(self) -> None:
        """From what a filter found to all, from one pane to all of them, else to the pod screen, or out."""
        if self.drop_filter():
            return
        if self._zoomed:
            self.action_zoom()
        else:
            self.console.flows.leave_run()

    def action_zoom(self) -> None:
        """The pane with the keys alone on the screen, or all of them again; `1 2 3` bring up the others."""
        self._zoomed = not self._zoomed
        self.set_class(self._zoomed, "-zoomed")
        parts = zip(PANES, (self._cores_pane, self._charts_pane, self._logs_pane), strict=True)
        self._bring(next((name for name, pane in parts if pane.has_focus_within), self._at))
        self.query_one("#pane-tabs", TabLine).choose(self._at)

    def action_pane(self, name: str) -> None:
        """Give a pane the keys; on a narrow screen, bring it up."""
        self.query_one("#pane-tabs", TabLine).choose(name)
        self._bring(name)
        if name == "cores":
            self.set_focus(self._cores if self.query_one(ContentSwitcher).current == "cores" else self._phases)
        else:
            self.set_focus(self._log if name == "logs" else self._charts_pane)

    def _bring(self, name: str) -> None:
        if name != "logs":
            self._upper_pane = name
        current = (name, self._upper_pane) if self._stacked else (name,)
        for other, pane in zip(PANES, (self._cores_pane, self._charts_pane, self._logs_pane), strict=True):
            pane.set_class(other in current, "-current")
        self._upper.set_class(self._one_at_a_time and name == "logs", "-away")
        self._lower.set_class(self._one_at_a_time and name != "logs", "-away")
        self._at = name
        self._charts_pane.hurry()
        self.call_after_refresh(self._charts_pane.load)

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002
        """The panes that fit are others now."""
        self._trouble_rows = 0
        self.call_after_refresh(lambda: self._bring(self._at))

    @on(TabLine.Chosen)
    def _chosen(self, event: TabLine.Chosen) -> None:
        if event.tabs.id == "log-tabs":
            self._open_log(event.key)
        else:
            self._bring(event.key)

    @on(LogPane.Changed)
    def _log_changed(self, event: LogPane.Changed) -> None:
        self._logs_pane.set_subtitle(event.pane.summary)

    @on(LineTable.Opened)
    def _open(self, event: LineTable.Opened) -> None:
        """Enter on a core or on a launching worker: that worker's log."""
        status = self.feed.status
        if event.table is self._phases and status is not None and isinstance(event.key, int):
            failed = next((w for w in status.workers if w.worker == event.key and w.phase_status == "failed"), None)
            if failed is not None:
                told = "\n→ ".join(filter(None, (failed.detail, failed.remedy)))
                self.console.flows.describe(f"worker {event.key}, {failed.phase} failed", told)
                return
        worker = event.key if event.table is self._phases else self._worker_of(event.key)
        if worker is not None:
            self._logs.choose(str(worker))
            self.action_pane("logs")

    def _worker_of(self, key: object) -> int | None:
        snapshot, row = self._cores.snapshot, self._cores.row_of(key)
        if snapshot is None or row is None:
            return None
        worker = run_view.core_at(snapshot, int(key)).worker  # type: ignore[call-overload]
        return worker if worker in self.feed.workers else None

    def show_log(self, which: str) -> None:
        """Bring up the merged log or a worker's."""
        self._logs.choose(which)
        self.action_pane("logs")

    def action_log(self, by: int) -> None:
        """The next or previous worker's log."""
        self._logs.action_step(by)

    def action_follow(self) -> None:
        """Follow the log, or stop following."""
        self._log.set_follow(not self._log.follow)

    def description(self) -> tuple[str, str]:
        """The core under the cursor, or the run."""
        key = self._cores.cursor_key
        if self._cores.has_focus and self._cores.snapshot is not None and isinstance(key, int):
            core = run_view.core_at(self._cores.snapshot, key)
            return f"core {core.core}", document(core.to_json())
        return self.feed.title, run_view.describe(self.feed)


class ActingRunScreen(RunScreen):
    """The run screen with the keys that change something: not used with `--read-only`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x,ctrl+k", "stop_run", "Stop", id="stop"),
        Binding("n", "new_run", "New run", id="new"),
        *ON_WORKERS,
    ]

    def action_stop_run(self) -> None:
        """Ask, then stop this run."""
        self.console.flows.stop_run(self.chosen_run())

    def action_new_run(self) -> None:
        """Ask what to launch, with this run's slice and command filled in."""
        self.console.flows.run_again(self.chosen_run())

    def action_shell(self) -> None:
        """A shell on the worker whose log is shown."""
        self.console.on_workers.shell_for_run(self.chosen_run(), self.chosen_worker())

    def action_execute(self) -> None:
        """A command on the workers of the run's slice."""
        self.console.on_workers.execute_for_run(self.chosen_run())
