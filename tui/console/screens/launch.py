"""The launch dialog: asks for a command and options, previews what will run on every worker, then launches."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button, Input, Label, Select, TextArea

from tui.console.data.launch_form import LaunchForm, label, make_job, option_text, parse_words
from tui.console.data.pollers import CHECKS_INTERVAL_S
from tui.console.render.launch_notes import format_checks, format_scaling, warn_about_shell
from tui.console.render.safe_text import escape_line
from tui.console.screens.form import SAME_IN_A_SHELL, FormDialog, add_label, make_field
from tui.console.widgets.command_line import CommandLine
from tui.console.widgets.text_fields import TextBox
from tui.errors import TpuTuiError, UsageError
from tui.operator import LaunchRequest
from tui.pod.job_options import LAUNCH_OPTIONS, OPTIONS, OptionKind
from tui.pod.run_names import readable_name
from tui.settings.command_line import launch_command
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import CheckRow, LaunchSpec
    from tui.pod.slice import Slice

CODE, CODE_AGAIN = "directory to copy to every worker", "copied before; enter the directory again"
_IN_ROWS = tuple(name for name, option in LAUNCH_OPTIONS.items() if option.kind is not OptionKind.VARIABLES)
"""The options of a job with fields of one row."""
PLAN = "planning the launch"
LAUNCH = "the launch"
ASK = "Press Enter to preview what will run. Nothing starts yet."


class LaunchDialog(FormDialog["str | None"]):
    """Fields, a preview of exactly what will run, then the launch; answers the new run's ID."""

    TITLE = "new run"
    AUTO_FOCUS = "#command"
    BUTTONS = (("leave", "Cancel", "default"), ("plan", "Preview", "primary"), ("launch", "Launch", "success"))
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+r", "plan", "Preview", id="launch.plan", priority=True)]

    def __init__(self, draft: LaunchForm) -> None:
        super().__init__()
        self._draft = draft
        self._spec: LaunchSpec | None = None
        self._skips_checks = False
        """Whether a check failed that the launch skips ("Launch anyway")."""
        self._checks = ""
        self._script = ASK

    def first_fields(self) -> Sequence[Widget]:
        """Return slice and command, which need the full width."""
        draft = self._draft
        example = "what you would type on a worker, e.g. python3 train.py"
        command = CommandLine(shlex.join(draft.job.argv), id="command", earlier=draft.earlier, placeholder=example)
        return [add_label("slice", self._slices()), add_label("command", command)]

    def fields(self) -> Iterator[Widget]:
        """Return the options of the run and of its job."""
        draft = self._draft
        yield make_field("name", "name", draft.name, "name of the run; default: the slice's name")
        yield make_field("sync", "sync", draft.sync, CODE_AGAIN if draft.had_code else CODE)
        for name in _IN_ROWS:
            option, text = OPTIONS[name], option_text(name, draft.job)
            yield make_field(label(name), _field_id(name), text, option.placeholder, option.choices)
        yield make_field("trained on", "scale-from", draft.scale_from, "slice type, e.g. v2-8, for the figures below")
        yield make_field("…with", "scale-by", "", "batch, steps, rate: 1024 5000 0.1")
        yield Label("Environment (one NAME=value per line)")
        yield TextBox(option_text("env", draft.job), id="env", compact=True)

    def _slices(self) -> Select[str]:
        """Return the field of the slices; none is selected if the run's own slice is gone."""
        listed = self._draft.slices
        options = [(_option_of(slice_), slice_.path) for slice_ in listed]
        is_there = self._draft.chosen in {slice_.path for slice_ in listed}
        chosen = self._draft.chosen if is_there else Select.NULL
        return Select(
            options, value=chosen, prompt="Select a slice", allow_blank=not is_there, id="slice", compact=True
        )

    def on_mount(self) -> None:
        """Show a hint, and disable Launch until there is a preview."""
        self.query_one("#launch", Button).disabled = True
        self._show_preview(ASK)

    def _show_preview(self, script: str, checks: str = "") -> None:
        """Show the scaled figures, the results of the checks, and what would run."""
        self._script, self._checks = script, checks
        self._show()

    def _show(self) -> None:
        self.set_class(self._script != ASK, "-previewed")
        self.show_preview(self._scaling(), self._checks, self._script)

    def _scaling(self) -> str:
        slice_ = self._slice()
        try:
            target = None if slice_ is None else slice_.accelerator_type
            return format_scaling(self._entry("scale-from") or "", target, self._entry("scale-by") or "")
        except UsageError as error:
            return str(error)

    # --- the plan -------------------------------------------------------------------------------------------------

    @on(Input.Changed)
    @on(Select.Changed)
    @on(TextArea.Changed)
    def _edited(self) -> None:
        """Drop the plan: it is valid only for the fields that it was made from."""
        if self._script == ASK:
            self._show()
            return
        self._give_up()
        self._show_preview("Changed. Press Enter to preview again.")

    def request(self) -> LaunchRequest:
        """Return the request made of the fields. Raises UsageError for invalid ones."""
        slice_ = self._slice()
        if slice_ is None:
            raise UsageError("Select a slice.")
        argv = parse_words(self.query_one("#command", Input).value, "the command")
        if not argv:
            raise UsageError("Enter a command. What would you type on a worker?")
        name = self._entry("name")
        return LaunchRequest(
            slice_=slice_,
            job=make_job(self._draft.job, argv, {name: self.read_field(_field_id(name)) for name in LAUNCH_OPTIONS}),
            name=readable_name(name) if name else None,
            sync=self._sync(),
        )

    def equivalent(self) -> str:
        """Return the command that launches what the form asks for; empty while a field is invalid."""
        try:
            request = self.request() if self.is_mounted else None
        except TpuTuiError:
            return ""
        if request is None:
            return ""
        settings = self.app.operator.settings
        return launch_command(
            settings, request.slice_.path, request.job, request.name, request.sync, skips_checks=self._skips_checks
        )

    def _slice(self) -> Slice | None:
        path = self.query_one("#slice", Select).value
        return next((slice_ for slice_ in self._draft.slices if slice_.path == path), None)

    def _sync(self) -> Path | None:
        written = self._entry("sync")
        return Path(written).expanduser() if written else None

    def _entry(self, name: str) -> str | None:
        return self.read_field(name).strip() or None

    @on(Input.Submitted)
    def action_plan(self) -> None:
        """Plan the launch and preview it; starts nothing."""
        try:
            request = self.request()
        except TpuTuiError as error:
            self._failed(error)
            return
        self._give_up()
        self._show_preview("Preparing the preview… Esc cancels.")
        self.app.tasks.start(PLAN, self._plan(request), self._failed)

    async def _plan(self, request: LaunchRequest) -> None:
        spec = await self.app.operator.launches.plan(request)
        self._spec = spec
        note = warn_about_shell(request.job.argv)
        script = self.app.operator.launches.describe(spec)
        await self._check(request, f"{note}\n\n{script}" if note else script)
        button = self.query_one("#launch", Button)
        button.label = "Launch anyway" if self._skips_checks else "Launch"
        button.disabled = False
        button.refresh(layout=True)  # Textual leaves it as wide as its first label
        button.focus()

    async def _check(self, request: LaunchRequest, script: str) -> None:
        """Check what could fail the launch; show the results as they come."""
        rows: list[CheckRow] = []
        due = 0.0
        self._show_plan(script, rows, done=False)
        async for row in self.app.operator.launches.check(request):
            rows.append(row)
            self._skips_checks = self._skips_checks or row.prevents_launch
            if (now := time.monotonic()) >= due:
                self._show_plan(script, rows, done=False)
                due = now + CHECKS_INTERVAL_S
        self._show_plan(script, rows, done=True)

    def _show_plan(self, script: str, rows: Sequence[CheckRow], *, done: bool) -> None:
        """Show the results so far, the equivalent command, and what would run."""
        self._show_preview(f"{SAME_IN_A_SHELL}\n{self.equivalent()}\n\n{script}", format_checks(rows, done=done))

    def _give_up(self) -> None:
        """Cancel the plan and disable Launch."""
        self.app.tasks.cancel(PLAN)
        self._spec = None
        self._skips_checks = False
        self.query_one("#launch", Button).disabled = True

    def _failed(self, problem: TpuTuiError) -> None:
        """Show the error here, or as a message once this dialog was left."""
        if self.is_open:
            self._show_preview(str(problem))
        else:
            self.app.show_error(problem)

    # --- the launch -------------------------------------------------------------------------------------------------

    def action_launch(self) -> None:
        """Launch what was previewed."""
        if self._spec is not None:
            self.query_one("#launch", Button).disabled = True
            self._show_preview("Starting the run's keeper…")
            self.app.tasks.start(LAUNCH, self._launch(self._spec, self._sync()), self._failed)

    async def _launch(self, spec: LaunchSpec, sync: Path | None) -> None:
        directory = await self.app.operator.launches.start(spec)
        if sync is not None:
            self.app.ongoing.code_sources[directory.id] = sync
        if not self.is_open:
            self.notify(f"{directory.id} was already launched when the dialog closed")
        self.leave_with(directory.id)

    def action_leave(self) -> None:
        """Cancel the plan and leave. A launch that has started is a run and goes on."""
        self._give_up()
        super().action_leave()


def _option_of(slice_: Slice) -> Text:
    """Return a slice as the list of slices shows it."""
    workers = format_count(len(slice_.workers), "worker")
    return Text(escape_line(f"{slice_.name}  {slice_.state or ''}  {workers}"))


def _field_id(name: str) -> str:
    return name.replace("_", "-")
