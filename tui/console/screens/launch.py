"""The launch dialog: what, where and how; shows what will run on every worker, and only then launches."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Select, Static, TextArea

from tui.console.screens.dialog import plain
from tui.console.text import harmless
from tui.errors import TpuTuiError, UsageError
from tui.pod.slice import Slice

if TYPE_CHECKING:
    from tui.console.app import ConsoleApp
    from tui.operator import LaunchRequest
    from tui.runs.launch import LaunchSpec

ON_FAILURE = (("stop the other workers", "stop"), ("leave the others running", "leave"))
RUNTIMES = ("pjrt", "cpu", "xrt", "none")
PLAN = "plan a launch"
LAUNCH = "launch"


@dataclass(frozen=True)
class Draft:
    """What the dialog begins with."""

    slices: tuple[Slice, ...]
    chosen: str = ""
    """A slice's path."""
    command: str = ""
    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    runtime: str = "pjrt"
    sync: str = ""
    workdir: str = ""
    venv: str = ""
    conda_env: str = ""
    on_failure: str = "stop"


def parse_env(text: str) -> dict[str, str]:
    """Rows of `NAME=value`; blank rows are left out. Raises UsageError naming the row."""
    env: dict[str, str] = {}
    for number, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        name, equals, value = row.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"row {number} of the environment is not NAME=value: {row.strip()!r}")
        env[name.strip()] = value
    return env


class LaunchDialog(ModalScreen["str | None"]):
    """Fields, then exactly what would run, then the launch; answers the new run's id."""

    AUTO_FOCUS = "#command"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="launch.leave"),
        Binding("ctrl+r", "plan", "Show what will run", id="launch.plan", priority=True),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-normal")]  # noqa: RUF012 - Textual declares it so
    VERTICAL_BREAKPOINTS = [(0, "-short"), (38, "-tall")]  # noqa: RUF012

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._draft = draft
        self._spec: LaunchSpec | None = None

    def compose(self) -> ComposeResult:
        """Fields beside the preview, or above it where there is no room."""
        draft = self._draft
        options = [
            (Text(harmless(f"{s.name}  {s.state or ''}  {len(s.workers)} workers")), s.path) for s in draft.slices
        ]
        chosen = draft.chosen if draft.chosen in {s.path for s in draft.slices} else None
        with Vertical(id="dialog") as frame:
            frame.border_title = "new run"
            with Horizontal(id="halves"):
                with VerticalScroll(id="fields", can_focus=False):
                    yield from self._field(
                        "slice", Select(options, value=chosen or Select.NULL, id="slice", compact=True)
                    )
                    yield from self._field("command", Input(draft.command, id="command", compact=True))
                    yield from self._field(
                        "name", Input(draft.name, placeholder="the slice's name", id="name", compact=True)
                    )
                    yield from self._field(
                        "runtime",
                        Select(
                            [(r, r) for r in RUNTIMES],
                            value=draft.runtime,
                            allow_blank=False,
                            id="runtime",
                            compact=True,
                        ),
                    )
                    yield from self._field(
                        "sync",
                        Input(draft.sync, placeholder="copied to every worker", id="sync", compact=True),
                    )
                    for name, label, value, told in (
                        ("workdir", "workdir", draft.workdir, "where the command runs"),
                        ("venv", "venv", draft.venv, "a virtual environment there"),
                        ("conda-env", "conda env", draft.conda_env, "a conda environment there"),
                    ):
                        yield from self._field(label, Input(value, placeholder=told, id=name, compact=True))
                    yield from self._field(
                        "on failure",
                        Select(ON_FAILURE, value=draft.on_failure, allow_blank=False, id="on-failure", compact=True),
                    )
                    yield Label("environment, one NAME=value a row")
                    rows = "\n".join(f"{name}={value}" for name, value in draft.env.items())
                    yield TextArea(rows, id="env", compact=True)
                with VerticalScroll(id="preview"):
                    yield Static("", id="told", markup=False)
            with Horizontal(id="buttons"):
                yield Button("Cancel", id="leave")
                yield Button("Show what will run", id="plan", variant="primary")
                yield Button("Launch", id="launch", variant="success", disabled=True)

    @staticmethod
    def _field(name: str, widget: Select[str] | Input) -> ComposeResult:
        with Horizontal(classes="field"):
            yield Label(name)
            yield widget

    @property
    def console(self) -> ConsoleApp:
        """The app, as what it is."""
        from tui.console.app import ConsoleApp

        assert isinstance(self.app, ConsoleApp)
        return self.app

    def on_mount(self) -> None:
        """Begin at the command."""
        self._tell("enter shows exactly what would run, and where; nothing is started by that.")

    def _tell(self, text: str) -> None:
        self.query_one("#told", Static).update(plain(text))

    # --- the plan -------------------------------------------------------------------------------------------------

    @on(Input.Changed)
    @on(Select.Changed)
    @on(TextArea.Changed)
    def _edited(self) -> None:
        """A plan holds for what it was made from only."""
        if self._spec is not None:
            self._spec = None
            self.query_one("#launch", Button).disabled = True
            self._tell("changed: show again what would run.")

    def request(self) -> LaunchRequest:
        """What the fields say. Raises UsageError for what cannot be meant."""
        from tui.operator import LaunchRequest

        path = self.query_one("#slice", Select).value
        slice_ = next((s for s in self._draft.slices if s.path == path), None)
        if slice_ is None:
            raise UsageError("no slice is chosen")
        try:
            argv = tuple(shlex.split(self.query_one("#command", Input).value))
        except ValueError as error:
            raise UsageError("the command cannot be read", why=str(error), remedy="close the quotes") from error
        if not argv:
            raise UsageError("there is no command", remedy="what would you type on a worker?")
        sync = self._text("sync")
        return LaunchRequest(
            slice_=slice_,
            argv=argv,
            name=self._text("name"),
            env=parse_env(self.query_one("#env", TextArea).text),
            sync=Path(sync).expanduser() if sync else None,
            runtime=str(self.query_one("#runtime", Select).value),
            workdir=self._text("workdir"),
            venv=self._text("venv"),
            conda_env=self._text("conda-env"),
            on_failure=str(self.query_one("#on-failure", Select).value),
        )

    def _text(self, name: str) -> str | None:
        return self.query_one(f"#{name}", Input).value.strip() or None

    @on(Input.Submitted)
    def action_plan(self) -> None:
        """Find out what would run, with all questions asked; starts nothing."""
        try:
            request = self.request()
        except TpuTuiError as error:
            self._failed(error)
            return
        self._tell("asking…  esc gives up")
        self.console.tasks.start(PLAN, self._plan(request), self._failed)

    async def _plan(self, request: LaunchRequest) -> None:
        spec = await self.console.operator.plan_launch(request)
        if not self.is_mounted:
            return
        self._spec = spec
        self._tell(self.console.operator.dry_run(spec))
        button = self.query_one("#launch", Button)
        button.disabled = False
        button.focus()

    def _failed(self, problem: TpuTuiError) -> None:
        if self.is_mounted:
            self._tell(str(problem))

    # --- the launch -------------------------------------------------------------------------------------------------

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "leave":
            self.action_leave()
        elif event.button.id == "plan":
            self.action_plan()
        elif self._spec is not None:
            event.button.disabled = True
            self._tell("handing over to the run's keeper…")
            self.console.tasks.start(LAUNCH, self._launch(self._spec), self._failed)

    async def _launch(self, spec: LaunchSpec) -> None:
        directory = await self.console.operator.launch(spec)
        self.dismiss(directory.id)

    def action_leave(self) -> None:
        """Give up what is under way; a launch that was handed over is a run, and goes on."""
        self.console.tasks.cancel(PLAN)
        self.dismiss(None)
