"""Tests of the dialog that shows how a slice comes up, with the startup script of every worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from textual.widgets import Input

from tests.console.driving import SMALL, dialog_text, opened_pod, shown, table, until
from tests.console.stage import StageOperator
from tests.pods import running_pod
from tui.console.app import ConsoleApp
from tui.console.data.ongoing_work import CreationProgress
from tui.console.data.pollers import SLICES
from tui.console.screens.dialog import QuitDialog
from tui.console.screens.slices.create import CreateDialog
from tui.console.screens.slices.creation import CreationDialog
from tui.console.widgets.log.log_pane import LogPane
from tui.errors import CloudError
from tui.operator import Operator
from tui.pod.creation.slice_request import CreationStep, SliceRequest, WorkerStartup
from tui.settings import LOCAL_PROFILE, load

pytestmark = pytest.mark.timing


HOSTILE = (
    "[bold red]not markup[/] [link=http://x]",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m",
    "日本語のとても長い行 " * 20,
    "10%\r20%\r99%",
    "\udcff\x00\u202e backwards",
    *("x" * 4_000 for _ in range(195)),
)


def script(worker: int, code: int | None = None, lines: tuple[str, ...] = (), detail: str = "") -> WorkerStartup:
    return WorkerStartup("pod", worker, code, detail, lines, has_ended=code is not None)


@dataclass
class ScriptedSlices:
    """Slices whose steps of a creation the test gives one after the other."""

    steps: asyncio.Queue[CreationStep | Exception | None] = field(default_factory=asyncio.Queue)

    async def create(self, request: SliceRequest) -> AsyncIterator[CreationStep]:
        while (step := await self.steps.get()) is not None:
            if isinstance(step, Exception):
                raise step
            yield step


def creating(app: ConsoleApp, monkeypatch: pytest.MonkeyPatch) -> ScriptedSlices:
    """Begin a creation with a startup script whose steps the test gives."""
    given = ScriptedSlices()
    monkeypatch.setattr(app.operator.slices, "create", given.create)
    request = SliceRequest("pod", "europe-west4-a", "v3-32", metadata={"startup-script": "x"})
    app.actions.creating.begin(request, {})
    return given


async def test_the_startup_script_of_each_worker_is_shown_and_a_failed_one_first(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_pod(operator, SMALL) as (app, pilot):
        given = creating(app, monkeypatch)
        await until(pilot, lambda: isinstance(app.screen, CreationDialog) and app.screen.is_mounted)
        given.steps.put_nowait(CreationStep("requested pod", "o/1"))
        running_scripts = tuple(script(n, None, (f"line of {n}",), "waiting for SSH" * (n == 3)) for n in range(4))
        given.steps.put_nowait(CreationStep("pod is READY", "o/1", 3.0, startup=running_scripts))
        rows = table(app, "startup-workers")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "line of 0" in shown(log))
        assert [row.split() for row in shown(rows).splitlines()[1:5]] == [
            ["0", "running"],
            ["1", "running"],
            ["2", "running"],
            ["3", "waiting", "for", "SSH"],
        ]
        ended = (script(0, 0), script(1), script(2, 3, ("+ pip install", "no such package")), script(3, 0))
        given.steps.put_nowait(CreationStep("", "o/1", 9.0, startup=ended))
        await until(pilot, lambda: "no such package" in shown(log))
        assert shown(rows).splitlines()[1].split() == ["2", "exit", "3"]
        await pilot.press("down")
        await until(pilot, lambda: "worker 0 of pod" in dialog_text(app))
        assert "no such package" not in shown(log)
        given.steps.put_nowait(CloudError("startup script failed on worker 2 of pod", why="exit 3", remedy="look"))
        await until(pilot, lambda: "failed after" in dialog_text(app))
        assert "startup script failed on worker 2 of pod" in dialog_text(app)
        assert "startup script: 3 of 4 workers finished, 1 failed" in dialog_text(app)
        await pilot.press("escape")
        assert list(app.ongoing.creations) == ["europe-west4-a/pod"]


async def test_a_creation_that_fails_inside_tpu_tui_is_not_shown_as_ready(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_pod(operator) as (app, pilot):
        given = creating(app, monkeypatch)
        await until(pilot, lambda: isinstance(app.screen, CreationDialog) and app.screen.is_mounted)
        given.steps.put_nowait(RuntimeError("a bug"))
        await until(pilot, lambda: "failed after" in dialog_text(app))
        assert "RuntimeError: a bug" in dialog_text(app)


async def test_a_script_that_fails_on_one_worker_of_a_local_pod_is_read_in_the_console(own_home: Path) -> None:
    path = own_home / "setup.sh"
    async with running_pod(own_home, workers=1):
        path.write_text('echo "on $TPU_TUI_POD_WORKER"; case "$TPU_TUI_POD_WORKER" in */1) exit 3;; esac\n')
        app = ConsoleApp(Operator(load({"profile": LOCAL_PROFILE})))
        async with app.run_test(size=SMALL) as pilot:
            await until(pilot, lambda: app.store.get(SLICES).value)
            await pilot.press("N")
            await until(pilot, lambda: isinstance(app.screen, CreateDialog) and app.screen.is_mounted)
            texts = {"name": "pod", "type": "local-2", "version": "tpu-ubuntu2204-base", "startup-script": str(path)}
            for name, text in texts.items():
                app.screen.query_one(f"#{name}", Input).value = text
            await pilot.press("ctrl+s")
            await until(pilot, lambda: "the startup script of pod failed: worker 1: exit code 3" in dialog_text(app))

            def states() -> list[list[str]]:
                return [row.split() for row in shown(table(app, "startup-workers")).splitlines()[1:3]]

            await until(pilot, lambda: states() == [["1", "exit", "3"], ["0", "exit", "0"]])
            await until(pilot, lambda: "on pod/1" in shown(app.screen.query_one(LogPane)))
            ready = ("local-a/pod", "READY")
            await until(pilot, lambda: ready in [(one.path, one.state) for one in app.store.get(SLICES).value or ()])


async def test_control_characters_in_lines_of_a_startup_script_are_shown_as_text(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=(200, 60)) as pilot:
        given = creating(app, monkeypatch)
        await until(pilot, lambda: isinstance(app.screen, CreationDialog) and app.screen.is_mounted)
        given.steps.put_nowait(CreationStep("[b]requested[/]", startup=(script(0, None, HOSTILE, "[b]x[/]\x1b[2J"),)))
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "xxxx" in shown(log))
        log.focus()
        await pilot.press("home")
        await until(pilot, lambda: "not markup" in shown(log))
        text = shown(log)
        assert "[bold red]not markup[/] [link=http://x]" in text
        assert "99%" in text
        assert "日本語" in text
        assert "\x1b" not in text
        assert all(len(line) <= log.size.width for line in text.splitlines())
        assert "[b]requested[/]" in dialog_text(app)
        assert "200 lines" in log.summary
        await pilot.press("w", "end")
        assert log.summary.endswith("wrapped")


async def test_quitting_shows_that_results_of_startup_scripts_will_not_be_read(operator: StageOperator) -> None:
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        progress = CreationProgress(SliceRequest("pod", "z", "v2-8", metadata={"startup-script": "x"}), 0.0)
        app.ongoing.creations[progress.path] = progress
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, QuitDialog))
        assert "creation of z/pod" in dialog_text(app)
        assert "their results are not read" in dialog_text(app)
