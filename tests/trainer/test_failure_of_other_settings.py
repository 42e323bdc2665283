"""Tests of workers started with different arguments: one worker names the difference before anything is computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.trainer.conftest import Pod, skip_without_packages
from trainer.distributed.failures import compare_settings
from trainer.errors import TrainerError
from trainer.options import list_settings, parse

skip_without_packages()

FAKE = ["--fake-data", "--image-size", "32"]


def difference(first: list[str], second: list[str]) -> str:
    """Return the error about workers 0 and 1 started with these arguments; empty when they may continue."""
    try:
        compare_settings([(0, list_settings(parse(first, {}))), (1, list_settings(parse(second, {})))])
    except TrainerError as error:
        return str(error)
    return ""


def test_differences_are_reported_by_option() -> None:
    assert difference(FAKE, [*FAKE, "--batch-size", "16", "--steps-per-epoch", "5"]) == (
        "Worker 1 was started with different arguments than worker 0: --batch-size is 16 instead of 128, "
        "--steps-per-epoch is 5 instead of none. Start all workers with the same arguments."
    )


@pytest.mark.parametrize(
    "odd",
    [
        ["--model", "resnet18"],
        ["--seed", "3"],
        ["--epochs", "3"],
        ["--checkpoint-dir", "kept"],
        ["--learning-rate", "1.5"],
        ["--bf16"],
        ["--loader-workers", "2"],
        ["--log-steps", "3"],
        ["--no-memory-check"],
    ],
)
def test_settings_that_all_workers_must_share_are_compared(odd: list[str]) -> None:
    assert f"than worker 0: {odd[0]} is {[*odd, True][1]} instead of " in difference(FAKE, [*FAKE, *odd])
    assert "--data is /b instead of /a" in difference(["--data", "/a"], ["--data", "/b"])


@pytest.mark.parametrize("own", [["--debug"], ["--logdir", "x"], ["--timeout", "3"], ["--num-cores", "1"]])
def test_settings_that_may_differ_between_workers_are_not_compared(own: list[str]) -> None:
    assert not difference(FAKE, [*FAKE, *own])


def test_the_same_path_under_different_home_directories_is_the_same_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = []
    for worker in range(2):
        monkeypatch.setenv("HOME", f"/home/{worker}")
        reported.append((worker, list_settings(parse(["--train-shards", "~/set/{0..3}.tar"], {}))))
    compare_settings(reported)


def test_the_same_path_is_the_same_setting_where_only_some_workers_have_a_home_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported = []
    for worker, home in enumerate(("/root", "", "/")):
        monkeypatch.setenv("HOME", home)
        reported.append((worker, list_settings(parse(["--data", "/data/set"], {}))))
    compare_settings(reported)


def test_workers_with_different_batches_end_before_the_first_step_and_one_reports_why(
    pods: Callable[[], Pod],
) -> None:
    workers = pods().run(["--model", "tiny", *FAKE], workers=2, others=["--batch-size", "16"])
    assert [worker.exit_code for worker in workers] == [2, 2], workers
    assert "--batch-size is 16 instead of 128" in workers[0].err
    assert workers[1].err == ""
    assert "Compiling" not in workers[0].out + workers[1].out
