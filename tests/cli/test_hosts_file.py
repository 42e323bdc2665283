"""Any SSH machines as a slice: real OpenSSH servers named in a hosts file."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest

from tests.cli.commands import DEADLINE, Shell
from tests.cli.lab import Lab
from tests.sshd import OpensshWorker, needs_sshd, sshd

__all__ = ["sshd"]
pytestmark = [needs_sshd, pytest.mark.timing]


@pytest.fixture
def lab(shell: Shell, sshd: Callable[..., OpensshWorker], tmp_path: Path) -> Lab:
    return Lab(shell, [sshd(index=index, bare=True) for index in range(3)], tmp_path)


def test_an_unknown_host_key_is_refused_until_it_is_accepted_and_then_remembered(lab: Lab) -> None:
    refused = lab.run("exec", "lab", "--", "true", host_keys="strict")
    assert refused.code == 3
    assert refused.errors.count("SHA256:") >= 3
    assert "--host-keys accept-new" in refused.errors
    assert lab.call("exec", "lab", "--", "true").code == 0
    assert lab.call("exec", "lab", "--", "true", host_keys="strict").code == 0


def test_a_changed_host_key_is_always_refused(lab: Lab, sshd: Callable[..., OpensshWorker]) -> None:
    assert lab.call("exec", "lab", "--", "true").code == 0
    known = lab.shell.home / "known_hosts"
    lines = known.read_text().splitlines()
    known.write_text("\n".join([lines[0].rsplit(" ", 1)[0] + " " + lines[1].rsplit(" ", 1)[1], *lines[1:]]) + "\n")
    answer = lab.call("exec", "lab", "--json", "--", "true")
    assert answer.code == 3
    assert [row["exit_code"] for row in answer.document].count(None) == 1
    assert "changed" in answer.errors


def test_a_run_on_bare_machines_arrives_byte_for_byte(lab: Lab) -> None:
    odd = 'it\'s "odd" $HOME\nünïcode \\ *'
    answer = lab.run("launch", "lab", "--name", "odd", "--", "printf", "%s|", odd, "second")
    assert answer.code == 0, answer.errors
    status = lab.call("status", "odd", "--json").document
    assert (status["state"], status["exit_codes"], status["slice"]) == ("succeeded", [0, 0, 0], "lab")
    for worker in range(3):
        assert lab.call("logs", "odd", "--worker", str(worker)).raw == f"{odd}|second|".encode()


def test_a_machine_that_is_down_is_named_and_nothing_starts_on_the_others(lab: Lab) -> None:
    assert lab.call("exec", "lab", "--", "true").code == 0
    lab.workers[1].stop()
    mark = lab.hosts.with_name("started")
    answer = lab.call("launch", "lab", "--", "sh", "-c", f"echo started >> {mark}")
    assert answer.code == 3
    assert "worker 1" in answer.errors
    assert not mark.exists()
    workers = lab.call("workers", "lab", "--json")
    assert workers.code == 3
    assert [row["reachable"] for row in workers.document] == [True, False, True]


def test_a_key_that_the_machines_do_not_accept_is_reported(lab: Lab, tmp_path: Path) -> None:
    other_key = tmp_path / "other_key"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(other_key)
    answer = lab.shell.call(
        *(
            "--hosts",
            str(lab.hosts),
            "--identity",
            str(other_key),
            "--host-keys",
            "accept-new",
            "exec",
            "lab",
            "--",
            "true",
        )
    )
    assert answer.code == 3
    assert "ermission denied" in answer.errors
    assert "Traceback" not in answer.errors


@pytest.mark.parametrize("words", [("check", "lab"), ("exec", "lab", "--", "true")], ids=["check", "exec"])
def test_a_user_who_waits_sees_which_worker_has_not_answered(lab: Lab, words: tuple[str, ...]) -> None:
    lab.write_profile()
    listener = lab.workers[1].process
    assert listener is not None
    listener.send_signal(signal.SIGSTOP)
    controller, terminal = os.openpty()
    with lab.shell.start(*words, stderr=terminal) as process:
        os.close(terminal)
        printed = b""
        try:
            while b"No answer yet from worker 1 " not in printed:
                printed += os.read(controller, 65536)
        except OSError:
            pytest.fail(f"the command ended with: {printed.decode()}")
        listener.send_signal(signal.SIGCONT)
        process.communicate(timeout=DEADLINE)
    os.close(controller)


def test_an_unknown_run_is_reported_with_the_workers_that_could_not_be_asked(lab: Lab) -> None:
    assert lab.call("exec", "lab", "--", "true").code == 0
    unknown = lab.call("status", "night-20260101-000000-abcd")
    assert unknown.code == 2
    assert "asked" not in unknown.errors
    lab.workers[1].stop()
    answer = lab.call("status", "night-20260101-000000-abcd")
    assert answer.code == 2
    assert "not all workers could be asked for it: worker 1: " in answer.errors


def test_runs_that_cannot_be_recorded_here_are_not_reported_as_no_runs(lab: Lab) -> None:
    lab.write_profile()
    assert lab.launch("--skip-checks").code == 0
    shutil.rmtree(lab.shell.home / "runs")
    command = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", sys.executable, "-m", "tui.cli", "runs"]
    done = subprocess.run(command, env=lab.shell.environ, capture_output=True, timeout=DEADLINE)
    errors = done.stderr.decode()
    assert done.returncode == 1
    assert "runs of other machines cannot be recorded here: " in errors
    assert "→" in errors
    assert "No runs" not in errors


def test_invalid_options_of_a_launch_are_reported_before_the_hosts_file_is_read(lab: Lab) -> None:
    lab.hosts.unlink()
    for words, expected in (
        (("--env", "A B=c"), "'A B' is not a valid variable name"),
        (("--phase-timeout", "x=3"), "there is no timeout 'x=3'"),
    ):
        answer = lab.call("launch", "lab", *words, "--", "true")
        assert (answer.code, expected in answer.errors) == (2, True), answer.errors


def test_a_working_directory_that_is_gone_is_the_cause_that_is_named(tmp_path: Path) -> None:
    command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", sys.executable, "-m", "tui.cli", "cores", "log"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=DEADLINE)
    assert done.returncode == 1
    assert b"change to another directory: this one may be gone" in done.stderr
