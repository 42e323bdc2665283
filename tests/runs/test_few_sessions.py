"""Servers with a low MaxSessions: the follower of a run holds one session for as long as the run lasts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.pipes import content_of, tagged
from tests.runs.ssh_pod import Pod, over, unattended
from tests.sshd import needs_sshd, openssh_worker
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.keeper.start import start_keeper
from tui.runs.launch.launch_spec import LaunchSpec
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.ssh.fleet import Fleet
from tui.ssh.results import CommandResult

pytestmark = [needs_sshd, pytest.mark.timing]


@pytest.fixture(params=[1, 2], ids=["MaxSessions 1", "MaxSessions 2"])
def pod(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pod]:
    """Start two bare workers that allow this number of sessions per connection; yield their pod."""
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(openssh_worker(tmp_path, index=index, bare=True, max_sessions=request.param))
            for index in range(2)
        ]
        made = Pod(workers, tmp_path / "home")
        stack.callback(made.end_runs)
        yield made


def _synced(pod: Pod, code: Path, *argv: str) -> RunDirectory:
    spec = pod.spec(*argv)
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    pod.launched.append(directory)
    start_keeper(
        directory, LaunchSpec(spec.run, spec.env, spec.access, sync=code, keeper_timeouts=spec.keeper_timeouts)
    )
    return directory


def test_code_is_synced_and_a_run_followed_and_stopped(pod: Pod, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "job").write_text("echo begun; sleep 1000\n")
    directory = _synced(pod, code, "sh", "job")
    wait_until(lambda: status_of(directory).state is not RunState.PREPARING)
    wait_until(lambda: all(content_of(path) == b"begun\n" for path in map(directory.log_path, (0, 1))))
    assert all(answer.confirmed for answer in pod.stop(directory))
    assert over(directory).state is RunState.STOPPED
    assert not tagged(*pod.tags(directory))
    unattended(directory)


def test_one_workers_failure_stops_and_restarts_the_gang(pod: Pod) -> None:
    directory = pod.running("sh", "-c", 'echo on; [ "$TPU_TUI_WORKER" = 0 ] && exit 3; sleep 1000', restarts=1)
    status = over(directory)
    assert (status.state, status.first_failure) == (RunState.FAILED, 0), status.cause
    assert [(directory.attempt_path(0) / f"worker-{index:03}.log").read_bytes() for index in (0, 1)] == [b"on\n"] * 2
    assert [directory.log_path(index).read_bytes() for index in (0, 1)] == [b"on\n"] * 2
    assert not tagged(*pod.tags(directory))
    unattended(directory)


async def test_many_commands_take_turns_while_another_never_ends(pod: Pod) -> None:
    async with Fleet(pod.launch_workers, pod.access) as fleet:
        endless = await fleet.process(0, "echo begun; exec sleep 1000")
        assert await endless.stdout.readline() == b"begun\n"
        done = await asyncio.gather(*(fleet.run(0, f"echo {number}") for number in range(12)))
        endless.close()
        assert [row.stdout for row in done if isinstance(row, CommandResult)] == [b"%d\n" % n for n in range(12)]
        assert len(pod.workers[0].connections()) <= 2
