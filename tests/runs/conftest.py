from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, tagged, until
from tests.runs.ssh_pod import Pod
from tests.sshd import OpensshWorker, bare_path, has_bare_path, openssh_worker


@pytest.fixture(scope="module")
def three_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OpensshWorker]]:
    """Servers for every test of a module; `pod` puts back what a test did to them."""
    root = tmp_path_factory.mktemp("ssh")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(openssh_worker(root, index=index, bare=True)) for index in range(3)]


def is_removed(directory: Path) -> bool:
    """Remove a directory; what is being killed may still write into it, then it is not gone yet."""
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


@pytest.fixture
def pod(three_workers: list[OpensshWorker], tmp_path: Path) -> Iterator[Pod]:
    """Three workers with empty homes."""
    made = Pod(three_workers, tmp_path / "home")
    yield made
    made.end_runs()
    for worker in three_workers:
        if worker.process is None:
            worker.start()
        until(lambda gone=worker.home: is_removed(gone))
        worker.home.mkdir()
        if not has_bare_path(worker.root):
            shutil.rmtree(worker.root / "bin")
            bare_path(worker.root)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of a worker with dash for its sh, those marked `bash` with both shells."""
    if "worker_shell" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("bash")
        metafunc.parametrize("worker_shell", ["dash", "bash"] if both else ["dash"], indirect=True)


@pytest.fixture
def worker_shell(request: pytest.FixtureRequest) -> str:
    """The shell that is a worker's sh."""
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    return str(request.param)


@pytest.fixture
def worker(worker_shell: str, tmp_path: Path) -> Iterator[PipeWorker]:
    """A worker over pipes; what its runs left is killed."""
    made = PipeWorker(tmp_path, worker_shell)
    yield made
    tags = [tag.read_text().strip() for tag in (made.home / ".tpu-tui").glob("runs/*/*/tag")]
    for pid in tagged(*tags):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    made.close()
