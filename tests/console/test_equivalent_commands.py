from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from tests.console.stage import a_slice, make_run
from tui.commands.launch import job_options
from tui.commands.parser.parser import parse
from tui.console.render.equivalent_commands import list_commands
from tui.pod.job_options import JobOptions
from tui.settings import Settings
from tui.settings.command_line import command_line, launch_command
from tui.settings.fields import Setting

SETTINGS = Settings(home=Path("/home/me"))


def test_only_options_of_this_consoles_own_command_line_are_repeated() -> None:
    origins = {
        "profile": Setting("profile", "night", "flag"),
        "project": Setting("project", "p", "environment TPU_TUI_PROJECT"),
        "zones": Setting("zones", ("a", "b"), "flag"),
        "read_only": Setting("read_only", True, "flag"),
    }
    settings = replace(SETTINGS, origins=origins)
    line = command_line(settings, "check", "my tpu")
    assert line == "tpu-tui --profile night --zone a --zone b --read-only check 'my tpu'"


def test_a_flag_for_all_zones_is_repeated_instead_of_the_profiles_zones() -> None:
    settings = replace(SETTINGS, origins={"zones": Setting("zones", (), "flag")})
    assert command_line(settings, "slices") == "tpu-tui --zone - slices"
    assert parse(["--zone", "-", "slices"]).everywhere.zone == ["-"]


def test_a_launch_command_holds_what_differs_from_the_defaults_and_no_secret() -> None:
    env = {"LR": "0.1", "HF_TOKEN": "hf_secret", "PLAIN": "x y"}
    job = JobOptions(
        ("python3", "train.py"), runtime="cpu", restarts=2, on_end=("report",), env=env, env_by_name=("PLAIN",)
    )
    assert launch_command(SETTINGS, "zone/my-tpu", job, "night", Path("code")) == (
        "tpu-tui launch zone/my-tpu --name night --sync code --runtime cpu --restarts 2 --on-end report"
        " --env LR=0.1 --env HF_TOKEN --env PLAIN -- python3 train.py"
    )


def test_a_read_only_console_offers_no_command_that_changes_something() -> None:
    run = make_run(a_slice())

    def names(settings: Settings) -> list[str]:
        return [name for name, _ in list_commands(settings, a_slice(), run, 3)]

    changes = {"stop", "launch again", "launch", "exec", "delete"}
    assert changes < set(names(SETTINGS))
    assert not changes & set(names(replace(SETTINGS, read_only=True)))
    assert f"tpu-tui logs {run.id} --follow --worker 3" in dict(list_commands(SETTINGS, None, run, 3)).values()


def test_the_command_line_parses_every_offered_command() -> None:
    job = JobOptions(
        ("python3", "a b.py"), workdir="-w", venv="v", conda_env="torch-xla-2.0", on_failure="leave", grace=1234567.5
    )
    lines = [line for _, line in list_commands(SETTINGS, a_slice(), make_run(a_slice()), 3)]
    for line in lines:
        parse(shlex.split(line)[1:])
    parsed = parse(shlex.split(launch_command(SETTINGS, "my-tpu", job, "n", "-d", skips_checks=True))[1:])
    assert job_options(parsed, SETTINGS.runtime) == job
    assert (parsed.slice, parsed.name, str(parsed.sync), parsed.skip_checks) == ("my-tpu", "n", "-d", True)


def test_the_command_to_launch_again_copies_the_code_again() -> None:
    run = replace(make_run(a_slice()), code_hash="abc")

    def launch_again(code: Path | None) -> str:
        return dict(list_commands(SETTINGS, None, run, None, code))["launch again"]

    assert " --sync DIR " in launch_again(None)
    assert " --sync code " in launch_again(Path("code"))
