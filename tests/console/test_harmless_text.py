"""No control character reaches the terminal from a text field or a message."""

from __future__ import annotations

from textual.widget import Widget
from textual.widgets import Input, TextArea

from tests.console.driving import opened_pod, opened_run, running, until
from tests.console.stage import StageOperator
from tui.console.screens.launch import LaunchDialog

HOSTILE = "a \x1b]52;c;eA==\x07 \x9b31m z"


def _painted(widget: Widget) -> str:
    return "".join(widget.render_line(y).text for y in range(widget.size.height))


async def test_the_fields_of_the_launch_form_show_control_characters(operator: StageOperator) -> None:
    directory = running(operator, argv=("echo", HOSTILE), env={"A": HOSTILE})
    async with opened_run(operator, directory) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        command, variables = app.screen.query_one("#command", Input), app.screen.query_one("#env", TextArea)
        await until(pilot, lambda: command.size.height and variables.size.height)
        for field in (command, variables):
            assert "␛]52;c;eA==" in _painted(field)
            assert not set(_painted(field)) & {"\x1b", "\x9b", "\x07"}
        assert command.value == f"echo '{HOSTILE}'"


async def test_a_message_is_plain_text(operator: StageOperator) -> None:
    async with opened_pod(operator) as (app, pilot):
        app.notify(f"[bold]{HOSTILE}\nend", timeout=60)
        await until(pilot, lambda: len(app._notifications))
        (notification,) = app._notifications
        assert notification.message == "[bold]a ␛]52;c;eA==␇ �31m z\nend"
        assert not notification.markup
