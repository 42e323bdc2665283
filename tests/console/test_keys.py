from __future__ import annotations

from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.events import Key, Paste
from textual.widgets import Input, Static

from tests.console.driving import FULL, SMALL, dialog_text, opened_pod, opened_run, running, shown, table, until
from tests.console.stage import StageOperator
from tui.console.actions.command_palette import list_entries
from tui.console.app import ConsoleApp
from tui.console.screens.base import MainScreen
from tui.console.screens.dialog import TextDialog, WaitDialog
from tui.console.screens.equivalents import EquivalentsDialog
from tui.console.screens.help import HELP_NOTES, TEXTUAL_BINDINGS, format_help, list_bindings
from tui.console.screens.launch import LaunchDialog
from tui.console.screens.pod import PodScreen
from tui.console.screens.run import RunScreen
from tui.console.screens.stop import StopDialog
from tui.console.widgets.footer import KeyFooter
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.tables.core_table_widget import CoreTableWidget
from tui.errors import TpuTuiError

pytestmark = pytest.mark.timing


async def test_slash_filters_the_focused_pane_and_escape_removes_the_filter(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: app.screen.query_one(CoreTableWidget).row_count())
        cores = app.screen.query_one(CoreTableWidget)
        await pilot.press("slash", "w", "2")
        bar = app.screen.query_one("#filter-bar")
        assert bar.region.area
        assert not bar.region.overlaps(app.screen.query_one("KeyFooter").region)
        await until(pilot, lambda: cores.row_count() == 8)
        await pilot.press("enter", "down")
        assert cores.has_focus
        await pilot.press("slash", "escape")
        await until(pilot, lambda: cores.row_count() == 32)
        await pilot.press("slash", *"w2", "enter", "escape")
        await until(pilot, lambda: cores.row_count() == 32)
        assert isinstance(app.screen, RunScreen), "the first escape removes the filter, the next one leaves"
        await pilot.press("l", "slash", *"Step=15")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "31 lines with" in log.summary)


async def test_n_in_a_log_steps_through_the_hits_and_never_launches(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory) as (app, pilot):
        await pilot.press("l", "slash", *"Step=15", "enter")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: log.summary.startswith("31 lines with") and log.has_focus)
        await pilot.press("n")
        await until(pilot, lambda: "of 31 lines" in log.summary)
        assert isinstance(app.screen, RunScreen)
        await pilot.press("slash", "escape", "n", "N", "m")
        await until(pilot, lambda: any("Press / to search" in note.message for note in app._notifications))
        assert isinstance(app.screen, RunScreen)
        await pilot.press("1", "n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))


async def test_keys_right_after_slash_go_into_the_filter(operator: StageOperator) -> None:
    directory = running(operator)
    async with opened_run(operator, directory) as (app, pilot):
        app.screen.query_one(LogPane).focus()
        await pilot.pause()
        for key, character in (("slash", "/"), ("x", "x"), ("slash", "/"), ("n", "n")):
            app.post_message(Key(key, character))
        await until(pilot, lambda: app.screen.query_one(LogPane).filter_text == "x/n")
        assert isinstance(app.screen, RunScreen)


async def test_text_typed_or_pasted_right_after_n_goes_into_the_command(operator: StageOperator) -> None:
    async with opened_pod(operator) as (app, pilot):
        for character in "nx q":
            app.post_message(Key("space" if character == " " else character, character))
        app.post_message(Paste(" a \\\n  b"))
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog) and app.screen.is_mounted)
        command = app.screen.query_one("#command", Input)
        await until(pilot, lambda: command.value.endswith("b"))
        assert command.value == "x qa b"


async def test_keys_pressed_while_slices_are_being_listed_go_into_the_dialog(operator: StageOperator) -> None:
    operator.hang = True
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, MainScreen) and app.screen.ready)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, WaitDialog))
        await pilot.press("escape", "n", *"xqd", "left")
        app.post_message(Paste("a b"))
        await pilot.press("tab", *"ng", "backspace", "t", "tab", "z")
        assert isinstance(app.screen, WaitDialog)
        operator.hang = False
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog) and app.screen.is_mounted)
        command = app.screen.query_one("#command", Input)
        name, sync = app.screen.query_one("#name", Input), app.screen.query_one("#sync", Input)
        await until(pilot, lambda: sync.value == "z")
        assert (command.value, name.value) == ("xqa bd", "nt"), "every key counts, in the order of typing"


async def test_keys_right_after_a_dialog_is_left_act_on_the_screen_below(operator: StageOperator) -> None:
    directory = running(operator)
    async with opened_run(operator, directory) as (app, pilot):
        for key, character in (
            ("x", "x"),
            ("escape", None),
            ("question_mark", "?"),
            ("escape", None),
            ("colon", ":"),
        ):
            app.post_message(Key(key, character))
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))


async def test_the_palette_offers_the_actions_that_fit_the_state(operator: StageOperator) -> None:
    directory = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count() and table(app, "slices").row_count())

        def names() -> list[str]:
            assert isinstance(app.screen, MainScreen)
            return [name for name, _, _ in list_entries(app.screen)]

        assert f"Stop {directory.id}" in names()
        assert "Check my-tpu" in names()
        assert "Merged log" not in names()
        directory.append_event("state", state="stopped")
        assert f"Stop {directory.id}" not in names()
        await pilot.press("4", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        assert "Log of worker 3" in names()
        await pilot.press("colon")
        await until(pilot, lambda: not isinstance(app.screen, RunScreen))
        await pilot.press(*"worker 2", "enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.chosen_worker() == 2)


async def test_the_commands_equivalent_to_keys_can_be_copied(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(ConsoleApp, "copy_to_clipboard", lambda _, text: copied.append(text))
    directory = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count() and table(app, "slices").row_count())
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, EquivalentsDialog) and app.screen.is_mounted)
        assert f"tpu-tui stop {directory.id}" in shown(table(app, "commands"))
        await pilot.press("y", "down", "enter")
        await until(pilot, lambda: len(copied) == 2)
        assert copied == [f"tpu-tui open {directory.id}", f"tpu-tui status {directory.id}"]
        await pilot.press("escape", "x")
        await until(pilot, lambda: isinstance(app.screen, StopDialog) and app.screen.is_mounted)
        await pilot.press("ctrl+y")
        await until(pilot, lambda: copied[2:] == [f"tpu-tui stop {directory.id}"])
        assert copied[2] in str(app.screen.query_one("#dialog").border_subtitle)
        await pilot.press("escape", "n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog) and app.screen.is_mounted)
        await pilot.press("ctrl+y", *"a b", "ctrl+y")
        await until(pilot, lambda: copied[3:] == ["tpu-tui launch europe-west4-a/my-tpu -- a b"])


async def test_help_names_every_key_of_the_screen(operator: StageOperator) -> None:
    async with opened_pod(operator) as (app, pilot):
        screen = app.screen
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        text = dialog_text(app)
        for binding in list_bindings(screen):
            if binding.description and not binding.system and binding.action not in TEXTUAL_BINDINGS:
                assert binding.description in text
        assert any("on this screen" in line and "in a table" in line for line in text.splitlines()), (
            "the help has two columns"
        )
        text = format_help(screen, screen.query("#slices"))
        assert text.index("New run") < text.index("in a table") < text.index("Next pane")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


@pytest.mark.parametrize("size", [SMALL, (115, 40), (200, 60)])
async def test_no_key_of_the_help_takes_more_than_one_line(operator: StageOperator, size: tuple[int, int]) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory, size) as (app, pilot):
        await until(pilot, lambda: app.screen.query_one(CoreTableWidget).row_count())
        await pilot.press("question_mark")
        await until(
            pilot, lambda: isinstance(app.screen, TextDialog) and app.screen.query_one("#reading Static").region
        )
        text = app.screen.query_one("#reading Static", Static)
        first, *lines = str(text.content).removesuffix(HELP_NOTES).splitlines()
        assert max(map(len, lines)) <= text.content_size.width
        assert (first != "on this screen") is (size[0] > 100), "two columns where there is room"


async def test_the_message_of_a_key_replaces_the_previous_one(own_home: Path) -> None:
    app = ConsoleApp(StageOperator(own_home))
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, MainScreen) and app.screen.ready)
        for _ in range(2):
            app.show_error(TpuTuiError("the disk is full"))
            await pilot.pause()
        await pilot.press("c", "s", "x")
        assert [notification.message for notification in app._notifications] == [
            "the disk is full",
            "No run selected",
        ]


async def test_the_line_of_keys_is_shown_in_a_window_without_the_focus(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        app.app_focus = False
        app.open_run(running(operator))
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: app.screen.query_one(KeyFooter).keys)


async def test_keys_never_act_on_a_run_that_the_filter_hides(operator: StageOperator) -> None:
    for name in ("mixed", "plain"):
        running(operator, id=f"{name}-20261121-080000-a1b2", argv=("python3", f"{name}.py"))
    async with opened_pod(operator) as (app, pilot):
        await until(pilot, lambda: table(app, "runs").row_count() == 2)
        await pilot.press("4", "slash", *"mixed", "enter")
        await until(
            pilot, lambda: "1 of 2 runs with “mixed”" in str(app.screen.query_one("#pane-runs").border_subtitle)
        )
        await pilot.press("x")
        assert isinstance(app.screen, StopDialog)
        assert "mixed.py" in dialog_text(app)
        await pilot.press("escape", "slash", *"no such run", "enter", "x")
        assert isinstance(app.screen, PodScreen)
