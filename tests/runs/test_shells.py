"""Runs on real OpenSSH workers with different login shells, whose start-up files print lines."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.runs.pipes import tagged
from tests.runs.ssh_pod import SECRET, Pod, over, unattended
from tests.sshd import needs_sshd, openssh_worker
from tui.pod.creation.slice_request import WorkerStartup
from tui.pod.run import RunState
from tui.runs.launch.launch_spec import Preflight
from tui.ssh.connection import command_line
from tui.ssh.fleet import Fleet
from tui.ssh.results import CommandResult
from tui.ssh.startup_scripts import read_startup

pytestmark = needs_sshd
SHELLS = {
    "bash": (".bashrc", "echo hello from bash; echo and an error >&2"),
    "zsh": (".zshenv", "echo hello from zsh; echo and an error >&2"),
    "fish": (".config/fish/config.fish", "echo hello from fish; echo and an error >&2"),
    "tcsh": (".tcshrc", "echo hello from tcsh"),
}
STARTED = "started"
"""The file to which every login shell adds a line."""
WORDS = ("a b", "it's", '"$HOME" `id` $(id) \\', "two\nlines\n\n", "ünï", "*", "", "!x", "\t", "-n", "x" * 100_000)


@pytest.fixture(scope="module", params=list(SHELLS))
def talkative_pod(request: pytest.FixtureRequest) -> Iterator[Pod]:
    """Start a worker whose user has this login shell, which prints lines before every command; yield its pod."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"no {request.param} here: apt-get install {request.param}")
    user = f"tt{request.param}{os.getpid()}"
    account = ["--no-create-home", "--home-dir", "/nonexistent", "--password", "*", "--shell", program]
    subprocess.run(["useradd", *account, user], check=True)
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["userdel", "--force", user], capture_output=True)
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root.chmod(0o755)
        worker = stack.enter_context(openssh_worker(root, bare=True, user=user))
        name, text = SHELLS[request.param]
        start_up = worker.home / name
        start_up.parent.mkdir(parents=True, exist_ok=True)
        start_up.write_text(f"{text}\necho again >>{worker.home}/{STARTED}\n")
        subprocess.run(["chown", "-R", user, str(worker.home)], check=True)
        pod = Pod([worker], root / "here")
        pod.preflight = Preflight()
        assert pwd.getpwnam(user).pw_shell == program
        yield pod
        pod.end_runs()


@pytest.mark.bash
def test_words_and_values_arrive_exactly_whatever_the_login_shell_prints(talkative_pod: Pod) -> None:
    directory = talkative_pod.launch("sh", "-c", 'printf "%s\\0" "$@" "$MY_TOKEN"', "sh", *WORDS)
    status = over(directory, 90)
    assert (status.state, status.exit_codes) == (RunState.SUCCEEDED, (0,)), status.cause
    wanted = b"".join(word.encode() + b"\0" for word in (*WORDS, SECRET))
    assert directory.log_path(0).read_bytes() == wanted
    started = talkative_pod.workers[0].home / STARTED
    assert started.read_text() == "again\n", "checks, launch and log share one login session"
    unattended(directory)


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_the_words_of_a_command_arrive_exactly_whatever_the_login_shell_is(
    talkative_pod: Pod, timeout: float | None
) -> None:
    words = [*WORDS[:-1], "a\\\\b", "\\'!\n", "x" * 1000]

    async def read() -> bytes:
        async with Fleet(talkative_pod.launch_workers, talkative_pod.access) as fleet:
            line = command_line(["sh", "-c", 'printf "%s\\0" "$@"', "sh", *words])
            (answer,) = [answer async for answer in fleet.run_all([0], line, timeout=timeout)]
            assert isinstance(answer, CommandResult)
            return answer.stdout

    printed = asyncio.run(read())
    assert printed.endswith(b"".join(word.encode() + b"\0" for word in words))


@pytest.mark.bash
def test_a_stop_is_confirmed_whatever_the_login_shell_prints(talkative_pod: Pod) -> None:
    directory = talkative_pod.running("sleep", "1000")
    assert [answer.confirmed for answer in talkative_pod.stop(directory)] == [True]
    assert not tagged(*talkative_pod.tags(directory))
    over(directory, 90)
    unattended(directory)


def test_a_startup_script_is_asked_about_whatever_the_login_shell_is(talkative_pod: Pod) -> None:
    async def read() -> WorkerStartup:
        async with Fleet(talkative_pod.launch_workers, talkative_pod.access) as fleet:
            return await read_startup(fleet, WorkerStartup("ssh", 0))

    assert asyncio.run(read()).exit_code is None
