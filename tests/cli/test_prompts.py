"""Questions at a terminal that are answered, ended or cancelled; the terminal's settings are restored."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from tui.commands.parser.parser import parse
from tui.commands.terminal.output import Output
from tui.commands.terminal.prompts import TerminalPrompter
from tui.errors import UsageError
from tui.operator import Operator
from tui.settings import Settings

pytestmark = pytest.mark.py310


class Terminal:
    """A terminal, and the user who types there."""

    def __init__(self, controller: int, device: int) -> None:
        self.controller = controller
        self.device = device

    def type(self, text: str) -> None:
        os.write(self.controller, text.encode())

    @property
    def shows_what_is_typed(self) -> bool:
        return bool(termios.tcgetattr(self.device)[3] & termios.ECHO)

    async def asks(self) -> None:
        await until(lambda: not self.shows_what_is_typed, "a secret is asked for")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    controller, device = os.openpty()
    with os.fdopen(device, "r") as stdin, os.fdopen(controller, "wb", buffering=0):
        monkeypatch.setattr("sys.stdin", stdin)
        yield Terminal(controller, device)


async def test_secrets_are_asked_for_one_after_the_other(terminal: Terminal) -> None:
    prompter = TerminalPrompter()
    first, second = (asyncio.create_task(prompter.secret(name)) for name in ("first", "second"))
    await terminal.asks()
    terminal.type("größe \n")
    assert await first == "größe "
    await terminal.asks()
    terminal.type("\x04")
    assert await second is None
    assert terminal.shows_what_is_typed


async def test_a_cancelled_question_restores_the_terminal(terminal: Terminal) -> None:
    asking = asyncio.create_task(TerminalPrompter().secret("Passphrase"))
    await terminal.asks()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert terminal.shows_what_is_typed


async def test_a_question_that_would_not_be_seen_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    operator = Operator(Settings(tmp_path, project="here", zones=("europe-west4-a",)))
    args = parse(["slices", "reset", "request"])
    with pytest.raises(UsageError, match="refusing to reset request without confirmation"):
        await asyncio.wait_for(args.run(args, operator, Output()), 60)
