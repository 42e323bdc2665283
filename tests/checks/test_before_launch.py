"""Checks before a launch, over the connections that the commands and the console use."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.checks.test_workers_over_ssh import install_python, slice_of
from tests.sshd import OpensshWorker, free_port, needs_sshd, sshd
from tui.checks.check_row import CheckRow
from tui.operator import LaunchRequest
from tui.operator.connections import Connections
from tui.operator.launch_checks import check_before_launch
from tui.pod.job_options import OPTIONS, JobOptions
from tui.pod.slice import Slice
from tui.runs.launch.launch_request import wants_versions
from tui.settings import Settings
from tui.ssh.config.access import Access

pytestmark = [needs_sshd, pytest.mark.timing]
__all__ = ["sshd"]

Start = Callable[..., OpensshWorker]
NO_CHIPS = {"TPU_TUI_DEVICES": ""}
PLENTY = {"load_per_cpu": 1000.0, "disk_free_gib": 0.0, "disk_full_gib": 0.0, "memory_free_share": 0.0}


@pytest.fixture
async def reach(tmp_path: Path) -> AsyncIterator[Callable[[OpensshWorker], Connections]]:
    """Yield a function that makes connections which log in with the test servers' key; close them."""
    made: list[Connections] = []

    class Known(Connections):
        async def access(self) -> Access:
            return worker.access()

    def make(one: OpensshWorker) -> Connections:
        nonlocal worker
        worker = one
        settings = Settings(home=tmp_path / "h", hosts=tmp_path / "hosts", thresholds=PLENTY, runtime="pjrt")
        made.append(Known(settings))
        return made[-1]

    worker: OpensshWorker
    (tmp_path / "hosts").write_text("127.0.0.1\n")
    yield make
    for one in made:
        await one.close()


def make_request(slice_: Slice, argv: tuple[str, ...], **values: object) -> LaunchRequest:
    job = {name: values.pop(name) for name in OPTIONS if name in values}
    return LaunchRequest(slice_, JobOptions(argv, **job), **values)  # type: ignore[arg-type]


async def rows_of(connections: Connections, slice_: Slice, *argv: str, **fields: object) -> list[CheckRow]:
    request = make_request(slice_, argv, **fields)
    return [row async for row in check_before_launch(connections, request)]


def make_venv(worker: OpensshWorker, path: str, **versions: str) -> None:
    """Make a virtual environment as a launch sees one: an interpreter of its own with these distributions."""
    install_python(worker, **versions)
    programs = worker.home / path / "bin"
    programs.mkdir(parents=True)
    (worker.root / "bin" / "python3").rename(programs / "python")
    (programs / "python3").symlink_to("python")


async def test_a_launch_that_can_work_has_no_row_that_hinders_it(
    sshd: Start, reach: Callable[[OpensshWorker], Connections]
) -> None:
    workers = [sshd(environment=NO_CHIPS) for _ in range(3)]

    rows = await rows_of(reach(workers[0]), slice_of(*workers), "true")

    assert not [row for row in rows if row.prevents_launch]
    assert {(row.worker, row.peer) for row in rows if row.check == "ports"} == {(1, 0), (2, 0)}


async def test_workers_and_buckets_are_reported_together(
    sshd: Start, reach: Callable[[OpensshWorker], Connections]
) -> None:
    worker = sshd(environment=NO_CHIPS)
    slice_ = slice_of(worker, worker)
    slice_ = replace(slice_, workers=(worker.worker, replace(worker.worker, index=1, port=free_port())))

    rows = await rows_of(reach(worker), slice_, "python", "--data=gs:///x", env={"OUT": "gs://$BUCKET/out"})

    assert {(row.check, row.worker, row.status) for row in rows if row.check in ("region", "reachability")} == {
        ("reachability", 1, "fail"),
        ("region", None, "fail"),
        ("region", None, "unknown"),
    }


async def test_versions_are_read_from_the_environment_that_the_run_will_have(
    sshd: Start, reach: Callable[[OpensshWorker], Connections]
) -> None:
    workers = [sshd(bare=True, environment=NO_CHIPS) for _ in range(3)]
    for worker, torch in zip(workers, ("2.9.0", "2.9.0", "2.8.0"), strict=True):
        make_venv(worker, "env with space", torch=torch, torch_xla="2.9.0")
    connections = reach(workers[0])

    rows = await rows_of(connections, slice_of(*workers), "python3", "train.py", venv="~/env with space")
    odd, misfit = (row for row in rows if row.check == "versions")
    plain = await rows_of(connections, slice_of(*workers), "python3", "train.py")

    assert (odd.worker, odd.status, odd.detail) == (2, "fail", "torch 2.8.0 here, 2.9.0 on workers 0-1")
    assert (misfit.worker, "different releases" in misfit.detail) == (2, True)
    assert not [row for row in plain if row.check == "versions"]


async def test_the_error_of_a_missing_environment_is_quoted(
    sshd: Start, reach: Callable[[OpensshWorker], Connections]
) -> None:
    worker = sshd(environment=NO_CHIPS)

    rows = await rows_of(reach(worker), slice_of(worker), "python3", "train.py", venv="/no/such/env")

    (row,) = (row for row in rows if row.check == "versions")
    assert (row.status, row.detail) == (
        "unknown",
        "its Python does not answer: no virtual environment at /no/such/env",
    )


@pytest.mark.parametrize(
    ("program", "fields", "is_queried"),
    [
        ("python3", {}, False),
        ("/opt/job", {}, False),
        ("/opt/v/bin/python3", {}, True),
        ("python3", {"conda_env": "torch"}, True),
        ("python3", {"venv": "v", "workdir": "sub"}, True),
        ("python3", {"venv": "/opt/v", "sync": Path()}, True),
        ("python3", {"venv": "~/v", "sync": Path(), "workdir": "/data"}, True),
        ("python3", {"venv": "/opt/v", "sync": Path(), "workdir": "sub"}, False),
        ("python3", {"venv": ".venv", "sync": Path()}, False),
        (".venv/bin/python", {"sync": Path()}, False),
    ],
)
def test_an_interpreter_is_queried_if_it_is_named_and_exists_before_the_code_is_synced(
    program: str, fields: dict[str, object], is_queried: bool
) -> None:
    request = make_request(Slice("lab"), (program, "train.py"), **fields)

    assert wants_versions(request) == is_queried


async def test_a_version_of_a_megabyte_with_markup_and_escapes_is_harmless(
    sshd: Start, reach: Callable[[OpensshWorker], Connections]
) -> None:
    worker = sshd(bare=True, environment=NO_CHIPS)
    hostile = "2.9.0\x1b]0;owned\x07[red]\r" + "A" * 1_000_000
    install_python(worker, torch=hostile, torch_xla="1\n@0000 version torch 6.6.6")

    rows = await rows_of(reach(worker), slice_of(worker), f"{worker.root}/bin/python3", "train.py")

    details = "".join(row.detail for row in rows if row.check == "versions")
    assert "torch 2.9.0" in details
    assert len(details) < 1000
    assert not {"\x1b", "\x07", "\r", "\n"} & set(details)


async def test_an_interpreter_that_floods_does_not_fill_memory(
    sshd: Start, reach: Callable[[OpensshWorker], Connections]
) -> None:
    worker = sshd(environment=NO_CHIPS)
    program = worker.home / "python3-flood"
    program.write_text(f"#!{sys.executable}\nwhile True: print('@' * 65536)\n")
    program.chmod(0o755)

    rows = await rows_of(reach(worker), slice_of(worker), str(program), "train.py")

    (row,) = (row for row in rows if row.check == "versions")
    assert row.status == "unknown"
    assert len(row.detail) < 1000
