"""A launch in which one worker fails, for every phase and reason; `python -m tests.chaos` does so for each worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.failures import FAILURES, Failure, fail, make_tree, servers_with_devices
from tests.runs.ssh_pod import Pod
from tests.sshd import OpensshWorker, needs_sshd

pytestmark = [needs_sshd, pytest.mark.timing]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OpensshWorker]]:
    with servers_with_devices(tmp_path_factory.mktemp("ssh"), 3) as started:
        yield started


@pytest.fixture
def three_workers(servers: list[OpensshWorker]) -> Iterator[list[OpensshWorker]]:
    yield servers
    for server in servers:
        server.restore()


@pytest.mark.parametrize(
    ("failure", "victim"),
    [(failure, place % 3) for place, failure in enumerate(FAILURES)],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_a_failure_on_one_worker_is_named_and_nothing_runs_on_any_worker(
    pod: Pod, tmp_path: Path, failure: Failure, victim: int
) -> None:
    fail(pod, failure, victim, make_tree(tmp_path / "tree"))
