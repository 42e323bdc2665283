"""Tests of creating, starting, stopping and deleting slices in the console, with a Cloud TPU API in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, Select, Static

from tests.console.driving import FULL, SMALL, dialog_text, headline, running, table, until
from tests.console.stage import StageOperator, a_slice
from tests.localpod.api_clients import serving
from tests.localpod.faults import FaultyTpuService
from tui.console.app import ConsoleApp
from tui.console.data.pollers import SLICES
from tui.console.screens.change import SliceChangeDialog
from tui.console.screens.dialog import QuitDialog, TextDialog
from tui.console.screens.pod import PodScreen
from tui.console.screens.slices.create import CreateDialog
from tui.console.screens.slices.creation import CreationDialog
from tui.localpod.api import rpc_errors
from tui.operator import Operator
from tui.operator.slices import Slices
from tui.pod.creation.slice_request import SliceRequest
from tui.pod.slice import Slice
from tui.settings import load, save_profile

pytestmark = pytest.mark.timing


class CountedSlices(Slices):
    """Slices of a real service that record the requests."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator.connections, lambda: operator.groups.change_slice)
        self.requested: list[str] = []

    def create(self, request: SliceRequest, *, dry_run: bool = False, waits: bool = True) -> Any:
        if not dry_run:
            self.requested.append(request.name)
        return super().create(request, dry_run=dry_run, waits=waits)

    def change(self, slice_: Any, action: str, *, dry_run: bool = False) -> Any:
        self.requested.append(f"{action} {slice_.name}")
        return super().change(slice_, action, dry_run=dry_run)


@dataclass
class Stand:
    """A console whose profile reaches an API service in this process."""

    app: ConsoleApp
    pilot: Pilot[None]
    service: FaultyTpuService
    slices: CountedSlices

    async def until(self, what: Any) -> None:
        await until(self.pilot, what)

    async def open_form(self, **texts: str) -> CreateDialog:
        await self.pilot.press("N")
        await self.until(lambda: isinstance(self.app.screen, CreateDialog) and self.app.screen.is_mounted)
        dialog = self.app.screen
        assert isinstance(dialog, CreateDialog)
        for name, text in texts.items():
            dialog.query_one(f"#{name.replace('_', '-')}", Input).value = text
        return dialog

    async def create(self, name: str, kind: str = "v2-8") -> None:
        request = SliceRequest(name, "local-a", accelerator_type=kind, runtime_version="tpu-ubuntu2204-base")
        async for _ in self.slices.create(request):
            pass
        self.app.pollers.refresh()
        await self.until(self.chosen_slice)
        self.slices.requested.clear()

    def chosen_slice(self) -> Slice | None:
        assert isinstance(self.app.screen, PodScreen)
        return self.app.screen.chosen_slice()

    def listed(self) -> dict[str, str | None]:
        return {one.path: one.state for one in self.app.store.get(SLICES).value or ()}

    def messages(self) -> str:
        return "\n".join(str(shown.message) for shown in self.app._notifications)


@asynccontextmanager
async def console(home: Path, size: tuple[int, int] = FULL, **options: Any) -> AsyncIterator[Stand]:
    async with serving(more_zones=("local-b",)) as (service, _):
        endpoints = {"tpu": f"127.0.0.1:{service.grpc_port}"}
        profile = {"project": "local", "zones": ["local-a"], "endpoints": endpoints, "token": service.token}
        save_profile(home, "lab", profile)
        operator = Operator(load({"profile": "lab", **options}))
        operator.slices = slices = CountedSlices(operator)
        app = ConsoleApp(operator)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.store.get(SLICES).at is not None)
            yield Stand(app, pilot, service, slices)


@pytest.mark.parametrize("key", ["enter", "ctrl+s"])
async def test_a_slice_is_requested_once_however_often_the_key_is_pressed(own_home: Path, key: str) -> None:
    async with console(own_home, SMALL) as stand:
        stand.service.faults.hold_operations()
        await stand.open_form(name="pod", type="v2-8", version="tpu-ubuntu2204-base")
        await stand.pilot.press(key, key, key)
        await stand.until(lambda: isinstance(stand.app.screen, CreationDialog))
        await stand.until(lambda: "CREATING" in dialog_text(stand.app))
        assert "operation operation-" in dialog_text(stand.app)
        await stand.pilot.press("escape")
        await stand.until(lambda: "creating local-a/pod" in headline(stand.app))
        await stand.pilot.press("q")
        await stand.until(lambda: isinstance(stand.app.screen, QuitDialog))
        assert "creation of local-a/pod: it costs money once it is ready" in dialog_text(stand.app)
        await stand.pilot.press("escape", "N")
        await stand.until(lambda: isinstance(stand.app.screen, CreationDialog))
        await stand.pilot.press("N")
        await stand.until(lambda: isinstance(stand.app.screen, CreateDialog) and stand.app.screen.is_mounted)
        await stand.pilot.press(*"pod", "enter")
        note = stand.app.screen.query_one("#name-note", Static)
        await stand.until(lambda: "local-a/pod exists already" in str(note.content))
        await stand.pilot.press("escape")
        await stand.until(lambda: stand.listed() == {"local-a/pod": "CREATING"} and stand.chosen_slice())
        table(stand.app, "slices").focus()
        await stand.pilot.press("enter")
        await stand.until(lambda: isinstance(stand.app.screen, CreationDialog))
        stand.service.faults.release_operations()
        await stand.until(lambda: "READY after" in dialog_text(stand.app))
        await stand.until(lambda: stand.listed() == {"local-a/pod": "READY"})
        assert stand.slices.requested == ["pod"]
        assert stand.app.ongoing.creations == {}


async def test_the_form_shows_its_problems_and_the_equivalent_commands(own_home: Path, tmp_path: Path) -> None:
    async with console(own_home) as stand:
        await stand.create("old")
        dialog = await stand.open_form(name="", type="")
        await stand.pilot.press("enter")
        assert str(dialog.query_one("#name-note", Static).content) == "required"
        assert dialog.focused is dialog.query_one("#name")
        await stand.pilot.press(*"old", "tab", "tab", *"v2")
        await stand.until(lambda: "v2-8" in str(dialog.query_one("#type-note", Static).content))
        assert dialog.query_one("#topology").region.area
        await stand.pilot.press("down")
        await stand.until(lambda: dialog.query_one("#type", Input).value == "v2-8")
        assert "local-a/old exists already" in str(dialog.query_one("#name-note", Static).content)
        assert dialog.query_one("#create", Button).disabled
        dialog.query_one("#name", Input).value = "new"
        dialog.query_one("#capacity", Select).value = "spot"
        await stand.until(lambda: "✓ The name is free" in dialog_text(stand.app))
        text = dialog_text(stand.app)
        options = "--type v2-8 --version tpu-ubuntu2204-base --spot"
        assert f"tpu-tui --profile lab slices create local-a/new {options}" in text
        assert "gcloud compute tpus tpu-vm create new --project=local --zone=local-a --accelerator-type=v2-8" in text
        dialog.query_one("#type", Input).value = "v2-9"
        await stand.until(lambda: "there is no accelerator type v2-9 in local-a" in dialog_text(stand.app))
        assert "local-a does not offer v2-9" in str(dialog.query_one("#type-note", Static).content)
        assert stand.slices.requested == []


async def test_a_problem_in_the_collapsed_part_of_the_form_expands_it(own_home: Path) -> None:
    async with console(own_home, SMALL) as stand:
        dialog = await stand.open_form(name="pod", type="v2-8", version="v", tags="Web")
        await stand.pilot.press("ctrl+s")
        await stand.until(lambda: dialog.focused is dialog.query_one("#tags") and dialog.focused.region.area)
        assert "cannot be a network tag" in str(dialog.query_one("#tags-note", Static).content)


async def test_a_failed_creation_shows_the_next_step_and_can_be_opened_again(own_home: Path) -> None:
    async with console(own_home, SMALL) as stand:
        stand.service.faults.operation_failures["create"] = [rpc_errors.no_capacity("local-a")]
        await stand.open_form(name="pod", type="v2-8", version="tpu-ubuntu2204-base")
        await stand.pilot.press("ctrl+s")
        await stand.until(lambda: "failed after" in dialog_text(stand.app))
        problem = str(stand.app.screen.query_one("#failure Static", Static).content)
        assert "slice pod cannot be created in local-a" in problem
        assert "--queued" in problem
        await stand.pilot.press("escape")
        await stand.until(lambda: isinstance(stand.app.screen, PodScreen))
        assert "creating" not in headline(stand.app)
        await stand.pilot.press("colon", *"creation of", "enter")
        await stand.until(lambda: isinstance(stand.app.screen, CreationDialog))
        assert "failed after" in dialog_text(stand.app)


async def test_after_a_refused_creation_the_form_begins_with_what_was_typed(own_home: Path) -> None:
    async with console(own_home) as stand:
        stand.service.faults.operation_failures["create"] = [rpc_errors.no_capacity("local-a")]
        await stand.open_form(name="pod", type="v2-8", version="tpu-ubuntu2204-base", labels="team=vision")
        await stand.pilot.press("ctrl+s")
        await stand.until(lambda: "failed after" in dialog_text(stand.app))
        await stand.pilot.press("escape")
        dialog = await stand.open_form()
        texts = {"name": "pod", "type": "v2-8", "version": "tpu-ubuntu2204-base", "labels": "team=vision"}
        assert dialog.texts().items() >= texts.items()
        await stand.pilot.press("ctrl+s")
        await stand.until(lambda: "READY after" in dialog_text(stand.app))
        await stand.pilot.press("escape")
        assert (await stand.open_form()).texts()["labels"] == ""


async def test_a_zone_that_does_not_exist_is_named_at_its_field_and_nothing_is_requested(own_home: Path) -> None:
    async with console(own_home) as stand:
        dialog = await stand.open_form(name="pod", zone="local-x", type="v2-8", version="tpu-ubuntu2204-base")
        note = dialog.query_one("#zone-note", Static)
        await stand.until(lambda: "no such zone: local-x" in str(note.content))
        assert "did you mean" in str(note.content)
        assert "cannot be read" not in dialog_text(stand.app)
        await stand.pilot.press("ctrl+s")
        assert stand.app.screen is dialog
        assert stand.slices.requested == []
        dialog.query_one("#zone", Input).value = "local-a"
        await stand.until(lambda: "✓ The name is free" in dialog_text(stand.app))
        assert "no such zone" not in dialog_text(stand.app)


async def test_the_size_of_a_queued_request_is_that_of_all_its_slices(own_home: Path) -> None:
    async with console(own_home) as stand:
        dialog = await stand.open_form(name="pod", type="v2-8", version="tpu-ubuntu2204-base", nodes="3")
        dialog.query_one("#queued", Select).value = "yes"
        await stand.until(lambda: "3 workers, 12 chips, 24 cores" in dialog_text(stand.app))


async def test_a_refused_request_is_checked_again_when_it_is_sent_again(own_home: Path) -> None:
    async with console(own_home) as stand:
        dialog = await stand.open_form(name="pod", type="v2-9", version="tpu-ubuntu2204-base")
        await stand.until(lambda: "✗" in dialog_text(stand.app))
        assert " workers, " not in dialog_text(stand.app), "a type that is not offered has no shape"
        dialog.query_one("#create", Button).focus()
        await stand.pilot.press("enter")
        assert stand.app.screen is dialog
        await stand.until(lambda: "It is checked again now" in stand.messages())
        await stand.until(lambda: "✗" in dialog_text(stand.app))
        assert stand.slices.requested == []


async def test_a_slice_is_stopped_started_and_deleted_each_by_one_request(own_home: Path) -> None:
    async with console(own_home, SMALL) as stand:
        await stand.create("pod")
        await stand.pilot.press("S")
        await stand.until(lambda: isinstance(stand.app.screen, TextDialog))
        assert "pod is READY. Only a slice that is STOPPED can be started." in dialog_text(stand.app)
        await stand.pilot.press("escape", "X")
        await stand.until(lambda: isinstance(stand.app.screen, SliceChangeDialog) and stand.app.screen.focused)
        await stand.pilot.press("enter")
        await stand.until(lambda: isinstance(stand.app.screen, PodScreen))
        assert stand.slices.requested == []
        for key, title, state in (("X", "stop local-a/pod", "STOPPED"), ("S", "start local-a/pod", "READY")):
            await stand.pilot.press(key)
            await stand.until(lambda title=title: stand.app.screen.title == title)
            await stand.pilot.press("y", "y", "y")
            await stand.until(lambda state=state: f"pod is {state}" in dialog_text(stand.app))
            await stand.pilot.press("escape")
            await stand.until(lambda state=state: stand.listed() == {"local-a/pod": state})
        await stand.pilot.press("ctrl+d")
        await stand.until(lambda: isinstance(stand.app.screen, SliceChangeDialog))
        await stand.pilot.press(*"pod", "enter", "enter", "enter")
        await stand.until(lambda: stand.listed() == {})
        assert stand.slices.requested == ["stop pod", "start pod", "delete pod"]


async def test_a_slice_of_many_workers_cannot_be_stopped_and_the_reason_is_given(own_home: Path) -> None:
    async with console(own_home, SMALL) as stand:
        await stand.create("pod", "v2-32")
        await stand.pilot.press("X")
        await stand.until(lambda: isinstance(stand.app.screen, TextDialog))
        text = dialog_text(stand.app)
        assert "Cloud TPU stops and starts slices of one worker only, and pod has 4." in text
        assert "tpu-tui slices delete pod --zone local-a, then tpu-tui slices create pod" in text


async def test_a_slice_deleted_elsewhere_while_the_question_is_shown_is_reported_as_gone(own_home: Path) -> None:
    async with console(own_home, SMALL) as stand:
        await stand.create("pod")
        await stand.pilot.press("ctrl+d")
        await stand.until(lambda: isinstance(stand.app.screen, SliceChangeDialog))
        found = await stand.slices.get("local-a/pod")
        async for _ in stand.slices.change(found, "delete"):
            pass
        stand.app.pollers.refresh()
        await stand.until(lambda: "local-a/pod is gone: it has been deleted." in dialog_text(stand.app))
        await stand.pilot.press(*"pod", "enter")
        await stand.until(lambda: isinstance(stand.app.screen, PodScreen))
        assert stand.slices.requested == ["delete pod"]


async def test_a_slice_that_is_gone_when_the_change_begins_is_reported(own_home: Path) -> None:
    async with console(own_home, SMALL) as stand:
        await stand.create("pod")
        found = await stand.slices.get("local-a/pod")
        async for _ in stand.slices.change(found, "delete"):
            pass
        await stand.pilot.press("X")
        await stand.until(lambda: isinstance(stand.app.screen, SliceChangeDialog))
        await stand.pilot.press("y")
        await stand.until(lambda: "slice pod cannot be stopped: there is no such slice" in dialog_text(stand.app))
        assert stand.app.ongoing.changes == {}


@pytest.mark.parametrize("key", ["N", "S", "X", "ctrl+d"])
async def test_a_read_only_console_refuses_changes_with_a_sentence(own_home: Path, key: str) -> None:
    async with console(own_home, SMALL, read_only=True) as stand:
        await stand.pilot.press(key)
        await stand.until(lambda: "This console is read-only." in stand.messages())
        assert isinstance(stand.app.screen, PodScreen)


async def test_machines_of_a_hosts_file_cannot_be_created_or_deleted(operator: StageOperator) -> None:
    app = ConsoleApp(StageOperator(operator.settings.home, a_slice(source="hosts_file", count=1)))
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count())
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        assert "my-tpu is not a slice of the Cloud TPU API" in dialog_text(app)


async def test_runs_on_the_slice_are_named_before_it_is_stopped(own_home: Path) -> None:
    operator = StageOperator(own_home, a_slice(count=1))
    live = running(operator)
    app = ConsoleApp(operator)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: table(app, "slices").row_count() and table(app, "runs").row_count())
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, SliceChangeDialog))
        assert "This also ends these runs:" in dialog_text(app)
        assert live.id in dialog_text(app)


# --- startup scripts ----------------------------------------------------------------------------------------------
