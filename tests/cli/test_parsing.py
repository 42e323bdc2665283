import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui.cli import main
from tui.commands import cores, report
from tui.commands.parser.parser import COMMANDS, build_parser, parse
from tui.logs import snapshot
from tui.reports import write

pytestmark = pytest.mark.py310


def test_a_command_loads_its_own_module_only() -> None:
    whole = build_parser()
    assert tuple(whole.commands) == COMMANDS
    for command in COMMANDS:
        part = build_parser(command)
        assert list(part.commands) == [command]
        assert part.commands[command].format_help() == whole.commands[command].format_help()


def test_global_options_stand_before_or_after_the_command() -> None:
    before = parse(["--zone", "a", "--json", "workers", "pod"])
    after = parse(["workers", "pod", "--json", "--zone", "a"])
    assert vars(before.everywhere) == vars(after.everywhere)
    assert before.everywhere.zone == ["a"]
    assert before.everywhere.json


def test_zones_given_on_both_sides_add_up() -> None:
    assert parse(["--zone", "a", "slices", "--zone", "b"]).everywhere.zone == ["a", "b"]


def test_words_after_two_dashes_belong_to_the_job_and_are_unchanged() -> None:
    args = parse(["launch", "pod", "--name", "n", "--", "python", "t.py", "--json", "--zone", "x", "--", "--name"])
    assert args.argv == ["python", "t.py", "--json", "--zone", "x", "--", "--name"]
    assert args.name == "n"
    assert not args.everywhere.json
    assert args.everywhere.zone is None


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["workers"], ["stop"], ["launch", "pod", "--on-failure", "shrug"], ["slices", "--", "true"]],
)
def test_wrong_usage_ends_with_code_2_and_a_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("tpu-tui: ")
    assert "--help" in error


def test_help_imports_neither_google_nor_asyncssh_nor_textual_nor_numpy() -> None:
    script = (
        "import sys\nfrom tui.commands.parser.parser import build_parser\nbuild_parser().format_help()\n"
        "heavy = {'google', 'grpc', 'asyncssh', 'textual', 'numpy', 'torch', 'rich'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", ["config show --json", "--help", "launch --help", "--version"])
def test_a_closed_pipe_is_silent(words: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed_pipe:
        command = [sys.executable, "-m", "tui.cli", *words.split()]
        done = subprocess.run(command, stdout=closed_pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_further_words_may_follow_an_option() -> None:
    assert parse(["runs", "delete", "a", "--on", "here", "b", "c"]).words == ["delete", "a", "b", "c"]
    assert parse(["runs", "--offline", "pod"]).words == ["pod"]
    assert parse(["compare", "a", "--offline", "-"]).refs == ["a", "-"]


def test_a_word_too_many_is_refused_with_the_commands_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in (
        ("status", ["run", "more"]),
        ("runs", ["--bogus"]),
        ("runs delete", ["run", "--on", "nowhere"]),
        ("config show", ["x"]),
    ):
        with pytest.raises(SystemExit):
            parse([*name.split(), *words])
        printed = capsys.readouterr().err
        assert words[-1] in printed
        assert f"tpu-tui {name} --help" in printed


def test_help_shows_what_a_command_does_and_where_the_jobs_words_go(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["launch", "--help"])
    printed = capsys.readouterr().out
    assert "SLICE -- COMMAND …" in printed
    assert "Start a command on every worker of a slice, or on none." in printed
    assert "tpu-tui --help" in printed


@pytest.mark.parametrize(
    "words", [["runs", "delete", "--help"], ["help", "runs", "delete"], ["runs", "delete", "x", "-h"]]
)
def test_runs_delete_has_help_of_its_own(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    printed = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert printed.startswith("usage: tpu-tui runs delete [-h]")
    assert "--older-than" in printed
    assert "--offline" not in printed
    assert "A live run is never deleted" in printed


def test_all_help_fits_80_columns_and_explains_every_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    waiting = [build_parser()]
    for parser in waiting:
        waiting += parser.commands.values()
        parser.print_help()
        for action in parser.arguments:
            obvious = action.choices or action.help == argparse.SUPPRESS
            assert action.help or obvious, f"{parser.prog} {action.metavar or action.option_strings}"
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["slices", "delete", "pod", "--yes"], "slices delete"),
        (["local", "up"], "local up"),
        (["demo"], "demo"),
        (["keys", "add", "pod"], "keys add"),
        (["report", "last", "--upload", "gs://bucket/runs"], "report --upload"),
    ],
)
def test_read_only_refuses_by_the_name_that_was_typed(
    words: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TPU_TUI_HOME", str(tmp_path))
    assert main(["--read-only", *words]) == 2
    assert f"{name} is refused by --read-only" in capsys.readouterr().err


def test_read_only_allows_a_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TPU_TUI_HOME", str(tmp_path))
    (tmp_path / "lab.txt").write_text("ada@10.0.0.1\n")
    words = ["--read-only", "--hosts", str(tmp_path / "lab.txt"), "launch", "lab", "--dry-run", "--", "true"]
    assert main(words) == 0
    assert "set -- true" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["lanch", "x"], "no such command: lanch\n  → did you mean launch?"),
        (["ls"], "no such command: ls\n  → did you mean slices?"),
        (["version"], "did you mean --version?"),
        (["frobnicate"], "no such command: frobnicate\n  → tpu-tui --help"),
        (["--jsn", "slices"], "no such option: --jsn\n  → did you mean --json?"),
        (["--profil", "local", "slices"], "no such option: --profil\n  → did you mean --profile?"),
        (["slices", "--projekt", "x"], "no such option: --projekt\n  → did you mean --project?"),
        (["cores", "-x", "out.log"], "no such option: -x\n  → tpu-tui cores --help"),
        (["slices", "create", "--tpye=v2-8", "x"], "no such option: --tpye\n  → did you mean --type?"),
        (["status", "--detach", "x"], "no such option: --detach\n  → tpu-tui status --help"),
        (["slices", "creat", "x"], "no such action of tpu-tui slices: creat\n  → did you mean create?"),
        (["cores", "x", "--sort", "los"], "--sort: invalid choice: 'los' (choose from "),
        (["slices", "list"], "no such action of tpu-tui slices: list\n  → use create, delete, start, stop"),
        (["exec", "pod", "nvidia-smi"], "put the command after --: tpu-tui exec pod -- nvidia-smi"),
        (["launch", "pod", "train.py", "--lr", "1"], "options of the job's command go after --"),
        (["config"], "required: ACTION"),
        (["logs", "x", "--tail", "9" * 23], "tpu-tui: --tail: a number of 23 digits is too large"),
        (["local", "up", "--workers", "65"], "--workers: must be from 1 to 64, not 65"),
        (["exec", "pod", "--timeout", "0", "--", "true"], "must be more than 0 seconds"),
        (["local", "up", "--slices", "0"], "--slices: must be from 1 to 64, not 0"),
        (["keys", "\x1b[31m", "x"], "no such action of tpu-tui keys: ␛[31m\n  → use add"),
    ],
)
def test_an_unknown_word_is_named_with_the_one_that_was_probably_meant(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["launch", "--help"], ["slices", "create", "--help"]])
def test_help_may_also_come_first_and_without_dashes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for variant in (words, ["help", *words[:-1]]):
        with pytest.raises(SystemExit) as ended:
            parse(variant)
        assert ended.value.code == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""


def test_choices_are_those_of_the_modules_that_the_parser_does_not_load() -> None:
    assert cores.SORT_KEYS == snapshot.SORT_KEYS
    assert tuple(write.WRITERS) == report.REPORT_FORMATS
