"""Which versions a run was launched with, and on what machines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.runs.ssh_pod import Pod, over
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.checks.workers.check_facts import Facts
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.reports.facts import summary_of_run
from tui.reports.json_csv import to_document
from tui.reports.status import status_document
from tui.reports.text import write_text
from tui.runs.launch.launch_request import LaunchRequest, run_from
from tui.runs.launch.launch_spec import Preflight
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of, summary_status
from tui.runs.worker.version_query import record_versions
from tui.settings import Settings

pytestmark = pytest.mark.timing

RUN = Run("pod-20261123-101500-00aa", "pod", JobOptions(("x",)), (Worker(0), Worker(1), Worker(2)))
NOTHING = {"runtime": None, "torch": None, "torch_xla": None, "libtpu": None}
XLA = {"torch": "2.9.0", "torch_xla": "2.9.0", "libtpu": "0.0.21"}


def test_a_run_records_the_runtime_and_whether_its_machines_are_spot_machines(tmp_path: Path) -> None:
    slice_ = Slice("pod", workers=(Worker(0),), runtime_version="tpu-ubuntu2204-base", spot=True)
    run = run_from(LaunchRequest(slice_, JobOptions(("x",))), slice_, Settings(tmp_path))
    directory = RunDirectory.create(tmp_path, run)
    document = status_document(status_of(RunDirectory.open(directory.path)), None)
    assert document["versions"] == {**NOTHING, "runtime": "tpu-ubuntu2204-base"}
    assert document["spot"] is True
    assert json.loads((directory.path / "run.json").read_text())["spot"] is True


def test_versions_that_no_worker_reported_are_null(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path, RUN)
    record_versions(directory, [Facts(0), Facts(1)])
    assert directory.events_size() == 0
    document = status_document(status_of(directory), None)
    assert (document["versions"], document["spot"]) == (NOTHING, None)


@pytest.mark.parametrize(
    ("third", "shown"),
    [
        ({}, XLA),
        ({"torch": "2.8.0"}, {**XLA, "torch": "mixed: 2.9.0 on 0-1, 2.8.0 on 2"}),
        ({"libtpu": None}, {**XLA, "libtpu": "mixed: 0.0.21 on 0-1, none on 2"}),
    ],
)
def test_versions_that_differ_between_workers_are_mixed(
    tmp_path: Path, third: dict[str, str | None], shown: dict[str, str]
) -> None:
    directory = RunDirectory.create(tmp_path, RUN)
    last = {name: value for name, value in {**XLA, **third}.items() if value}
    record_versions(directory, [Facts(0, versions=XLA), Facts(1, versions=XLA), Facts(2, versions=last)])
    directory.append_event("state", state="failed", cause=None)
    for status in (status_of(directory), summary_status(RunDirectory.open(directory.path))):
        assert status_document(status, None)["versions"] == {**NOTHING, **shown}
    summary = summary_of_run(directory)
    assert to_document(summary)["versions"] == {**NOTHING, **shown}
    assert f"torch {shown['torch']}" in write_text(summary)


@pytest.fixture
def interpreter(tmp_path: Path) -> str:
    """Return the path of a Python that finds the metadata of the XLA packages, which the tests' Python may lack."""
    for name, release in XLA.items():
        (tmp_path / f"{name}-{release}.dist-info").mkdir()
        (tmp_path / f"{name}-{release}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {release}\n")
    path = tmp_path / "python3"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


@needs_sshd
@pytest.mark.parametrize(
    "preflight", [Preflight(versions=True), Preflight(), None], ids=["asked", "not asked", "no checks"]
)
def test_a_launch_records_the_versions_that_the_jobs_interpreter_has(
    pod: Pod, interpreter: str, preflight: Preflight | None
) -> None:
    pod.preflight = preflight
    directory = pod.running(interpreter, "-c", "import time; print('on', flush=True); time.sleep(1000)")
    wait_until(lambda: status_of(directory).versions)
    assert status_document(status_of(directory), None)["versions"] == {"runtime": None, **XLA}
    pod.stop(directory)
    assert over(directory).state is RunState.STOPPED


@needs_sshd
def test_a_job_without_an_interpreter_succeeds_without_versions(pod: Pod) -> None:
    directory = pod.running("sh", "-c", 'until [ -e "$HOME/end" ]; do sleep 0.1; done')
    for worker in pod.workers:
        (worker.home / "end").touch()
    assert over(directory).state is RunState.SUCCEEDED
    assert status_document(status_of(directory), None)["versions"] == NOTHING
