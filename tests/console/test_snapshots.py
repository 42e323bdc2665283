"""Snapshots of the screens with fixed data and time. Run `pytest --snapshot-update` after an intended change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

import tui.console.app
from tests.console.stage import Answered, StageOperator, a_slice, make_run, training_line
from tui.console.base_app import BaseApp
from tui.console.data.launch_form import LaunchForm
from tui.console.data.line_index import FileLines
from tui.console.data.ongoing_work import ChangeProgress, CreationProgress, StopProgress
from tui.console.data.pollers import OFFERS
from tui.console.data.store import Store
from tui.console.render import pod_rows, run_summary
from tui.console.render.resource_rows import RESOURCE_COLUMNS, make_resource_row
from tui.console.screens.change import ResourceDeletionDialog, SliceChangeDialog
from tui.console.screens.dialog import QuitDialog, TrustDialog
from tui.console.screens.launch import LaunchDialog
from tui.console.screens.slices.create import CreateDialog
from tui.console.screens.slices.creation import CreationDialog
from tui.console.screens.stop import StopDialog
from tui.console.widgets.headline import Headline
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.panes.pane import Pane
from tui.console.widgets.problem_panel import Problem, ProblemPanel
from tui.console.widgets.tables.core_table_widget import CoreTableWidget
from tui.console.widgets.tables.row_table import RowTable
from tui.console.widgets.tables.table_columns import Cell
from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot
from tui.pod.creation.slice_request import CreationStep, SliceRequest, WorkerStartup
from tui.pod.creation.zone_offer import ZoneOffer
from tui.pod.job_options import JobOptions
from tui.pod.resources import CloudResource, describe_effect

MOMENT = 1_790_000_000.0
OFFER = ZoneOffer("europe-west4-a", {"v4-8": ("2x2x1",), "v4-16": ("2x2x2",)}, ("tpu-ubuntu2204-base",))
HOME = Path(tui.console.app.__file__).parent
SHEETS = [HOME / "app.tcss", *sorted(HOME.glob("screens/*.tcss"))]


class Showing(BaseApp):
    """An app with one widget or dialog and the console's style sheets."""

    CSS_PATH = SHEETS

    def __init__(self, made: Callable[[], Widget]) -> None:
        super().__init__(StageOperator(Path("/nowhere")))
        self._made = made
        self.store = Store(lambda: MOMENT)
        self.store.put(OFFERS, (OFFER,))

    def compose(self) -> ComposeResult:
        widget = self._made()
        if not isinstance(widget, Screen):
            yield widget

    def on_mount(self) -> None:
        widget = self._made()
        if isinstance(widget, Screen):
            self.push_screen(widget)


@pytest.fixture(autouse=True)
def steady_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the cursor from blinking, so that it is in every picture."""
    monkeypatch.setattr(Input.cursor_blink, "_default", False)


def snapshot_of(steps: int = 200) -> Snapshot:
    demux = Demux()
    for step in range(0, steps, 10):
        for core in range(32):
            loss: float | str = "nan" if core == 22 and step > 50 else 6.9 / (1 + step / 40) + core % 5 * 0.01
            reached = step // 2 if core == 13 else step
            line = training_line(core, 1, reached, loss, 160.0 if core == 13 else 250.0 + core)
            demux.feed(core // 8, line, now=MOMENT + step)
    return demux.snapshot(now=MOMENT + steps)


def core_table() -> CoreTableWidget:
    table = CoreTableWidget()
    table.call_later(table.show, snapshot_of())
    return table


def slices() -> Widget:
    table = RowTable(pod_rows.SLICE_COLUMNS)
    shown = [
        a_slice(),
        a_slice("spare", 1, state="PREEMPTED", health=None, accelerator_type="v2-8", cores=8, spot=True),
        a_slice("\x1b[31m[bold]odd", 0, state="CREATING", health=None, cores=None),
    ]
    table.call_later(table.show, [pod_rows.make_slice_row(slice_) for slice_ in shown])
    return Pane("slices", table)


def headline() -> Widget:
    widget = Headline()
    cells = [Cell("running", "good"), Cell("resnet-20261121-090000-a1b2"), Cell("2h05m"), Cell("unattended", "bad")]
    widget.call_later(widget.show, [cells, run_summary._figures(snapshot_of(), Quiet(), run_summary.Pace())])  # type: ignore[arg-type]
    return widget


class Quiet:
    """A feed without a status, for the figures of the cores alone."""

    status = None


def stopping() -> StopDialog:
    run = make_run(a_slice())
    progress = StopProgress(run, 0.0)
    progress.answers = {  # type: ignore[assignment]
        0: Answered(0, True, 143, "ended by SIGTERM"),
        2: Answered(2, False, None, "no answer from the worker within 120 s"),
    }
    progress.done = True
    return StopDialog(run, lambda: progress, progress)


def in_trouble() -> Widget:
    widget = ProblemPanel()
    cause = "worker 2 exited with 1; its last lines: FileNotFoundError: shard-00031.tar"
    problem = Problem(
        (cause, "stragglers: core 13"), "bad", 2, ("Traceback (most recent call last):", "FileNotFoundError")
    )
    widget.call_later(widget.show, problem)
    return widget


def launching() -> LaunchDialog:
    draft = LaunchForm(
        (a_slice(),), "europe-west4-a/my-tpu", JobOptions(("python3", "train.py"), env={"LR": "0.1"}), "night"
    )
    return LaunchDialog(draft)


POD = CloudResource(
    "slice",
    "my-tpu",
    "europe-west4-a",
    "READY",
    "2026-11-21T09:00:00Z",
    16,
    used_by=("resnet-20261121-090000-a1b2",),
    made_by_us=True,
    cost_relevant=True,
)


def resources() -> Widget:
    table = RowTable(RESOURCE_COLUMNS)
    shown = [
        POD,
        replace(
            POD, kind="disk", name="\x1b[31m[bold]odd", used_by=None, chips=None, size_gb=2000.0, made_by_us=False
        ),
        replace(POD, kind="queued-resource", name="night", state="FAILED", used_by=(), cost_relevant=False),
        replace(POD, kind="bucket", name="runs", state=None, used_by=(), chips=None, cost_relevant=None),
    ]
    now = datetime(2026, 11, 24, 18, tzinfo=timezone.utc)
    table.call_later(table.show, [make_resource_row(one, now) for one in shown])
    return Pane("resources", table)


def deleting_resource() -> ResourceDeletionDialog:
    return ResourceDeletionDialog(POD, describe_effect([POD], [POD])[0], begin_deletion)


def begin_deletion() -> ChangeProgress:
    return ChangeProgress("delete")


def coming_up() -> CreationDialog:
    request = SliceRequest(
        "night",
        "europe-west4-a",
        accelerator_type="v3-32",
        runtime_version="tpu-ubuntu2204-base",
        metadata={"startup-script": "pip install x"},
        metadata_files={"startup-script": "setup.sh"},
    )
    progress = CreationProgress(request, MOMENT - 200)
    progress.record(CreationStep(f"requested {request.summary}", "projects/p/operations/operation-1"), MOMENT - 199)
    lines = ("+ pip install x", "[bold]ERROR[/]: \x1b[31mno such package\x07 日本語 x", "long " * 60)
    scripts = [WorkerStartup("night", number, detail="installing", lines=lines[:1]) for number in range(4)]
    scripts[1] = WorkerStartup("night", 1, 0, "", lines[:1], has_ended=True)
    scripts[2] = WorkerStartup("night", 2, 3, "the script failed", lines, has_ended=True)
    progress.record(CreationStep("night is READY", startup=tuple(scripts)), MOMENT - 100)
    return CreationDialog(progress, lambda: None)


MADE: dict[str, Callable[[], Widget]] = {
    "cores": core_table,
    "slices": slices,
    "headline": headline,
    "stop": stopping,
    "launch": launching,
    "trouble": in_trouble,
    "delete": lambda: SliceChangeDialog("delete", a_slice(), ["resnet-20261121-090000-a1b2"], begin_deletion),
    "resources": resources,
    "deletion": deleting_resource,
    "create": lambda: CreateDialog({"zone": "europe-west4-a", "type": "v4", "version": "tpu-ubuntu2204-base"}),
    "creation": coming_up,
    "trust": lambda: TrustDialog("t1v-n-5f3a91c2-w-0", "ssh-ed25519", "SHA256:2oPjqDWlRcEJcbQvbdDSdXVlZkOG"),
    "quit": lambda: QuitDialog("Runs go on without this console:\n\n  resnet-20261121-090000-a1b2"),
}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.parametrize("name", MADE)
def test_it_looks_as_it_did(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    app = Showing(MADE[name])
    assert snap_compare(app, terminal_size=size)
    assert app.return_code == 0, "a crashed app also has a picture"


def test_a_hostile_log_looks_harmless(snap_compare: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x1b]0;pwn\x07 [bold]x[/]\n10%\r20%\r30%\n\xff\xfe\x00\n" + b"long " * 100 + b"\n")

    async def open_it(pilot: Pilot[None]) -> None:
        pane = pilot.app.query_one(LogPane)
        pane.open(FileLines(path, 2), show_worker=True)
        await pilot.pause()

    assert snap_compare(Showing(lambda: LogPane()), terminal_size=(80, 10), run_before=open_it)


def test_the_core_table_is_readable_without_colour(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(Showing(core_table), terminal_size=(100, 36))
