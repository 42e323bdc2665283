"""The session of a launch on a worker that ends the session early."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncssh
import pytest

from tests.runs.ssh_pod import Pod
from tests.sshd import needs_sshd, openssh_worker
from tui.errors import WorkerError
from tui.runs.launch.gang import Gang
from tui.runs.launch.worker_session import WorkerSession
from tui.runs.record.run_directory import RunDirectory
from tui.ssh.exec.script_protocol import Call
from tui.ssh.fleet import Fleet

pytestmark = needs_sshd


class _EndedFleet(Fleet):
    """A fleet whose commands have ended before anything is sent to them, as happens on a busy machine."""

    async def process(self, index: int, command: str) -> asyncssh.SSHClientProcess[bytes]:
        process = await super().process(index, command)
        await process.wait_closed()
        return process


@pytest.mark.parametrize("fleet", [Fleet, _EndedFleet])
def test_a_login_shell_that_ends_before_the_launch_is_sent_is_named_with_its_output(
    tmp_path: Path, fleet: type[Fleet]
) -> None:
    async def launch(pod: Pod) -> None:
        spec = pod.spec("true")
        directory = RunDirectory.create(pod.home / "runs", spec.run)
        async with fleet(spec.run.workers, spec.access) as workers:
            await Gang(directory, spec, workers, attempt=0, again=False, keeper=0).run()

    with openssh_worker(tmp_path / "worker", bare=True) as worker:
        (worker.home / ".bashrc").write_text("echo closed for today >&2; exit 3\n")
        with pytest.raises(WorkerError) as refused:
            asyncio.run(launch(Pod([worker], tmp_path / "here")))
    assert refused.value.worker == 0
    assert "closed for today" in refused.value.why


def test_a_worker_that_answers_a_check_without_end_is_given_up(tmp_path: Path) -> None:
    call = Call(b"while :; do echo @$1 disk; done", "0123456789abcdef", "0123456789abcdef")

    async def check(pod: Pod) -> None:
        (worker,) = pod.launch_workers
        async with Fleet([worker], pod.access) as workers:
            session = WorkerSession(worker, await workers.process(0, call.command_of_two))
            await session.answers_to(call)

    with (
        openssh_worker(tmp_path / "worker", bare=True) as worker,
        pytest.raises(WorkerError, match="it answers without end"),
    ):
        asyncio.run(check(Pod([worker], tmp_path / "here")))
