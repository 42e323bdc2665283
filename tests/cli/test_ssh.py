"""`ssh` as a user runs it: a real terminal, a real shell, and its exit code."""

from __future__ import annotations

import os
import subprocess

from tests.cli.conftest import LocalPod


def test_a_shell_uses_the_terminal_and_its_exit_code_is_the_commands(pod: LocalPod) -> None:
    controller, device = os.openpty()
    with pod.shell.start("ssh", "local", "--worker", "2", stdin=device, stdout=device, stderr=device) as process:
        os.close(device)
        os.write(controller, b"test -t 0 && echo worker=$(basename $(dirname $HOME)); exit 7\n")
        shown = b""
        try:
            while block := os.read(controller, 4096):
                shown += block
        except OSError:
            pass
        assert process.wait(timeout=60) == 7, shown
    os.close(controller)
    assert b"worker=w-2" in shown


def test_the_command_line_is_printed_as_json_and_works(pod: LocalPod) -> None:
    answer = pod.call("ssh", "local", "--worker", "1", "--json").document
    assert (answer["slice"], answer["worker"]) == ("local", 1)
    done = subprocess.run([*answer["argv"], "echo there"], capture_output=True, timeout=60)
    assert done.stdout == b"there\n", done.stderr


def test_a_worker_that_the_slice_does_not_have_is_refused(pod: LocalPod) -> None:
    answer = pod.call("ssh", "local", "--worker", "9")
    assert answer.code == 2
    assert "no such worker: 9" in answer.errors


def test_read_only_refuses_a_shell(pod: LocalPod) -> None:
    assert pod.call("--read-only", "ssh", "local").code == 2
