"""The person at the terminal, asked a question, a passphrase or a one-time code; Ctrl-C ends the waiting at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Iterator

from tui.text.printable import one_line, printable

_LOCAL_MODES = 3
"""Where `termios.tcgetattr` has them."""
_YES = ("y", "yes")
_LONGEST_LINE = 4096
"""Bytes of a line that a terminal hands over."""


class TerminalPrompter:
    """Asks for secrets; never for trust: a command refuses an unknown host key and says how to accept it."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def secret(self, text: str) -> str | None:
        """What was typed, unseen; None when nothing was. One is asked for after the other."""
        async with self._turn:
            with _unseen():
                return await ask(f"{one_line(text).rstrip(': ')}: ") or None

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:  # noqa: ARG002
        """No: `--host-keys accept-new` says yes for a command."""
        return False


def has_terminal() -> bool:
    """Return whether a question can be seen and answered: both stdin and stderr are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def prompter_for_terminal() -> TerminalPrompter | None:
    """Return a prompter where there is a terminal, else None."""
    return TerminalPrompter() if has_terminal() else None


async def agrees(question: str) -> bool:
    """Ask a yes-or-no question at the terminal; anything but a yes, the end of the input too, is a no."""
    return (await ask(f"{question} [y/N] ")).strip().lower() in _YES


async def ask(question: str) -> str:
    """The line that a person types at the terminal on stdin; empty where they end the input."""
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
        return os.read(terminal, _LONGEST_LINE)
    except OSError:  # it was closed
        return b""


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """What is typed does not show; a terminal left like that would be of no more use."""
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
