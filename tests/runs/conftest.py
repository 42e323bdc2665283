from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, tagged
from tests.runs.ssh_pod import Pod
from tests.sshd import OpensshWorker


@pytest.fixture
def three_workers(sshd: Callable[..., OpensshWorker]) -> list[OpensshWorker]:
    """Start three workers with only coreutils, util-linux and sh on their PATH."""
    return [sshd(bare=True) for _ in range(3)]


@pytest.fixture
def pod(three_workers: list[OpensshWorker], tmp_path: Path) -> Iterator[Pod]:
    """Yield a pod of three workers with empty homes, and a home for its runs; end the runs."""
    made = Pod(three_workers, tmp_path / "home")
    yield made
    made.end_runs()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of a worker with dash as its sh, and those marked `bash` with both shells."""
    if "worker_shell" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("bash")
        metafunc.parametrize("worker_shell", ["dash", "bash"] if both else ["dash"], indirect=True)


@pytest.fixture
def worker_shell(request: pytest.FixtureRequest) -> str:
    """Return the shell that serves as a worker's sh."""
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    return str(request.param)


@pytest.fixture
def worker(worker_shell: str, tmp_path: Path) -> Iterator[PipeWorker]:
    """Yield a worker over pipes; kill the processes that its runs left."""
    made = PipeWorker(tmp_path, worker_shell)
    yield made
    tags = [tag.read_text().strip() for tag in (made.home / ".tpu-tui").glob("runs/*/*/tag")]
    for pid in tagged(*tags):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    made.close()
