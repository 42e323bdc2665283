"""Tests of the create form's fields: the request they make, problems at their field, the equivalent commands."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult

from tests.console.stage import StageOperator, StageSlices
from tui.commands.parser.parser import parse
from tui.commands.terminal.output import Output
from tui.console.data.create_form import FIELDS, list_choices, read_form, warn_about_offer
from tui.console.widgets.choice_input import ChoiceInput
from tui.pod.creation.machine_checks import MAX_METADATA_VALUE_BYTES
from tui.pod.creation.slice_request import CreationStep, SliceRequest
from tui.pod.creation.zone_offer import ZoneOffer
from tui.settings.command_line import create_command

NEW = {"name": "pod", "zone": "us-central1-a", "type": "v3-32", "version": "tpu-ubuntu2204-base"}
DISK = "projects/p/zones/us-central1-a/disks"
OFFER = ZoneOffer(
    "us-central1-a", {"v3-8": ("2x2",), "v3-32": ("4x4",), "v4-8": ("2x2x1",)}, ("tpu-ubuntu2204-base",)
)


def texts(**fields: str) -> dict[str, str]:
    given = {name.replace("_", "-"): text for name, text in fields.items()}
    return dict.fromkeys(FIELDS, "") | NEW | given


class RecordedSlices(StageSlices):
    """Slices whose creation is recorded instead of requested."""

    recorded_request: SliceRequest

    async def create(  # type: ignore[override]
        self, request: SliceRequest, *, dry_run: bool = False, waits: bool = True
    ) -> AsyncIterator[CreationStep]:
        self.recorded_request = request
        yield CreationStep("requested", request={})


def filled_in(tmp_path: Path) -> list[dict[str, str]]:
    script = tmp_path / "set up.sh"
    script.write_text("#!/bin/sh\necho done\n")
    return [
        {},
        {"capacity": "spot", "labels": "team=vision,stage=test", "tags": "web,db", "internal_ips": "yes"},
        {"type": "v4", "topology": "2x2x2", "capacity": "reserved", "network": "pods", "subnetwork": "a"},
        {"queued": "yes", "valid_for": "90m", "nodes": "3", "description": "- of two words"},
        {"queued": "yes", "nodes": "1"},
        {"metadata": "^;^a=1,2;b=x y", "service_account": "me@p.iam", "scopes": "cloud-platform"},
        {"data_disk": f"source={DISK}/a,mode=read-only source={DISK}/b,mode=read-only", "capacity": "preemptible"},
        {"startup_script": str(script), "startup_timeout": "90m"},
    ]


@pytest.mark.parametrize("place", range(8))
async def test_the_command_line_makes_the_same_request_from_the_shown_command(
    place: int, own_home: Path, tmp_path: Path
) -> None:
    operator = StageOperator(own_home)
    operator.slices = recorded = RecordedSlices(operator)
    reading = read_form(texts(**filled_in(tmp_path)[place]))
    assert reading.is_complete, reading.problems
    request = reading.request
    assert request is not None

    args: argparse.Namespace = parse(shlex.split(create_command(operator.settings, request))[1:])
    await args.run(args, operator, Output())

    assert recorded.recorded_request == request


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"name": "My_Pod"}, "name", "use my-pod"),
        ({"type": "v9"}, "type", "there is no generation v9"),
        ({"type": "v4", "topology": "2xtwo"}, "topology", "2xtwo is not a topology"),
        ({"capacity": "preemptible", "queued": "yes"}, "queued", "cannot be preemptible"),
        ({"queued": "yes", "valid_for": "soon"}, "valid-for", "must be a duration"),
        ({"queued": "yes", "valid_for": "0s"}, "valid-for", "is 0"),
        ({"queued": "yes", "nodes": "many"}, "nodes", "must be a whole number"),
        ({"queued": "yes", "nodes": "9" * 18}, "nodes", "up to 1,000"),
        ({"name": "p" * 62, "queued": "yes", "nodes": "11"}, "name", "up to 63"),
        ({"labels": "Team"}, "labels", "must be KEY=VALUE"),
        ({"labels": "Team=x"}, "labels", "cannot be the key"),
        ({"metadata": "a b=x"}, "metadata", "cannot be a metadata key"),
        ({"data_disk": f"source={DISK}/a"}, "data-disk", "one worker only"),
        ({"tags": "Web"}, "tags", "cannot be a network tag"),
        ({"service_account": "me"}, "service-account", "not an e-mail"),
        ({"startup_script": "/nowhere/x.sh"}, "startup-script", "there is no file"),
        ({"startup_script": "~no-such-user/x"}, "startup-script", "there is no user ~no-such-user"),
        ({"startup_script": "/" + "x" * 5_000}, "startup-script", "cannot be read"),
        ({"startup_script": "/"}, "startup-script", "is not a file"),
        ({"startup_script": "/dev/zero"}, "startup-script", "is not a file"),
    ],
)
def test_a_problem_is_named_at_its_field(fields: dict[str, str], field: str, problem: str) -> None:
    reading = read_form(texts(**fields))

    assert list(reading.problems) == [field]
    assert problem in reading.problems[field]
    assert not reading.is_complete


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (MAX_METADATA_VALUE_BYTES + 1), b" \n"])
def test_a_file_that_cannot_be_metadata_is_refused_at_its_field(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(content)
    assert list(read_form(texts(startup_script=str(path))).problems) == ["startup-script"]


def test_a_script_may_be_given_once_and_its_time_is_a_duration(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("true")
    fields = {"startup_script": str(path), "startup_timeout": "later", "metadata": "startup-script=x"}
    assert set(read_form(texts(**fields)).problems) == {"startup-timeout", "metadata"}
    assert "is 0" in read_form(texts(startup_script=str(path), startup_timeout="0s")).problems["startup-timeout"]


def test_the_name_of_a_listed_slice_is_taken_also_for_a_queued_node() -> None:
    taken = {"us-central1-a/pod", "us-central1-a/other-1"}
    assert "exists already" in read_form(texts(), taken).problems["name"]
    assert "other-1 exists" in read_form(texts(name="other", queued="yes", nodes="2"), taken).problems["name"]
    assert read_form(texts(zone="us-central1-b"), taken).is_complete


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"name": "", "zone": "", "type": "", "version": ""}, ("name", "zone", "type", "version")),
        ({"type": "v"}, ("type",)),
        ({"type": "v5"}, ("type",)),
        ({"type": "V4"}, ("topology",)),
    ],
)
def test_an_empty_or_unfinished_field_is_missing_and_no_problem(
    fields: dict[str, str], missing: tuple[str, ...]
) -> None:
    reading = read_form(texts(**fields))
    assert (reading.missing, reading.problems, reading.request) == (missing, {}, None)


def test_hidden_fields_request_nothing() -> None:
    reading = read_form(texts(topology="9x9", valid_for="soon", nodes="x", startup_timeout="later"))
    assert reading.is_complete
    assert reading.request is not None
    assert (reading.request.topology, reading.request.queue) == ("", None)


def test_the_choices_are_those_that_the_zone_offers() -> None:
    def choices(name: str, **fields: str) -> tuple[str, ...]:
        return list_choices(name, texts(**fields), ("europe-west4-a",), [OFFER])

    assert choices("zone") == ("europe-west4-a", "us-central1-a")
    assert choices("type") == ("v3-8", "v3-32", "v4-8")
    assert choices("topology", type="v4") == ("2x2x1",)
    assert choices("version") == ("tpu-ubuntu2204-base",)
    assert choices("type", zone="europe-west4-a") == ()


def test_a_value_that_the_zone_does_not_offer_is_a_warning_at_its_field() -> None:
    request = read_form(texts()).request
    assert request is not None
    other: dict[str, Any] = {"accelerator_type": "v2-8", "runtime_version": "x"}
    assert warn_about_offer(request, [OFFER]) == {}
    assert set(warn_about_offer(replace(request, **other), [OFFER])) == {"type", "version"}
    assert warn_about_offer(replace(request, zone="elsewhere"), [OFFER]) == {}


class ChoiceApp(App[None]):
    def compose(self) -> ComposeResult:
        yield ChoiceInput("", id="type")


async def test_the_arrow_keys_step_through_the_choices_that_contain_the_typed_text() -> None:
    async with ChoiceApp().run_test() as pilot:
        field = pilot.app.query_one(ChoiceInput)
        field.choices = ("v2-8", "v3-8", "v3-32")
        seen = []
        for typed, key in (
            ("", "down"),
            ("", "down"),
            ("32", "down"),
            ("v3", "up"),
            ("", "up"),
            ("", "up"),
            ("v2-8", "down"),
            ("none", "down"),
        ):
            field.value = typed or field.value
            await pilot.press(key)
            seen.append(field.value)
        assert seen == ["v2-8", "v3-8", "v3-32", "v3-32", "v3-8", "v3-32", "v3-8", "v2-8"]
        assert field.describe_choices() == "↑↓ [v2-8] v3-8 v3-32"
