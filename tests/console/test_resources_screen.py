"""Tests of the screen of resources that cost money: its rows, and deletions that ask for the name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.console.driving import FULL, SMALL, dialog_text, shown, table, until
from tests.console.stage import StageOperator, a_slice
from tui.console.actions.command_palette import list_entries
from tui.console.app import ConsoleApp
from tui.console.data.ongoing_work import ChangeProgress
from tui.console.screens.base import MainScreen
from tui.console.screens.change import ResourceDeletionDialog
from tui.console.screens.equivalents import EquivalentsDialog
from tui.console.screens.pod import PodScreen
from tui.console.screens.resources import ResourcesScreen
from tui.errors import CloudError, UsageError
from tui.operator.resources.deletion import DeletionStep
from tui.operator.resources.resources import Resources
from tui.pod.resources import BUCKET, DISK, QUEUED, SLICE, CloudResource, ResourceListing, in_order_of_cost

POD = CloudResource(
    SLICE,
    "my-tpu",
    "europe-west4-a",
    "READY",
    "2026-11-20T09:00:00Z",
    16,
    {"created-by": "tpu-tui"},
    ("resnet-20261121-090000-a1b2",),
    made_by_us=True,
    cost_relevant=True,
)
DATA = replace(
    POD,
    kind=DISK,
    name="imagenet",
    created="2026-11-21T09:00:00Z",
    used_by=("my-tpu",),
    chips=None,
    size_gb=2000.0,
    made_by_us=False,
)
QUEUE = replace(POD, kind=QUEUED, name="night", state="FAILED", used_by=(), cost_relevant=False)
STORE = replace(
    POD, kind=BUCKET, name="night-runs", zone="europe-west4", state=None, used_by=(), chips=None, cost_relevant=None
)


class StageResources(Resources):
    """The resources that the stage lists; deletions wait for `release`."""

    def __init__(self, stage: StageOperator) -> None:
        super().__init__(stage.connections, stage.runs)
        self.rows = [STORE, QUEUE, DATA, POD]
        self.problems: tuple[CloudError, ...] = ()
        self.requests: list[str] = []
        self.refusal: UsageError | None = None
        self.release = asyncio.Event()

    async def list_all(self) -> ResourceListing:
        return ResourceListing(tuple(in_order_of_cost(self.rows)), self.problems)

    async def delete(
        self, resources: Sequence[CloudResource], *, only_unused: bool = False
    ) -> AsyncIterator[DeletionStep]:
        (resource,) = resources
        self.requests.append(resource.ref)
        yield DeletionStep(resource, f"requested the deletion of {resource.name}")
        await self.release.wait()
        if self.refusal is not None:
            yield DeletionStep(resource, problem=self.refusal)
            return
        self.rows.remove(resource)
        yield DeletionStep(resource, f"{resource.name} is deleted")
        yield DeletionStep(resource, is_gone=True)


@pytest.fixture
def stage(tmp_path: Path) -> StageResources:
    operator = StageOperator(tmp_path, a_slice())
    operator.resources = resources = StageResources(operator)
    resources.operator = operator  # type: ignore[attr-defined]
    return resources


def app_of(stage: StageResources) -> ConsoleApp:
    return ConsoleApp(stage.operator)  # type: ignore[attr-defined]


def lists_resources(app: ConsoleApp) -> bool:
    """Return whether the screen of resources is on top and has rows."""
    screen = app.screen
    return isinstance(screen, ResourcesScreen) and screen.ready and bool(table(app, "resources").row_count())


async def open_resources(pilot: Pilot[None], app: ConsoleApp) -> None:
    """Press the key of the screen, and wait until it has rows."""
    await until(pilot, lambda: isinstance(app.screen, PodScreen) and app.screen.ready)
    await pilot.press("$")
    await until(pilot, lambda: lists_resources(app))


async def test_a_key_shows_the_resources_that_cost_money_and_esc_goes_back(stage: StageResources) -> None:
    app = app_of(stage)
    async with app.run_test(size=FULL) as pilot:
        await open_resources(pilot, app)
        lines = shown(table(app, "resources")).splitlines()
        assert [line.split()[2] for line in lines[1:5]] == ["my-tpu", "imagenet", "night-runs", "night"]
        assert "resnet-20261121-090000-a1b2" in lines[1]
        assert [line.split()[0] for line in lines[1:5]] == ["yes", "yes", "unknown", "no"]
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, EquivalentsDialog))
        assert "tpu-tui resources delete slice/europe-west4-a/my-tpu" in shown(table(app, "commands"))
        await pilot.press("escape", "d")
        await until(pilot, lambda: "cost_relevant: yes" in dialog_text(app))
        await pilot.press("escape", "question_mark")
        await until(pilot, lambda: "on this screen" in dialog_text(app))
        assert "report of the run" not in dialog_text(app)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
        assert not app.tasks.is_running("resources")


async def test_an_api_that_fails_is_named_and_the_others_are_listed(stage: StageResources) -> None:
    stage.problems = (CloudError("images cannot be listed", why="the Compute Engine API is not enabled"),)
    app = app_of(stage)
    async with app.run_test(size=SMALL) as pilot:
        await open_resources(pilot, app)
        assert "images cannot be listed: the Compute Engine API is not enabled" in dialog_text(app)
        stage.problems = ()
        stage.rows.clear()
        await pilot.press("r")
        await until(pilot, lambda: "No resources" in shown(table(app, "resources")))
        assert "cannot be listed" not in dialog_text(app)


async def test_a_resource_is_deleted_by_one_request_once_its_name_is_typed(stage: StageResources) -> None:
    app = app_of(stage)
    async with app.run_test(size=SMALL) as pilot:
        await open_resources(pilot, app)
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, ResourceDeletionDialog))
        assert "used by resnet-20261121-090000-a1b2" in dialog_text(app)
        await pilot.press(*"my-tp", "enter")
        await until(pilot, lambda: any("my-tp is not its name" in one.message for one in app._notifications))
        assert stage.requests == []
        await pilot.press("u", "enter", "enter")
        await until(pilot, lambda: lists_resources(app))
        await pilot.press("delete")
        await until(pilot, lambda: "requested the deletion of my-tpu" in dialog_text(app))
        stage.release.set()
        await until(pilot, lambda: "my-tpu is deleted" in dialog_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: table(app, "resources").row_count() == 3)
        assert stage.requests == ["slice/europe-west4-a/my-tpu"]


async def test_a_refused_deletion_shows_why_and_the_resource_stays(stage: StageResources) -> None:
    stage.refusal = UsageError("disk imagenet cannot be deleted", why="it is already being used by my-tpu")
    stage.release.set()
    app = app_of(stage)
    async with app.run_test(size=SMALL) as pilot:
        await open_resources(pilot, app)
        await pilot.press("down", "ctrl+d", *"imagenet", "enter")
        await until(pilot, lambda: "it is already being used by my-tpu" in dialog_text(app))
        await pilot.press("escape")
        assert table(app, "resources").row_count() == 4


async def test_a_slice_that_is_being_stopped_is_not_shown_as_being_deleted(stage: StageResources) -> None:
    app = app_of(stage)
    async with app.run_test(size=SMALL) as pilot:
        await open_resources(pilot, app)
        app.ongoing.changes["europe-west4-a/my-tpu"] = ChangeProgress("stop")
        await pilot.press("ctrl+d")
        await until(pilot, lambda: any("stop" in one.message for one in app._notifications))
        assert isinstance(app.screen, ResourcesScreen)
        assert stage.requests == []


async def test_a_deletion_that_fails_is_shown_after_its_progress_was_dropped(stage: StageResources) -> None:
    stage.refusal = UsageError("slice my-tpu cannot be deleted", why="it is in use")
    app = app_of(stage)
    async with app.run_test(size=SMALL) as pilot:
        await open_resources(pilot, app)
        await pilot.press("ctrl+d", *"my-tpu", "enter")
        await until(pilot, lambda: "requested the deletion of my-tpu" in dialog_text(app))
        app.ongoing.changes.clear()
        stage.release.set()
        await until(pilot, lambda: any("it is in use" in one.message for one in app._notifications))


async def test_a_read_only_console_has_no_key_and_no_palette_entry_that_deletes(tmp_path: Path) -> None:
    operator = StageOperator(tmp_path, a_slice(), read_only=True)
    operator.resources = stage = StageResources(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        await open_resources(pilot, app)
        await pilot.press("ctrl+d", "delete")
        assert isinstance(app.screen, ResourcesScreen)
        assert not [name for name, _, _ in list_entries(app.screen) if name.startswith("Delete")]
    assert stage.requests == []


async def test_the_palette_opens_the_screen_and_deletes_there(stage: StageResources) -> None:
    app = app_of(stage)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PodScreen) and app.screen.ready)
        assert isinstance(app.screen, MainScreen)
        entries = {name: action for name, _, action in list_entries(app.screen)}
        entries["Resources"]()
        await until(pilot, lambda: lists_resources(app))
        names = [name for name, _, _ in list_entries(app.screen)]
        assert "Delete slice/europe-west4-a/my-tpu" in names
        assert "Resources" not in names
