"""A launch in which one worker fails, for every phase and reason; `python -m tests.chaos` does so for each worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.failures import FAILURES, Failure, fail, make_tree, servers_with_devices
from tests.runs.ssh_pod import Pod
from tests.sshd import OpensshWorker, needs_sshd
from tui.pod.worker import Worker
from tui.runs.launch.worker_session import refusal_error
from tui.ssh.exec.script_protocol import Answer

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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("run night pid 47 command python train.py", "night (pid 47, command python train.py)"),
        ("run night pid ? command its earlier attempt", "night (its earlier attempt)"),
        ("run night pid ? command not started yet", "night (not started yet)"),
        ("of an older version", "of an older version"),
    ],
)
def test_a_refusal_names_the_other_run_in_a_sentence(text: str, why: str) -> None:
    error = refusal_error(Worker(1), Answer("refused", f"busy {text}"))
    assert (error.what, error.why) == ("another run is alive here", why)
