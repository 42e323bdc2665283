"""Ctrl-C at any moment of a command: exit code 130, and no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import DEADLINE, Answer, Shell
from tests.logs.shapes import SAMPLE_LOG
from tests.sshd import make_key
from tests.waiting import wait_until
from tui.runs.record.run_directory import KEEPER_LOG

pytestmark = pytest.mark.timing

_INTERRUPT_AT_AN_IMPORT = """
import os, signal, sys

class Striker:
    def find_spec(self, name, path=None, target=None):
        if name == struck:
            os.kill(os.getpid(), signal.SIGINT)

struck, sys.argv = sys.argv[1], ["tpu-tui", *sys.argv[2:]]
sys.meta_path.insert(0, Striker())
from tui.cli import main
sys.exit(main())
"""
_INTERRUPT_AT_A_FILE = """
import os, signal, sys

def strike(event, what):
    if event == "open" and str(what[0]).endswith(struck) and os.getpid() == command:
        os.kill(command, signal.SIGINT)

command, struck, sys.argv = os.getpid(), sys.argv[1], ["tpu-tui", *sys.argv[2:]]
sys.addaudithook(strike)
from tui.cli import main
sys.exit(main())
"""
_INTERRUPT_AT_THE_FIRST_SOCKET = """
import os, signal, sys
sys.addaudithook(lambda event, _: event == "socket.__new__" and os.kill(os.getpid(), signal.SIGINT))
from tui.cli import main
sys.exit(main())
"""
_INTERRUPT_AT_THE_END = """
import atexit, os, signal, sys
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
from tui.cli import main
sys.exit(main())
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """Return the path of a hosts file, which gives a slice to list."""
    path = tmp_path / "lab.txt"
    path.write_text("127.0.0.1:1\n")
    return path


def run(shell: Shell, program: str, *words: str) -> Answer:
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=shell.environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)
    return Answer(done.returncode, done.stdout, done.stderr.decode())


@pytest.mark.parametrize(
    "module",
    [
        "argparse",
        "tui.commands.terminal.output",
        "tui.commands.slices",
        "asyncio",
        "tui.operator.facade",
        "tui.settings.resolve",
    ],
)
def test_an_interrupt_while_a_module_is_imported_ends_the_command_silently(
    shell: Shell, hosts: Path, module: str
) -> None:
    answer = run(shell, _INTERRUPT_AT_AN_IMPORT, module, "--hosts", str(hosts), "slices", "--json")
    assert (answer.code, answer.out, answer.errors) == (130, "", "")


@pytest.mark.parametrize("module", ["tui.cloud.hosts_file", "tui.operator.slices"])
def test_an_interrupt_while_the_command_works_prints_no_error(shell: Shell, hosts: Path, module: str) -> None:
    answer = run(shell, _INTERRUPT_AT_AN_IMPORT, module, "--hosts", str(hosts), "slices", "--json")
    assert (answer.code, answer.errors) == (130, "")


def test_an_interrupt_while_the_event_loop_is_made_ends_the_command_silently(shell: Shell, hosts: Path) -> None:
    answer = run(shell, _INTERRUPT_AT_THE_FIRST_SOCKET, "--hosts", str(hosts), "slices", "--json")
    assert (answer.code, answer.out, answer.errors) == (130, "", "")


@pytest.mark.parametrize("module", ["tui.logs.saved_log", "numpy"])
def test_an_interrupt_while_the_log_readers_are_imported_ends_the_command_silently(shell: Shell, module: str) -> None:
    answer = run(shell, _INTERRUPT_AT_AN_IMPORT, module, "cores", str(SAMPLE_LOG), "--json")
    assert (answer.code, answer.out, answer.errors) == (130, "", "")


def test_an_interrupt_while_a_run_is_handed_to_its_keeper_says_that_it_continues(
    shell: Shell, hosts: Path, tmp_path: Path
) -> None:
    make_key(tmp_path / "key")
    everywhere = ("--hosts", str(hosts), "--identity", str(tmp_path / "key"))
    words = ("launch", "lab", "--skip-checks", "--detach", "--", "true")
    answer = run(shell, _INTERRUPT_AT_A_FILE, KEEPER_LOG, *everywhere, *words)
    (known,) = shell.run("runs", "--offline", "--json").document
    assert (answer.code, answer.out) == (130, "")
    assert (
        f"{known['run']} continues in the background. Follow it again with tpu-tui attach {known['run']}."
        in answer.errors
    )
    wait_until(
        lambda: shell.run("runs", "--offline", "--json").document[0]["state"] == "failed",
        "the launch failed, since no worker can be reached",
        seconds=DEADLINE,
    )


def test_an_interrupt_after_the_answer_keeps_the_answer(shell: Shell, hosts: Path) -> None:
    answer = run(shell, _INTERRUPT_AT_THE_END, "--hosts", str(hosts), "slices", "--json")
    assert (answer.code, answer.errors) == (130, "")
    assert answer.document[0]["name"] == "lab"


def test_a_process_that_ignores_sigint_is_not_interrupted(shell: Shell, hosts: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer = run(shell, _INTERRUPT_AT_AN_IMPORT, "argparse", "--hosts", str(hosts), "slices", "--json")
    finally:
        signal.signal(signal.SIGINT, before)
    assert answer.code == 0, answer.errors
    assert answer.document[0]["name"] == "lab"
