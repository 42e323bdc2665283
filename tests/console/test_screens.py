from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Button, Input, Select, Static

from tests.console.stage import (
    Answered,
    Checked,
    Listed,
    StageOperator,
    a_slice,
    begin,
    make_run,
    train,
    training_line,
    unreachable,
    write,
)
from tui.console.app import ConsoleApp
from tui.console.palette import entries
from tui.console.screens.base import MainScreen
from tui.console.screens.delete import DeleteDialog
from tui.console.screens.dialog import Dialog, QuitDialog, SecretDialog, TextDialog, TrustDialog
from tui.console.screens.help import help_text
from tui.console.screens.launch import LaunchDialog
from tui.console.screens.pod import PodScreen
from tui.console.screens.run import RunScreen
from tui.console.screens.stop import StopDialog
from tui.console.widgets.core_table import CoreTable
from tui.console.widgets.headline import Headline
from tui.console.widgets.line_table import LineTable
from tui.console.widgets.log_pane import LogPane
from tui.console.widgets.pane import Pane
from tui.console.widgets.trouble import Trouble
from tui.runs.directory import RunDirectory

DEADLINE = 20.0
FULL, SMALL = (140, 44), (80, 24)


async def until(pilot: Pilot[None], what: Callable[[], object]) -> None:
    """Let the app work until something holds; fails after a generous deadline."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE
    while not what():
        assert loop.time() < end, "it never came to hold"
        await pilot.pause(0.02)


def table(app: ConsoleApp, name: str) -> LineTable:
    return app.screen.query_one(f"#{name}", LineTable)


def shown(widget: LineTable | LogPane) -> str:
    return "\n".join(widget.render_line(y).text.rstrip() for y in range(widget.size.height))


def headline(app: ConsoleApp) -> str:
    return "\n".join(app.screen.query_one("#headline", Headline).lines)


def trouble(app: ConsoleApp) -> str:
    return "\n".join(app.screen.query_one(Trouble).lines)


def dialog_text(app: ConsoleApp) -> str:
    return "\n".join(str(label.content) for label in app.screen.query(Static))


def running(operator: StageOperator, **more: object) -> RunDirectory:
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice(), **more))
    begin(directory)
    return directory


@pytest.fixture
def operator(own_home: Path) -> StageOperator:
    return StageOperator(own_home, a_slice(), a_slice("spare", 1, state="PREEMPTED", health=None))


async def test_the_pod_screen_shows_slices_workers_checks_and_runs(operator: StageOperator) -> None:
    running(operator)
    operator.rows = [
        Checked("reachability", 3, None, 22, "fail", "closed", "connection refused"),
        Checked("ports", 0, 1, 8476, "pass", "closed", "the firewall lets it through"),
    ]
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "connection" in shown(table(app, "checks")))
        assert "PREEMPTED" in shown(table(app, "slices"))
        await until(pilot, lambda: "no answer" in shown(table(app, "workers")))
        await until(pilot, lambda: "running" in shown(table(app, "runs")))
        assert "10.164.0.46" in shown(table(app, "workers"))
        assert "project my-project" in headline(app)


async def test_a_failing_source_is_told_in_its_pane_and_the_old_answer_stays(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "my-tpu" in shown(table(app, "slices")))
        operator.listed = unreachable()  # type: ignore[assignment]
        app.sources.refresh()
        pane = app.screen.query_one("#pane-slices", Pane)
        await until(pilot, lambda: "did not answer" in str(pane.query_one(".problem", Static).content))
        assert "check the network" in str(pane.query_one(".problem", Static).content)
        assert "my-tpu" in shown(table(app, "slices"))
        assert not app.screen.query_one("#pane-runs .problem", Static).display


async def test_a_partial_answer_shows_both_what_came_and_what_did_not(operator: StageOperator) -> None:
    operator.listed = Listed((a_slice(),), (unreachable(),))
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "my-tpu" in shown(table(app, "slices")))
        assert "did not answer" in str(app.screen.query_one("#pane-slices .problem", Static).content)


async def test_a_source_that_hangs_takes_no_key(operator: StageOperator) -> None:
    operator.hang = True
    running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: "running" in shown(table(app, "runs")))
        await pilot.press("4", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_a_run_that_grows_fills_the_open_run_screen(operator: StageOperator) -> None:
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice()))
    directory.append_event("state", state="preparing")
    directory.append_event("phase", worker=2, phase="connect", status="failed", detail="connection refused")
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: "connection refused" in shown(table(app, "phases")))
        begin(directory)
        write(directory, 1, b"compiling the first step\n")
        await until(pilot, lambda: "compiling the first step" in shown(table(app, "phases")))
        assert "running" in headline(app)
        train(directory, range(0, 100, 5))
        cores = app.screen.query_one(CoreTable)
        await until(pilot, lambda: cores.row_count() == 32)
        await until(pilot, lambda: "32 of 32 cores" in headline(app))
        await until(pilot, lambda: "straggler: core 13" in trouble(app))
        assert "nan: core 22" in trouble(app)
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "Device=xla:1/31" in shown(log))
        write(directory, 3, training_line(31, 1, 4000, 0.5, 1.0))
        await until(pilot, lambda: "Step=4000" in shown(log))
        directory.append_event("exit", worker=2, exit_code=1, signal=None, size=1, cause="exit code 1")
        directory.append_event("failure", worker=2, exit_code=1, cause="exit code 1")
        directory.append_event("state", state="failed")
        await until(pilot, lambda: "worker 2: exit code 1" in trouble(app))
        assert "failed" in headline(app)


async def test_enter_on_a_core_opens_its_workers_log(operator: StageOperator) -> None:
    directory = running(operator)
    train(directory, range(0, 20, 5))
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: app.screen.query_one(CoreTable).row_count())
        await pilot.press("end", "enter")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "/31 " in shown(log) and "/0 " not in shown(log))
        assert app.screen.chosen_worker() == 3
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "/23 " in shown(log))


async def test_escape_leads_from_a_run_back_to_the_pod_however_one_came(operator: StageOperator) -> None:
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice()))
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
        await until(pilot, lambda: directory.id in shown(table(app, "runs")))
        table(app, "runs").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))


async def test_a_small_terminal_has_tabs_in_place_of_panes(operator: StageOperator) -> None:
    directory = running(operator)
    train(directory, range(0, 20, 5))
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        visible = lambda: [  # noqa: E731
            name for name in ("cores", "charts", "logs") if app.screen.query_one(f"#pane-{name}").region.area
        ]
        await until(pilot, lambda: visible() == ["cores"])
        await pilot.press("2")
        await until(pilot, lambda: visible() == ["charts"])
        await pilot.press("l")
        await until(pilot, lambda: visible() == ["logs"])
        await pilot.resize_terminal(*FULL)
        await until(pilot, lambda: visible() == ["cores", "charts", "logs"])


async def test_slash_filters_the_focused_pane_and_escape_takes_it_away(operator: StageOperator) -> None:
    directory = running(operator)
    train(directory, range(0, 20, 5))
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: app.screen.query_one(CoreTable).row_count())
        cores = app.screen.query_one(CoreTable)
        await pilot.press("slash", "w", "2")
        bar = app.screen.query_one("#filter-bar")
        assert bar.region.area
        assert not bar.region.overlaps(app.screen.query_one("Footer").region)
        await until(pilot, lambda: cores.row_count() == 8)
        await pilot.press("enter", "down")
        assert cores.has_focus
        await pilot.press("slash", "escape")
        await until(pilot, lambda: cores.row_count() == 32)
        await pilot.press("l", "slash", *"Step=15")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "31 lines with" in log.summary)


async def test_what_is_typed_right_after_slash_acts_on_nothing(operator: StageOperator) -> None:
    directory = running(operator)
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        app.screen.query_one(LogPane).focus()
        await pilot.pause()
        for key, character in (("slash", "/"), ("x", "x"), ("slash", "/"), ("n", "n")):
            app.post_message(Key(key, character))
        await until(pilot, lambda: app.screen.query_one(LogPane).filter_text == "x/n")
        assert isinstance(app.screen, RunScreen)


async def test_launching_shows_what_will_run_and_only_then_starts_it(operator: StageOperator) -> None:
    app = ConsoleApp(operator, default_command=("python3", "-m", "trainer.train", "--note", "a b"))
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        assert app.screen.query_one("#command", Input).value == "python3 -m trainer.train --note 'a b'"
        launch = app.screen.query_one("#launch", Button)
        assert launch.disabled
        await pilot.press("enter")
        await until(pilot, lambda: not launch.disabled)
        assert "worker 3 t1v-n-5f3a91c2-w-3: python3 -m trainer.train --note a b" in dialog_text(app)
        assert operator.runs() == []
        app.screen.query_one("#command", Input).value += " --epochs 9"
        await until(pilot, lambda: launch.disabled)
        app.screen.query_one("#command", Input).focus()
        await pilot.press("enter")
        await until(pilot, lambda: not launch.disabled)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert operator.runs()[0].run.argv == ("python3", "-m", "trainer.train", "--note", "a b", "--epochs", "9")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("command", "python 'x", "close the quotes"),
        ("command", "", "there is no command"),
        ("env", "A", "not NAME=value"),
    ],
)
async def test_what_cannot_be_meant_is_told_in_the_launch_dialog(
    operator: StageOperator, field: str, value: str, told: str
) -> None:
    app = ConsoleApp(operator, default_command=("true",))
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchDialog))
        widget = app.screen.query_one(f"#{field}")
        if isinstance(widget, Input):
            widget.value = value
        else:
            widget.text = value  # type: ignore[attr-defined]
        app.screen.query_one("#command").focus()
        await pilot.press("enter")
        await until(pilot, lambda: told in dialog_text(app))
        assert app.screen.query_one("#launch", Button).disabled


async def test_stopping_asks_and_then_every_worker_answers_by_name(operator: StageOperator) -> None:
    directory = running(operator)
    operator.answers = [Answered(0, True, 143), Answered(2, False, None, "no answer within 120 s")]
    operator.release = asyncio.Event()
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, StopDialog))
        assert "workers 0-3" in dialog_text(app)
        assert operator.stopped == []
        await pilot.press("enter")
        await until(pilot, lambda: shown(table(app, "answers")).count("saving…") == 4)
        assert operator.stopped == [directory.id]
        operator.release.set()
        await until(pilot, lambda: "confirmed" in shown(table(app, "answers")))
        row = shown(table(app, "answers")).splitlines()[1]
        assert row.split() == ["0", "t1v-n-5f3a91c2-w-0", "confirmed", "143"]
        await pilot.press("escape")
        await pilot.press("ctrl+k")
        await until(pilot, lambda: isinstance(app.screen, StopDialog))
        operator.release.set()
        await until(pilot, lambda: "1 of 4 workers confirmed." in dialog_text(app))
        assert "not confirmed" in shown(table(app, "answers"))
        assert shown(table(app, "answers")).count("no answer") == 3


async def test_leaving_the_stop_dialog_stops_nothing(operator: StageOperator) -> None:
    directory = running(operator)
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await pilot.press("x", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert operator.stopped == []


CHANGING = {"n", "x", "ctrl+k", "s"}


@pytest.mark.parametrize("read_only", [False, True])
async def test_read_only_does_not_bind_what_changes_something(own_home: Path, read_only: bool) -> None:
    operator = StageOperator(own_home, a_slice(), read_only=read_only)
    directory = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        for _ in range(2):
            assert CHANGING & set(app.screen.active_bindings) == (set() if read_only else CHANGING)
            assert isinstance(app.screen, MainScreen)
            names = " ".join(name for name, _, _ in entries(app, app.screen))
            assert ("New run" in names or "Stop" in names or "Shell" in names) is not read_only
            if isinstance(app.screen, PodScreen):
                assert ("ctrl+d" in app.screen.active_bindings) is not read_only
                assert ("Delete my-tpu" in names) is not read_only
                app.flows.open_run(directory)
                await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        assert ("Stop" in help_text(app.screen, [])) is not read_only


async def test_the_palette_offers_what_fits_the_state(operator: StageOperator) -> None:
    directory = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count())

        def names() -> list[str]:
            assert isinstance(app.screen, MainScreen)
            return [name for name, _, _ in entries(app, app.screen)]

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


async def test_help_names_every_key_of_the_screen(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        screen = app.screen
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        told = dialog_text(app)
        for bound in screen._bindings.key_to_bindings.values():
            for binding in bound:
                if binding.description and not binding.system:
                    assert binding.description in told
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


async def test_quitting_says_that_runs_go_on(operator: StageOperator) -> None:
    directory = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "runs").row_count())
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, QuitDialog))
        assert "Runs go on" in dialog_text(app)
        assert directory.id in dialog_text(app)
        await pilot.press("escape")
        assert app.is_running
        await pilot.press("q", "q")
        await until(pilot, lambda: app._exit)


async def test_quitting_the_demo_says_that_its_pod_ends(operator: StageOperator) -> None:
    app = ConsoleApp(operator, demo=True)
    async with app.run_test(size=FULL) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, QuitDialog))
        assert "end with this console" in dialog_text(app)


async def test_describe_shows_the_chosen_slice_as_the_commands_print_it(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("down", "d")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        document = json.loads(str(app.screen.query_one("#reading Static", Static).content))
        assert document["state"] == "PREEMPTED"


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
        app.screen.query_one("#all", Button).press()
        assert await asyncio.gather(*trusts[1:]) == [True, True]
        assert not isinstance(app.screen, Dialog)


async def test_a_saved_log_is_shown_and_called_that(operator: StageOperator, tmp_path: Path) -> None:
    from tui.logs.archive import open_log

    path = tmp_path / "out.log"
    lines = []
    for step in (0, 20):
        for core in range(4):
            prefix = f"2020-08-06 02:38:{step:02d} 10.164.0.{40 + core // 2} [{core // 2}] ".encode()
            lines.append(prefix + training_line(core, 1, step, 6.5, 100.0))
    path.write_bytes(b"".join(lines))
    app = ConsoleApp(operator, replay=open_log(path))
    async with app.run_test(size=FULL) as pilot:
        await until(
            pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.query_one(CoreTable).row_count() == 4
        )
        await until(pilot, lambda: "saved log" in headline(app))
        assert "out.log" in headline(app)
        await pilot.press("right_square_bracket", "right_square_bracket")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "[1]" in shown(log) and "[0]" not in shown(log))
        assert "4 lines" in log.summary


TRACEBACK = b"Traceback (most recent call last):\n  File train.py\nFileNotFoundError: shard-00031.tar\n"


def fail(directory: RunDirectory) -> None:
    train(directory, range(0, 20, 5))
    write(directory, 2, TRACEBACK)
    directory.append_event("exit", worker=2, exit_code=1, signal=None, size=1, cause="exit code 1")
    directory.append_event("failure", worker=2, exit_code=1, cause="exit code 1")
    directory.append_event("state", state="failed")


@pytest.mark.parametrize("size", [SMALL, FULL])
async def test_a_failed_run_tells_the_failing_workers_last_words_and_leads_to_them(
    operator: StageOperator, size: tuple[int, int]
) -> None:
    directory = running(operator)
    fail(directory)
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        told = app.screen.query_one(Trouble)
        drawn = lambda: "\n".join(told.render_line(y).text for y in range(told.size.height))  # noqa: E731
        await until(pilot, lambda: "✗ worker 2: exit code 1" in drawn())
        assert "FileNotFoundError: shard-00031.tar" in drawn()
        await pilot.press("l")
        await until(pilot, lambda: app.screen.chosen_worker() == 2)  # type: ignore[attr-defined]
        await until(pilot, lambda: "FileNotFoundError" in shown(app.screen.query_one(LogPane)))


async def test_trouble_takes_the_keys_and_the_mouse(operator: StageOperator) -> None:
    directory = running(operator)
    fail(directory)
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(
            pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready and "exit code 1" in trouble(app)
        )
        await until(pilot, lambda: app.screen.query_one(Trouble).region.area)
        app.screen.query_one(Trouble).focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.chosen_worker() == 2)  # type: ignore[attr-defined]
        app.screen.show_log("merged")  # type: ignore[attr-defined]
        await until(pilot, lambda: app.screen.chosen_worker() is None)  # type: ignore[attr-defined]
        await pilot.click(Trouble)
        await until(pilot, lambda: app.screen.chosen_worker() == 2)  # type: ignore[attr-defined]


async def test_trouble_that_is_over_keeps_its_line(operator: StageOperator) -> None:
    directory = running(operator)
    train(directory, range(0, 20, 5))
    directory.append_event("link", worker=1, status="lost", detail="")
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, RunScreen) and app.screen.ready and "connection lost: worker 1" in trouble(app)
            ),
        )
        top = app.screen.query_one("#upper").region.y
        directory.append_event("link", worker=1, status="restored", detail="")
        await until(pilot, lambda: "nothing is wrong any more" in trouble(app))
        assert app.screen.query_one("#upper").region.y == top


async def test_a_failed_phase_is_told_whole_with_its_remedy(operator: StageOperator) -> None:
    remedy = "make it readable: sudo chmod a+rX /usr/share/tpu on every worker of the slice, then launch again"
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice()))
    directory.append_event("state", state="preparing")
    directory.append_event("phase", worker=2, phase="prepare", status="failed", detail=f"no devices. {remedy}")
    directory.append_event("state", state="failed", cause="the launch failed")
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        told = app.screen.query_one(Trouble)
        drawn = lambda: " ".join(told.render_line(y).text.strip() for y in range(told.size.height))  # noqa: E731
        await until(pilot, lambda: remedy in drawn())
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        assert remedy in dialog_text(app)


async def test_few_cores_leave_the_room_to_the_logs(operator: StageOperator) -> None:
    few, many = running(operator, cores_per_worker=1), running(operator, id="many-20261121-090001-a1b2")
    train(few, range(0, 20, 5), cores=1)
    train(many, range(0, 20, 5))
    heights = []
    for directory in (few, many):
        app = ConsoleApp(StageOperator(operator.settings.home), open_run=directory)
        async with app.run_test(size=(120, 40)) as pilot:
            cores = lambda: app.screen.query_one(CoreTable)  # noqa: B023,E731
            await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready and cores().row_count())  # noqa: B023
            await until(pilot, lambda: app.screen.query_one("#pane-rate").region.height >= 10)  # noqa: B023
            heights.append(app.screen.query_one("#lower").size.height)
            if directory is few:
                assert cores().size.height == 5
    assert heights[0] > heights[1]


async def test_a_slice_is_deleted_only_when_its_name_is_typed(operator: StageOperator) -> None:
    live = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count() and table(app, "runs").row_count())
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, DeleteDialog))
        assert live.id in dialog_text(app)
        await pilot.press(*"my-tp", "enter")
        assert operator.deleted == []
        assert app.screen.query_one("#begin", Button).disabled
        operator.release = asyncio.Event()
        await pilot.press("u", "enter")
        await until(pilot, lambda: "asked to delete my-tpu" in dialog_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen) and "deleting" in headline(app))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, DeleteDialog) and "asked to delete" in dialog_text(app))
        operator.release.set()
        await until(pilot, lambda: "my-tpu is deleted" in dialog_text(app))
        assert operator.deleted == ["europe-west4-a/my-tpu"]


async def test_the_launch_dialog_asks_for_everything_a_launch_takes(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
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
        assert (request.workdir, request.venv, request.conda_env) == ("/data", "~/venv", "torch")
        assert request.on_failure == "leave"


async def test_a_rehearsal_is_called_that_in_the_list_and_on_its_screen(operator: StageOperator) -> None:
    directory = running(operator, argv=("python3", "-m", "tui.localpod.rehearsal"))
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: "rehearsal" in shown(table(app, "runs")))
        app.flows.open_run(directory)
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: "rehearsal, not training" in headline(app))


async def test_a_click_chooses_and_a_double_click_opens(operator: StageOperator) -> None:
    directory = running(operator)
    train(directory, range(0, 20, 5))
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: app.screen.query_one(CoreTable).row_count())
        cores = app.screen.query_one(CoreTable)
        await until(pilot, lambda: cores.size.height > 12)
        await pilot.click(CoreTable, offset=(6, 10))
        assert cores.cursor_key == 9
        await pilot.click(CoreTable, offset=(6, 10), times=2)
        await until(pilot, lambda: app.screen.chosen_worker() == 1)  # type: ignore[attr-defined]
