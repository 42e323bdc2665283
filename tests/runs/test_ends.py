"""How a run ends when workers fail or are lost, and which worker is named as the cause."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.runs.pipes import content_of, tagged
from tests.runs.ssh_pod import Pod, over, unattended
from tests.runs.test_worker_removed import kill_supervisors
from tests.sshd import needs_sshd
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.reports.facts import facts_of_run
from tui.runs.keeper.start import ensure_keeper, start_keeper
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.exit_summary import exit_summary
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings import save_profile

pytestmark = [needs_sshd, pytest.mark.timing]


def resume(pod: Pod, directory: RunDirectory) -> bool:
    return asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))


def followed(directory: RunDirectory, text: bytes = b"on\n") -> None:
    """Wait until the mirror of every worker holds its first line."""
    wait_until(lambda: all(content_of(directory.log_path(index)) == text for index in range(3)))


def test_a_run_whose_workers_are_all_unreachable_is_lost_and_names_them(pod: Pod) -> None:
    directory = pod.running("sh", "-c", "echo on; exec sleep 1000")
    followed(directory)
    for worker in pod.workers:
        worker.stop()
    status = over(directory, 50)
    assert status.state is RunState.LOST
    match = re.match(r"workers 0, 1, 2 could not be reached for ([\d.]+) s \(connection refused", status.cause or "")
    assert match, status.cause
    assert float(match[1]) >= pod.timeouts.lost_after
    assert "attach" in (status.cause or "")
    assert "attach" in (status.remedy or "")
    unattended(directory)
    assert status.exit_codes == (None, None, None)


@pytest.mark.parametrize(("boot", "rebooted"), [("another boot\n", True), ("", False)], ids=["another", "unknown"])
def test_a_reboot_is_named_only_if_the_boot_of_the_run_is_known(pod: Pod, boot: str, rebooted: bool) -> None:
    directory = pod.running("sh", "-c", "echo on; exec sleep 1000")
    followed(directory)
    remote = pod.remote(directory, 1)
    pod.workers[1].stop()
    kill_supervisors(directory.run, worker=1)
    for pid in tagged((remote / "tag").read_text().strip()):
        os.kill(pid, signal.SIGKILL)
    (remote / "boot").write_text(boot)
    pod.workers[1].start()
    status = over(directory)
    note = "worker 1: the machine was rebooted; how its part of the run ended is not recorded"
    assert (note in status.notes) is rebooted
    assert (status.state, status.exit_codes[1]) == (RunState.LOST, None)


def test_a_lost_run_revives_when_its_workers_answer_again(pod: Pod) -> None:
    directory = pod.running("sh", "-c", 'echo one; while [ ! -e "$HOME/end" ]; do sleep 0.1; done; echo two')
    for worker in pod.workers:
        worker.stop()
    assert over(directory).state is RunState.LOST
    unattended(directory)
    for worker in pod.workers:
        worker.start()
    assert resume(pod, directory)
    wait_until(lambda: status_of(directory).state is RunState.RUNNING)
    for worker in pod.workers:
        (worker.home / "end").touch()
    status = over(directory)
    assert (status.state, status.exit_codes, status.cause) == (RunState.SUCCEEDED, (0, 0, 0), None)
    assert directory.log_path(1).read_bytes() == b"one\ntwo\n"
    unattended(directory)
    assert not resume(pod, directory)


def test_a_worker_out_of_reach_is_not_given_up_while_others_run(pod: Pod) -> None:
    pod.timeouts = KeeperTimeouts(drain=0.2, lost_after=0.8, gone_after=0.5)
    directory = pod.running("sh", "-c", "while :; do echo on; sleep 0.1; done")
    pod.workers[1].stop()
    wait_until(lambda: status_of(directory).workers[1].link == "lost")
    size = directory.log_path(0).stat().st_size
    wait_until(lambda: directory.log_path(0).stat().st_size > size + 3 * 15)
    assert status_of(directory).state is RunState.RUNNING
    pod.workers[1].start()
    wait_until(lambda: status_of(directory).workers[1].link == "restored")
    pod.stop(directory)
    assert over(directory).state is RunState.STOPPED


def test_a_worker_that_only_lost_its_partner_is_not_blamed(pod: Pod) -> None:
    script = "case $TPU_TUI_WORKER in 0) exit 75;; 1) sleep 0.2; echo boom; exit 9;; *) sleep 0.3; exit 75;; esac"
    status = over(pod.launch("sh", "-c", script))
    assert (status.state, status.first_failure) == (RunState.FAILED, 1)
    assert status.cause == "worker 1 exited with 9; its last lines: boom"


def test_the_cause_of_a_killed_worker_states_only_known_facts_and_the_remedy_says_where_to_look(pod: Pod) -> None:
    script = '[ "$TPU_TUI_WORKER" = 1 ] && { echo working; kill -s KILL $$; }; exec sleep 1000'
    directory = pod.launch("sh", "-c", script)
    status = over(directory)
    assert (status.state, status.first_failure, status.exit_codes[1]) == (RunState.FAILED, 1, 137)
    assert "SIGKILL" in (status.cause or "")
    assert "out of memory" not in (status.cause or "")
    command = f"tpu-tui exec {directory.run.slice} --worker 1 -- dmesg | tail"
    assert (status.remedy or "").startswith(command)
    assert exit_summary(status) == "w1: SIGKILL · others stopped (143)"


def test_an_unreachable_worker_is_the_cause_when_the_others_lost_it_as_a_partner(pod: Pod) -> None:
    script = '[ "$TPU_TUI_WORKER" = 2 ] && exec sleep 1000; while [ ! -e "$HOME/end" ]; do sleep 0.1; done; exit 75'
    pod.timeouts = KeeperTimeouts(drain=0.3, lost_after=3.0, gone_after=2.0)
    directory = pod.running("sh", "-c", script)
    pod.workers[2].stop()
    wait_until(lambda: status_of(directory).workers[2].link == "lost")
    for worker in pod.workers[:2]:
        (worker.home / "end").touch()
    status = over(directory)
    assert (status.state, status.first_failure) == (RunState.LOST, 2)
    assert (status.cause or "").startswith("worker 2 cannot be reached; workers 0, 1 lost it as a partner; worker 2 ")
    assert "a stop is not confirmed there" in (status.cause or "")


def test_a_stop_that_cannot_reach_a_worker_blames_no_worker_that_stopped(pod: Pod) -> None:
    directory = pod.running("sh", "-c", "echo on; exec sleep 1000")
    followed(directory)
    pod.workers[2].stop()
    assert [answer.confirmed for answer in pod.stop(directory)] == [True, True, False]
    status = over(directory)
    assert (status.state, status.first_failure, status.exit_codes) == (RunState.LOST, None, (143, 143, None))
    assert re.match(r"worker 2 could not be reached for .*; a stop is not confirmed there", status.cause or "")


def test_a_lost_run_is_over_once_a_stop_reaches_the_worker_that_was_given_up(pod: Pod) -> None:
    directory = pod.running("sh", "-c", "trap 'echo saved; exit 0' TERM; echo on; sleep 1000 & wait")
    followed(directory)
    pod.workers[2].stop()
    assert [answer.confirmed for answer in pod.stop(directory)] == [True, True, False]
    assert over(directory).state is RunState.LOST
    unattended(directory)
    pod.workers[2].start()
    assert [answer.confirmed for answer in pod.stop(directory)] == [True, True, True]
    status = status_of(directory)
    assert (status.state, status.exit_codes, status.cause) == (RunState.STOPPED, (0, 0, 0), None)
    resume(pod, directory)
    unattended(directory)
    assert status_of(directory).state is RunState.STOPPED
    assert directory.log_path(2).read_bytes() == b"on\nsaved\n"


def test_a_run_given_up_before_it_was_stopped_ends_as_stopped_not_succeeded(pod: Pod) -> None:
    directory = pod.running("sh", "-c", "trap 'exit 0' TERM; echo on; sleep 1000 & wait")
    followed(directory)
    for worker in pod.workers:
        worker.stop()
    assert over(directory).state is RunState.LOST
    unattended(directory)
    for worker in pod.workers[:2]:
        worker.start()
    assert [answer.confirmed for answer in pod.stop(directory)] == [True, True, False]
    assert status_of(directory).state is RunState.LOST
    pod.workers[2].start()
    resume(pod, directory)
    wait_until(lambda: status_of(directory).state is RunState.STOPPING)
    assert [answer.confirmed for answer in pod.stop(directory)] == [True, True, True]
    status = over(directory)
    assert (status.state, status.exit_codes) == (RunState.STOPPED, (0, 0, 0))


@pytest.mark.parametrize(("code", "state"), [(0, RunState.SUCCEEDED), (3, RunState.FAILED)])
def test_a_stop_that_comes_after_the_end_of_a_lost_run_finds_how_it_ended(
    pod: Pod, code: int, state: RunState
) -> None:
    directory = pod.running("sh", "-c", f'echo on; while [ ! -e "$HOME/end" ]; do sleep 0.1; done; exit {code}')
    followed(directory)
    for worker in pod.workers:
        worker.stop()
    assert over(directory).state is RunState.LOST
    unattended(directory)
    pod.end_jobs(directory)
    for worker in pod.workers:
        worker.start()
    assert [answer.exit_code for answer in pod.stop(directory)] == [code] * 3
    resume(pod, directory)
    unattended(directory)
    status = status_of(directory)
    assert (status.state, status.exit_codes) == (state, (code,) * 3)


def local_run(pod: Pod, owner: subprocess.Popen[bytes], *argv: str) -> tuple[RunDirectory, Path]:
    profile = save_profile(pod.home, "local", {"project": "local", "local": {"pid": owner.pid, "pod": "a1b2c3"}})
    spec = pod.spec(*argv, profile="local")
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    pod.launched.append(directory)
    start_keeper(directory, spec)
    wait_until(lambda: status_of(directory).state is RunState.RUNNING)
    return directory, profile


@pytest.mark.parametrize("end", ["profile", "process", "another"])
def test_the_keeper_of_a_local_pods_run_ends_with_the_pod(pod: Pod, end: str) -> None:
    with subprocess.Popen(["sleep", "1000"]) as owner:
        directory, profile = local_run(pod, owner, "sleep", "1000")
        keeper = directory.keeper_status().pid or 0
        if end == "profile":
            profile.unlink()
        elif end == "another":
            save_profile(pod.home, "local", {"project": "local", "local": {"pid": owner.pid, "pod": "other"}})
        else:
            owner.kill()
            owner.wait()
        status = over(directory)
        wait_until(lambda: not Path(f"/proc/{keeper}").exists())
        owner.kill()
    assert status.state is RunState.LOST
    assert (status.cause or "").startswith("the local pod that it ran on has ended")
    assert (directory.path / "keeper.log").read_bytes() == b""


def test_the_keeper_of_a_local_pods_run_stays_while_the_pod_lives(pod: Pod) -> None:
    with subprocess.Popen(["sleep", "1000"]) as owner:
        directory, _ = local_run(pod, owner, "sh", "-c", "sleep 1; echo done")
        status = over(directory)
        owner.kill()
    assert (status.state, status.exit_codes) == (RunState.SUCCEEDED, (0, 0, 0))


def test_a_full_disk_of_a_worker_is_noted_while_the_run_goes_on(pod: Pod) -> None:
    directory = pod.running("sh", "-c", "echo on; sleep 1000")
    wait_until(lambda: content_of(directory.log_path(2)) == b"on\n")
    full = pod.remote(directory, 2) / "full"
    (pod.remote(directory, 2) / "room").rename(full)
    wait_until(lambda: any("is full" in note for note in status_of(directory).notes))
    assert status_of(directory).notes[-1].startswith("worker 2: the disk of this worker is full")
    pod.workers[2].cut()
    wait_until(lambda: status_of(directory).workers[2].link == "restored")
    full.rename(full.with_name("room"))
    wait_until(lambda: "there is room" in status_of(directory).notes[-1])
    assert [note for note in status_of(directory).notes if "disk" in note] == list(status_of(directory).notes)[-2:]


def test_a_restart_launches_all_workers_together_and_keeps_the_attempts_separate(pod: Pod) -> None:
    script = (
        'echo "try $TPU_TUI_ATTEMPT"; [ "$TPU_TUI_ATTEMPT" = 2 ] && exit 0; '
        "[ $TPU_TUI_WORKER = 1 ] && exit 3; sleep 99"
    )
    directory = pod.launch("sh", "-c", script, restarts=3)
    status = over(directory)
    assert (status.state, status.attempt, status.exit_codes) == (RunState.SUCCEEDED, 2, (0, 0, 0))
    for index in range(3):
        name = directory.log_path(index).name
        earlier = [(directory.attempt_path(attempt) / name).read_bytes() for attempt in range(2)]
        assert [*earlier, directory.log_path(index).read_bytes()] == [b"try 0\n", b"try 1\n", b"try 2\n"]
        remote = pod.remote(directory, index).parent
        assert [(remote / "attempts" / str(n) / str(index) / "log").read_bytes() for n in range(2)] == earlier
    from tui.runs.read.line_reader import LineReader

    lines = [(line.worker, line.text) for line in LineReader(directory).poll(final=True)]
    assert sorted(lines) == [(worker, f"try {n}") for worker in range(3) for n in range(3)]
    failures = [(event.worker, event.get("exit_code")) for event in directory.events()[0] if event.kind == "failure"]
    assert failures == [(1, 3), (1, 3)]


def test_after_the_last_restart_the_last_failure_is_the_cause(pod: Pod) -> None:
    status = over(pod.launch("sh", "-c", 'echo "no $TPU_TUI_ATTEMPT"; exit 4', restarts=1))
    assert (status.state, status.attempt, status.exit_codes) == (RunState.FAILED, 1, (4, 4, 4))
    assert (status.cause or "").endswith("exited with 4; its last lines: no 1")
    # The facts that reports state are the same after the run.
    assert facts_of_run(status).notes == ("a pause of 0.2 s before restart 1",)


def test_a_command_that_cannot_start_is_not_restarted(pod: Pod) -> None:
    status = over(pod.launch("no-such-command", restarts=3))
    assert (status.state, status.attempt) == (RunState.FAILED, 0)


def test_a_stop_by_a_user_ends_the_restarts(pod: Pod) -> None:
    pod.timeouts = KeeperTimeouts(drain=0.2, restart_pause=60)
    directory = pod.launch("sh", "-c", "exit 4", restarts=3)
    wait_until(lambda: status_of(directory).attempt == 1)
    assert [answer.confirmed for answer in pod.stop(directory)] == [True, True, True]
    status = over(directory)
    assert (status.state, status.attempt) == (RunState.STOPPED, 1)


def test_a_keeper_that_never_knew_the_secrets_restarts_the_run_with_them(pod: Pod) -> None:
    script = (
        'echo "$MY_TOKEN $TPU_TUI_ATTEMPT" | wc -c; while [ ! -e "$HOME/end" ]; do sleep 0.1; done; '
        'rm "$HOME/end"; exit 5'
    )
    directory = pod.running("sh", "-c", script, restarts=1)
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    unattended(directory)
    assert resume(pod, directory)
    (pod.workers[0].home / "end").touch()
    wait_until(lambda: (status_of(directory).attempt, status_of(directory).state) == (1, RunState.RUNNING))
    wait_until(lambda: content_of(directory.log_path(1)) == b"17\n")
    for worker in pod.workers:
        (worker.home / "end").touch()
    assert over(directory).exit_codes == (5, 5, 5)


def test_a_keeper_killed_between_two_attempts_is_replaced_and_the_restart_happens_once(pod: Pod) -> None:
    pod.timeouts = KeeperTimeouts(drain=0.2, restart_pause=60)
    directory = pod.launch("sh", "-c", 'echo "try $TPU_TUI_ATTEMPT"; exit $((1 - TPU_TUI_ATTEMPT))', restarts=2)
    wait_until(lambda: status_of(directory).attempt == 1)
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    unattended(directory)
    assert resume(pod, directory)
    status = over(directory)
    assert (status.state, status.attempt) == (RunState.SUCCEEDED, 1)
    assert (directory.attempt_path(0) / directory.log_path(2).name).read_bytes() == b"try 0\n"
    assert pod.mirrors_are_exact(directory)
    assert not any(tagged(tag) for tag in pod.tags(directory))
