"""The exec dialog: one command on all or some workers; equal outputs are shown once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from tui.console.render.exec_output import make_output_lines
from tui.console.render.safe_text import escape_line
from tui.console.screens.dialog import LiveDialog
from tui.console.widgets.command_line import CommandLine
from tui.console.widgets.tables.table_columns import Cell
from tui.console.widgets.text_fields import TextField
from tui.errors import UsageError
from tui.settings.command_line import command_line
from tui.text.ranks import parse_ranks

if TYPE_CHECKING:
    from tui.console.data.exec_progress import ExecProgress
    from tui.pod.slice import Slice

ASK = (
    "Enter runs the command with sh on all of these workers at once. Up recalls earlier commands. "
    "^y copies the equivalent tpu-tui command."
)


class ExecAnswers(Static):
    """Lines of text in the tones of their cells."""

    DEFAULT_CSS = """
    ExecAnswers {
        & > .answers--good { color: $text-success; text-style: bold; }
        & > .answers--warn { color: $text-warning; }
        & > .answers--bad { color: $text-error; text-style: bold; }
        & > .answers--busy { color: $text-primary; text-style: bold; }
        & > .answers--dim { text-style: dim; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"answers--{tone}" for tone in ("good", "warn", "bad", "busy", "dim")}

    def show(self, cells: Sequence[Cell]) -> None:
        """Show other lines."""
        text = Text()
        for number, cell in enumerate(cells):
            style = self.get_component_rich_style(f"answers--{cell.tone}", partial=True) if cell.tone else ""
            text.append("\n" * (number > 0) + cell.text, style)
        self.update(text)


class ExecDialog(LiveDialog[None]):
    """A command, its workers, and their output. `begin` starts the command, `give_up` cancels it."""

    AUTO_FOCUS = "#command"
    BUTTONS = (("leave", "Close", "default"), ("run", "Run", "primary"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "page(-1)", "Scroll the output", show=False, id="exec.page_up", priority=True),
        Binding("pagedown", "page(1)", "Scroll the output", show=False, id="exec.page_down", priority=True),
    ]

    def __init__(
        self,
        slice_: Slice,
        begin: Callable[[str, Sequence[int]], ExecProgress],
        give_up: Callable[[], object],
        *,
        earlier: Sequence[str] = (),
    ) -> None:
        super().__init__(title=f"exec on {slice_.name}")
        self._slice = slice_
        self._begin = begin
        self._give_up = give_up
        self._command = CommandLine(id="command", earlier=earlier, placeholder="Command to run on the workers")
        self._answers = ExecAnswers(ASK, markup=False, id="answers")
        self._execution: ExecProgress | None = None
        self._shown: object = None

    def body(self) -> Sequence[Widget]:
        """Return two fields above the output."""
        return [
            Horizontal(Label("command"), self._command, classes="field"),
            Horizontal(Label("workers"), TextField("all", id="workers", compact=True), classes="field"),
            VerticalScroll(self._answers, id="reading", can_focus=True),
        ]

    def equivalent(self) -> str:
        """Return the command that runs the same on the same workers."""
        if not self.is_mounted:
            return ""
        workers = self.query_one("#workers", Input).value.strip()
        command = self._command.value.strip() or (self._execution.command if self._execution else "COMMAND")
        option = () if workers in ("", "all") else ("--worker", workers)
        arguments = ("exec", self._slice.path, *option, "--", "sh", "-c", command)
        return command_line(self.app.operator.settings, *arguments)

    def action_leave(self) -> None:
        """Cancel a running command, else leave."""
        if self._execution is not None and not self._execution.done:
            self._give_up()
        else:
            super().action_leave()

    @on(Input.Submitted)
    def action_run(self) -> None:
        """Run the command."""
        command = self._command.value.strip()
        if not command:
            return
        if self._execution is not None and not self._execution.done:
            self.notify("The previous command is still running. Esc cancels it.", timeout=3)
            return
        try:
            ranks = parse_ranks(self.query_one("#workers", Input).value, len(self._slice.workers))
        except UsageError as error:
            self._answers.show([Cell(str(error), "bad")])
            return
        self._execution = self._begin(command, ranks)
        self._command.remember(command)
        self._command.value = ""
        self.query_one("#dialog").border_title = Text(escape_line(f"{self.title}: {command}"))
        self.query_one("#reading").scroll_home(animate=False)
        self.tick()

    def tick(self) -> None:
        """Show new output, and count the seconds."""
        if self._execution is None:
            return
        now = self.app.store.clock()
        mark = (self._execution.revision, 0 if self._execution.done else int(now - self._execution.begun))
        if mark != self._shown:
            self._shown = mark
            self._answers.show(make_output_lines(self._execution, now))
