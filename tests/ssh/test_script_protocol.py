"""Answers of a script on a worker among whatever else its login shell prints."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tui
from tests.sshd import OpensshWorker
from tui.ssh.exec.script_protocol import (
    MOST_ANSWERS_BYTES,
    Answer,
    Call,
    ScriptNotRunError,
    load_script,
    no_answer_error,
    parse_answers,
    parse_line,
)
from tui.ssh.fleet import Fleet

Start = Callable[..., OpensshWorker]
SCRIPT = b'cat >/dev/null; printf "@%s one a=1\\n@%s two\\n" "$1" "$1"\n'


@pytest.mark.parametrize(
    "chatter",
    [
        "true",
        "echo welcome; echo @n one a=2",
        "printf '\\033]0;a title\\007'",
        "printf 'no end'",
        "head -c 9999 /dev/urandom",
    ],
)
async def test_output_of_start_up_files_hides_no_answer(sshd: Start, chatter: str) -> None:
    server = sshd()
    (server.home / ".bashrc").write_text(f"{chatter}\n")
    made = Call(SCRIPT, "0123456789abcdef", "0123456789abcdef", b"data")
    async with Fleet([server.worker], server.access()) as fleet:
        done = await fleet.run(0, made.command, input=made.input)
    assert parse_answers(made.nonce, done.stdout) == [Answer("one", "a=1", {"a": "1"}), Answer("two")]


async def test_start_up_files_are_read_once_for_a_call_whose_time_is_limited(sshd: Start) -> None:
    server = sshd()
    (server.home / ".bashrc").write_text("echo read >>~/times\n")
    made = Call(SCRIPT, "0123456789abcdef", "0123456789abcdef", b"data")
    async with Fleet([server.worker], server.access()) as fleet:
        done = await fleet.run(0, made.command, input=made.input, timeout=60)
    assert [answer.word for answer in parse_answers(made.nonce, done.stdout)] == ["one", "two"]
    assert (server.home / "times").read_text() == "read\n"


def test_the_answer_of_another_call_is_ignored() -> None:
    assert parse_line("n", b"@m one\n") is None
    assert parse_line("n", b"n one\n") is None


def test_of_answers_without_end_the_first_few_megabytes_are_read() -> None:
    line = b"@0123456789abcdef %s\n" % (b"x" * 60_000)
    answers = parse_answers("0123456789abcdef", line * 200)
    assert sum(len(answer.word) for answer in answers) <= MOST_ANSWERS_BYTES


def test_the_script_that_a_shell_echoes_is_not_quoted() -> None:
    error = no_answer_error(3, "no answer", b"> a=1\r\n> say end\nsh: 10: shift: can't shift that many\n\n", 0)
    assert error.sentence == "worker 3: no answer: sh: 10: shift: can't shift that many"
    assert "start-up files" in error.remedy
    assert no_answer_error(3, "no answer", b" \n", 4).why == "it ended with 4"
    assert no_answer_error(3, "no answer", b"", None).why == "the connection closed"


def test_the_output_instead_of_an_answer_is_quoted_but_not_sshds_remark() -> None:
    remark = b"Could not chdir to home directory /home/eve: No such file or directory\r\n"
    error = no_answer_error(3, "no answer", remark, 1, b"This account is currently not available.\n")
    assert error.why == "it ended with 1 after printing: This account is currently not available."
    assert isinstance(error, ScriptNotRunError)
    assert no_answer_error(3, "no answer", remark, 1).why == "it ended with 1"
    assert no_answer_error(3, "no answer", b"sh: not found", 127, b"welcome\n").why == "sh: not found"
    assert not isinstance(no_answer_error(3, "no answer", b"", None), ScriptNotRunError)


def test_an_expired_password_is_not_reported_as_missing_programs() -> None:
    output = b"WARNING: Your password has expired.\r\nPassword change required but no TTY available.\r\n"
    error = no_answer_error(3, "no answer", output, 1)
    assert error.why == "Password change required but no TTY available."
    assert "chage" in error.remedy
    assert "coreutils" not in error.remedy


@pytest.mark.parametrize("path", sorted(Path(tui.__file__).parent.rglob("*.sh")), ids=lambda path: path.stem)
def test_what_a_worker_is_sent_of_a_script_lacks_nothing_but_comments(path: Path) -> None:
    """Bash prints the functions that it has parsed, without comments."""

    def parse(text: str) -> str:
        # The whole script as one function, so that it is parsed but not run.
        return subprocess.run(
            ["bash", "-c", f"script() {{\n{text}\n}}\ndeclare -f script"], check=True, capture_output=True, text=True
        ).stdout

    prelude = Path(tui.__file__).parent / "ssh/exec/script_prelude.sh"
    sent = load_script(path)
    assert parse(sent) == parse(prelude.read_text() + path.read_text())
    assert not re.search(r"^\s*#", sent, re.MULTILINE)
