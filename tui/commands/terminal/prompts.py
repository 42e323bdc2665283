"""Ask at the terminal: questions, passphrases, one-time codes. Ctrl-C ends the wait at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Iterator

from tui.errors import UsageError
from tui.text.printable import one_line, printable

_LOCAL_MODES = 3
"""Index of the local modes in what `termios.tcgetattr` returns."""
_YES = ("y", "yes")
_LONGEST_LINE_BYTES = 4096
"""Most bytes of a line that a terminal delivers."""


class TerminalPrompter:
    """Asks for secrets, but never for trust: commands refuse unknown host keys and say how to accept them."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def secret(self, text: str) -> str | None:
        """Ask for a secret without echo; None when nothing was typed. Concurrent questions wait for each other."""
        async with self._turn:
            with _unseen():
                return await ask(f"{one_line(text).rstrip(': ')}: ") or None

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:  # noqa: ARG002
        """Return False: commands trust new keys by `--host-keys accept-new` only."""
        return False


def has_terminal() -> bool:
    """Return whether a question can be seen and answered: both stdin and stderr are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def prompter_for_terminal() -> TerminalPrompter | None:
    """Return a prompter where there is a terminal, else None."""
    return TerminalPrompter() if has_terminal() else None


def require_terminal(action: str, *, why: str = "") -> None:
    """Raise UsageError for an action that needs a confirmation where there is no terminal to give it."""
    if not has_terminal():
        raise UsageError(f"refusing to {action} without confirmation", why=why, remedy="add --yes")


async def confirm(action: str, effect: str, unchanged: str, *, why: str = "") -> None:
    """Ask whether to continue. Raises UsageError without a terminal, and with the text `unchanged` for a no."""
    require_terminal(action, why=why)
    if not await agrees(f"{effect}. Continue?"):
        raise UsageError(unchanged)


async def confirm_by_name(action: str, effect: str, name: str, unchanged: str) -> None:
    """Ask for the name of the resource that will be lost; a bucket's name may omit `gs://`.

    Raises UsageError without a terminal, and with the text `unchanged` for another answer.
    """
    require_terminal(action)
    typed = await ask(f"{effect}. Type its name to continue: ")
    if typed.strip() not in (name, name.removeprefix("gs://")):
        raise UsageError(unchanged, why="the typed name does not match")


async def agrees(question: str) -> bool:
    """Ask a yes-or-no question; anything but yes, including end of input, means no."""
    return (await ask(f"{question} [y/N] ")).strip().lower() in _YES


async def ask(question: str) -> str:
    """Return the line typed at the terminal on stdin; empty at end of input."""
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(_line_of(stdin))

    print(printable(question), end="", file=sys.stderr, flush=True)
    loop.add_reader(stdin, read)
    try:
        return (await typed).decode(sys.stdin.encoding, "replace").rstrip("\r\n")
    except asyncio.CancelledError:
        print(file=sys.stderr, flush=True)
        raise
    finally:
        loop.remove_reader(stdin)


def _line_of(terminal: int) -> bytes:
    try:
        return os.read(terminal, _LONGEST_LINE_BYTES)
    except OSError:  # it was closed
        return b""


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Switch off echo, and always switch it back on."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    unseen = [*before]
    unseen[_LOCAL_MODES] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, unseen)
    try:
        yield
        print(file=sys.stderr, flush=True)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
