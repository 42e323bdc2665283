import subprocess
import sys

import pytest

from tui.cli import main, parse


def test_every_command_is_found_in_the_family_that_adds_it() -> None:
    from tui.cli import FAMILIES, build_parser

    whole = build_parser().format_help()
    for commands in FAMILIES.values():
        part = build_parser(commands[0])
        assert all(f"\n    {command} " in whole for command in commands)
        assert "{" not in part.format_usage()
        for command in commands:
            assert build_parser(command).format_help() == part.format_help()
        others = {name for names in FAMILIES.values() for name in names} - set(commands)
        assert not [name for name in others if f"\n    {name} " in part.format_help()]


def test_options_that_hold_everywhere_stand_before_or_after_the_command() -> None:
    before = parse(["--zone", "a", "--json", "workers", "pod"])
    after = parse(["workers", "pod", "--json", "--zone", "a"])
    assert vars(before.everywhere) == vars(after.everywhere)
    assert before.everywhere.zone == ["a"]
    assert before.everywhere.json


def test_zones_given_on_both_sides_add_up() -> None:
    assert parse(["--zone", "a", "slices", "--zone", "b"]).everywhere.zone == ["a", "b"]


def test_what_follows_two_dashes_is_the_jobs_and_untouched() -> None:
    args = parse(["launch", "pod", "--name", "n", "--", "python", "t.py", "--json", "--zone", "x", "--", "--name"])
    assert args.argv == ["python", "t.py", "--json", "--zone", "x", "--", "--name"]
    assert args.name == "n"
    assert not args.everywhere.json
    assert args.everywhere.zone is None


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["workers"], ["stop"], ["launch", "pod", "--on-failure", "shrug"], ["slices", "--", "true"]],
)
def test_wrong_usage_ends_with_2_and_a_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("tpu-tui: ")
    assert "--help" in error


def test_help_imports_neither_google_nor_asyncssh_nor_textual_nor_numpy() -> None:
    script = (
        "import sys\nfrom tui.cli import build_parser\nbuild_parser().format_help()\n"
        "heavy = {'google', 'grpc', 'asyncssh', 'textual', 'numpy', 'torch', 'rich'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_closed_pipe_is_silent() -> None:
    done = subprocess.run(
        f"{sys.executable} -m tui.cli config show --json | true",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
