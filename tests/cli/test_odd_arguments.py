"""Arguments that no command can mean: refused in a sentence, or made harmless."""

from __future__ import annotations

import pytest

from tests.cli.commands import Shell
from tests.cli.conftest import LocalPod


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "soon", ""])
@pytest.mark.parametrize(
    "words", [("launch", "x", "--grace"), ("stop", "x", "--grace"), ("exec", "x", "--timeout")], ids=lambda w: w[0]
)
def test_what_is_no_number_of_seconds_is_refused(shell: Shell, words: tuple[str, ...], seconds: str) -> None:
    answer = shell.run(*words, seconds)
    assert answer.code == 2
    assert f"{words[-1]}: {seconds!r} is no number of seconds" in answer.errors


def test_a_long_name_is_cut_and_an_odd_one_made_fit_for_files(pod: LocalPod) -> None:
    names = {"n" * 5000: "n" * 100, "../../a b\n'q'": "a-b-q", "..": "run", "läuft": "l-uft"}
    for name, expected in names.items():
        words = ("launch", "local", "--skip-checks", "--name", name, "--detach", "--json", "--", "true")
        answer = pod.run(*words)
        assert answer.code == 0, answer.errors
        run = answer.document["run"]
        assert run.rsplit("-", 3)[0] == expected
        assert pod.run("status", run).code == 0


def test_a_job_gets_odd_values_exactly(pod: LocalPod) -> None:
    value = "x=y\n'z' \"$HOME\" "
    job = ("sh", "-c", 'printf "%s|" "$A" "$B" "$@"', "sh", "", "a\nb", "ü")
    env = ("--env", f"A={value}", "--env", "B=")
    answer = pod.run("launch", "local", "--skip-checks", "--name", "odd-values", *env, "--", *job)
    assert answer.code == 0, answer.errors
    assert pod.run("logs", "odd-values", "--worker", "2").raw == f"{value}|||a\nb|ü|".encode()
