"""The pod screen: slices, their workers and checks, and the runs beneath."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal

from tui.console.data.pollers import FIGURES, RUNS, SLICES, checks_of, machines_of, workers_of
from tui.console.data.store import DataSource
from tui.console.render import pod_rows
from tui.console.render.describe import format_document
from tui.console.render.run_summary import list_status_fields
from tui.console.screens.base import REMOTE_SHELL_BINDINGS, MainScreen
from tui.console.screens.breakpoints import FRAMELESS, NARROW
from tui.console.screens.resources import ActingResourcesScreen, ResourcesScreen
from tui.console.widgets.panes.pane import Pane
from tui.console.widgets.tab_bar import TabBar
from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.line_view import LineView
from tui.console.widgets.tables.row_table import RowTable, TableRow
from tui.operator import digest
from tui.operator.runs import hidden_note
from tui.pod.slice import Slice
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import Digest, LatestFigures, RunDirectory, RunStatus

PASSED = "-passed"
"""The class of the screen while every check of the slice has passed: one line beneath its workers stands for them."""
UPPER_PANES = ("slices", "workers", "checks")
EMPTY = "-empty"
"""The class of the screen while there is no slice: the list of slices, which explains why, takes the upper half."""


class PodScreen(MainScreen):
    """Slices, their workers and checks, and the runs. Keys here change nothing."""

    TITLE = "pod"
    NO_RUNS: ClassVar[str] = "No runs yet. (tpu-tui runs SLICE lists runs started elsewhere.)"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "check", "Check", tooltip="Check the slice and its workers", id="check"),
        Binding("l", "logs", "Open the run at its logs", show=False, id="logs"),
        Binding("dollar_sign", "resources", "Resources", tooltip="Resources: what costs money", id="resources"),
        Binding("r", "refresh", "Refresh slices", show=False, id="refresh"),
        Binding("a", "every_run", "Show or hide runs of other projects", show=False, id="runs.all"),
        Binding("space", "mark_run", "Mark the run for a comparison", show=False, id="runs.mark"),
        Binding("equals_sign", "compare_runs", "Compare the marked runs", show=False, id="runs.compare"),
        *(
            Binding(f"{number}", f"pane('{name}')", name.capitalize(), show=False, id=f"pane.{name}")
            for number, name in enumerate((*UPPER_PANES, "runs"), 1)
        ),
        Binding("escape", "cancel", "Cancel the current task, clear the filter", show=False, id="cancel"),
        Binding("N,S,X,ctrl+d", "refuse_change", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._slices: dict[str, Slice] = {}
        self._runs: dict[str, RunStatus] = {}
        self._shows_every_run = False
        self._run_rows: dict[str, tuple[RunStatus, LatestFigures | None, TableRow]] = {}
        self._checks: Digest | None = None
        self._lists_passed = False
        """Whether the user opened the checks of this slice: they are listed even if all have passed."""
        self._seen: dict[str, tuple[object, ...]] = {}
        self._tab_bar = TabBar([(name, f"{n + 1} {name}") for n, name in enumerate(UPPER_PANES)], id="pane-tabs")
        self._tables = {
            "slices": RowTable(pod_rows.SLICE_COLUMNS, empty="Listing slices…", id="slices"),
            "workers": RowTable(pod_rows.WORKER_COLUMNS, empty="No slice selected", id="workers"),
            "checks": RowTable(pod_rows.CHECK_COLUMNS, empty="Press c to check this slice", id="checks"),
            "runs": RowTable(pod_rows.RUN_COLUMNS, empty="Reading runs…", id="runs"),
        }
        self._tables["checks"].stays_on_top = True
        self._panes = {name: Pane(name, table, id=f"pane-{name}") for name, table in self._tables.items()}
        self._slices_and_workers = Container(self._panes["slices"], self._panes["workers"], id="left")

    def compose_panes(self) -> ComposeResult:
        """Lay out the runs, and above them three panes: beside or above one another, or behind tabs, by size."""
        yield self._tab_bar
        with Horizontal(id="upper"):
            yield self._slices_and_workers
            yield self._panes["checks"]
        yield self._panes["runs"]

    def on_mount(self) -> None:
        """Show the first pane and focus the slices."""
        self._show_upper("slices")
        self._tables["slices"].focus()
        self.ready = True
        self.tick()

    # --- data in ------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Show what the sources have answered since the last tick."""
        now = self.app.store.clock()
        self.app.pollers.list_slices()
        self.headline.show(self.app.format_headline())
        self._take_slices(now)
        chosen = self.chosen_slice()
        self._take_workers(chosen, now)
        self._take_checks(chosen, now)
        self._take_runs(now)

    def _is_new(self, pane: str, now: float, *sources: DataSource[Any]) -> bool:
        """Return whether a pane has new readings to show; also once per second, because their age is shown."""
        mark = (int(now), *((source, self.app.store.get(source).revision) for source in sources))
        if self._seen.get(pane) == mark:
            return False
        self._seen[pane] = mark
        return True

    def _take_slices(self, now: float) -> None:
        if not self._is_new("slices", now, SLICES):
            return
        reading = self.app.store.get(SLICES)
        slices = reading.value or ()
        before, self._slices = self.chosen_slice(), {slice_.path: slice_ for slice_ in slices}
        table = self._tables["slices"]
        is_empty = not slices and bool(reading.at is not None or reading.problems)
        if is_empty or self.has_class(EMPTY):
            self._tab_bar.choose("slices")
        self.set_class(is_empty, EMPTY)
        if is_empty:
            scope, is_known = self.app.operator.slices.where, not reading.problems
            has_hosts, can_create = self.app.operator.settings.hosts is not None, not self.app.read_only
            table.set_empty(
                pod_rows.explain_no_slices(scope, is_known=is_known, has_hosts=has_hosts, can_create=can_create)
            )
        table.show([pod_rows.make_slice_row(slice_) for slice_ in slices])
        chosen = self.chosen_slice()
        if chosen is not None and (before is None or machines_of(before) != machines_of(chosen)):
            self.actions.slices.check_after_pause(chosen)
        self._panes["slices"].show_reading(reading, now, format_count(len(slices), "slice") if slices else "")

    def _take_workers(self, chosen: Slice | None, now: float) -> None:
        source = workers_of(chosen)
        if not self._is_new("workers", now, SLICES, source):
            return
        reading = self.app.store.get(source)
        self._tables["workers"].set_empty("No slice selected" if chosen is None else "This slice has no workers")
        self._tables["checks"].set_empty(pod_rows.format_check_hint(chosen))
        self._tables["workers"].show(pod_rows.make_worker_rows(chosen, reading.value))
        self._panes["workers"].set_title(f"workers of {chosen.name}" if chosen else "workers")
        note = ""
        if self.has_class(PASSED) and self._checks is not None:
            note = pod_rows.format_passed(self._checks, self.app.store.get(checks_of(chosen)).age(now))
            reading = replace(reading, at=None)
        self._panes["workers"].show_reading(reading, now, note)

    def _take_checks(self, chosen: Slice | None, now: float) -> None:
        checks = checks_of(chosen)
        if not self._is_new("checks", now, checks):
            return
        reading = self.app.store.get(checks)
        self._checks = results = digest(reading.value) if reading.value else None
        self._collapse_checks()
        self._tables["checks"].show(pod_rows.make_check_rows(results) if results else [])
        self._panes["checks"].show_reading(reading, now, results.summary if results else "")

    def _collapse_checks(self) -> None:
        """Reduce the checks to a line if all have passed, unless the user asked for them; expand them on trouble."""
        reading = self.app.store.get(checks_of(self.chosen_slice()))
        findings = self._checks.findings if self._checks and not (reading.busy or reading.problems) else ()
        has_passed = bool(findings) and all(finding.status == "pass" for finding in findings)
        has_frames = not (self.has_class(NARROW) or self.has_class(FRAMELESS))
        self.set_class(has_passed and has_frames and not self._lists_passed, PASSED)
        self._seen.pop("workers", None)

    def _list_passed_checks(self, *, wanted: bool) -> None:
        """List passed checks, too, or hide them."""
        self._lists_passed = wanted
        self._collapse_checks()

    def _take_runs(self, now: float) -> None:
        if not self._is_new("runs", now, RUNS):
            return
        table, reading = self._tables["runs"], self.app.store.get(RUNS)
        listed = reading.value or ()
        scope = self.app.operator.runs.scope
        statuses = [status for status in listed if self._shows_every_run or scope.includes(status.run)]
        hidden = hidden_note(len(listed) - len(statuses), "press a to show them")
        self._runs = {status.run.id: status for status in statuses}
        figures_reading = self.app.store.get(FIGURES)
        figures = figures_reading.value or {}
        moment = time.time()
        if reading.at is not None or reading.problems:
            table.set_empty("Runs unknown" if reading.problems else hidden or self.NO_RUNS)
        rows = tuple(self._run_row(status, moment, figures.get(status.run.id)) for status in statuses)
        self._run_rows = {run_id: self._run_rows[run_id] for run_id in self._runs}
        rows = tuple(pod_rows.mark_row(row) if row.key in self.actions.runs.marked else row for row in rows)
        if rows != table.rows:
            table.show(rows)
        count = pod_rows.count_runs(statuses, table.row_count(), table.filter_text)
        reading = replace(reading, problems=reading.problems + figures_reading.problems)
        self._panes["runs"].show_reading(reading, now, " · ".join(filter(None, (count, hidden))))

    def _run_row(self, status: RunStatus, moment: float, latest: LatestFigures | None) -> TableRow:
        """Return a run's row. The row of an ended run is made once: no clock changes it."""
        cached = self._run_rows.get(status.run.id)
        if cached is not None and cached[0] is status and cached[1] == latest and status.ended is not None:
            return cached[2]
        row = pod_rows.make_run_row(status, moment, latest)
        self._run_rows[status.run.id] = status, latest, row
        return row

    # --- what keys act on -----------------------------------------------------------------------------------------

    def chosen_slice(self) -> Slice | None:
        """Return the slice under the cursor."""
        return self._slices.get(str(self._tables["slices"].cursor_key))

    def chosen_worker(self) -> int | None:
        """Return the worker under the cursor."""
        key = self._tables["workers"].cursor_key
        return key if isinstance(key, int) else None

    def chosen_status(self) -> RunStatus | None:
        """Return the status of the run under the cursor."""
        return self._runs.get(str(self._tables["runs"].cursor_key))

    def chosen_run(self) -> RunDirectory | None:
        """Return the run under the cursor."""
        status = self.chosen_status()
        return None if status is None else self.app.open_directory(status.run.id)

    def choose_slice(self, path: str) -> None:
        """Put the cursor on a slice, if it is listed."""
        if (row := self._tables["slices"].row_of(path)) is not None:
            self._tables["slices"].action_cursor_to(row)

    def filter_target(self) -> LineView | None:
        """Return the focused pane, else the runs."""
        return super().filter_target() or self._tables["runs"]

    def _show_upper(self, name: str) -> None:
        for pane in UPPER_PANES:
            self._panes[pane].set_class(pane == name, "-current")
        self._slices_and_workers.set_class(name == "checks", "-away")

    def action_pane(self, name: str) -> None:
        """Focus a pane; on a narrow screen, bring it up."""
        self._list_passed_checks(wanted=name == "checks")
        if name in UPPER_PANES:
            self._tab_bar.choose(name)
            self._show_upper(name)
        if self._panes[name].display:
            self.set_focus(self._tables[name])
        else:
            self.call_after_refresh(self._tables[name].focus)

    @on(TabBar.TabChosen)
    def _bring_up(self, event: TabBar.TabChosen) -> None:
        self._show_upper(event.key)
        if self._panes[event.key].display and not isinstance(self.focused, LineTable):
            self._tables[event.key].focus()

    @on(LineTable.RowOpened)
    def _open(self, event: LineTable.RowOpened) -> None:
        if not self.app.is_on_top(self):
            return  # enter, pressed twice at once, opened it already
        creation = self.app.ongoing.find_creation(self.chosen_slice())
        if event.table.id == "runs":
            self.app.open_run(self.chosen_run())
        elif event.table.id == "slices" and creation is not None:
            self.actions.creating.show(creation.path)
        else:
            self.action_describe()

    @on(LineTable.RowHighlighted)
    def _look_closer(self, event: LineTable.RowHighlighted) -> None:
        if event.table.id == "slices":
            self._list_passed_checks(wanted=False)
            self.actions.slices.check_after_pause(self.chosen_slice())

    def action_check(self) -> None:
        """Check the chosen slice."""
        self._list_passed_checks(wanted=True)
        self.actions.slices.check(self.chosen_slice())
        self._show_upper("checks")
        self._tab_bar.choose("checks")
        if self.has_class(NARROW) and any(self._tables[name].has_focus for name in UPPER_PANES):
            self.set_focus(self._tables["checks"])

    def action_logs(self) -> None:
        """Open the chosen run at its logs."""
        self.app.open_run(self.chosen_run(), "logs")

    def action_every_run(self) -> None:
        """Show or hide the runs of other projects and hosts files."""
        self._shows_every_run = not self._shows_every_run
        self._seen.pop("runs", None)

    def action_mark_run(self) -> None:
        """Mark the run under the cursor as one to compare, or take the mark away."""
        self.actions.runs.mark(self.chosen_run())
        self._seen.pop("runs", None)

    def action_compare_runs(self) -> None:
        """Compare the marked runs; with one mark, also the run under the cursor."""
        self.actions.runs.compare(self.chosen_run())

    def action_resources(self) -> None:
        """Show what costs money."""
        self.app.push_screen(ResourcesScreen() if self.app.read_only else ActingResourcesScreen())

    def action_refresh(self) -> None:
        """List the slices at once."""
        self.app.pollers.refresh()

    def action_cancel(self) -> None:
        """Cancel running checks, else clear the pane's filter."""
        if self.app.pollers.cancel_checks():
            self.notify("Checks cancelled", timeout=2)
        else:
            self.drop_filter()

    def action_refuse_change(self) -> None:
        """Say why the keys that create, start, stop and delete slices do nothing."""
        self.notify("This console is read-only. To change slices, start it without --read-only.", timeout=4)

    def description(self) -> tuple[str, str]:
        """Return the focused pane's row in full."""
        focused = self.focused.id if self.focused else None
        chosen = self.chosen_slice()
        if focused == "runs" and (status := self.chosen_status()) is not None:
            return status.run.id, format_document(list_status_fields(status))
        if focused == "checks" and chosen is not None:
            return f"checks of {chosen.name}", self._check_text(chosen)
        if chosen is None:
            return "Nothing selected", ""
        workers = self.app.store.get(workers_of(chosen)).value or chosen.workers
        worker = next((worker for worker in workers if worker.index == self.chosen_worker()), None)
        if focused == "workers" and worker is not None:
            return f"worker {worker.index} of {chosen.path}", format_document(worker.to_json())
        fields = chosen.to_json() | {"endpoints": [worker.to_json() for worker in workers]}
        return chosen.path, format_document(fields)

    def _check_text(self, chosen: Slice) -> str:
        results, key = self._checks, self._tables["checks"].cursor_key
        findings = results.findings if results else ()
        finding = next((finding for finding in findings if pod_rows.get_finding_key(finding) == key), None)
        if results is None or finding is None:
            return "Press c to check it"
        checked = self.app.store.get(checks_of(chosen)).value or ()
        return pod_rows.describe_finding(results, finding, checked, self.size.width - 12)


class ActingPodScreen(PodScreen):
    """The pod screen with the keys that change something: not used with `--read-only`."""

    NO_RUNS = (
        "No runs yet. Press n to launch one. (tpu-tui runs SLICE lists runs started elsewhere.)\n\n"
        "First steps: c checks the slice, n launches a run, ! runs a command on every worker, ? lists all keys."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new_run", "New run", tooltip="New run on the slice; asks first", id="new"),
        Binding("x,ctrl+k", "stop_run", "Stop", tooltip="Stop the run; asks first", id="stop"),
        *REMOTE_SHELL_BINDINGS,
        Binding("N", "new_slice", "New slice", tooltip="New slice, or the progress of one", id="slice.new"),
        Binding("S", "change_slice('start')", "Start", tooltip="Start slice; asks first", id="slice.start"),
        Binding("X", "change_slice('stop')", "Stop slice", tooltip="Stop slice; asks first", id="slice.stop"),
        Binding("ctrl+d", "change_slice('delete')", "Delete", tooltip="Delete slice; asks for its name", id="delete"),
    ]

    def action_new_run(self) -> None:
        """Ask what to launch on the chosen slice."""
        self.actions.launching.ask_new_run(self.chosen_slice())

    def action_new_slice(self) -> None:
        """Show the progress of a slice that is being created, else ask what to create."""
        chosen = self.chosen_slice()
        creation = self.app.ongoing.creation_to_show(chosen)
        if creation is not None:
            self.actions.creating.show(creation.path)
        else:
            self.actions.creating.ask_new_slice(chosen)

    def action_change_slice(self, action: str) -> None:
        """Ask, then start, stop or delete the chosen slice."""
        self.actions.slices.change(self.chosen_slice(), action)

    def action_shell(self) -> None:
        """Open a shell on the chosen worker."""
        self.actions.remote_shell.open_shell(self.chosen_slice(), self.chosen_worker())

    def action_execute(self) -> None:
        """Ask for a command to run on the workers of the chosen slice."""
        self.actions.remote_shell.ask_command(self.chosen_slice())
