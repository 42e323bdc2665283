from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sshd import OpensshWorker, needs_sshd, sshd
from tui.checks.before_launch import before_launch
from tui.checks.check_row import CheckRow
from tui.checks.check_thresholds import CheckThresholds
from tui.checks.run_checks import run_checks
from tui.checks.workers.check_facts import FactsQuery, facts_from, make_call
from tui.checks.workers.worker_rows import rows_of_facts
from tui.pod.slice import Slice
from tui.ssh.exec.script_protocol import parse_answers
from tui.ssh.fleet import Fleet
from tui.ssh.sync.upload import sync_tree

pytestmark = [needs_sshd, pytest.mark.timing]
__all__ = ["sshd"]

Start = Callable[..., OpensshWorker]
TAG = 987_654_321


def install(worker: OpensshWorker, name: str, text: str) -> None:
    """Put a program on the worker's PATH."""
    path = worker.root / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def install_python(worker: OpensshWorker, **versions: str) -> None:
    """Install a real Python on the worker that has the metadata of these distributions and no others."""
    for name, version in versions.items():
        metadata = worker.root / "packages" / f"{name}-1.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    install(worker, "python3", f'PYTHONPATH={worker.root}/packages exec {sys.executable} -S "$@"')


@pytest.fixture
def holding() -> Iterator[Callable[[Path], int]]:
    """Yield a function that starts a process which holds a file open, and returns its pid."""
    started: list[subprocess.Popen[bytes]] = []

    def hold(path: Path) -> int:
        with path.open() as file:
            started.append(subprocess.Popen(["prlimit", f"--locks={TAG}", "sleep", "600"], stdin=file))
        return started[-1].pid

    yield hold
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def chips(tmp_path: Path) -> Callable[[int], list[Path]]:
    """Return a function that makes files which stand in for a worker's chips."""

    def make(count: int) -> list[Path]:
        directory = tmp_path / f"dev{len(list(tmp_path.iterdir()))}"
        directory.mkdir()
        paths = [directory / f"accel{number}" for number in range(count)]
        for path in paths:
            path.touch()
        return paths

    return make


def devices(paths: list[Path]) -> dict[str, str]:
    return {
        "TPU_TUI_DEVICES": ":".join(map(str, paths)),
        "TPU_TUI_LOCKFILE": str(paths[0].parent / "libtpu_lockfile"),
    }


def slice_of(*workers: OpensshWorker, **fields: object) -> Slice:
    return Slice(name="lab", source="hosts_file", workers=tuple(worker.worker for worker in workers), **fields)  # type: ignore[arg-type]


async def read(rows: AsyncIterator[CheckRow]) -> dict[tuple[str, int | None], CheckRow]:
    return {(row.check, row.worker): row async for row in rows if row.check != "ports"}


async def test_one_command_without_python_finds_faults_of_every_kind(
    sshd: Start, chips: Callable[[int], list[Path]], holding: Callable[[Path], int]
) -> None:
    own = [chips(4), chips(4), chips(4), chips(3)]
    workers = [sshd(bare=True, environment=devices(paths)) for paths in own]
    for worker in workers[:3]:
        install_python(worker, torch="2.9.0", torch_xla="2.9.0")
    skewed = 'case $1 in +%s.%N) exec /bin/date -d "90 seconds ago" "$@";; esac; exec /bin/date "$@"'
    install(workers[2], "date", skewed)
    pid = holding(own[1][2])
    (own[2][0].parent / "libtpu_lockfile").touch()
    slice_ = slice_of(*workers, accelerator_type="v3-32", runtime_version="v2-alpha-tpuv6e")

    async with Fleet(slice_.workers, workers[0].access()) as fleet:
        rows = await read(run_checks(slice_, fleet, thresholds={"load_per_cpu": 1000}))

    assert {key: row.status for key, row in rows.items() if row.status not in ("pass", "unknown")} == {
        ("runtime", None): "fail",
        ("device", 1): "fail",
        ("lockfile", 2): "warn",
        ("chips", 3): "fail",
        ("versions", 3): "fail",
        ("clock", 2): "warn",
    }
    held = rows["device", 1]
    assert re.fullmatch(rf"in use by pid {pid} \(root, \d+ s\): sleep 600", held.detail)
    assert f"--worker 1 -- kill {pid}" in (held.remedy or "")
    assert "left behind" in rows["lockfile", 2].detail
    assert rows["chips", 3].detail == "3 chips found, expected 4 (v3-32)"
    assert rows["clock", 2].detail == "its clock is 90 s behind the other workers'"
    assert "here, 2.9.0 on workers 0-2" in rows["versions", 3].detail
    assert {worker for check, worker in rows if check == "disk"} == {0, 1, 2, 3}


async def test_versions_that_differ_are_named_and_their_text_is_escaped(sshd: Start) -> None:
    workers = [sshd(bare=True, environment={"TPU_TUI_DEVICES": ""}) for _ in range(3)]
    install_python(workers[0], torch="2.9.0", torch_xla="2.9.0")
    install_python(workers[1], torch="2.8.0\x1b[2J[red]", torch_xla="2.9.0")
    install_python(workers[2], torch="2.9.0", torch_xla="2.9.0")
    slice_ = slice_of(*workers)

    async with Fleet(slice_.workers, workers[0].access()) as fleet:
        found = [row async for row in run_checks(slice_, fleet) if row.check == "versions"]

    assert {(row.worker, row.status) for row in found} == {(1, "fail")}
    odd, misfit = found
    assert odd.detail.startswith("torch 2.8.0")
    assert odd.detail.endswith("here, 2.9.0 on workers 0,2")
    assert "different releases" in misfit.detail
    assert all("\x1b" not in row.detail for row in found)


async def test_synced_code_is_compared_between_the_workers(sshd: Start, tmp_path: Path) -> None:
    workers = [sshd(environment={"TPU_TUI_DEVICES": ""}) for _ in range(3)]
    slice_ = slice_of(*workers)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "train.py").write_text("print(1)\n")

    async def code_rows() -> list[tuple[int | None, str, str]]:
        return [
            (row.worker, row.status, row.detail) async for row in run_checks(slice_, fleet) if row.check == "code"
        ]

    async with Fleet(slice_.workers, workers[0].access()) as fleet:
        never = await code_rows()
        (first, *_) = [answer async for answer in sync_tree(fleet, range(3), tree)]
        same = await code_rows()
        (synced,) = workers[2].home.glob(".tpu-tui/code/*/train.py")
        synced.write_text("print(2)\n")
        changed = await code_rows()
        (tree / "more.py").touch()
        (second,) = [answer async for answer in sync_tree(fleet, [1], tree)]
        for manifest in workers[1].home.glob(f".tpu-tui/code/{second.hash}.sha256"):
            os.utime(manifest, (time.time() + 60, time.time() + 60))
        odd = await code_rows()

    old, new = first.hash[:12], second.hash[:12]
    assert never == []
    assert same == [(None, "pass", f"{old} was synced last on all 3 workers")]
    assert changed == [(2, "warn", f"{old} was changed after it was synced")]
    assert odd[1:] == [(1, "warn", f"synced code {new} here, {old} on workers 0,2")]


def mount_small(path: Path) -> None:
    """Mount a file system of 64 KiB; skip the test where none can be mounted."""
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)]
    mounted = subprocess.run(words, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")


async def test_a_full_disk_fails(sshd: Start) -> None:
    worker = sshd(bare=True, environment={"TPU_TUI_DEVICES": ""})
    mount_small(worker.home)
    slice_ = slice_of(worker)
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "-l", str(worker.home)], check=True)
        with pytest.raises(OSError, match="No space left"):
            (worker.home / "log").write_bytes(bytes(128 * 1024))
        async with Fleet(slice_.workers, worker.access()) as fleet:
            rows = [row async for row in before_launch(slice_, fleet) if row.check == "disk"]

    assert rows[0].status == "fail"
    assert "0.0 of 0.0 GiB free on home" in rows[0].detail
    assert "runs delete" in (rows[0].remedy or "")


async def test_a_read_only_home_fails_if_runs_are_stored_there(sshd: Start) -> None:
    worker = sshd(bare=True, environment={"TPU_TUI_DEVICES": ""})
    mount_small(worker.home)
    slice_ = slice_of(worker)
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "-l", str(worker.home)], check=True)
        await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", str(worker.home)], check=True)
        found = []
        for root in ("~/.tpu-tui", "/tmp/no/such/place"):
            async with Fleet(slice_.workers, worker.access()) as fleet:
                rows = [row async for row in before_launch(slice_, fleet, run_root=root) if row.check == "disk"]
            found.append([(row.status, row.detail.partition(" on ")[2] or row.detail) for row in rows])
        homeless = sshd(bare=True, environment={"TPU_TUI_DEVICES": "", "HOME": f"{worker.home}/not/there"})
        async with Fleet([homeless.worker], homeless.access()) as fleet:
            rows = [row async for row in before_launch(slice_of(homeless), fleet) if row.check == "disk"]

    assert [(row.status, row.detail) for row in rows if row.prevents_launch] == [("fail", "home is not writable")]
    assert found == [
        [("fail", "home is not writable"), ("pass", "/tmp")],
        [("warn", "home is not writable"), ("pass", "run_root"), ("pass", "/tmp")],
    ]


async def test_a_chip_held_by_a_run_is_reported_with_the_name_of_the_run(
    sshd: Start, chips: Callable[[int], list[Path]], holding: Callable[[Path], int]
) -> None:
    (chip,) = chips(1)
    worker = sshd(bare=True, environment=devices([chip]))
    pid = holding(chip)
    start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    for run, started in (("lab-20260101-000000-aaaa", start), ("lab-20260101-000000-dead", str(int(start) - 1))):
        directory = worker.home / ".tpu-tui" / "runs" / run / "0"
        directory.mkdir(parents=True)
        (directory / "pid").write_text(f"{pid} {started}\n")
        (directory / "tag").write_text(f"{TAG}\n")
    (chip.parent / "libtpu_lockfile").touch()
    slice_ = slice_of(worker)

    async with Fleet(slice_.workers, worker.access()) as fleet:
        rows = await read(run_checks(slice_, fleet))
        before = await read(before_launch(slice_, fleet))

    assert rows["runs", 0].detail == "lab-20260101-000000-aaaa has not ended"
    assert [rows[check, 0].status for check in ("runs", "device")] == ["warn", "warn"]
    assert [before[check, 0].status for check in ("runs", "device")] == ["fail", "fail"]
    assert "in use by run lab-20260101-000000-aaaa" in rows["device", 0].detail
    assert rows["lockfile", 0].status == "pass"


def test_nothing_is_assumed_about_the_processes_of_other_users() -> None:
    made = make_call(FactsQuery("~/.tpu-tui"))
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", made.command]
    environment = {"PATH": os.environ["PATH"], "HOME": "/", "TPU_TUI_DEVICES": "/dev/null"}
    sent = time.time()
    done = subprocess.run(as_nobody, input=made.input, capture_output=True, env=environment, check=True, cwd="/")

    facts = facts_from(0, parse_answers(made.nonce, done.stdout), sent, time.time())
    facts = replace(facts, owners=())
    (row,) = [row for row in rows_of_facts(facts, Slice("lab"), CheckThresholds()) if row.check == "device"]

    assert facts.owners_hidden
    assert (row.status, "could not be inspected" in row.detail) == ("unknown", True)


async def test_a_worker_with_an_incomplete_answer_or_none_is_unknown(
    sshd: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = sshd(bare=True)
    install(worker, "date", "kill -9 $PPID")
    slice_ = slice_of(worker)

    async with Fleet(slice_.workers, worker.access()) as fleet:
        rows = await read(run_checks(slice_, fleet))
        install(worker, "date", "exec sleep 600")
        monkeypatch.setattr("tui.checks.workers.check_facts.ASK_TIMEOUT_S", 0.2)
        late = await read(run_checks(slice_, fleet))

    assert rows["worker", 0].status == late["worker", 0].status == "unknown"
    assert "no complete answer within" in late["worker", 0].detail
    assert "coreutils" not in (late["worker", 0].remedy or "")
    assert not {"disk", "chips", "clock"} & {check for check, _ in rows}


@pytest.mark.parametrize(
    ("extra", "environment", "expected"),
    [
        (["ForceCommand echo no shell here"], {}, "it ended with 0 after printing: no shell here"),
        (["ForceCommand false"], {}, "it ended with 1"),
        ([], {"PATH": "/nonexistent"}, "sh: not found"),
    ],
)
async def test_a_worker_that_runs_something_else_instead_fails(
    sshd: Start, extra: list[str], environment: dict[str, str], expected: str
) -> None:
    worker = sshd(extra=extra, environment=environment)
    slice_ = slice_of(worker)
    async with Fleet(slice_.workers, worker.access()) as fleet:
        rows = await read(run_checks(slice_, fleet))

    assert rows["worker", 0].prevents_launch
    assert rows["worker", 0].detail.endswith(expected)
    assert "ForceCommand" in (rows["worker", 0].remedy or "")


async def test_before_a_launch_worker_0_is_probed_from_each_other_worker(sshd: Start) -> None:
    workers = [sshd() for _ in range(3)]
    slice_ = slice_of(*workers)

    async with Fleet(slice_.workers, workers[0].access()) as fleet:
        rows = [row async for row in before_launch(slice_, fleet)]

    ports = {(row.worker, row.peer, row.port, row.status) for row in rows if row.check == "ports"}
    assert ports == {(1, 0, 8476, "pass"), (2, 0, 8476, "pass")}
    assert not [row for row in rows if row.check == "versions"]
