"""The worker script over pipes, under dash and bash, with nothing but coreutils and util-linux on its PATH."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, tagged, until
from tui.pod.run import Run
from tui.runs.remote import outcome_of, script

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
    assert not words & {
        "grep",
        "sed",
        "awk",
        "find",
        "xargs",
        "ps",
        "pgrep",
        "pkill",
        "tar",
        "gzip",
        "python3",
        "perl",
    }


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
    listing = subprocess.run(["ps", "axww"], capture_output=True, check=True).stdout
    assert b"hush'hush" not in listing
    worker.ask("stop", run, 10, 0)


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
    for path, said in ((worker.path, "own"), (f"{tools}:{worker.path}", "tools of mine")):
        worker.env["PATH"] = path
        run = a_run("tool")
        worker.launch(run).through()
        ended(worker, run)
        assert (worker.directory(run) / "log").read_text() == f"{said}\n"


def test_start_up_files_that_hang_are_left_aside(worker: PipeWorker) -> None:
    (worker.home / ".profile").write_text("exec sleep 1000\n")
    worker.env["TPU_TUI_LOGIN_SECONDS"] = "1"
    run = a_run("echo", "on")
    launch = worker.launch(run)
    launch.through()
    ended(worker, run)
    assert (worker.directory(run) / "log").read_text() == "on\n"
    assert "did not end" in launch.notes[0].text


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
    worker.ask("stop", first, 10, 0)
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
        assert worker.ask("stop", run, 10, 0)[0][0].word == "unconfirmed"
        owner.kill()
    assert worker.ask("stop", run, 10, 0)[0][0].word == "stopped"


def test_the_lock_file_goes_when_the_device_is_free(worker: PipeWorker, tmp_path: Path) -> None:
    device, lock = tmp_path / "accel0", tmp_path / "lockfile"
    device.touch()
    worker.env.update({"TPU_TUI_DEVICES": str(device), "TPU_TUI_LOCKFILE": str(lock)})
    run = a_run("sh", "-c", f"exec 3<{device}; touch {lock}; sleep 100")
    worker.launch(run).through()
    until(lock.exists)
    assert worker.ask("stop", run, 10, 0)[0][0].word == "stopped"
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
EOF
trap '' TERM
echo ready
while :; do sleep 1; done
"""


def test_a_stop_leaves_no_stubborn_process_and_touches_no_neighbour(worker: PipeWorker) -> None:
    neighbour = subprocess.Popen(["sleep", "1000"])
    run = a_run("sh", "-c", STUBBORN)
    worker.launch(run).through()
    tag = tag_of(worker, run)
    until(lambda: len(tagged(tag)) >= 6)
    heard, _, _ = worker.ask("stop", run, 5, 0)
    assert heard[0].word == "stopped", heard
    assert outcome_of(heard[0]).signal == "KILL"
    assert tagged(tag) == []
    assert neighbour.poll() is None
    neighbour.kill()
    neighbour.wait()


def test_a_stop_is_answered_the_same_a_second_time(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    first, second = (worker.ask("stop", run, 10, 0)[0][0] for _ in range(2))
    assert first == second
    assert (first.word, outcome_of(first).exit_code, outcome_of(first).signal) == ("stopped", 143, "TERM")


def test_a_process_that_ends_at_the_first_word_has_its_grace(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "trap 'sleep 0.5; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    worker.launch(run).through()
    until(lambda: (worker.directory(run) / "log").read_bytes() == b"ready\n")
    heard, _, _ = worker.ask("stop", run, 300, 0)
    assert outcome_of(heard[0]).exit_code == 0
    assert (worker.directory(run) / "log").read_bytes().startswith(b"ready\n")
    assert (worker.directory(run) / "log").read_bytes().endswith(b"saved\n")


def test_stopping_a_prepared_run_keeps_it_from_ever_starting(worker: PipeWorker) -> None:
    run = a_run("touch", str(worker.root / "ran"))
    launch = worker.launch(run)
    launch.answer()
    assert worker.ask("stop", run, 10, 0)[0][0].fields == {"never": "1"}
    launch.send(b"go!")
    assert launch.answer().word == "disarmed"
    assert not (worker.root / "ran").exists()


def test_stopping_what_never_was_is_confirmed(worker: PipeWorker) -> None:
    assert worker.ask("stop", a_run("true"), 10)[0][0].fields == {"never": "1"}


def test_what_the_leader_leaves_behind_is_ended_before_the_status_is_written(worker: PipeWorker) -> None:
    left = "setsid sh -c 'trap \"\" TERM; while :; do echo still; sleep 0.1; done' & sleep 0.3; exit 4"
    run = a_run("sh", "-c", left)
    worker.launch(run).through()
    status = ended(worker, run)
    log = worker.directory(run) / "log"
    assert status["exit"] == "4"
    assert not tagged(tag_of(worker, run))
    assert log.stat().st_size == int(status["size"]) > 0


def test_a_follower_resumes_at_any_byte_and_tells_the_end(worker: PipeWorker) -> None:
    junk = worker.root / "junk"
    junk.write_bytes(os.urandom(300_000) + b"\0\r\n\x1b]0;x\x07no newline at the end")
    run = a_run("cat", str(junk))
    worker.launch(run).through()
    size = int(ended(worker, run)["size"])
    assert size == junk.stat().st_size
    for offset in (0, 1, 299_999, size):
        heard, out, _ = worker.ask("follow", run, offset, 600, 0)
        assert out.partition(b"\n")[2] == junk.read_bytes()[offset:]
        assert [answer.word for answer in heard] == ["log", "end"]
        assert heard[1].fields["size"] == str(size)


def test_a_follower_sees_a_live_run_to_its_last_byte(worker: PipeWorker) -> None:
    lines = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done; sleep 0.4; printf end; exit 5"
    run = a_run("sh", "-c", lines)
    worker.launch(run).through()
    heard, out, _ = worker.ask("follow", run, 0, 600, 0)
    assert out.partition(b"\n")[2] == b"".join(b"line %d\n" % i for i in range(1, 301)) + b"end"
    assert heard[-1].word == "end"
    assert heard[-1].fields["exit"] == "5"


def test_a_follower_beyond_the_end_is_refused_instead_of_sent_everything_again(worker: PipeWorker) -> None:
    run = a_run("echo", "short")
    worker.launch(run).through()
    ended(worker, run)
    heard, out, _ = worker.ask("follow", run, 100, 600, 0)
    assert [answer.word for answer in heard] == ["short", "end"]
    assert b"\nshort" not in out


def test_a_follower_whose_time_is_up_says_nothing_of_an_end(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    heard, _, _ = worker.ask("follow", run, 0, 1, 0)
    assert [answer.word for answer in heard] == ["log", "room"]
    worker.ask("stop", run, 10, 0)


def test_a_run_whose_supervisors_were_killed_is_lost_and_can_still_be_stopped(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    alive = worker.directory(run) / "alive"

    def family() -> list[int]:
        held = [path for path in Path("/proc").glob("[0-9]*/fd/*") if same_file(path, alive)]
        return sorted({int(path.parts[2]) for path in held})

    until(lambda: bool(family()))
    while family():
        for pid in family():
            os.kill(pid, signal.SIGKILL)
    heard, _, _ = worker.ask("follow", run, 0, 600, 0)
    assert [answer.word for answer in heard] == ["log", "lost"]
    heard, _, _ = worker.ask("stop", run, 10, 0)
    assert (heard[0].word, heard[0].fields.get("unrecorded")) == ("stopped", "1")
    assert not tagged(tag_of(worker, run))


def same_file(link: Path, target: Path) -> bool:
    try:
        return link.samefile(target)
    except OSError:
        return False


def test_status_and_list_tell_what_runs_here(worker: PipeWorker) -> None:
    done, going = a_run("sh", "-c", "exit 2"), a_run("sleep", "1000")
    worker.launch(done).through()
    ended(worker, done)
    worker.launch(going).through()
    heard, _, _ = worker.ask("list", going)
    rows = {answer.text.split()[0]: answer.text.split()[2] for answer in heard if answer.word == "run"}
    assert rows == {done.id: "ended", going.id: "running"}
    assert heard[-1].word == "listed"
    assert worker.ask("status", done)[0][0].fields["exit"] == "2"
    assert worker.ask("status", a_run("true"))[0][0].word == "norun"
    assert b"\n{}" in worker.ask("show", done)[1]
    worker.ask("stop", going, 10, 0)


def test_a_run_root_may_lie_anywhere(worker: PipeWorker) -> None:
    root = worker.root / "it's a $place"
    run = a_run("echo", "here", run_root=str(root))
    worker.launch(run).through()
    until((root / "runs" / run.id / "0" / "status").exists)
    assert (root / "runs" / run.id / "0" / "log").read_text() == "here\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the user needs root")
def test_a_run_inside_a_run_without_privilege_gets_a_tag_of_its_own(worker: PipeWorker) -> None:
    above = itertools.takewhile(lambda path: path != Path(tempfile.gettempdir()), worker.root.parents)
    for path in (worker.home, worker.root, *above):
        path.chmod(0o777)
    outer = 3 << 60
    worker.prefix = ("setpriv", "--reuid=65534", "--clear-groups", "prlimit", f"--locks={outer}")
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    tag = int(tag_of(worker, run))
    assert outer // 2 < tag < outer
    assert len(tagged(str(tag))) == 1
    heard, _, _ = worker.ask("stop", run, 10, 0)
    assert heard[0].word == "stopped"


def test_a_hundred_megabytes_arrive_in_the_log_unchanged(worker: PipeWorker) -> None:
    program = "import sys\nfor i in range(100): sys.stdout.buffer.write(bytes([i]) * 1048576)"
    run = a_run(PYTHON, "-c", program)
    worker.launch(run).through()
    until(lambda: (worker.directory(run) / "status").exists(), 60)
    wanted = hashlib.sha256(b"".join(bytes([i]) * 1048576 for i in range(100))).hexdigest()
    assert hashlib.sha256((worker.directory(run) / "log").read_bytes()).hexdigest() == wanted
    # The room that was reserved ahead is given back.
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
        until((directory / "full").exists, 60)
        assert not (directory / "status").exists()
        ballast.unlink()
        until((directory / "status").exists, 60)
        assert (directory / "log").read_bytes() == b"0123456789abcde\n" * 3_000_000
    finally:
        worker.close()
        until(lambda: subprocess.run(["umount", str(mount)], capture_output=True).returncode == 0)
