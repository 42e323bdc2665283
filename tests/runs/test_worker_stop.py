"""The confirmed stop of worker.sh, over pipes: no process of the run is left, and no other process is touched."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.pipes import Launch, PipeWorker, a_run, content_of, ended, needs_linux, tag_of, tagged
from tests.waiting import wait_until
from tui.pod.run import Run
from tui.runs.worker.calls import parse_outcome

pytestmark = [needs_linux, pytest.mark.timing]
PYTHON = sys.executable


def test_the_lock_file_is_removed_when_the_device_is_free(worker: PipeWorker, tmp_path: Path) -> None:
    device, lock = tmp_path / "accel0", tmp_path / "lockfile"
    device.touch()
    worker.env.update({"TPU_TUI_DEVICES": str(device), "TPU_TUI_LOCKFILE": str(lock)})
    run = a_run("sh", "-c", f"exec 3<{device}; touch {lock}; sleep 100")
    worker.launch(run).through()
    wait_until(lock.exists)
    assert worker.ask("stop", run, 10, 0)[0][0].word == "stopped"
    assert not lock.exists()


STUBBORN = f"""
{PYTHON} - <<'EOF' &
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def detached(work):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            work()
        os._exit(0)
def closed():
    for fd in range(3): os.close(fd)
    while True: time.sleep(9)
def scrubbed():
    os.execve('/bin/sleep', ['innocent', '1000'], {{}})
def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)
    while True: time.sleep(9)
for work in (closed, scrubbed, stopped): detached(work)
time.sleep(1000)
EOF
trap '' TERM
echo ready
while :; do sleep 1; done
"""


@pytest.mark.bash
def test_a_stop_leaves_no_stubborn_process_and_touches_no_neighbour(worker: PipeWorker) -> None:
    neighbour = subprocess.Popen(["sleep", "1000"])
    run = a_run("sh", "-c", STUBBORN)
    worker.launch(run).through()
    tag = tag_of(worker, run)
    wait_until(lambda: len(tagged(tag)) >= 6)
    answers, _, _ = worker.ask("stop", run, 5, 0)
    assert answers[0].word == "stopped", answers
    assert parse_outcome(answers[0]).signal == "KILL"
    assert tagged(tag) == []
    assert neighbour.poll() is None
    neighbour.kill()
    neighbour.wait()


@pytest.mark.bash
def test_a_stop_is_answered_the_same_a_second_time(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    first, second = (worker.ask("stop", run, 10, 0)[0][0] for _ in range(2))
    assert first == second
    assert (first.word, parse_outcome(first).exit_code, parse_outcome(first).signal) == ("stopped", 143, "TERM")


@pytest.mark.bash
def test_a_process_that_handles_sigterm_has_its_grace_time(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "trap 'sleep 0.5; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    worker.launch(run).through()
    wait_until(lambda: content_of(worker.directory(run) / "log") == b"ready\n")
    answers, _, _ = worker.ask("stop", run, 300, 0)
    assert parse_outcome(answers[0]).exit_code == 0
    assert (worker.directory(run) / "log").read_bytes().startswith(b"ready\n")
    assert (worker.directory(run) / "log").read_bytes().endswith(b"saved\n")


COUNTING = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
for child in range(12):
    if os.fork() == 0:
        if child % 3 == 0: os.setsid()
        break
os.write(1, b"ready\\n")
answers = 0
while signal.sigtimedwait({signal.SIGTERM}, 1 if answers else 60): answers += 1
os.write(1, b"answers %d\\n" % answers)
"""


@pytest.mark.bash
def test_a_stop_sends_sigterm_once_to_each_process(worker: PipeWorker) -> None:
    run = a_run(PYTHON, "-c", COUNTING)
    worker.launch(run).through()
    log = worker.directory(run) / "log"
    wait_until(lambda: content_of(log).count(b"ready\n") == 13)
    assert worker.ask("stop", run, 300, 0)[0][0].word == "stopped"
    assert log.read_bytes().splitlines()[13:] == [b"answers 1"] * 13


SAVING = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
for child in range(2):
    if os.fork() == 0:
        if child: os.setsid()
        os.write(1, b"ready\\n")
        answers = 0
        while signal.sigtimedwait({signal.SIGTERM}, 3 if answers else 60): answers += 1
        os.write(1, b"answers %d\\n" % answers)
        os._exit(0)
signal.sigwait({signal.SIGTERM})
"""


@pytest.mark.bash
def test_a_leader_that_ends_at_once_leaves_the_others_their_time_to_save(worker: PipeWorker) -> None:
    run = a_run(PYTHON, "-c", SAVING)
    worker.launch(run).through()
    log = worker.directory(run) / "log"
    wait_until(lambda: content_of(log).count(b"ready\n") == 2)
    assert worker.ask("stop", run, 300, 0)[0][0].word == "stopped"
    assert log.read_bytes().splitlines()[2:] == [b"answers 1"] * 2


def test_stopping_a_prepared_run_keeps_it_from_ever_starting(worker: PipeWorker) -> None:
    run = a_run("touch", str(worker.root / "ran"))
    launch = worker.launch(run)
    launch.answer()
    assert worker.ask("stop", run, 10, 0)[0][0].fields == {"never": "1"}
    launch.send(b"go!")
    assert launch.answer().word == "disarmed"
    assert not (worker.root / "ran").exists()


def _half_sent(worker: PipeWorker, run: Run) -> tuple[Launch, bytes]:
    """Start a launch that waits for the last bytes of its input, its directory not yet marked; return both."""
    launch = worker.launch(run, held_back=1)
    wait_until((worker.directory(run) / "run.json").exists)
    assert not (worker.directory(run) / "place").exists()
    return launch, b"}"


def test_a_worker_that_is_being_prepared_confirms_a_stop_and_starts_nothing(worker: PipeWorker) -> None:
    run = a_run("touch", str(worker.root / "ran"))
    launch, rest = _half_sent(worker, run)
    assert worker.ask("stop", run, 10, 0)[0][0].fields == {"never": "1"}
    launch.send(rest)
    assert launch.answer().word == "armed"
    launch.send(b"go!")
    assert launch.answer().word == "disarmed"
    assert not (worker.root / "ran").exists()


def test_the_leftovers_of_a_launch_killed_before_all_its_input_was_sent_can_be_deleted(worker: PipeWorker) -> None:
    run = a_run("true")
    launch, _ = _half_sent(worker, run)
    launch.process.kill()
    launch.process.wait()
    assert worker.ask("delete", run)[0][0].word == "deleted"
    assert not worker.directory(run).parent.exists()


def test_a_stop_between_two_attempts_keeps_the_later_one_from_starting(worker: PipeWorker) -> None:
    run = a_run("touch", str(worker.root / "ran"))
    launch = worker.launch(run)
    assert launch.answer().word == "armed"
    (worker.directory(run).parent / "stopped-0").touch()
    launch.send(b"go!")
    assert launch.answer().word == "disarmed"
    assert not (worker.root / "ran").exists()


def test_stopping_a_run_that_never_existed_is_confirmed(worker: PipeWorker) -> None:
    assert worker.ask("stop", a_run("true"), 10)[0][0].fields == {"never": "1"}


def test_processes_that_the_leader_leaves_behind_are_ended_before_the_status_is_written(worker: PipeWorker) -> None:
    left = "setsid sh -c 'trap \"\" TERM; while :; do echo still; sleep 0.1; done' & sleep 0.3; exit 4"
    run = a_run("sh", "-c", left)
    worker.launch(run).through()
    status = ended(worker, run)
    log = worker.directory(run) / "log"
    assert status["exit"] == "4"
    assert not tagged(tag_of(worker, run))
    assert log.stat().st_size == int(status["size"]) > 0


def test_a_run_whose_supervisors_were_killed_is_lost_and_can_still_be_stopped(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    alive = worker.directory(run) / "alive"

    def family() -> list[int]:
        found = map(Path, glob.iglob("/proc/[0-9]*/fd/*"))  # noqa: PTH207 - iglob ignores processes that end meanwhile
        return sorted({int(path.parts[2]) for path in found if same_file(path, alive)})

    wait_until(lambda: bool(family()))
    while family():
        for pid in family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    answers, _, _ = worker.ask("follow", run, 0, 600, 0)
    assert [answer.word for answer in answers] == ["log", "lost"]
    answers, _, _ = worker.ask("stop", run, 10, 0)
    assert (answers[0].word, answers[0].fields.get("unrecorded")) == ("stopped", "1")
    assert not tagged(tag_of(worker, run))


def same_file(link: Path, target: Path) -> bool:
    try:
        return link.samefile(target)
    except OSError:
        return False


COMET = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    time.sleep(1000)
print("away", flush=True)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(float(sys.argv[1]))
"""


def can_make_a_cgroup() -> bool:
    """Return whether this user may give a run a cgroup that can be killed as a whole."""
    own = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    for top in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        group = Path(f"{top}{own}/tpu-tui-test-{os.getpid()}")
        with contextlib.suppress(OSError):
            group.mkdir()
            killable = (group / "cgroup.kill").exists()
            group.rmdir()
            if killable:
                return True
    return False


@pytest.mark.parametrize("pause", [0.02, 0.0])
def test_a_process_that_forks_and_leaves_its_session_all_the_time_does_not_escape(
    worker: PipeWorker, pause: float
) -> None:
    if not can_make_a_cgroup():
        pytest.skip("no cgroup v2 with cgroup.kill can be made here")
    run = a_run(PYTHON, "-c", COMET, str(pause))
    worker.launch(run).through()
    wait_until(lambda: content_of(worker.directory(run) / "log") == b"away\n")
    group = Path((worker.directory(run) / "cgroup").read_text().strip())
    assert group.is_dir()
    answers, _, _ = worker.ask("stop", run, 5, 0)
    assert answers[0].word == "stopped", answers
    assert tagged(tag_of(worker, run)) == []
    wait_until(lambda: not group.exists())


def test_a_job_of_short_lived_children_is_ended_completely(worker: PipeWorker) -> None:
    forking = (
        "trap '' TERM; echo away; while :; do (trap '' TERM; sleep 0.05; (setsid sleep 0.1 &) ) & sleep 0.05; done"
    )
    run = a_run("sh", "-c", forking)
    worker.launch(run).through()
    wait_until(lambda: content_of(worker.directory(run) / "log") == b"away\n")
    assert worker.ask("stop", run, 5, 0)[0][0].word == "stopped"
    assert tagged(tag_of(worker, run)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="making namespaces needs root")
@pytest.mark.parametrize("kinds", ["--pid --fork", "--user --map-root-user --pid --fork --mount"])
def test_a_job_in_namespaces_of_its_own_is_ended_too(worker: PipeWorker, kinds: str) -> None:
    if subprocess.run(["unshare", *kinds.split(), "true"], capture_output=True).returncode:
        pytest.skip(f"unshare {kinds} does not work here")
    run = a_run("unshare", *kinds.split(), "sh", "-c", "trap '' TERM; sleep 1000 & wait; sleep 1000")
    worker.launch(run).through()
    wait_until(lambda: len(tagged(tag_of(worker, run))) >= 3)
    assert worker.ask("stop", run, 5, 0)[0][0].word == "stopped"
    assert tagged(tag_of(worker, run)) == []


@pytest.fixture
def open_worker(worker: PipeWorker) -> Iterator[PipeWorker]:
    """Yield a worker with the same shell in a directory that every user may enter."""
    with tempfile.TemporaryDirectory() as place:
        made = PipeWorker(Path(place), worker.shell)
        yield made
        made.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the user needs root")
def test_a_run_inside_a_run_without_privilege_gets_a_tag_of_its_own(open_worker: PipeWorker) -> None:
    for path in (open_worker.home, open_worker.root):
        path.chmod(0o777)
    outer = 3 << 60
    open_worker.prefix = ("setpriv", "--reuid=65534", "--clear-groups", "prlimit", f"--locks={outer}")
    run = a_run("sleep", "1000")
    open_worker.launch(run).through()
    tag = int(tag_of(open_worker, run))
    assert outer // 2 < tag < outer
    assert len(tagged(str(tag))) == 1
    answers, _, _ = open_worker.ask("stop", run, 10, 0)
    assert answers[0].word == "stopped"
