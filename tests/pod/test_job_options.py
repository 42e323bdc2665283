from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from tui.commands.launch import job_options
from tui.commands.parser.parser import parse
from tui.console.data.launch_form import make_job, option_text
from tui.pod.job_options import DEFAULTS, LAUNCH_OPTIONS, OPTIONS, JobOptions, OptionKind
from tui.pod.run import Run
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.runs.launch.launch_request import LaunchRequest, run_from
from tui.settings import Settings

pytestmark = pytest.mark.py310

OTHER: dict[OptionKind, object] = {
    OptionKind.TEXT: "there",
    OptionKind.COUNT: 3,
    OptionKind.SECONDS: 4.5,
    OptionKind.WORDS: ("one", "t w o"),
    OptionKind.VARIABLES: {"ONE": "1", "TWO": "2"},
}
"""A value of each kind that is the default of no option."""


def other_value(name: str) -> object:
    if name == "env_by_name":
        return ("TWO",)
    choices = [value for value in OPTIONS[name].choices if value != DEFAULTS[name]]
    return choices[0] if choices else OTHER[OPTIONS[name].kind]


JOB = JobOptions(**{name: other_value(name) for name in OPTIONS})  # type: ignore[arg-type]


def words_of(name: str) -> list[str]:
    value, flag = getattr(JOB, name), "--" + name.replace("_", "-")
    if name == "env":
        return [word for variable in value for word in (flag, variable if variable in JOB.env_by_name else "ONE=1")]
    return [word for each in (value if isinstance(value, tuple) else [value]) for word in (flag, str(each))]


def test_every_field_has_its_option() -> None:
    assert set(OPTIONS) == {each.name for each in fields(JobOptions)}
    assert set(OPTIONS) - set(LAUNCH_OPTIONS) == {"argv", "env_by_name"}
    assert all(getattr(JOB, name) != DEFAULTS[name] for name in OPTIONS)


def test_every_field_is_reached_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWO", "2")
    words = [word for name in LAUNCH_OPTIONS for word in words_of(name)]
    args = parse(["launch", "lab", *words, "--", *JOB.argv])
    assert job_options(args, "pjrt") == JOB


def test_every_field_is_reached_from_the_form() -> None:
    texts = {name: option_text(name, JOB) for name in LAUNCH_OPTIONS}
    assert make_job(JobOptions(env_by_name=JOB.env_by_name), JOB.argv, texts) == JOB
    assert make_job(JobOptions(), (), dict.fromkeys(LAUNCH_OPTIONS, "") | {"runtime": "pjrt"}) == JobOptions()


def test_every_field_of_a_request_is_in_its_run_and_its_record(tmp_path: Path) -> None:
    slice_ = Slice("lab", workers=(Worker(0),))
    run = run_from(LaunchRequest(slice_, JOB), slice_, Settings(tmp_path))
    document = json.loads(json.dumps(run.to_json()))
    assert run.job is JOB
    assert set(OPTIONS) <= set(document)
    assert Run.from_json(document).job == JOB.without_secrets()


def test_a_field_that_an_older_record_lacks_has_its_default(tmp_path: Path) -> None:
    record = {"id": "x", "slice": "s", "argv": ["true"], "workers": [{"index": 0}]}
    assert Run.from_json(record).job == JobOptions(("true",))
