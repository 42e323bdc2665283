"""Complete runs over real OpenSSH servers with only coreutils, util-linux and sh on their PATH."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runs.pipes import content_of, tagged
from tests.runs.ssh_pod import SECRET, Pod, over, unattended
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.errors import TpuTuiError, UsageError
from tui.pod.run import Run, RunState
from tui.pod.secrets import MASK
from tui.runs.follow.catch_up import catch_up
from tui.runs.keeper import stop_requests
from tui.runs.keeper.attempt_start import AttemptStarter
from tui.runs.keeper.leadership import Leadership
from tui.runs.keeper.start import ensure_keeper, start_keeper
from tui.runs.launch.gang import Gang
from tui.runs.launch.launch_spec import LaunchSpec, Preflight, check_spec, dry_run
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.queries import RemoteState, list_run_answers, parse_state, query_states, read_record
from tui.runs.worker.stop import stop_run
from tui.ssh.exec.script_protocol import Answer
from tui.ssh.fleet import Fleet

pytestmark = [needs_sshd, pytest.mark.timing]
PYTHON = sys.executable


@pytest.mark.py310
def test_a_run_passes_every_phase_and_is_mirrored_exactly(pod: Pod) -> None:
    junk = pod.home.parent / "junk"
    junk.write_bytes(bytes(range(256)) * 400 + os.urandom(5000))
    directory = pod.launch("sh", "-c", f'cat {junk}; printf "worker %s" "$TPU_TUI_WORKER"')
    status = over(directory)
    assert (status.state, status.exit_codes) == (RunState.SUCCEEDED, (0, 0, 0))
    for index in range(3):
        assert directory.log_path(index).read_bytes() == junk.read_bytes() + b"worker %d" % index
    assert pod.mirrors_are_exact(directory)
    events, _ = directory.events()
    phases = {(event.worker, event.get("phase")) for event in events if event.get("status") == "done"}
    assert phases == {(w, p) for w in range(3) for p in ("connect", "prepare", "barrier", "start", "confirm")}
    ends = {arrival.worker: arrival.end for arrival in directory.arrivals()[0]}
    assert ends == {index: directory.log_path(index).stat().st_size for index in range(3)}
    unattended(directory)


def test_no_secret_is_written_or_shown_anywhere(pod: Pod) -> None:
    directory = pod.running("sh", "-c", 'echo "${#MY_TOKEN}"; sleep 1000')
    wait_until(lambda: content_of(directory.log_path(2)) == b"14\n")
    listing = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    assert SECRET not in listing
    assert SECRET not in dry_run(pod.spec("true"))
    pod.stop(directory)
    over(directory)
    unattended(directory)  # a keeper cleans up when it ends
    for path in directory.path.iterdir():
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in (pod.remote(directory, 0) / "run.json").read_text()


def test_the_job_gets_secrets_that_no_record_shows(pod: Pod) -> None:
    place = f"redis://me:{SECRET}@h/0"
    spec = pod.spec("sh", "-c", 'echo "$1 $PLACE $PLAIN"', "x", place, env_by_name=("PLAIN",))
    spec = replace(spec, env={"PLACE": place, "PLAIN": SECRET})
    text = dry_run(spec)
    assert f"redis://{MASK}@h/0" in text
    assert SECRET not in text
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    pod.launched.append(directory)
    start_keeper(directory, spec)
    assert over(directory).state is RunState.SUCCEEDED
    assert [directory.log_path(index).read_text() for index in range(3)] == [f"{place} {place} {SECRET}\n"] * 3
    files = [*directory.path.glob("[!w]*"), *(pod.remote(directory, index) / "run.json" for index in range(3))]
    assert [path.name for path in files if path.is_file() and SECRET in path.read_text("utf-8", "replace")] == []


def test_a_command_missing_on_one_worker_starts_nothing_and_names_it(pod: Pod) -> None:
    for index in (0, 2):
        only_here = Path(pod.workers[index].root / "bin" / "rare")
        only_here.symlink_to("/bin/true")
    directory = pod.launch("rare")
    status = over(directory)
    assert status.state is RunState.FAILED
    assert status.cause
    assert status.cause.startswith("worker 1: command not found: rare")
    assert status.first_failure == 1
    assert not any(pod.remote(directory, index).exists() for index in range(3))


def test_a_second_run_on_the_slice_is_refused_by_name(pod: Pod) -> None:
    first = pod.running("sleep", "1000")
    status = over(pod.launch("true"))
    assert status.state is RunState.FAILED
    assert first.id in (status.cause or "")
    assert "sleep 1000" in (status.cause or "")
    assert status_of(first).state is RunState.RUNNING


@pytest.mark.py310
def test_a_stop_is_confirmed_by_every_worker_by_name(pod: Pod) -> None:
    directory = pod.running(
        "sh", "-c", "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000' & sleep 1000 & wait; wait"
    )
    answers = pod.stop(directory)
    assert [(answer.worker, answer.confirmed) for answer in answers] == [(0, True), (1, True), (2, True)]
    assert [tagged(tag) for tag in pod.tags(directory)] == [[], [], []]
    assert over(directory).state is RunState.STOPPED
    assert [answer.exit_code for answer in pod.stop(directory)] == [answer.exit_code for answer in answers]
    assert pod.mirrors_are_exact(directory)


def test_a_stop_works_without_a_keeper_and_names_unreachable_workers(pod: Pod) -> None:
    directory = pod.running("sleep", "1000")
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    unattended(directory)
    pod.workers[1].stop()
    answers = pod.stop(directory)
    assert [answer.confirmed for answer in answers] == [True, False, True]
    assert answers[1].detail
    assert status_of(directory).state is RunState.STOPPING
    pod.workers[1].start()
    assert [answer.confirmed for answer in pod.stop(directory)] == [True, True, True]
    assert status_of(directory).state is RunState.STOPPED
    assert status_of(directory).exit_codes == (143, 143, 143)


def test_one_workers_failure_stops_the_others_and_is_the_cause(pod: Pod) -> None:
    script = '[ "$TPU_TUI_WORKER" = 1 ] && { sleep 0.3; echo out of ideas; exit 7; }; exec sleep 1000'
    status = over(pod.launch("sh", "-c", script))
    assert (status.state, status.exit_codes) == (RunState.FAILED, (143, 7, 143))
    assert status.first_failure == 1
    assert status.cause == "worker 1 exited with 7; its last lines: out of ideas"


def test_with_the_policy_leave_the_others_go_on(pod: Pod) -> None:
    script = '[ "$TPU_TUI_WORKER" = 1 ] && exit 7; sleep 3; exit 0'
    status = over(pod.launch("sh", "-c", script, on_failure="leave"))
    assert (status.state, status.exit_codes, status.first_failure) == (RunState.FAILED, (0, 7, 0), 1)


COUNTING = """
import os, sys, time
out = sys.stdout.buffer
i = 0
while not os.path.exists(os.path.expanduser("~/end")):
    out.write(b"line %d " % i + os.urandom(200) + b"\\n"); out.flush(); time.sleep(0.01); i += 1
"""
"""A job that prints until the file `end` exists."""


def end_counting(pod: Pod) -> None:
    for worker in pod.workers:
        (worker.home / "end").touch()


def test_a_keeper_killed_during_a_run_is_replaced_and_the_mirror_continues_exactly(pod: Pod) -> None:
    directory = pod.running(PYTHON, "-c", COUNTING)
    for _ in range(3):
        size = directory.log_size(0)
        wait_until(lambda before=size: directory.log_size(0) > before)
        os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
        unattended(directory)
        assert status_of(directory).state is RunState.RUNNING
        assert asyncio.run(ensure_keeper(directory, pod.access))
        assert not asyncio.run(ensure_keeper(directory, pod.access))
    end_counting(pod)
    assert over(directory).state is RunState.SUCCEEDED
    assert pod.mirrors_are_exact(directory)
    for index in range(3):
        ends = [arrival.end for arrival in directory.arrivals()[0] if arrival.worker == index]
        assert ends == sorted(ends)
        assert ends[-1] == directory.log_path(index).stat().st_size


@pytest.mark.py310
def test_cut_connections_are_recorded_and_lose_no_byte(pod: Pod) -> None:
    directory = pod.running(PYTHON, "-c", COUNTING)
    for _ in range(3):
        size = directory.log_size(1)
        wait_until(lambda before=size: directory.log_size(1) > before)
        pod.workers[1].cut()
    end_counting(pod)
    assert over(directory).state is RunState.SUCCEEDED
    assert pod.mirrors_are_exact(directory)
    links = [event.get("status") for event in directory.events()[0] if event.kind == "link"]
    assert links[:2] == ["lost", "restored"]
    assert links[-1] == "restored"


def test_a_keeper_that_is_terminated_leaves_the_run_alone(pod: Pod) -> None:
    directory = pod.running("sleep", "1000")
    os.kill(directory.keeper_status().pid or 0, signal.SIGTERM)
    unattended(directory)
    assert all(tagged(tag) for tag in pod.tags(directory))
    assert status_of(directory).state is RunState.RUNNING
    assert (directory.path / "keeper.log").read_bytes() == b""


def test_one_run_has_one_keeper(pod: Pod) -> None:
    directory = pod.running("sleep", "1000")
    pid = directory.keeper_status().pid
    assert start_keeper(directory, None, access=pod.access) == pid
    assert directory.keeper_status().pid == pid


def test_a_keeper_outlives_the_process_and_the_session_that_started_it(pod: Pod) -> None:
    directory = pod.running("sleep", "1000")
    pid = directory.keeper_status().pid or 0
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    assert int(stat[3]) != os.getsid(0)
    assert Path(f"/proc/{pid}/cwd").resolve() == Path("/")
    assert int(stat[1]) != os.getpid()


def test_a_keeper_killed_while_it_launches_leaves_all_or_none(pod: Pod) -> None:
    """The next keeper ends and reports a run of which only some workers were confirmed."""
    for wanted in ("connect", "prepare", "barrier", "start", "confirm"):
        directory = pod.launch("sleep", "1000")
        wait_until(lambda name=wanted, run=directory: any(event.get("phase") == name for event in run.events()[0]))
        os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
        unattended(directory)
        found = asyncio.run(found_on(pod, directory))
        asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))
        wait_until(lambda run=directory: status_of(run).state is not RunState.PREPARING)
        if RemoteState.RUNNING in found and found != {RemoteState.RUNNING}:
            assert "the launch was interrupted during its confirmation" in (over(directory).cause or "")
        else:
            assert (status_of(directory).state is RunState.RUNNING) is (RemoteState.RUNNING in found)
        pod.stop(directory)
        over(directory)
        assert not any(tagged(tag) for tag in pod.tags(directory))


async def found_on(pod: Pod, directory: RunDirectory) -> set[RemoteState]:
    """Return the states that the workers report for a run, once each has decided."""
    async with Fleet(directory.run.workers, pod.access) as fleet:
        return set((await query_states(directory.run, fleet, 0)).values())


def test_a_launch_interrupted_with_one_worker_unconfirmed_is_ended_on_all_workers_and_reported(pod: Pod) -> None:
    directory = pod.running("sleep", "1000")
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    unattended(directory)
    events = directory.path / "events.jsonl"
    lines = events.read_text().splitlines(keepends=True)
    events.write_text("".join(line for line in lines if '"running"' not in line))
    tag = (pod.remote(directory, 1) / "tag").read_text().strip()
    for pid in tagged(tag):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: (pod.remote(directory, 1) / "status").exists())
    shutil.rmtree(pod.remote(directory, 1))
    asyncio.run(ensure_keeper(directory, pod.access))
    status = over(directory)
    assert (status.state, status.first_failure) == (RunState.FAILED, 1)
    assert "the launch was interrupted during its confirmation: it does not run on worker 1" in (status.cause or "")
    assert not any(tagged((pod.remote(directory, index) / "tag").read_text().strip()) for index in (0, 2))


async def caught_up(pod: Pod, directory: RunDirectory) -> None:
    async with Fleet(directory.run.workers, pod.access) as fleet:
        await catch_up(directory, fleet, timeout=20)


def test_a_mirror_is_caught_up_without_a_keeper(pod: Pod) -> None:
    directory = pod.running("sh", "-c", "echo first; sleep 1000")
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    unattended(directory)
    asyncio.run(caught_up(pod, directory))
    assert [directory.log_path(index).read_bytes() for index in range(3)] == [b"first\n"] * 3
    assert not directory.keeper_status().alive


def test_another_machine_finds_the_run_on_the_workers(pod: Pod) -> None:
    directory = pod.running("sh", "-c", "echo hello; sleep 1000")

    async def found() -> tuple[dict[str, Answer], Run]:
        async with Fleet(directory.run.workers, pod.access) as fleet:
            answers = await list_run_answers(fleet, 1, "~/.tpu-tui")
            return answers, await read_record(fleet, 1, directory.id, "~/.tpu-tui")

    answers, record = asyncio.run(found())
    assert {run: parse_state(answer) for run, answer in answers.items()} == {directory.id: RemoteState.RUNNING}
    elsewhere = RunDirectory.create(pod.home / "elsewhere", record)
    asyncio.run(caught_up(pod, elsewhere))
    assert elsewhere.log_path(2).read_bytes() == b"hello\n"


def test_synced_code_is_where_the_job_starts(pod: Pod, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "job").write_text("#!/bin/sh\necho synced\n")
    (code / "job").chmod(0o755)
    spec = pod.spec("./job")
    spec = LaunchSpec(spec.run, spec.env, spec.access, sync=code)
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    pod.launched.append(directory)
    start_keeper(directory, spec)
    status = over(directory)
    assert status.state is RunState.SUCCEEDED, status.cause
    assert directory.log_path(1).read_bytes() == b"synced\n"
    assert RunDirectory.open(directory.path).run.code_hash


def test_a_stop_during_the_launch_ends_it(pod: Pod) -> None:
    (pod.workers[1].home / ".profile").write_text("sleep 3\n")
    directory = pod.launch("sleep", "1000")
    wait_until(lambda: any(event.get("phase") == "prepare" for event in directory.events()[0]))
    answers = pod.stop(directory)
    assert all(answer.confirmed for answer in answers), answers
    assert over(directory).state is RunState.STOPPED
    assert not any(tagged(tag) for tag in pod.tags(directory))


async def test_a_launch_that_fails_because_of_a_stop_counts_as_stopped(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_requests, "STOP_POLL_INTERVAL_S", 60.0)
    (pod.workers[1].home / ".profile").write_text("sleep 1\n")
    spec = pod.spec("sleep", "1000")
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    async with Fleet(pod.launch_workers, pod.access) as fleet:
        starting = AttemptStarter(
            directory, fleet, spec.keeper_timeouts, Leadership(spec.run, fleet), spec=spec, attempt=0
        )
        launching = asyncio.ensure_future(starting.launch())
        await asyncio.to_thread(wait_until, (pod.remote(directory, 2) / "alive").exists)
        assert all([answer.confirmed async for answer in stop_run(directory, pod.access, grace=1.0)])
        ended = await launching
    assert ended is not None
    assert ended.state is RunState.STOPPED, ended


class _CutGang(Gang):
    """A launch in which the session of worker 1 ends right after its checks."""

    async def _run_preflight(self) -> None:
        await super()._run_preflight()
        checked = self.sessions[1].process
        checked.stdin.write_eof()
        await checked.wait_closed()


async def test_a_launch_whose_session_ended_after_its_checks_opens_another(pod: Pod) -> None:
    spec = replace(pod.spec("sleep", "1000"), preflight=Preflight())
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    async with Fleet(pod.launch_workers, pod.access) as fleet:
        gang = _CutGang(directory, spec, fleet, attempt=0, again=False, keeper=0)
        await gang.run()
        assert set((await query_states(spec.run, fleet, 0)).values()) == {RemoteState.RUNNING}
        await asyncio.gather(*(session.close(0.1) for session in gang.sessions.values()))


def test_a_job_that_cannot_run_is_refused_before_there_is_a_keeper(pod: Pod) -> None:
    with pytest.raises(UsageError, match="128"):
        check_spec(pod.spec("x" * 200_000))
    with pytest.raises(UsageError, match="policy"):
        check_spec(pod.spec("true", on_failure="panic"))


def test_a_launch_whose_keeper_does_not_start_has_failed_and_says_why(pod: Pod) -> None:
    spec = pod.spec("true")
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    (directory.path / "keeper").mkdir()
    with pytest.raises(TpuTuiError, match=r"keeper did not start.*Is a directory"):
        start_keeper(directory, spec)
    assert status_of(directory).state is RunState.FAILED


def test_a_launch_spec_can_be_sent_as_json(pod: Pod) -> None:
    spec = pod.spec("a", "b c")
    again = LaunchSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert (again.env, again.access, again.run.job.argv) == (spec.env, spec.access, spec.run.job.argv)
    assert SECRET not in repr(spec)


def test_a_relative_directory_to_sync_is_absolute_for_the_keeper(pod: Pod) -> None:
    spec = replace(pod.spec("a"), sync=Path("code"))
    assert LaunchSpec.from_json(spec.to_json()).sync == Path.cwd() / "code"
