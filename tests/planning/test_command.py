"""Tests of `tpu-tui plan`: the scaling of the documentation's examples, and the ladder of the runs in a home."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Answer
from tests.logs.shapes import training
from tui.cli import main
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.py310


class Shell:
    """A terminal of a machine with a home of its own; commands run in this process."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    def run(self, *words: str) -> Answer:
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        printed = self._capsys.readouterr()
        return Answer(code, printed.out.encode(), printed.err)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("TPU_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    return Shell(tmp_path / "home", capsys)


def ended(shell: Shell, name: str, kind: str | None, cores: int, rate: float, state: str = "succeeded") -> str:
    """Make a run that ended, with this rate on each of its cores, and return its id."""
    workers = tuple(Worker(index, internal_ip=f"10.0.0.{index + 1}") for index in range(max(1, cores // 8)))
    run = Run(f"{name}-20260101-000000-abcd", "pod", JobOptions(("x",)), workers, accelerator_type=kind)
    directory = RunDirectory.create(shell.home / "runs", run)
    directory.append_event("state", state="running")
    for worker in workers:
        lines = [
            training(core=core, step=10, rate=f"{rate:.2f}") for core in range(worker.index, cores, len(workers))
        ]
        directory.log_path(worker.index).write_text("\n".join(lines) + "\n")
    directory.append_event("state", state=state)
    return run.id


def test_the_ladder_compares_every_size_with_the_smallest(shell: Shell) -> None:
    ended(shell, "big", "v2-128", 128, 120.0)
    ended(shell, "small", "v2-8", 8, 200.0)
    ended(shell, "middle", "v2-32", 32, 190.0)
    ended(shell, "broken", "v2-32", 32, 999.0, "failed")
    ended(shell, "hosts", None, 4, 5.0)

    answer = shell.run("plan", "--ladder", "--json")

    typed = next(ladder for ladder in answer.document["ladders"] if ladder["generation"] == "v2")
    assert [(rung["accelerator_type"], rung["rate_per_core"], rung["efficiency"]) for rung in typed["rungs"]] == [
        ("v2-8", 200.0, 1.0),
        ("v2-32", 190.0, 0.95),
        ("v2-128", 120.0, 0.6),
    ]
    assert (typed["go_up"], typed["next_type"]) == (False, None)
    assert "v2-32 is the largest size worth using" in typed["advice"]
    (untyped,) = (ladder for ladder in answer.document["ladders"] if ladder["generation"] != "v2")
    assert untyped["rungs"][0]["accelerator_type"] == "4 cores"
    assert answer.document["left_out"] == []


def test_the_ladder_compares_no_rates_in_different_units(shell: Shell) -> None:
    small, middle = ended(shell, "small", "v2-8", 8, 200.0), ended(shell, "middle", "v2-32", 32, 190.0)
    words = ended(shell, "words", "v2-32", 32, 1.0)
    for log in shell.home.glob(f"runs/{words}/*.log"):
        log.write_text("step 9 loss 2.5 9000 tokens/s\n")
    document = shell.run("plan", "--ladder", "--json").document
    assert [rung["run"] for rung in document["ladders"][0]["rungs"]] == [small, middle]
    assert document["left_out"] == [{"run": words, "why": "its rate is in tokens/s, not examples/s"}]


def test_the_ladder_as_text_has_the_named_runs_only(shell: Shell) -> None:
    small, middle = ended(shell, "small", "v3-8", 8, 200.0), ended(shell, "middle", "v3-32", 32, 190.0)
    ended(shell, "big", "v3-64", 64, 10.0)
    alive = ended(shell, "alive", "v3-64", 64, 10.0, "running")

    answer = shell.run("plan", "--ladder", small, middle, alive)

    assert answer.code == 0
    assert "v3-64" not in answer.out.replace("go up to v3-64", "")
    assert "→ go up to v3-64: v3-32 keeps 95% of the rate per core" in answer.out
    assert f"{alive} is left out: it has not ended" in answer.errors


def test_without_runs_the_advice_is_to_begin_with_the_smallest_slice(shell: Shell) -> None:
    answer = shell.run("plan", "--ladder")

    assert (answer.code, "smallest slice" in answer.errors) == (0, True)
    assert shell.run("plan", "--ladder", "nope").code == 2


def test_the_examples_of_the_cloud_tpu_documentation_are_reproduced(shell: Shell) -> None:
    batch = shell.run("plan", "--from", "v2-8", "--to", "v2-32", "--batch-size", "1024", "--json").document
    words = ("plan", "--from", "v2-8", "--to", "v2-32", "--batch-size", "1,000", "--steps", "100")
    steps = shell.run(*words, "--json").document

    assert batch["global_batch"] == 4096
    assert (steps["global_batch"], steps["steps"], steps["warnings"]) == (4000, 25, [])
    assert "steps           25" in shell.run(*words).out


@pytest.mark.parametrize(
    "words",
    [
        ("--from", "v2-8"),
        ("--ladder", "--from", "v2-8"),
        ("--ladder", "--steps", "9"),
        ("--from", "v2-8", "--to", "v2-32", "--batch-size", "many"),
        ("--from", "v2-8", "--to", "v9-32", "--batch-size", "8"),
    ],
    ids=["half", "both", "ladder of steps", "no number", "no type"],
)
def test_invalid_arguments_are_usage_errors(shell: Shell, words: tuple[str, ...]) -> None:
    answer = shell.run("plan", *words)

    assert (answer.code, "Traceback" in answer.errors) == (2, False)
    assert "→" in answer.errors


def test_the_example_of_a_missing_option_has_the_types_that_were_given(shell: Shell) -> None:
    answer = shell.run("plan", "--from", "v2-8", "--to", "v3-32")
    assert "→ tpu-tui plan --from v2-8 --to v3-32 --batch-size 1024" in answer.errors
    assert "plan --from v4-16 --to v4-32 --batch-size 1024" in shell.run("plan", "--from", "v4-16").errors


def test_notes_and_warnings_are_printed_below_the_figures_on_standard_output(shell: Shell) -> None:
    words = ("plan", "--from", "v2-8", "--to", "v3-32", "--batch-size", "1001", "--lr", "0.1")
    answer = shell.run(*words)
    document = shell.run(*words, "--json").document

    figures, _, below = answer.out.partition("\n\n")
    assert "global batch    4000" in figures
    lines = below.splitlines()
    assert lines == [*document["notes"], *(f"warning: {warning}" for warning in document["warnings"])]
    assert any(line == "the number of epochs stays the same" for line in lines)
    assert any(line.startswith("warning: a batch of 1,001 does not divide") for line in lines)
    assert answer.errors == ""


def test_the_rate_of_a_rung_is_that_of_the_comparison_of_runs(shell: Shell) -> None:
    run = ended(shell, "small", "v2-8", 8, 10.0)
    (directory,) = shell.home.glob(f"runs/{run}")
    lines = [training(core=0, step=step, rate=rate) for step, rate in enumerate(("1.00", "8.00", "9.00", "30.00"))]
    text = "\n".join([*lines, "Avg. Global Rate: 6.50 examples per second"])
    (directory / "worker-000.log").write_text(text + "\n")
    other = ended(shell, "other", "v2-32", 32, 10.0)
    (compared, _) = shell.run("compare", run, other, "--offline", "--json").document
    (ladder,) = shell.run("plan", "--ladder", run, "--json").document["ladders"]
    assert compared["rate_total"] == ladder["rungs"][0]["rate_total"] == 9.0
