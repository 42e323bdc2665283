"""The launch dialog: what, where and how; shows what will run on every worker, and only then launches."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Select, Static, TextArea

from tui.console.draft import Draft, check_lines, parse_env, parse_restarts, scaled, shell_note
from tui.console.screens.base import size_up
from tui.console.screens.dialog import plain
from tui.console.text import harmless
from tui.console.widgets.command_line import CommandLine
from tui.errors import TpuTuiError, UsageError
from tui.pod.run_names import readable_name

if TYPE_CHECKING:
    from tui.checks.row import CheckRow
    from tui.console.app import ConsoleApp
    from tui.operator import LaunchRequest
    from tui.pod.slice import Slice
    from tui.runs.spec import LaunchSpec

ON_FAILURE = (("stop the other workers", "stop"), ("leave the others running", "leave"))
RUNTIMES = ("pjrt", "cpu", "xrt", "none")
PLAN = "plan a launch"
LAUNCH = "launch"
TELL_EVERY = 0.2
"""Seconds between two accounts of the checks; a pod of many workers answers with thousands of rows."""
ASK = "enter shows exactly what would run, and where; nothing is started by that."


class LaunchDialog(ModalScreen["str | None"]):
    """Fields, then exactly what would run, then the launch; answers the new run's id."""

    AUTO_FOCUS = "#command"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="launch.leave"),
        Binding("pageup", "page(-1)", "Scroll what will run", show=False, id="launch.page_up", priority=True),
        Binding("pagedown", "page(1)", "Scroll what will run", show=False, id="launch.page_down", priority=True),
        Binding("ctrl+r", "plan", "Show what will run", id="launch.plan", priority=True),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-normal")]  # noqa: RUF012 - Textual declares it so
    VERTICAL_BREAKPOINTS = [(0, "-short"), (38, "-tall")]  # noqa: RUF012

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._draft = draft
        self._spec: LaunchSpec | None = None
        self._checks = ""
        self._script = ASK

    def compose(self) -> ComposeResult:
        """Fields beside the preview, or above it where there is no room."""
        size_up(self)
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
                        "slice",
                        Select(
                            options,
                            value=chosen or Select.NULL,
                            prompt="which one?",
                            allow_blank=chosen is None,
                            id="slice",
                            compact=True,
                        ),
                    )
                    yield from self._field("command", CommandLine(draft.command, id="command", earlier=draft.earlier))
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
                    for name, label, value, told in (
                        ("restarts", "restarts", str(draft.restarts or ""), "0: a gang that failed stays down"),
                        (
                            "on-end",
                            "on end",
                            shlex.join(draft.on_end),
                            "report, stop-slice, delete-slice, 'command:…'",
                        ),
                        ("scale-from", "scale from", draft.scale_from, "v2-8: a type it was trained on before"),
                        ("scale-by", "with", "", "1024 5000 0.1: batch, steps, rate"),
                    ):
                        yield from self._field(label, Input(value, placeholder=told, id=name, compact=True))
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
        self._tell(ASK)

    def _tell(self, script: str, checks: str = "") -> None:
        """What would run, beneath what the checks found and what the other slice's figures become here."""
        self._script, self._checks = script, checks
        self._show()

    def _show(self) -> None:
        parts = (self._scaling(), self._checks, self._script)
        self.query_one("#told", Static).update(plain("\n\n".join(part for part in parts if part)))

    def _scaling(self) -> str:
        slice_ = self._slice()
        try:
            target = None if slice_ is None else slice_.accelerator_type
            return scaled(self._text("scale-from") or "", target, self._text("scale-by") or "")
        except UsageError as error:
            return str(error)

    # --- the plan -------------------------------------------------------------------------------------------------

    @on(Input.Changed)
    @on(Select.Changed)
    @on(TextArea.Changed)
    def _edited(self) -> None:
        """A plan holds for what it was made from only."""
        if self._script == ASK:
            self._show()
            return
        self._give_up()
        self._tell("changed: show again what would run.")

    def request(self) -> LaunchRequest:
        """What the fields say. Raises UsageError for what cannot be meant."""
        from tui.operator import LaunchRequest

        slice_ = self._slice()
        if slice_ is None:
            raise UsageError("no slice is chosen")
        argv = self._words("command")
        if not argv:
            raise UsageError("there is no command", remedy="what would you type on a worker?")
        sync, name = self._text("sync"), self._text("name")
        return LaunchRequest(
            slice_=slice_,
            argv=argv,
            name=readable_name(name) if name else None,
            env=parse_env(self.query_one("#env", TextArea).text),
            sync=Path(sync).expanduser() if sync else None,
            runtime=str(self.query_one("#runtime", Select).value),
            workdir=self._text("workdir"),
            venv=self._text("venv"),
            conda_env=self._text("conda-env"),
            on_failure=str(self.query_one("#on-failure", Select).value),
            on_end=self._words("on-end"),
            restarts=parse_restarts(self.query_one("#restarts", Input).value),
        )

    def _words(self, name: str) -> tuple[str, ...]:
        """A field's words as a shell reads them. Raises UsageError."""
        try:
            return tuple(shlex.split(self.query_one(f"#{name}", Input).value))
        except ValueError as error:
            what = "the command" if name == "command" else "what is done at the end"
            raise UsageError(f"{what} cannot be read", why=str(error), remedy="close the quotes") from error

    def _slice(self) -> Slice | None:
        path = self.query_one("#slice", Select).value
        return next((s for s in self._draft.slices if s.path == path), None)

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
        self._give_up()
        self._tell("asking…  esc gives up")
        self.console.tasks.start(PLAN, self._plan(request), self._failed)

    async def _plan(self, request: LaunchRequest) -> None:
        spec = await self.console.operator.plan_launch(request)
        if not self.is_mounted:
            return
        self._spec = spec
        note = shell_note(request.argv)
        script = self.console.operator.dry_run(spec)
        script = f"{note}\n\n{script}" if note else script
        rows = await self._check(request, script)
        button = self.query_one("#launch", Button)
        button.label = "Launch all the same" if any(row.hinders for row in rows) else "Launch"
        button.disabled = False
        button.focus()

    async def _check(self, request: LaunchRequest, script: str) -> list[CheckRow]:
        """Look at what could fail the launch, telling what is known so far."""
        rows: list[CheckRow] = []
        due = 0.0
        self._tell(script, check_lines(rows, done=False))
        async for row in self.console.operator.check_launch(request):
            rows.append(row)
            if (now := time.monotonic()) >= due:
                self._tell(script, check_lines(rows, done=False))
                due = now + TELL_EVERY
        self._tell(script, check_lines(rows, done=True))
        return rows

    def action_page(self, by: int) -> None:
        """Scroll what would run, whichever field has the keys."""
        preview = self.query_one("#preview")
        preview.scroll_relative(y=by * max(1, preview.size.height - 1), animate=False)

    def _give_up(self) -> None:
        """What was found out holds for what it was asked for only."""
        self.console.tasks.cancel(PLAN)
        self._spec = None
        self.query_one("#launch", Button).disabled = True

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
        self._give_up()
        self.dismiss(None)
