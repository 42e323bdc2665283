"""The worker script over pipes, under dash and bash, with nothing but coreutils and util-linux on its PATH."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, tagged, until
from tui.pod.run import Run
from tui.runs.remote import call, outcome_of, script

pytestmark = pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="workers are Linux machines")
PYTHON = sys.executable


@pytest.fixture(params=["dash", "bash"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PipeWorker]:
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    made = PipeWorker(tmp_path, request.param)
    yield made
    for tag in (made.home / ".tpu-tui").glob("runs/*/*/tag"):
        for pid in tagged(tag.read_text().strip()):
            os.kill(pid, signal.SIGKILL)
    made.close()


def ended(worker: PipeWorker, run: Run) -> dict[str, str]:
    status = worker.directory(run) / "status"
    until(status.exists)
    return dict(pair.split("=", 1) for pair in status.read_text().split())


def tag_of(worker: PipeWorker, run: Run) -> str:
    return (worker.directory(run) / "tag").read_text().strip()


def test_the_script_calls_no_program_that_a_bare_worker_lacks() -> None:
    words = {word.strip("$()\";'|") for line in script().splitlines() if "#" not in line for word in line.split()}
    assert not words & {"grep", "sed", "awk", "find", "xargs", "ps", "pgrep", "pkill", "tar", "gzip", "python3", "perl"}


def test_a_job_runs_and_its_end_is_recorded(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "echo out; echo err >&2; exit 3")
    worker.launch(run).through()
    status = ended(worker, run)
    directory = worker.directory(run)
    assert (status["exit"], status["signal"], status["size"]) == ("3", "", "8")
    assert (directory / "log").read_bytes() == b"out\nerr\n"
    assert {"run.json", "command", "log", "pid", "tag", "boot", "status"} <= {path.name for path in directory.iterdir()}
    assert status["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize(("name", "code"), [("KILL", "137"), ("SEGV", "139"), ("TERM", "143")])
def test_a_signal_is_told_apart_from_an_exit_code(worker: PipeWorker, name: str, code: str) -> None:
    killed, exited = a_run("sh", "-c", f"kill -s {name} $$"), a_run("sh", "-c", f"exit {code}")
    for run in (killed, exited):
        worker.launch(run).through()
        ended(worker, run)
    assert (ended(worker, killed)["exit"], ended(worker, killed)["signal"]) == (code, name)
    assert (ended(worker, exited)["exit"], ended(worker, exited)["signal"]) == (code, "")


def test_words_and_secrets_arrive_exactly_and_are_on_no_command_line(worker: PipeWorker) -> None:
    words = ("a b", 'it\'s "$HOME" `x`', "two\nlines\n\n", "ünï", "*", "x" * 100_000)
    run = a_run("sh", "-c", 'printf "%s\\0" "$@" "$MY_TOKEN"; sleep 60', "sh", *words)
    worker.launch(run, {"MY_TOKEN": "hush'hush"}).through()
    wanted = b"".join(word.encode() + b"\0" for word in (*words, "hush'hush"))
    until(lambda: (worker.directory(run) / "log").read_bytes() == wanted)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert b"hush'hush" not in path.read_bytes()
        except OSError:
            continue
    worker.ask("stop", run, 10)


def test_the_job_has_three_descriptors_default_signals_and_a_session_of_its_own(worker: PipeWorker) -> None:
    program = "\n".join(
        [
            "import os, signal",
            "print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])",
            "print([s.name for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN])",
            "print(os.getsid(0) == os.getpid(), os.read(0, 1))",
        ]
    )
    run = a_run(PYTHON, "-c", program)
    worker.launch(run).through()
    ended(worker, run)
    # Python itself ignores PIPE and XFSZ.
    assert (worker.directory(run) / "log").read_text() == "[0, 1, 2]\n['SIGPIPE', 'SIGXFSZ']\nTrue b''\n"


def test_opening_standard_error_anew_does_not_truncate_the_log(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "echo one; echo two >/dev/stderr; echo three >/dev/stdout")
    worker.launch(run).through()
    ended(worker, run)
    assert (worker.directory(run) / "log").read_text() == "one\ntwo\nthree\n"


def test_the_job_gets_a_login_environment_and_a_start_up_file_that_exits_does_no_harm(worker: PipeWorker) -> None:
    (worker.home / ".profile").write_text("echo chatter\nexport FROM_PROFILE='a b'\ntt_d=/nowhere run=7\nset -eu\nexit 9\n")
    run = a_run("sh", "-c", 'echo "$FROM_PROFILE:$OWN:$(pwd)"')
    worker.launch(run, {"OWN": "x"}).through()
    ended(worker, run)
    assert (worker.directory(run) / "log").read_text() == f"a b:x:{worker.home}\n"


def test_a_variable_named_like_one_of_ours_reaches_the_job_unchanged(worker: PipeWorker) -> None:
    worker.env.update({"s": "S", "run": "R", "d": "D", "w": "W", "worker": "K"})
    run = a_run("sh", "-c", 'echo "$s$run$d$w$worker"')
    worker.launch(run).through()
    ended(worker, run)
    assert (worker.directory(run) / "log").read_text() == "SRDWK\n"


def test_a_command_that_is_not_there_is_named_before_anything_starts(worker: PipeWorker) -> None:
    run = a_run("no-such-command")
    answer = worker.launch(run).answer()
    assert (answer.word, answer.text) == ("refused", "command command not found: no-such-command")
    assert not worker.directory(run).exists()


def test_a_second_run_is_refused_with_the_first_ones_pid_and_command(worker: PipeWorker) -> None:
    first, second = a_run("sleep", "321"), a_run("true")
    pid = worker.launch(first).through()
    answer = worker.launch(second).answer()
    assert answer.word == "refused"
    assert answer.text.startswith(f"busy run {first.id} pid {pid} command sleep 321")
    assert not worker.directory(second).exists()
    worker.ask("stop", first, 10)
    worker.launch(second).through()
    ended(worker, second)


def test_whoever_holds_a_device_is_named(worker: PipeWorker, tmp_path: Path) -> None:
    device = tmp_path / "accel0"
    device.touch()
    worker.env["TPU_TUI_DEVICES"] = str(device)
    with device.open() as held, subprocess.Popen(["sleep", "77"], stdin=held) as owner:
        run = a_run("true")
        held.close()
        answer = worker.launch(run).answer()
        assert answer.word == "refused"
        assert f"device {device} pid {owner.pid}" in answer.text
        assert "sleep 77" in answer.text
        forced = worker.launch(run, force=True)
        forced.through()
        assert str(owner.pid) in forced.notes[0].text
        ended(worker, run)
        assert worker.ask("stop", run, 10)[0][0].word == "unconfirmed"
        owner.kill()
    assert worker.ask("stop", run, 10)[0][0].word == "stopped"


def test_the_lock_file_goes_when_the_device_is_free(worker: PipeWorker, tmp_path: Path) -> None:
    device, lock = tmp_path / "accel0", tmp_path / "lockfile"
    device.touch()
    worker.env.update({"TPU_TUI_DEVICES": str(device), "TPU_TUI_LOCKFILE": str(lock)})
    run = a_run("sh", "-c", f"exec 3<{device}; touch {lock}; sleep 100")
    worker.launch(run).through()
    until(lock.exists)
    assert worker.ask("stop", run, 10)[0][0].word == "stopped"
    assert not lock.exists()


def test_no_go_means_no_trace(worker: PipeWorker) -> None:
    run = a_run("touch", str(worker.root / "ran"))
    launch = worker.launch(run)
    assert launch.answer().word == "armed"
    assert launch.process.stdin
    launch.process.stdin.close()
    assert launch.answer().word == "disarmed"
    until(lambda: not worker.directory(run).exists())
    assert not (worker.root / "ran").exists()


def test_a_started_job_ends_itself_when_its_launcher_dies_before_the_confirmation(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    launch = worker.launch(run)
    launch.answer()
    launch.send(b"go!")
    assert launch.answer().word == "started"
    tag = tag_of(worker, run)
    assert tagged(tag)
    launch.process.stdin.close()  # type: ignore[union-attr]
    launch.process.stdout.close()  # type: ignore[union-attr]
    assert ended(worker, run)["aborted"] == "1"
    assert not tagged(tag)


def test_a_started_job_ends_itself_when_its_lease_runs_out_in_silence(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    launch = worker.launch(run)
    launch.answer()
    launch.send(b"go!")
    launch.answer()
    assert launch.answer().word == "aborted"
    assert ended(worker, run)["aborted"] == "1"
    assert not tagged(tag_of(worker, run))


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
