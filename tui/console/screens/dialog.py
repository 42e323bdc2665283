"""The base of all dialogs (a frame, a title, a row of buttons, Esc to leave), and the small ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.text import Text
from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from tui.console.base_app import BaseApp
from tui.console.render.safe_text import escape_line, escape_lines
from tui.console.screens.breakpoints import apply_breakpoints

if TYPE_CHECKING:
    from textual.widgets.button import ButtonVariant

Answer = TypeVar("Answer")


def make_plain_text(text: str) -> Text:
    """Return text for a Static: harmless, and never markup."""
    return Text(escape_lines(text))


class Dialog(ModalScreen[Answer]):
    """A modal frame in the middle of the screen, by default with a text. `esc` answers with `default_answer`."""

    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-roomy")]  # noqa: RUF012 - Textual declares it so
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="dialog.leave"),
        Binding("left,up", "app.focus_previous", "Previous", show=False, id="dialog.previous"),
        Binding("right,down", "app.focus_next", "Next", show=False, id="dialog.next"),
        Binding("ctrl+y", "copy_equivalent", "Copy the command", show=False, id="dialog.copy", priority=True),
    ]
    BUTTONS: ClassVar[Sequence[tuple[str, str, ButtonVariant]]] = (("leave", "Close", "default"),)
    """ID, label and variant of the answers, the harmless one first. A button runs the action that its ID names."""
    app = getters.app(BaseApp)
    PAGED: ClassVar[str] = "#reading"
    """What `action_page` scrolls."""
    default_answer: Answer | None = None
    _owed: tuple[Answer | None] | None = None
    """The pending answer of a dialog that is covered by another one."""

    def __init__(self, text: str = "", *, title: str | None = None, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._text = text
        if title is not None:
            self.title = title

    def body(self) -> Sequence[Widget]:
        """Return the widgets above the buttons."""
        return [Static(make_plain_text(self._text), markup=False)]

    def buttons(self) -> Sequence[Button]:
        """Return the answers."""
        return [Button(label, id=name, variant=variant) for name, label, variant in self.BUTTONS]

    def compose(self) -> ComposeResult:
        """Lay out the frame with its content."""
        apply_breakpoints(self)
        with Vertical(id="dialog") as frame:
            frame.border_title = Text(escape_line(self.title or ""))
            frame.border_subtitle = (
                Text(escape_line(f"^y copies: {command}")) if (command := self.equivalent()) else None
            )
            yield from self.body()
            with Horizontal(id="buttons"):
                yield from self.buttons()

    def equivalent(self) -> str:
        """Return the command that does the same in a shell; empty if there is none."""
        return ""

    def action_copy_equivalent(self) -> None:
        """Copy the equivalent command to the terminal's clipboard."""
        if command := self.equivalent():
            self.app.copy_to_clipboard(command)
            self.notify(f"Copied (if your terminal supports it): {command}", timeout=4)

    @property
    def is_open(self) -> bool:
        """Return whether it is still open, on top or not."""
        return self in self.app.screen_stack

    def leave_with(self, answer: Answer | None) -> None:
        """Answer and close, once. A covered dialog closes when the one above it has closed.

        Textual's `dismiss` removes the top screen, whichever that is.
        """
        if self.app.is_on_top(self):
            self.dismiss(answer)
        elif self.is_open:
            self._owed = (answer,)

    def on_screen_resume(self) -> None:
        """Close with the pending answer, if there is one: no dialog covers this one now."""
        if self._owed is not None:
            self.leave_with(*self._owed)

    def action_leave(self) -> None:
        """Leave with the default answer."""
        self.leave_with(self.default_answer)

    def action_page(self, by: int) -> None:
        """Scroll by pages that overlap by one line."""
        paged = self.query_one(self.PAGED)
        paged.scroll_relative(y=by * max(1, paged.size.height - 1), animate=False)

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        """Run the button's action."""
        await self.run_action(str(event.button.id))


class LiveDialog(Dialog[Answer]):
    """A dialog that shows progress: drawn on the app's tick, like a main screen."""

    @property
    def ready(self) -> bool:
        """Return whether the dialog can be drawn."""
        return self.is_mounted

    def tick(self) -> None:
        """Show what is new."""
        raise NotImplementedError


class TextDialog(Dialog[None]):
    """A text to read, scrolled with the arrow keys; `command` prints the same."""

    AUTO_FOCUS = "#reading"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Up", show=False),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("pageup,ctrl+b,b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", "Page down", show=False),
        Binding("home,g", "end(False)", "Beginning", show=False),
        Binding("end,G", "end(True)", "End", show=False),
        Binding("q,enter,question_mark", "leave", "Back", show=False),
    ]

    def __init__(self, title: str, text: str, command: str = "") -> None:
        super().__init__(text, title=title, classes="-reading")
        self._command = command

    def equivalent(self) -> str:
        """Return the command."""
        return self._command

    def body(self) -> Sequence[Widget]:
        """Return the text."""
        return [VerticalScroll(*super().body(), id="reading")]

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one("#reading").scroll_relative(y=by, animate=False)

    def action_end(self, is_last: bool) -> None:
        """Go to the beginning or to the end."""
        reading = self.query_one("#reading")
        reading.scroll_to(y=reading.max_scroll_y if is_last else 0, animate=False)


class SecretDialog(Dialog["str | None"]):
    """Asks once for a passphrase or a one-time code; answers None without one."""

    TITLE = "login"
    AUTO_FOCUS = "#secret"
    BUTTONS = (("leave", "Cancel", "default"), ("use", "Log in", "primary"))

    def body(self) -> Sequence[Widget]:
        """Return the question and a field that hides its content."""
        return [*super().body(), Input(password=True, id="secret")]

    @on(Input.Submitted)
    def action_use(self) -> None:
        """Answer with the field's content."""
        self.leave_with(self.query_one(Input).value)


class TrustDialog(Dialog[str]):
    """Shows an unknown host key; answers `yes`, `all` (in this session) or `no`."""

    TITLE = "unknown host key"
    BUTTONS = (
        ("leave", "Refuse", "default"),
        ("trust", "Trust", "warning"),
        ("trust_all", "Trust all in this session", "warning"),
    )
    default_answer = "no"

    def __init__(self, worker: str, key_type: str, fingerprint: str) -> None:
        super().__init__(
            f"{worker} has an unknown host key:\n\n  {key_type}\n  {fingerprint}\n\n"
            "Trust it only if it is the key you expect. Trusted keys are saved in tpu-tui's known_hosts."
        )

    def action_trust(self) -> None:
        """Trust this key."""
        self.leave_with("yes")

    def action_trust_all(self) -> None:
        """Trust all keys from now on."""
        self.leave_with("all")


class WaitDialog(Dialog[None], inherit_bindings=False):
    """Shows what the console waits for, and keeps keys that are typed meanwhile for the next dialog."""

    AUTO_FOCUS = ""
    BUTTONS = (("leave", "Cancel", "default"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", id="wait.leave")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__(text, title=title)
        self.typed: list[events.Key | events.Paste] = []

    def on_key(self, event: events.Key) -> None:
        """Keep the key, except the one that leaves."""
        if event.key != "escape":
            event.stop()
            self.typed.append(events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """Keep the pasted text."""
        event.stop()
        self.typed.append(events.Paste(event.text))


class QuitDialog(Dialog[bool]):
    """Shows what continues after quitting."""

    TITLE = "quit"
    AUTO_FOCUS = "#quit"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,y", "quit", "Quit", show=False)]
    BUTTONS: ClassVar[Sequence[tuple[str, str, ButtonVariant]]] = (
        ("leave", "Stay", "default"),
        ("quit", "Quit", "primary"),
    )
    default_answer = False

    def action_quit(self) -> None:
        """Answer that the console quits."""
        self.leave_with(True)


class LossyQuitDialog(QuitDialog):
    """As `QuitDialog`, but Enter stays: quitting would lose something."""

    AUTO_FOCUS = "#leave"
    BUTTONS = (("leave", "Stay", "default"), ("quit", "Quit", "error"))
