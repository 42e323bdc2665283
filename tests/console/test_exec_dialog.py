"""Tests of a command on many workers from the console, over a real SSH server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from textual.widgets import Input

from tests.console.driving import FULL, SMALL, dialog_text, running, table, until
from tests.console.stage import StageOperator, a_slice
from tests.sshd import OpensshWorker, needs_sshd
from tui.console.app import ConsoleApp
from tui.console.screens.exec import ExecDialog
from tui.console.screens.launch import LaunchDialog
from tui.console.screens.pod import PodScreen
from tui.console.screens.run import RunScreen
from tui.pod.slice import Slice
from tui.ssh.fleet import Fleet

pytestmark = [needs_sshd, pytest.mark.timing]


class _SshOperator(StageOperator):
    """An operator with given slices, whose workers are reached by SSH."""

    def __init__(self, home: Path, servers: list[OpensshWorker]) -> None:
        super().__init__(home, a_slice(workers=tuple(server.worker for server in servers)))
        self.servers = servers
        self._fleet = Fleet([server.worker for server in servers], servers[0].access())
        self.connections.fleet = self._connect  # type: ignore[method-assign]

    async def _connect(self, slice_: Slice) -> Fleet:
        return self._fleet

    async def close(self) -> None:
        await self._fleet.close()
        await super().close()


@pytest.fixture
async def ssh_operator(own_home: Path, sshd: Callable[..., OpensshWorker]) -> AsyncIterator[_SshOperator]:
    """Return an operator with two workers of one server."""
    first, second = sshd(index=0), sshd(index=1)
    operator = _SshOperator(own_home, [first, second])
    yield operator
    await operator.close()


async def test_a_command_runs_on_every_worker_and_equal_answers_are_shown_once(ssh_operator: _SshOperator) -> None:
    app = ConsoleApp(ssh_operator)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("exclamation_mark", *"echo a && echo b >", "ampersand", *"2; exit 3", "enter")
        await until(pilot, lambda: "workers 0-1 (2) · exit 3\na\nb" in dialog_text(app))
        assert app.screen.query_one("#command", Input).value == ""
        await pilot.press("up")
        assert app.screen.query_one("#command", Input).value == "echo a && echo b >&2; exit 3"
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
        await pilot.press("exclamation_mark", "up")
        assert app.screen.query_one("#command", Input).value == "echo a && echo b >&2; exit 3"


async def test_a_command_runs_on_the_named_workers_only_and_an_unknown_worker_is_refused(
    ssh_operator: _SshOperator,
) -> None:
    app = ConsoleApp(ssh_operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("exclamation_mark", *"echo x", "tab")
        workers = app.screen.query_one("#workers", Input)
        workers.value = "7"
        await pilot.press("enter")
        await until(pilot, lambda: "no such worker: 7" in dialog_text(app))
        workers.value = "1"
        await pilot.press("enter")
        await until(pilot, lambda: "worker 1 (1)\nx" in dialog_text(app))
        assert "worker 0" not in dialog_text(app)


async def test_esc_first_cancels_a_command_and_keeps_its_output_and_then_leaves(ssh_operator: _SshOperator) -> None:
    app = ConsoleApp(ssh_operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("exclamation_mark")
        app.screen.query_one("#command", Input).value = "echo begun; sleep 600"
        await pilot.press("enter")
        await until(pilot, lambda: "   1│begun" in dialog_text(app))
        assert "waiting for workers 0-1" in dialog_text(app)
        await pilot.press("enter")
        app.screen.query_one("#command", Input).value = "true"
        await pilot.press("enter", "escape")
        await until(
            pilot,
            lambda: "workers 0-1 (2) · cancelled here; may still be running on the worker\nbegun" in dialog_text(app),
        )
        assert isinstance(app.screen, ExecDialog)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))


async def test_a_worker_out_of_reach_is_named_with_the_others_answers(ssh_operator: _SshOperator) -> None:
    app = ConsoleApp(ssh_operator)
    ssh_operator.servers[1].stop()
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("exclamation_mark", *"echo x", "enter")
        await until(pilot, lambda: "worker 0 (1)\nx" in dialog_text(app) and "worker 1" in dialog_text(app))
        await until(pilot, lambda: "waiting" not in dialog_text(app))


async def test_a_command_from_a_runs_screen_runs_on_the_workers_of_its_slice(ssh_operator: _SshOperator) -> None:
    app = ConsoleApp(ssh_operator, open_run=running(ssh_operator))
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: isinstance(app.screen, ExecDialog))
        await pilot.press(*"echo x", "enter")
        await until(pilot, lambda: "workers 0-1 (2)\nx" in dialog_text(app))


async def test_output_that_comes_while_the_console_closes_is_not_drawn(
    ssh_operator: _SshOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []

    def draw_once_more(dialog: ExecDialog) -> None:
        monkeypatch.setattr(dialog, "_shown", None)
        app._tick()
        drawn.append(dialog)

    monkeypatch.setattr(ExecDialog, "on_unmount", draw_once_more, raising=False)
    app = ConsoleApp(ssh_operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("exclamation_mark", *"echo x", "enter")
        await until(pilot, lambda: "workers 0-1 (2)\nx" in dialog_text(app))
    assert drawn


async def test_a_read_only_console_does_not_bind_the_key_of_the_dialog(own_home: Path) -> None:
    app = ConsoleApp(StageOperator(own_home, a_slice(), read_only=True))
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("exclamation_mark")
        assert isinstance(app.screen, PodScreen)


async def test_the_launch_dialog_offers_commands_that_were_launched_before(operator: StageOperator) -> None:
    running(operator, argv=("python3", "old.py", "--note", "a b"))
    app = ConsoleApp(operator, default_command=("true",))
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count() and table(app, "slices").row_count())
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        command = app.screen.query_one("#command", Input)
        await pilot.press("up")
        assert command.value == "python3 old.py --note 'a b'"
        await pilot.press("up", "down")
        assert command.value == "true"
