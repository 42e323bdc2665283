"""The only place that uses private names of Textual. `tests/console/test_compat_textual.py` is the contract.

Textual queues at most 30 writes to the terminal; the next one blocks the event loop. A terminal that is not read,
such as one behind a stalled SSH connection, would halt stops, launches and SSH keep-alives. `PausableApp` paints
nothing while writes are waiting, and paints everything when the terminal is read again. Nor does it paint while
another program has the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.scroll_view import ScrollView

if TYPE_CHECKING:
    from textual.geometry import Size
    from textual.notifications import Notification
    from textual.screen import Screen

MAX_WAITING_WRITES = 12
"""Writes (a few frames) that may wait for the terminal before painting pauses."""


class PausableApp(App[None]):
    """An app that keeps working while its terminal is not read."""

    is_repaint_pending = False
    """Whether something was not painted because the terminal was not read."""

    def is_output_blocked(self) -> bool:
        """Return whether so many writes wait for the terminal that painting has to pause."""
        writer = getattr(self._driver, "_writer_thread", None)
        return writer is not None and writer._queue.qsize() > MAX_WAITING_WRITES

    def repaint_if_pending(self) -> None:
        """Paint everything if painting was paused and the terminal is read again."""
        if self.is_repaint_pending and not self.is_output_blocked():
            self.is_repaint_pending = False
            self.refresh()

    def bell(self) -> None:
        """Ring the terminal's bell, if the terminal is read."""
        if not self.is_output_blocked():
            super().bell()

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Leave the terminal to another program and take it back, also after an error."""
        problem: Exception | None = None
        with self.batch_update(), super().suspend():
            try:
                yield
            except Exception as error:
                problem = error
        if problem is not None:
            raise problem

    async def run_binding(self, key: str) -> bool:
        """Run what a key is bound to, at once; return whether it is bound. A posted key would act later."""
        return await self._check_bindings(key, priority=True) or await self._check_bindings(key)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Paint if the terminal is read; else remember that a repaint is due."""
        if self.is_output_blocked():
            self.is_repaint_pending = True
        else:
            super()._display(screen, renderable)


def set_scrolled_size(view: ScrollView, size: Size) -> None:
    """Set a view's virtual size and its scrollbar only: assigning it would lay out and repaint the whole screen."""
    view.set_reactive(ScrollView.virtual_size, size)
    view._scroll_update(size)


def remove_notifications(app: App[Any], is_replaced: Callable[[Notification], bool]) -> None:
    """Remove some notifications; Textual can publicly remove only all of them."""
    for notification in list(app._notifications):
        if is_replaced(notification):
            app._unnotify(notification, refresh=False)
