"""The environment in which worker.sh starts a job, and what it records of the job, over pipes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, content_of, ended, needs_linux
from tests.waiting import wait_until

pytestmark = [needs_linux, pytest.mark.timing]
PYTHON = sys.executable


@pytest.mark.bash
def test_a_job_runs_and_its_end_is_recorded(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "echo out; echo err >&2; exit 3")
    worker.launch(run).through()
    status = ended(worker, run)
    directory = worker.directory(run)
    assert (status["exit"], status["signal"], status["size"]) == ("3", "", "8")
    assert (directory / "log").read_bytes() == b"out\nerr\n"
    assert {"run.json", "command", "log", "pid", "tag", "boot", "status"} <= {
        path.name for path in directory.iterdir()
    }
    assert status["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.bash
@pytest.mark.parametrize(("name", "code"), [("KILL", "137"), ("SEGV", "139"), ("TERM", "143")])
def test_a_signal_is_distinguished_from_an_exit_code(worker: PipeWorker, name: str, code: str) -> None:
    killed, exited = a_run("sh", "-c", f"kill -s {name} $$"), a_run("sh", "-c", f"exit {code}")
    for run in (killed, exited):
        worker.launch(run).through()
        ended(worker, run)
    assert (ended(worker, killed)["exit"], ended(worker, killed)["signal"]) == (code, name)
    assert (ended(worker, exited)["exit"], ended(worker, exited)["signal"]) == (code, "")


@pytest.mark.bash
def test_words_and_secrets_arrive_exactly_and_are_on_no_command_line(worker: PipeWorker) -> None:
    words = ("a b", 'it\'s "$HOME" `x`', "two\nlines\n\n", "ünï", "*", "x" * 100_000)
    run = a_run("sh", "-c", 'printf "%s\\0" "$@" "$MY_TOKEN"; sleep 60', "sh", *words)
    worker.launch(run, {"MY_TOKEN": "hush'hush"}).through()
    wanted = b"".join(word.encode() + b"\0" for word in (*words, "hush'hush"))
    wait_until(lambda: content_of(worker.directory(run) / "log") == wanted)
    listing = subprocess.run(["ps", "axww"], capture_output=True, check=True).stdout
    assert b"hush'hush" not in listing
    worker.ask("stop", run, 10, 0)


@pytest.mark.bash
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


def test_reopening_standard_error_does_not_truncate_the_log(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "echo one; echo two >/dev/stderr; echo three >/dev/stdout")
    worker.launch(run).through()
    ended(worker, run)
    assert (worker.directory(run) / "log").read_text() == "one\ntwo\nthree\n"


def test_the_job_gets_a_login_environment_and_a_start_up_file_that_exits_does_no_harm(worker: PipeWorker) -> None:
    (worker.home / ".profile").write_text(
        "echo chatter\nexport FROM_PROFILE='a b'\ntt_d=/nowhere run=7\nset -eu\nexit 9\n"
    )
    run = a_run("sh", "-c", 'echo "$FROM_PROFILE:$OWN:$(pwd)"')
    worker.launch(run, {"OWN": "x"}).through()
    ended(worker, run)
    assert (worker.directory(run) / "log").read_text() == f"a b:x:{worker.home}\n"


def test_start_up_files_add_to_the_path_and_hide_nothing_of_it(worker: PipeWorker) -> None:
    tools, own = worker.root / "tools of mine", worker.root / "own"
    for directory in (tools, own):
        directory.mkdir()
        (directory / "tool").write_text(f"#!/bin/sh\necho {directory.name}\n")
        (directory / "tool").chmod(0o755)
    (worker.home / ".profile").write_text(f"PATH={own}:/usr/bin:/bin\n")
    for path, printed in ((worker.path, "own"), (f"{tools}:{worker.path}", "tools of mine")):
        worker.env["PATH"] = path
        run = a_run("tool")
        worker.launch(run).through()
        ended(worker, run)
        assert (worker.directory(run) / "log").read_text() == f"{printed}\n"


@pytest.mark.bash
def test_start_up_files_that_hang_are_skipped(worker: PipeWorker) -> None:
    (worker.home / ".profile").write_text("exec sleep 1000\n")
    worker.env["TPU_TUI_LOGIN_SECONDS"] = "1"
    run = a_run("echo", "on")
    launch = worker.launch(run)
    launch.through()
    ended(worker, run)
    assert (worker.directory(run) / "log").read_text() == "on\n"
    assert "did not end" in launch.notes[0].text


def test_a_variable_named_like_one_of_the_worker_script_reaches_the_job_unchanged(worker: PipeWorker) -> None:
    worker.env.update({"s": "S", "run": "R", "d": "D", "w": "W", "worker": "K"})
    run = a_run("sh", "-c", 'echo "$s$run$d$w$worker"')
    worker.launch(run).through()
    ended(worker, run)
    assert (worker.directory(run) / "log").read_text() == "SRDWK\n"


def test_a_run_root_may_lie_anywhere(worker: PipeWorker) -> None:
    root = worker.root / "it's a $place"
    run = a_run("echo", "here", run_root=str(root))
    worker.launch(run).through()
    wait_until((root / "runs" / run.id / "0" / "status").exists)
    assert (root / "runs" / run.id / "0" / "log").read_text() == "here\n"


def test_a_hundred_megabytes_arrive_in_the_log_unchanged(worker: PipeWorker) -> None:
    program = "import sys\nfor i in range(100): sys.stdout.buffer.write(bytes([i]) * 1048576)"
    run = a_run(PYTHON, "-c", program)
    worker.launch(run).through()
    wait_until(lambda: (worker.directory(run) / "status").exists(), seconds=60)
    wanted = hashlib.sha256(b"".join(bytes([i]) * 1048576 for i in range(100))).hexdigest()
    assert hashlib.sha256((worker.directory(run) / "log").read_bytes()).hexdigest() == wanted
    # The space that was reserved ahead is released.
    assert (worker.directory(run) / "log").stat().st_blocks * 512 < 101 * 1048576


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_holds_the_job_and_loses_nothing(worker: PipeWorker, tmp_path: Path) -> None:
    image, mount = tmp_path / "image", tmp_path / "disk"
    mount.mkdir()
    with image.open("wb") as handle:
        handle.truncate(96 << 20)
    for command in (["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(mount)]):
        if shutil.which(command[0]) is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip(f"{command[0]} does not work here")
    try:
        ballast = mount / "ballast"
        program = "import sys; sys.stdout.write('0123456789abcde\\n' * 3000000)"
        run = a_run(PYTHON, "-c", program, run_root=str(mount))
        launch = worker.launch(run)
        assert launch.answer().word == "armed"
        ballast.write_bytes(b"x" * (30 << 20))
        launch.send(b"go!")
        launch.answer()
        launch.send(b"ok!")
        launch.answer()
        directory = mount / "runs" / run.id / "0"
        wait_until((directory / "full").exists, seconds=60)
        assert not (directory / "status").exists()
        ballast.unlink()
        wait_until((directory / "status").exists, seconds=60)
        assert (directory / "log").read_bytes() == b"0123456789abcde\n" * 3_000_000
    finally:
        worker.close()
        wait_until(lambda: subprocess.run(["umount", str(mount)], capture_output=True).returncode == 0)
