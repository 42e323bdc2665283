"""Answers of a script on a worker among whatever else its login shell prints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sshd import OpensshWorker
from tui.ssh.answers import Answer, Call, answers, no_answer, parse_line
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
async def test_what_start_up_files_print_hides_no_answer(sshd: Start, chatter: str) -> None:
    server = sshd()
    (server.home / ".bashrc").write_text(f"{chatter}\n")
    made = Call(SCRIPT, "0123456789abcdef", "0123456789abcdef", b"data")
    async with Fleet([server.worker], server.access()) as fleet:
        done = await fleet.run(0, made.command, input=made.input)
    assert answers(made.nonce, done.stdout) == [Answer("one", "a=1", {"a": "1"}), Answer("two")]


def test_another_calls_answer_is_none() -> None:
    assert parse_line("n", b"@m one\n") is None
    assert parse_line("n", b"n one\n") is None


def test_a_shell_that_repeats_the_script_is_not_repeated() -> None:
    error = no_answer(3, "no answer", b"> a=1\r\n> say end\nsh: 10: shift: can't shift that many\n\n", 0)
    assert error.sentence == "worker 3: no answer: sh: 10: shift: can't shift that many"
    assert "start-up files" in error.remedy
    assert no_answer(3, "no answer", b" \n", 4).why == "it ended with 4"
    assert no_answer(3, "no answer", b"", None).why == "the connection closed"
