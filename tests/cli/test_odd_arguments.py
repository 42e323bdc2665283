"""Arguments that make no sense: they are refused in a sentence, or made harmless."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from tests.cli.commands import Shell
from tests.cli.conftest import LocalPod
from tui.commands.parser.argument_types import integer
from tui.errors import UsageError
from tui.pod.run_names import readable_name


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "soon", ""])
@pytest.mark.parametrize(
    "words", [("launch", "x", "--grace"), ("stop", "x", "--grace"), ("exec", "x", "--timeout")], ids=lambda w: w[0]
)
def test_a_word_that_is_no_number_of_seconds_is_refused(shell: Shell, words: tuple[str, ...], seconds: str) -> None:
    answer = shell.call(*words, seconds)
    assert answer.code == 2
    assert f"{words[-1]}: must be a number of seconds, not {seconds!r}" in answer.errors


def test_a_long_name_is_shortened_and_an_odd_one_is_made_safe_for_files(pod: LocalPod) -> None:
    names = {"n" * 5000: "n" * 100, "../../a b\n'q'": "a-b-q", "läuft größer": "lauft-grosser", "as-it-is_1.0": ""}
    for name, expected in names.items():
        words = ("launch", "local", "--skip-checks", "--name", name, "--detach", "--json", "--", "true")
        answer = pod.call(*words)
        assert answer.code == 0, answer.errors
        run = answer.document["run"]
        assert run.rsplit("-", 3)[0] == (expected or name)
        assert (f"The run is called {expected}:" in answer.errors) == bool(expected)
        assert pod.call("status", run).code == 0


@pytest.mark.parametrize(
    ("name", "why"),
    [("..", "nothing"), ("- -", "nothing"), ("🚀", "nothing"), ("модель-3", "модель"), ("v2-日本", "日本")],
)
def test_a_name_that_would_become_unreadable_is_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError, match="a run cannot be called") as refused:
        readable_name(name)
    assert (why if why != "nothing" else "it has no letter or digit") in refused.value.why
    assert refused.value.remedy


def test_a_job_gets_odd_values_exactly(pod: LocalPod) -> None:
    value = "x=y\n'z' \"$HOME\" "
    job = ("sh", "-c", 'printf "%s|" "$A" "$B" "$@"', "sh", "", "a\nb", "ü")
    env = ("--env", f"A={value}", "--env", "B=")
    answer = pod.run("launch", "local", "--skip-checks", "--name", "odd-values", *env, "--", *job)
    assert answer.code == 0, answer.errors
    assert pod.call("logs", "odd-values", "--worker", "2").raw == f"{value}|||a\nb|ü|".encode()


@pytest.mark.parametrize(
    "words",
    [
        ("workers", "a\udcff"),
        ("runs", "a\udcff"),
        ("keys", "add", "a\udcff"),
        ("exec", "local", "--", "printf", "a\udcff"),
        ("slices", "create", "a", "--accelerator-type", "a\udcff", "--version", "tpu-ubuntu2204-base"),
    ],
    ids=lambda words: words[0],
)
def test_bytes_that_are_no_characters_are_refused(pod: LocalPod, words: tuple[str, ...]) -> None:
    answer = pod.call(*words)
    assert answer.code == 2
    assert "is not text: it has bytes that are not characters\n  → write it in UTF-8" in answer.errors
    assert "Traceback" not in answer.errors


def test_a_command_in_utf_8_is_sent_unchanged_in_a_locale_without_it(
    pod: LocalPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setitem(pod.shell.environ, name, value)
    answer = pod.run("exec", "local", "--worker", "0", "--json", "--", "printf", "größe")
    assert answer.code == 0, answer.errors
    assert answer.document[0]["stdout"] == "größe"


@pytest.mark.parametrize("number", ["1,2", "1_2", "1,", ",1", "0-3", "-1", "٣", "1,0000", "1_000,000"])
def test_two_numbers_are_not_taken_for_one(number: str) -> None:
    with pytest.raises(ArgumentTypeError, match="must be a whole number"):
        integer(number)


@pytest.mark.parametrize(
    ("number", "value"), [("4096", 4096), ("4,096", 4096), ("4_096", 4096), ("1,000,000", 10**6)]
)
def test_thousands_may_be_separated(number: str, value: int) -> None:
    assert integer(number) == value


def test_a_mistyped_name_deletes_no_run(pod: LocalPod) -> None:
    words = ("launch", "local", "--skip-checks", "--name", "kept-once", "--detach", "--json", "--", "true")
    run = pod.call(*words).document["run"]
    assert pod.call("attach", run).code == 0
    for mistyped in ("kept-onc", "ept-once", run[:-1]):
        answer = pod.call("runs", "delete", mistyped, "--yes")
        assert answer.code == 2
        assert (
            f"is too short a part of {run} to delete that run\n  → use the whole ID: tpu-tui runs delete {run}"
            in answer.errors
        )
    assert pod.call("status", run).code == 0
    assert pod.call("runs", "delete", "kept-once", "--yes", "--json").document == [
        {"run": run, "deleted": True, "detail": None}
    ]
