from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from textual.widgets import Button, Input, Select

from tests.console.driving import (
    FULL,
    SMALL,
    dialog_text,
    headline,
    opened_pod,
    opened_run,
    running,
    shown,
    table,
    until,
)
from tests.console.stage import Answered, StageOperator
from tui.checks.check_row import CheckRow
from tui.console.app import ConsoleApp
from tui.console.data.ongoing_work import StopProgress
from tui.console.screens.change import SliceChangeDialog
from tui.console.screens.dialog import Dialog, QuitDialog, SecretDialog, TrustDialog
from tui.console.screens.exec import ExecDialog
from tui.console.screens.launch import LaunchDialog
from tui.console.screens.pod import PodScreen
from tui.console.screens.run import RunScreen
from tui.console.screens.stop import StopDialog

pytestmark = pytest.mark.timing


async def test_launching_shows_what_will_run_and_only_then_starts_it(operator: StageOperator) -> None:
    async with opened_pod(operator, default_command=("python3", "-m", "trainer.train", "--note", "a b")) as (
        app,
        pilot,
    ):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        assert app.screen.query_one("#command", Input).value == "python3 -m trainer.train --note 'a b'"
        launch = app.screen.query_one("#launch", Button)
        assert launch.disabled
        await pilot.press("enter")
        await until(pilot, lambda: not launch.disabled)
        assert "worker 3 t1v-n-5f3a91c2-w-3: python3 -m trainer.train --note a b" in dialog_text(app)
        assert operator.runs.list_statuses() == []
        app.screen.query_one("#command", Input).value += " --epochs 9"
        await until(pilot, lambda: launch.disabled)
        app.screen.query_one("#command", Input).focus()
        await pilot.press("enter")
        await until(pilot, lambda: not launch.disabled)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        launched = operator.runs.list_statuses()[0].run
        assert launched.job.argv == ("python3", "-m", "trainer.train", "--note", "a b", "--epochs", "9")


async def test_problems_are_shown_with_a_remedy_before_a_launch(operator: StageOperator) -> None:
    operator.rows = [
        CheckRow("disk", 1, None, None, "pass", None, "91 GiB free"),
        CheckRow("device", 2, None, None, "fail", None, "/dev/accel0 is held by pid 4711", "stop that process"),
        CheckRow("clock", 3, None, None, "warn", None, "4 s ahead"),
    ]
    async with opened_pod(operator, default_command=("true",)) as (app, pilot):
        await pilot.press("n", "enter")
        launch = app.screen.query_one("#launch", Button)
        await until(pilot, lambda: not launch.disabled)
        text = dialog_text(app)
        assert text.index("✗ worker 2: device: /dev/accel0 is held by pid 4711") < text.index("! worker 3: clock")
        assert "→ stop that process" in text
        assert "1 check passed" in text
        assert str(launch.label) == "Launch anyway"
        assert "tpu-tui launch europe-west4-a/my-tpu --skip-checks -- true" in text
        await until(pilot, lambda: launch.region.width > len("Launch anyway"))
        operator.rows = operator.rows[:1]
        app.screen.query_one("#command", Input).value = "sleep 9"
        await until(pilot, lambda: launch.disabled)
        app.screen.query_one("#command", Input).focus()
        await pilot.press("enter")
        await until(pilot, lambda: not launch.disabled)
        assert str(launch.label) == "Launch"
        assert "tpu-tui launch europe-west4-a/my-tpu -- sleep 9" in dialog_text(app)


async def test_a_name_that_an_id_cannot_hold_is_refused_and_one_with_accents_is_transliterated(
    operator: StageOperator,
) -> None:
    async with opened_pod(operator, default_command=("true",)) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        app.screen.query_one("#name", Input).value = "ночь"
        await pilot.press("enter")
        await until(pilot, lambda: "a run cannot be called 'ночь'" in dialog_text(app))
        app.screen.query_one("#name", Input).value = "größe 2"
        launch = app.screen.query_one("#launch", Button)
        await pilot.press("enter")
        await until(pilot, lambda: not launch.disabled)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert operator.runs.list_statuses()[0].run.name == "grosse-2"


async def test_the_launch_dialog_scales_a_training_from_another_type(operator: StageOperator) -> None:
    async with opened_pod(operator, default_command=("true",)) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        app.screen.query_one("#scale-from", Input).value = "v3-8"
        app.screen.query_one("#scale-by", Input).value = "1024 5000 0.1"
        await until(pilot, lambda: "v3-8 → v3-32: global batch 4,096 (128 per core), 1,250 steps" in dialog_text(app))
        assert "learning rate 0.4" in dialog_text(app)
        app.screen.query_one("#scale-by", Input).value = "many"
        await until(pilot, lambda: "'many' is not a batch" in dialog_text(app))


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("command", "python 'x", "close the quotes"),
        ("command", "", "Enter a command"),
        ("env", "A", "not NAME=value"),
        ("restarts", "often", "must be a whole number"),
    ],
)
async def test_invalid_fields_are_reported_in_the_launch_dialog(
    operator: StageOperator, field: str, value: str, expected: str
) -> None:
    async with opened_pod(operator, default_command=("true",)) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        widget = app.screen.query_one(f"#{field}")
        if isinstance(widget, Input):
            widget.value = value
        else:
            widget.text = value  # type: ignore[attr-defined]
        app.screen.query_one("#command").focus()
        await pilot.press("enter")
        await until(pilot, lambda: expected in dialog_text(app))
        assert app.screen.query_one("#launch", Button).disabled


async def test_the_field_that_is_wrong_stays_in_view_when_the_preview_takes_its_room(operator: StageOperator) -> None:
    async with opened_pod(operator, SMALL, default_command=("true",)) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog) and app.screen.query_one("#fields").size)
        fields, field = app.screen.query_one("#fields"), app.screen.query_one("#restarts", Input)
        before, field.value = fields.size.height, "often"
        field.focus()
        await pilot.press("enter")
        await until(pilot, lambda: fields.size.height < before and fields.region.contains_region(field.region))


async def test_stopping_asks_first_and_then_shows_each_workers_answer(operator: StageOperator) -> None:
    directory = running(operator)
    operator.answers = [Answered(0, True, 143), Answered(2, False, None, "no answer within 120 s")]
    operator.release = asyncio.Event()
    async with opened_run(operator, directory) as (app, pilot):
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, StopDialog))
        assert "workers 0-3" in dialog_text(app)
        assert operator.stopped == []
        await pilot.press("y")
        await until(pilot, lambda: shown(table(app, "answers")).count("saving…") == 4)
        assert app.screen.query_one("#leave").size.width < len("Keep running")
        assert operator.stopped == [directory.id]
        operator.release.set()
        await until(pilot, lambda: "confirmed" in shown(table(app, "answers")))
        row = shown(table(app, "answers")).splitlines()[1]
        assert row.split() == ["0", "t1v-n-5f3a91c2-w-0", "confirmed", "143"]
        await pilot.press("escape")
        await pilot.press("ctrl+k")
        await until(pilot, lambda: isinstance(app.screen, StopDialog))
        operator.release.set()
        await until(pilot, lambda: "not confirmed" in shown(table(app, "answers")))
        await until(pilot, lambda: "Stop confirmed by 1 of 4 workers." in dialog_text(app))
        assert shown(table(app, "answers")).count("no answer") == 3
        assert "worker 2: no answer within 120 s" in dialog_text(app)


async def test_a_run_given_up_as_lost_can_be_stopped_and_an_ended_one_cannot(operator: StageOperator) -> None:
    directory = running(operator)
    directory.append_event("state", state="lost", cause="every worker was out of reach for 6 hours")
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, StopDialog))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        directory.append_event("state", state="failed", cause="exit code 1", revived=True)
        await pilot.press("x")
        await until(pilot, lambda: any("has already ended" in str(n.message) for n in app._notifications))
        assert isinstance(app.screen, RunScreen)


async def test_leaving_the_stop_dialog_stops_nothing(operator: StageOperator) -> None:
    directory = running(operator)
    async with opened_run(operator, directory) as (app, pilot):
        await pilot.press("x", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert operator.stopped == []


async def test_enter_at_the_question_does_not_stop_the_run_and_a_second_x_does(operator: StageOperator) -> None:
    directory = running(operator)
    async with opened_run(operator, directory) as (app, pilot):
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, StopDialog) and app.screen.focused is not None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert operator.stopped == []
        await pilot.press("x", "x")
        await until(pilot, lambda: operator.stopped == [directory.id])


@pytest.mark.parametrize("reason", ["demo", "stop"])
async def test_enter_at_the_quit_question_loses_nothing(operator: StageOperator, reason: str) -> None:
    directory = running(operator)
    app = ConsoleApp(operator, demo=reason == "demo")
    async with app.run_test(size=FULL) as pilot:
        if reason == "stop":
            app.ongoing.stops[directory.id] = StopProgress(directory.run, 0.0)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, QuitDialog) and app.screen.focused is not None)
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, QuitDialog))
        assert not app._exit
        await pilot.press("q", "q")
        await until(pilot, lambda: app._exit)


async def test_quitting_shows_that_runs_continue(operator: StageOperator) -> None:
    directory = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count())
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, QuitDialog))
        assert "Runs continue" in dialog_text(app)
        assert directory.id in dialog_text(app)
        await pilot.press("escape")
        assert app.is_running
        await pilot.press("q", "q")
        await until(pilot, lambda: app._exit)


async def test_quitting_the_demo_shows_that_its_pod_ends(operator: StageOperator) -> None:
    app = ConsoleApp(operator, demo=True)
    async with app.run_test(size=FULL) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, QuitDialog))
        assert "ends the demo pod" in dialog_text(app)


async def test_questions_of_a_connection_are_asked_one_at_a_time(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: operator.prompter is not None)
        prompter = operator.prompter
        assert prompter is not None
        secret = asyncio.ensure_future(prompter.secret("passphrase of id_ed25519"))
        await until(pilot, lambda: isinstance(app.screen, SecretDialog))
        trusts = [asyncio.ensure_future(prompter.trust(f"worker {n}", "ssh-ed25519", "SHA256:abc")) for n in range(3)]
        await pilot.press(*"s3cret", "enter")
        assert await secret == "s3cret"
        await until(pilot, lambda: isinstance(app.screen, TrustDialog))
        assert "SHA256:abc" in dialog_text(app)
        await pilot.press("escape")
        assert not await trusts[0]
        await until(pilot, lambda: isinstance(app.screen, TrustDialog))
        app.screen.query_one("#trust_all", Button).press()
        assert await asyncio.gather(*trusts[1:]) == [True, True]
        assert not isinstance(app.screen, Dialog)


async def test_a_slice_is_deleted_only_when_its_name_is_typed(operator: StageOperator) -> None:
    live = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count() and table(app, "runs").row_count())
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, SliceChangeDialog))
        assert live.id in dialog_text(app)
        await pilot.press(*"my-tp", "enter")
        await until(pilot, lambda: any("my-tp is not its name" in shown.message for shown in app._notifications))
        assert operator.deleted == []
        assert app.screen.query_one("#begin", Button).disabled
        operator.release = asyncio.Event()
        await pilot.press("u", "enter")
        await until(pilot, lambda: "asked to delete my-tpu" in dialog_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen) and "deleting" in headline(app))
        await pilot.press("ctrl+d")
        await until(
            pilot, lambda: isinstance(app.screen, SliceChangeDialog) and "asked to delete" in dialog_text(app)
        )
        operator.release.set()
        await until(pilot, lambda: "my-tpu is deleted" in dialog_text(app))
        assert operator.deleted == ["europe-west4-a/my-tpu"]


async def test_the_launch_dialog_has_a_field_for_everything_a_launch_takes(operator: StageOperator) -> None:
    async with opened_pod(operator, SMALL) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        dialog = app.screen
        assert isinstance(dialog, LaunchDialog)
        await pilot.press(*"./train")
        for name, value in (("workdir", "/data"), ("venv", "~/venv"), ("conda-env", "torch")):
            dialog.query_one(f"#{name}", Input).focus()
            await pilot.press(*value)
            assert dialog.query_one(f"#{name}", Input).region.area
        dialog.query_one("#on-failure", Select).value = "leave"
        request = dialog.request()
        assert (request.job.workdir, request.job.venv, request.job.conda_env) == ("/data", "~/venv", "torch")
        assert request.job.on_failure == "leave"


async def test_the_directory_of_copied_code_is_kept_for_the_next_launch(operator: StageOperator) -> None:
    async with opened_pod(operator, default_command=("python3", "own.py")) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        app.screen.query_one("#sync", Input).value = "/src/own"
        await pilot.press("enter")
        launch = app.screen.query_one("#launch", Button)
        await until(pilot, lambda: not launch.disabled and launch.has_focus)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        assert app.screen.query_one("#sync", Input).value == "/src/own"


async def failing(*_: object, **__: object) -> AsyncIterator[object]:
    raise RuntimeError("a bug")
    yield


async def test_a_stop_that_fails_inside_tpu_tui_shows_the_error(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator.runs, "stop", failing)
    async with opened_run(operator, running(operator)) as (app, pilot):
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, StopDialog))
        await pilot.press("y")
        await until(pilot, lambda: "RuntimeError: a bug" in dialog_text(app))


async def test_a_command_that_fails_inside_tpu_tui_shows_the_error(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator.slices, "execute", failing)
    async with opened_pod(operator) as (app, pilot):
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: isinstance(app.screen, ExecDialog))
        await pilot.press(*"date", "enter")
        await until(pilot, lambda: "RuntimeError: a bug" in dialog_text(app))
