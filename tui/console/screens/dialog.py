"""What every dialog has: a frame, a title, buttons in a row, esc to leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from tui.console.context import get_context
from tui.console.render.safe_text import escape_line
from tui.console.screens.base import apply_breakpoints, is_on_top

if TYPE_CHECKING:
    from textual.widgets.button import ButtonVariant

    from tui.console.context import ConsoleContext


Answer = TypeVar("Answer")


def make_plain_text(text: str) -> Text:
    """Text for a Static, line by line harmless and never markup."""
    return Text("\n".join(escape_line(line) for line in text.splitlines()))


class Dialog(ModalScreen[Answer]):
    """A modal frame in the middle of the screen. `esc` answers with `default_answer`."""

    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-roomy")]  # noqa: RUF012 - Textual declares it so
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="dialog.leave"),
        Binding("left,up", "app.focus_previous", "Previous", show=False, id="dialog.previous"),
        Binding("right,down", "app.focus_next", "Next", show=False, id="dialog.next"),
    ]
    default_answer: Answer | None = None
    _owed: tuple[Answer | None] | None = None
    """The answer of a dialog that is covered by another one."""

    def body(self) -> Sequence[Widget]:
        """What is inside, above the buttons."""
        raise NotImplementedError

    def buttons(self) -> Sequence[Button]:
        """The answers, the harmless one first."""
        return [Button("Close", id="leave")]

    def compose(self) -> ComposeResult:
        """The frame."""
        apply_breakpoints(self)
        with Vertical(id="dialog") as frame:
            frame.border_title = Text(escape_line(self.title or ""))
            yield from self.body()
            with Horizontal(id="buttons"):
                yield from self.buttons()

    @property
    def console(self) -> ConsoleContext:
        """Return what the console offers to its screens."""
        return get_context(self)

    @property
    def is_open(self) -> bool:
        """Whether it was not left yet, on top or not."""
        return self in self.app.screen_stack

    def leave_with(self, answer: Answer | None) -> None:
        """Answer and go, once; a dialog that another one covers goes when that has gone.

        Textual's `dismiss` takes away what is on top, whichever screen that is.
        """
        if is_on_top(self):
            self.dismiss(answer)
        elif self.is_open:
            self._owed = (answer,)

    def on_screen_resume(self) -> None:
        """Nothing covers it any more."""
        if self._owed is not None:
            self.leave_with(*self._owed)

    def action_leave(self) -> None:
        """Leave with the default answer."""
        self.leave_with(self.default_answer)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The button that leaves; the others belong to each dialog."""
        if event.button.id == "leave":
            self.action_leave()
        else:
            self.answered(event.button.id or "")

    def answered(self, button: str) -> None:
        """Another button was pressed."""


class LiveDialog(Dialog[Answer]):
    """A dialog over work that goes on: drawn on the app's tick, as a main screen is."""

    ready = False
    """Whether everything is in place to be drawn on."""

    def tick(self) -> None:
        """Take what is new."""
        raise NotImplementedError


class TextDialog(Dialog[None]):
    """Something to read, scrolled with the arrow keys."""

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

    def __init__(self, title: str, text: str) -> None:
        super().__init__(classes="-reading")
        self.title = title
        self._text = text

    def body(self) -> Sequence[Widget]:
        """The text."""
        return [VerticalScroll(Static(make_plain_text(self._text), markup=False), id="reading")]

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one("#reading").scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll by pages, one line of which stays."""
        self.action_scroll(by * max(1, self.query_one("#reading").size.height - 1))

    def action_end(self, is_last: bool) -> None:
        """Go to the beginning or to the end."""
        reading = self.query_one("#reading")
        reading.scroll_to(y=reading.max_scroll_y if is_last else 0, animate=False)


class SecretDialog(Dialog["str | None"]):
    """Asks once for a passphrase or a one-time code; None when it is not given."""

    TITLE = "login"
    AUTO_FOCUS = "#secret"

    def __init__(self, text: str) -> None:
        super().__init__()
        self._question = text

    def body(self) -> Sequence[Widget]:
        """The question and a field that shows nothing."""
        return [Static(make_plain_text(self._question), markup=False), Input(password=True, id="secret")]

    def buttons(self) -> Sequence[Button]:
        """Give it or not."""
        return [Button("Cancel", id="leave"), Button("Log in", id="use", variant="primary")]

    def on_input_submitted(self) -> None:
        """Enter gives it."""
        self.leave_with(self.query_one(Input).value)

    def answered(self, button: str) -> None:  # noqa: ARG002
        """The button gives it too."""
        self.leave_with(self.query_one(Input).value)


class TrustDialog(Dialog[str]):
    """Shows an unknown host key; answers `yes`, `all` (asked in this console) or `no`."""

    TITLE = "unknown host key"
    default_answer = "no"

    def __init__(self, worker: str, key_type: str, fingerprint: str) -> None:
        super().__init__()
        self._text = (
            f"{worker} has an unknown host key:\n\n  {key_type}\n  {fingerprint}\n\n"
            "Trust it only if it is the key you expect. Trusted keys are saved in tpu-tui's known_hosts."
        )

    def body(self) -> Sequence[Widget]:
        """The fingerprint."""
        return [Static(make_plain_text(self._text), markup=False)]

    def buttons(self) -> Sequence[Button]:
        """Refuse, trust this one, trust what is asked from now on."""
        return [
            Button("Refuse", id="leave"),
            Button("Trust", id="yes", variant="warning"),
            Button("Trust all in this session", id="all", variant="warning"),
        ]

    def answered(self, button: str) -> None:
        """Say which."""
        self.leave_with(button)


class WaitDialog(Dialog[None], inherit_bindings=False):
    """Says what is being waited for; what is typed meanwhile is kept for the dialog that comes then."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", id="wait.leave")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.title = title
        self._text = text
        self.typed: list[events.Key | events.Paste] = []

    def body(self) -> Sequence[Widget]:
        """What is being waited for."""
        return [Static(make_plain_text(self._text), markup=False)]

    def buttons(self) -> Sequence[Button]:
        """Nothing but to give it up."""
        return [Button("Cancel", id="leave")]

    def on_key(self, event: events.Key) -> None:
        """Keep it, but for the key that leaves."""
        if event.key != "escape":
            event.stop()
            self.typed.append(events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """Keep it."""
        event.stop()
        self.typed.append(events.Paste(event.text))


class QuitDialog(Dialog[bool]):
    """Says what goes on when the console goes."""

    TITLE = "quit"
    AUTO_FOCUS = "#quit"
    QUIT_VARIANT: ClassVar[ButtonVariant] = "primary"
    default_answer = False

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def body(self) -> Sequence[Widget]:
        """What becomes of the runs."""
        return [Static(make_plain_text(self._text), markup=False)]

    def buttons(self) -> Sequence[Button]:
        """Stay or go."""
        return [Button("Stay", id="leave"), Button("Quit", id="quit", variant=self.QUIT_VARIANT)]

    def on_key(self, event: object) -> None:
        """`q` or `y` once more quits as well."""
        if getattr(event, "key", "") in ("q", "y"):
            self.leave_with(True)

    def answered(self, button: str) -> None:  # noqa: ARG002
        """Go."""
        self.leave_with(True)


class LossyQuitDialog(QuitDialog):
    """As `QuitDialog` where something is lost by quitting: Enter stays."""

    AUTO_FOCUS = "#leave"
    QUIT_VARIANT: ClassVar[ButtonVariant] = "error"
