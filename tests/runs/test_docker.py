"""Jobs in containers, on a real OpenSSH worker with a stand-in for Docker on its PATH."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runs.docker import DockerDaemon, docker_daemon
from tests.runs.pipes import content_of
from tests.runs.ssh_pod import SECRET, Pod, over, unattended
from tests.sshd import OpensshWorker, needs_sshd
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

pytestmark = needs_sshd
VARIABLES = "$PJRT_DEVICE $TPU_TUI_WORKER $PYTHONUNBUFFERED $TPU_TUI_ATTEMPT $MY_TOKEN ${TPU_TUI_MARK-unmarked}"


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[DockerDaemon]:
    with docker_daemon(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def docker_pod(docker: DockerDaemon, sshd: Callable[..., OpensshWorker], tmp_path: Path) -> Iterator[Pod]:
    path = f"{docker.path}:{os.environ['PATH']}"
    made = Pod([sshd(environment={"PATH": path})], tmp_path / "home")
    yield made
    made.end_runs()


def running_container(pod: Pod, docker: DockerDaemon, script: str) -> tuple[RunDirectory, int]:
    """Launch a container that prints a line when it is ready; return its run and its process."""
    directory = pod.running("sh", "-c", f"{script}; echo ready; while :; do sleep 0.1; done", docker_image="image")
    wait_until(lambda: b"ready\n" in content_of(directory.log_path(0)))
    (container,) = docker.containers.values()
    assert container.process.poll() is None
    return directory, container.process.pid


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_job_runs_in_a_container_and_leaves_nothing_behind(docker_pod: Pod, docker: DockerDaemon) -> None:
    options = {"docker_image": "image", "docker_container": "mine", "docker_run_flag": ("--shm-size=50GB",)}
    directory = docker_pod.launch("sh", "-c", f'echo "{VARIABLES}"; exit 3', runtime="pjrt", **options)
    status = over(directory)
    assert (status.state, status.exit_codes) == (RunState.FAILED, (3,)), status.cause
    assert directory.log_path(0).read_text() == f"TPU 0 1 0 {SECRET} unmarked\n"
    (started,) = (words for words in docker.commands if words[0] == "run")
    assert started[1:3] == ["--name=mine", "--network=host"]
    assert started[3:5] == [f"--label=tpu-tui={directory.id}/0", "--shm-size=50GB"]
    assert SECRET not in " ".join(started)
    assert not docker.containers, "the name is free for the next attempt"
    unattended(directory)


def test_a_relaunch_reuses_the_name_of_the_container(docker_pod: Pod, docker: DockerDaemon) -> None:
    script = 'echo "attempt $TPU_TUI_ATTEMPT"; [ "$TPU_TUI_ATTEMPT" = 1 ]'
    directory = docker_pod.launch("sh", "-c", script, docker_image="image", restarts=1)
    assert over(directory).state is RunState.SUCCEEDED
    assert directory.log_path(0).read_text().endswith("attempt 1\n")
    assert not docker.containers
    unattended(directory)


def test_a_stop_lets_a_container_save_and_waits_for_it(docker_pod: Pod, docker: DockerDaemon) -> None:
    directory, pid = running_container(docker_pod, docker, "trap 'echo saved; exit 5' TERM")
    (answer,) = docker_pod.stop(directory, grace=20)
    assert (answer.confirmed, answer.exit_code) == (True, 5), answer
    assert over(directory).state is RunState.STOPPED
    assert directory.log_path(0).read_text() == "ready\nsaved\n"
    assert is_gone(pid)
    assert not docker.containers
    unattended(directory)


def test_a_stop_ends_a_container_that_ignores_it(docker_pod: Pod, docker: DockerDaemon) -> None:
    directory, pid = running_container(docker_pod, docker, "trap '' TERM")
    (answer,) = docker_pod.stop(directory, grace=0.5)
    assert answer.confirmed, answer
    assert is_gone(pid)
    assert not docker.containers
    over(directory)
    unattended(directory)


def test_a_container_whose_client_was_killed_saves_and_ends_with_the_run(
    docker_pod: Pod, docker: DockerDaemon, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    directory, pid = running_container(docker_pod, docker, f"trap 'echo yes >{saved}; exit' TERM")
    leader = (docker_pod.remote(directory, 0) / "pid").read_text().split()[0]
    os.kill(int(leader), signal.SIGKILL)
    assert over(directory).state is RunState.FAILED
    assert is_gone(pid)
    assert saved.read_text() == "yes\n"
    assert not docker.containers
    unattended(directory)


def test_a_stop_is_not_confirmed_while_the_container_cannot_be_removed(docker_pod: Pod, docker: DockerDaemon) -> None:
    directory, pid = running_container(docker_pod, docker, "trap '' TERM")
    docker.refuses_removal = True
    (answer,) = docker_pod.stop(directory, grace=0.2)
    assert not answer.confirmed
    assert "its container may be left: Error response from daemon: device or resource busy" in answer.detail
    assert status_of(directory).state is RunState.STOPPING, "a container is left"
    assert not is_gone(pid)
    wait_until(lambda: b"tpu-tui: the container may be left: Error" in content_of(directory.log_path(0)))
    docker.refuses_removal = False
    (answer,) = docker_pod.stop(directory, grace=0.2)
    assert answer.confirmed, answer
    assert is_gone(pid)
    assert over(directory).state is RunState.STOPPED
    unattended(directory)


def test_a_foreign_container_with_the_same_name_is_left_alone(docker_pod: Pod, docker: DockerDaemon) -> None:
    other = docker.start_elsewhere("mine")
    directory = docker_pod.launch("true", docker_image="image", docker_container="mine")
    status = over(directory)
    assert (status.state, status.exit_codes) == (RunState.FAILED, (125,))
    assert b"Conflict. The container name 'mine' is already in use" in directory.log_path(0).read_bytes()
    assert other.process.poll() is None
    unattended(directory)


def test_a_worker_where_docker_does_not_answer_starts_nothing(docker_pod: Pod, docker: DockerDaemon) -> None:
    docker.is_down = True
    status = over(docker_pod.launch("true", docker_image="image"))
    assert (status.state, docker.commands) == (RunState.FAILED, [["version"]])
    assert "Cannot connect to the Docker daemon" in str(status.cause)
