"""Mistakes of a first day on the command line: each gives a sentence with the next step and its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Answer, Shell
from tests.localpod.api_clients import serving
from tests.localpod.faults import FaultyTpuService
from tui.settings import save_profile

FOR_EVER = -1


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return the terminal of a user without credentials and settings, on a machine outside Compute Engine."""
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    (tmp_path / "gcloud").mkdir()
    return Shell(tmp_path)


def assert_refused(answer: Answer, code: int, *words: str) -> None:
    """Check that a command ended with this code and assert_refused these words and a remedy, and nothing else."""
    assert answer.code == code, answer.errors
    for word in (*words, "→"):
        assert word in answer.errors
    assert "Traceback" not in answer.errors
    assert answer.out == ""


def test_without_credentials_every_command_names_the_command_that_logs_in(newcomer: Shell) -> None:
    assert_refused(
        newcomer.run("--project", "p", "slices"), 3, "no credentials", "gcloud auth application-default login"
    )
    (newcomer.home / "gcloud" / "credentials.db").touch()
    for words in (("slices",), ("keys", "add", "x", "--yes")):
        assert_refused(
            newcomer.run("--project", "p", *words),
            3,
            "gcloud auth login works for gcloud only",
            "application-default login",
        )


def test_a_directory_and_an_empty_file_are_refused_as_logs(newcomer: Shell) -> None:
    empty = newcomer.home / "empty.log"
    empty.touch()
    assert_refused(newcomer.call("cores", str(newcomer.home)), 2, "is a directory")
    assert_refused(newcomer.call("cores", str(empty)), 2, "is empty")


@pytest.mark.parametrize("command", ["status", "attach", "stop"])
def test_a_saved_log_in_place_of_a_run_is_refused_with_the_commands_that_read_it(
    newcomer: Shell, command: str
) -> None:
    log = newcomer.home / "saved run.log"
    log.write_text("a line\n")
    assert_refused(
        newcomer.call(command, str(log)), 2, "is a saved log, not a run", f"tpu-tui replay '{log}'", "cores, logs"
    )
    assert_refused(
        newcomer.call(command, "gs://bucket/out.log"), 2, "saved log", "tpu-tui replay gs://bucket/out.log"
    )


def test_opening_a_saved_log_as_a_run_is_refused_with_the_command_that_replays_it(newcomer: Shell) -> None:
    log = newcomer.home / "out.log"
    log.write_text("a line\n")
    controller, terminal = os.openpty()
    with newcomer.start("open", str(log), stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):
            while data := os.read(controller, 65536):
                shown += data
    os.close(controller)
    assert process.returncode == 2
    assert f"tpu-tui replay {log}" in shown.decode()


def test_a_log_from_standard_input_is_not_replayed_because_the_console_reads_keys_there(newcomer: Shell) -> None:
    answer = newcomer.call("replay", "-")
    assert answer.code == 2
    assert "the console cannot read a log from standard input" in answer.errors


def test_an_unreadable_hosts_file_is_refused_with_the_format_of_one(newcomer: Shell) -> None:
    for name, expected in (("nope.txt", "no such hosts file"), (".", "it is not a regular file")):
        assert_refused(
            newcomer.call("--hosts", str(newcomer.home / name), "slices"),
            2,
            expected,
            "one worker per line: [user@]host",
        )


def test_a_machine_where_nothing_listens_is_named(newcomer: Shell) -> None:
    hosts = newcomer.home / "lab.txt"
    hosts.write_text("127.0.0.1:1\n")
    assert_refused(
        newcomer.call("--hosts", str(hosts), "exec", "lab", "--", "true"), 3, "worker 0", "connection refused"
    )


@pytest.fixture
async def api(newcomer: Shell) -> AsyncIterator[FaultyTpuService]:
    """Run a Cloud TPU API of two zones; the profile `cloud` uses one of them."""
    async with serving(more_zones=("local-b",)) as (service, _):
        endpoints = {"tpu": f"127.0.0.1:{service.grpc_port}"}
        values = {"project": "local", "zones": ["local-a"], "endpoints": endpoints, "token": service.token}
        save_profile(newcomer.home, "cloud", values)
        yield service


async def run(shell: Shell, *words: str) -> Answer:
    return await asyncio.to_thread(shell.run, "--profile", "cloud", *words)


CREATE = ("slices", "create", "pod", "--type", "v2-8", "--version", "tpu-ubuntu2204-base")


@pytest.mark.parametrize(
    ("knobs", "words", "code", "expected"),
    [
        ({"expired_token": FOR_EVER}, ("slices",), 3, ("expired", "application-default login")),
        ({"unavailable": {"local-a": FOR_EVER}}, ("slices",), 3, ("cannot be reached", "tpu-tui local up")),
        ({"worker_quota": 0}, CREATE, 3, ("uota",)),
        ({}, ("exec", "nope", "--", "true"), 2, ("no such slice", "nope")),
        ({}, ("--zone", "local-z", "workers", "pod"), 2, ("no such zone", "local-a")),
    ],
    ids=["expired token", "API down", "quota", "no such slice", "no such zone"],
)
async def test_a_refusal_of_the_api_is_a_sentence(
    newcomer: Shell,
    api: FaultyTpuService,
    knobs: dict[str, Any],
    words: tuple[str, ...],
    code: int,
    expected: tuple[str, ...],
) -> None:
    for name, value in knobs.items():
        setattr(api.faults, name, value)
    assert_refused(await run(newcomer, *words), code, *expected)


async def test_the_zone_distinguishes_two_slices_of_one_name(newcomer: Shell, api: FaultyTpuService) -> None:
    both = ("--zone", "local-a", "--zone", "local-b")
    await api.add_slice("pod", workers=1, cores=8)
    assert (await run(newcomer, *CREATE[:2], "local-b/pod", *CREATE[3:])).code == 0
    assert_refused(
        await run(newcomer, *both, "exec", "pod", "--", "true"), 2, "more than one zone", "local-a/pod, local-b/pod"
    )
    assert (await run(newcomer, *both, "slices", "delete", "local-b/pod", "--yes")).code == 0
    listed = (await run(newcomer, *both, "slices", "--json")).document
    assert [(one["zone"], one["name"]) for one in listed] == [("local-a", "pod")]


async def test_a_slice_that_is_being_created_cannot_be_reached_yet(newcomer: Shell, api: FaultyTpuService) -> None:
    api.faults.hold_operations()
    making = asyncio.ensure_future(run(newcomer, *CREATE))
    try:
        while (await run(newcomer, "slices", "--json")).document == []:
            pass
        assert_refused(
            await run(newcomer, "exec", "pod", "--", "true"), 3, "pod is CREATING", "wait until it is READY"
        )
    finally:
        api.faults.release_operations()
        assert (await making).code == 0


def test_a_phase_that_takes_too_long_names_a_command_that_can_be_pasted(shell: Shell, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        hosts = tmp_path / "mute.txt"
        hosts.write_text(f"root@127.0.0.1:{mute.getsockname()[1]}\n")
        words = ("launch", "mute", "--skip-checks", "--phase-timeout", "connect=0.5", "--", "true")
        answer = shell.run("--hosts", str(hosts), *words)
    assert answer.code == 3
    assert "  → see whether it answers: tpu-tui exec mute --worker 0 --timeout 60 -- uptime\n" in answer.errors
