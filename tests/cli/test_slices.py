"""`slices create`, `types`, `describe`, `queued`, `reset` and `delete --queued` against a Cloud TPU API service."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import DEADLINE, Answer, Shell
from tests.localpod.api_clients import serving
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyTpuService
from tui.commands.parser.argument_types import integer
from tui.commands.parser.gcloud_types import disk, duration, items, moment, pairs
from tui.commands.parser.shell_completion import list_names
from tui.settings import save_profile

pytestmark = pytest.mark.timing

NEW = ("--type", "v2-8", "--version", "tpu-ubuntu2204-base")


@dataclass
class ServedShell:
    """A terminal whose profile `lab` reaches an API service in this process."""

    shell: Shell
    service: FaultyTpuService
    hosts: SocketHosts

    async def __call__(self, *words: str) -> Answer:
        return await asyncio.to_thread(self.shell.run, "--profile", "lab", *words)

    async def document(self, *words: str) -> Any:
        answer = await self(*words, "--json")
        assert answer.code == 0, answer.errors
        return answer.document


@pytest.fixture
async def run(shell: Shell) -> AsyncIterator[ServedShell]:
    async with serving(more_zones=("local-b",)) as (service, hosts):
        endpoints = {"tpu": f"127.0.0.1:{service.grpc_port}"}
        profile = {"project": "local", "zones": ["local-a"], "endpoints": endpoints, "token": service.token}
        save_profile(shell.home, "lab", profile)
        yield ServedShell(shell, service, hosts)


async def test_a_created_slice_is_answered_with_operation_request_and_time(run: ServedShell) -> None:
    made = await run.document("slices", "create", "pod", *NEW, "--labels", "team=vision,stage=test", "--spot")

    assert (made["name"], made["zone"], made["state"], made["spot"]) == ("pod", "local-a", "READY", True)
    assert made["labels"] == {"team": "vision", "stage": "test", "created-by": "tpu-tui"}
    assert made["operation"].startswith("projects/local/locations/local-a/operations/")
    assert made["request"]["node"]["acceleratorType"] == "v2-8"
    assert (made["startup"], made["dry_run"], made["steps"][-1]) == ([], False, "pod is READY")
    assert made["elapsed_s"] > 0
    described = await run.document("slices", "describe", "pod")
    assert described["resource"]["labels"] == made["labels"]
    assert (await run("slices", "describe", "pod")).out.startswith("name ")


async def test_a_dry_run_shows_the_request_and_gclouds_command_and_sends_nothing(
    run: ServedShell, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text("#!/bin/sh\necho 1, 2\n")
    words = ("slices", "create", "pod", *NEW, "--metadata-from-file", f"startup-script={script}", "--dry-run")

    shown = await run(*words)

    document, _, command = shown.out.rpartition("}\n")
    assert json.loads(document + "}")["node"]["metadata"] == {"startup-script": script.read_text()}
    assert command.startswith("gcloud compute tpus tpu-vm create pod --project=local --zone=local-a")
    assert f"--metadata-from-file=startup-script={script}" in command
    answer = await run.document(*words)
    assert (answer["slice"], answer["dry_run"], answer["gcloud"]) == ("pod", True, command.strip())
    assert run.hosts.running() == []


NODE = ("--architecture", "node", "--type", "v3-32", "--version", "pytorch-1.13")


async def test_a_tpu_node_is_a_slice_that_nothing_can_log_in_to(run: ServedShell) -> None:
    planned = await run.document("slices", "create", "pod", *NODE, "--range", "10.9.0.0/28", "--dry-run")
    assert planned["gcloud"] == (
        "gcloud compute tpus create pod --project=local --zone=local-a --accelerator-type=v3-32 "
        "--version=pytorch-1.13 --range=10.9.0.0/28"
    )
    made = await run.document("slices", "create", "pod", *NODE)
    assert (made["state"], made["api_version"], made["workers"], made["cores"]) == ("READY", "V1", 0, 32)

    refused = await run("launch", "pod", "--dry-run", "--", "true")
    assert refused.code == 3
    assert "its endpoints are TPUs, which have no SSH login" in refused.errors
    assert "tpu-tui groups create GROUP --tpu-node pod" in refused.errors
    await run.document("slices", "delete", "pod", "--yes")


@pytest.mark.parametrize(
    ("words", "errors"),
    [
        (("--type", "v4", "--topology", "2x2x2", "--accelerator-type", "v4-8"), "were both given"),
        (("--type", "v3-32", "--accelerator-type", "v3-32"), "were both given"),
        (("--accelerator-type", "v4-8", "--topology", "2x2x1"), "has a topology already"),
        ((*NEW, "--nodes", "2"), "--nodes is for queued slices"),
        ((*NEW, "--valid-until-duration", "6h"), "--valid-for is for queued slices"),
        ((*NEW, "--metadata", "a=1", "--metadata-from-file", "a=/dev/null"), "was given as text and as a file"),
        ((*NEW, "--metadata-from-file", "a=/no/such/file"), "/no/such/file"),
        ((*NEW, "--metadata-from-file", "a=~no-such-user/file"), "~no-such-user/file cannot be read"),
        ((*NEW, "--metadata-from-file", "a=/dev/zero"), "/dev/zero cannot be read: it is not a regular file"),
        ((*NEW, "--labels", "team"), "must be KEY=VALUE, not 'team'"),
        ((*NEW, "--data-disk", "source=x,mode=all"), "must be source=PATH"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_sent(
    shell: Shell, words: tuple[str, ...], errors: str
) -> None:
    save_profile(shell.home, "lab", {"project": "p", "zones": ["z-a"], "endpoints": {"tpu": "127.0.0.1:1"}})
    answer = shell.call("--profile", "lab", "slices", "create", "pod", *words)

    assert (answer.code, answer.out) == (2, "")
    assert errors in answer.errors


async def test_ctrl_c_leaves_the_creation_alone_and_says_so(run: ServedShell) -> None:
    run.service.faults.hold_operations()
    process = run.shell.start("--profile", "lab", "slices", "create", "pod", *NEW)
    assert process.stderr is not None
    first = await asyncio.to_thread(process.stderr.readline)
    assert first.startswith(b"requested pod")

    process.send_signal(signal.SIGINT)
    _, errors = await asyncio.to_thread(process.communicate, timeout=DEADLINE)

    assert process.returncode == 130
    assert b"Interrupted. The creation of pod continues in the cloud (projects/local/" in errors
    run.service.faults.release_operations()
    slices = await run.document("slices")
    assert [row["name"] for row in slices] == ["pod"]


async def test_ctrl_c_leaves_a_queued_creation_in_the_queue(run: ServedShell) -> None:
    run.service.faults.worker_capacity = 0
    process = run.shell.start("--profile", "lab", "slices", "create", "wish", *NEW, "--queued")
    assert process.stderr is not None
    lines = []
    while not lines or b"WAITING_FOR_RESOURCES" not in lines[-1]:
        lines.append(await asyncio.to_thread(process.stderr.readline))
        assert lines[-1], b"".join(lines)
    assert re.fullmatch(rb"WAITING_FOR_RESOURCES, \d+ s: local-a has no capacity for it yet\n", lines[-1])

    process.send_signal(signal.SIGINT)
    _, errors = await asyncio.to_thread(process.communicate, timeout=DEADLINE)

    assert process.returncode == 130
    assert b"tpu-tui slices queued shows it." in errors
    (row,) = await run.document("slices", "queued")
    assert (row["name"], row["state"]) == ("wish", "WAITING_FOR_RESOURCES")


async def test_a_time_in_another_zone_is_sent_in_utc_and_one_in_the_past_is_refused(run: ServedShell) -> None:
    wish = ("slices", "create", "wish", *NEW, "--queued", "--dry-run", "--valid-until")

    shown = await run.document(*wish, "2099-01-01T01:00:00+05:30")

    assert shown["request"]["queuedResource"]["queueingPolicy"] == {"validUntilTime": "2098-12-31T19:30:00Z"}
    assert "--valid-until-time=2098-12-31T19:30:00Z" in shown["gcloud"]
    ago = datetime.now(timezone(timedelta(hours=14))) - timedelta(minutes=1)
    refused = await run(*wish, ago.isoformat(timespec="seconds"))
    assert (refused.code, f"{ago.isoformat(timespec='seconds')} is in the past" in refused.errors) == (2, True)
    assert "--valid-for 6h" in refused.errors


async def test_a_detached_creation_answers_at_once(run: ServedShell) -> None:
    run.service.faults.hold_operations()

    made = await run.document("slices", "create", "pod", *NEW, "--detach")

    assert (made["state"], made["steps"]) == ("CREATING", ["requested pod: v2-8 with tpu-ubuntu2204-base in local-a"])


async def test_queued_slices_are_made_listed_reset_and_deleted(run: ServedShell) -> None:
    wish = ("slices", "create", "wish", *NEW, "--queued", "--node-count", "2", "--node-prefix", "crew")
    made = await run.document(*wish, "--valid-until-duration", "6h")
    assert [row["name"] for row in made["slices"]] == ["crew-0", "crew-1"]
    assert made["request"]["queuedResource"]["queueingPolicy"] == {"validUntilDuration": "21600s"}
    (row,) = await run.document("slices", "queued")
    assert (row["name"], row["state"], row["nodes"]) == ("wish", "ACTIVE", ["crew-0", "crew-1"])
    assert row["age_s"] >= 0
    run.hosts.kill("crew-1", 0)
    listed = await run("slices", "queued")
    assert "SUSPENDED" in listed.out
    assert "tpu-tui slices reset local-a/wish" in listed.errors
    for words in (("reset", "wish"), ("delete", "wish", "--queued", "--force")):
        unconfirmed = await run("slices", *words)
        assert (unconfirmed.code, "add --yes" in unconfirmed.errors) == (2, True)
    assert (await run("slices", "reset", "wish", "--yes")).code == 0
    refused = await run("slices", "delete", "crew-0", "--force", "--yes")
    assert (refused.code, "--force is for queued resources" in refused.errors) == (2, True)
    deleted = await run("slices", "delete", "wish", "--queued", "--force", "--yes")
    assert (deleted.code, "queued resource wish is deleted" in deleted.errors) == (0, True)
    assert await run.document("slices") == []
    assert run.hosts.running() == []


async def test_types_are_listed_in_rows_and_completed_afterwards(run: ServedShell) -> None:
    run.service.faults.offered_types = {"local-a": frozenset({"v4-16", "v2-8"})}

    rows = await run.document("slices", "types")

    assert [(row["zone"], row["type"], row["topologies"]) for row in rows] == [
        ("local-a", "v2-8", ["2x2"]),
        ("local-a", "v4-16", ["2x2x2"]),
    ]
    printed = (await run("slices", "types", "--zone", "local-b")).out
    rows_of, _, versions_of = printed.partition("\n\n")
    assert re.search(r"^ZONE +TYPE +TOPOLOGIES +VERSIONS$", rows_of, re.MULTILINE)
    assert re.search(r"^local-b +v6e-256 +16x16 +11$", rows_of, re.MULTILINE)
    assert re.search(r"^ZONE +VERSIONS\nlocal-b +tpu-ubuntu2204-base, tpu-vm-base, ", versions_of)
    await run("slices", "types")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TPU_TUI_HOME", str(run.shell.home))
        line = "tpu-tui --profile lab slices create pod --type "
        assert list(list_names("types", {}, line)) == ["v2-8", "v4-16"]
        assert "tpu-ubuntu2204-base" in list(list_names("runtimes", {}, line))


def test_read_only_refuses_to_create_and_to_reset(shell: Shell) -> None:
    for words in (("create", "pod", *NEW), ("reset", "wish", "--yes"), ("delete", "w", "--queued", "--yes")):
        answer = shell.call("--read-only", "--zone", "z-a", "--project", "p", "slices", *words)
        assert (answer.code, "refused by --read-only" in answer.errors) == (2, True), answer.errors


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("6h", 21_600), ("1d12h", 129_600), ("90m", 5_400), ("45", 45), ("PT6H", 21_600), ("P1DT1M", 86_460)],
)
def test_a_duration_is_read_as_gcloud_reads_it(text: str, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (duration, "soon"),
        (duration, ""),
        (duration, "P1M"),
        (duration, "9" * 10 + "d"),
        (moment, "tomorrow"),
        (moment, "2026-01-31T18:00:00"),
        (items, "a,,b"),
        (pairs, "a=1,a=2"),
        (disk, "mode=read-only"),
        (integer, "-1"),
    ],
)
def test_invalid_text_is_refused(read: Any, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(text)


def test_another_delimiter_keeps_commas() -> None:
    assert pairs("^;^list=a,b;c=d=e") == {"list": "a,b", "c": "d=e"}
