from __future__ import annotations

import pytest

from tui.checks.check_row import CheckRow
from tui.console.data.launch_form import parse_option
from tui.console.render.launch_notes import format_checks, format_scaling, warn_about_shell
from tui.console.widgets.command_line import join_lines
from tui.errors import UsageError


def row(check: str, worker: int | None, status: str, detail: str, remedy: str | None = None) -> CheckRow:
    return CheckRow(check, worker, None, None, status, None, detail, remedy)


def test_workers_with_the_same_result_of_a_check_share_a_line() -> None:
    rows = [row("load", n, "warn", "load 9 on 2 CPUs", "top") for n in (3, 0, 2, 1)]
    shown = format_checks(rows, done=True).splitlines()
    assert shown == ["! workers 0-3: load: load 9 on 2 CPUs", "  → top", "0 checks passed"]


def test_a_check_with_many_different_results_shows_the_first_ones_and_names_the_other_workers() -> None:
    rows = [row("device", n, "fail", f"held by user{n}") for n in range(5)]
    assert format_checks(rows, done=True).splitlines() == [
        "✗ worker 0: device: held by user0",
        "✗ worker 1: device: held by user1",
        "  same on workers 2-4",
        "0 checks passed",
    ]


def test_failures_come_before_unknown_results_and_warnings() -> None:
    rows = [
        row("clock", 1, "unknown", "no answer"),
        *(row("disk", n, "pass", "fine") for n in (1, 2, 3)),
        row("disk", 0, "warn", "2 GiB"),
        row("bucket", None, "fail", "not there"),
    ]
    shown = format_checks(rows, done=False).splitlines()
    assert [line[0] for line in shown] == ["✗", "?", "!", "c"]
    assert shown[0] == "✗ bucket: not there"
    assert shown[-1] == "checking the workers… 1 passed so far"


def test_environment_rows_are_parsed_and_an_invalid_one_is_named() -> None:
    assert parse_option("env", "A=1\n\n B = x=y\n") == {"A": "1", "B": " x=y"}
    with pytest.raises(UsageError, match="row 2 "):
        parse_option("env", "A=1\nB\n")


def test_a_command_of_several_lines_is_joined() -> None:
    assert (
        join_lines("python3 train.py \\\n    --epochs 3 \\\r\n\n  --lr 'a b'\n")
        == "python3 train.py --epochs 3 --lr 'a b'"
    )


@pytest.mark.parametrize(("text", "number"), [("", 0), ("  ", 0), ("3", 3)])
def test_restarts_are_a_number(text: str, number: int) -> None:
    assert parse_option("restarts", text) == number


@pytest.mark.parametrize("text", ["-1", "two", "1.5"])
def test_an_invalid_number_of_restarts_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="restarts must be a whole number"):
        parse_option("restarts", text)


def test_nothing_is_scaled_before_both_fields_are_filled() -> None:
    assert format_scaling("", "v3-32", "1024") == ""
    assert format_scaling("v3-8", "v3-32", " ") == ""


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ("1024", "global batch 4,096 (128 per core)"),
        ("1024 5000", "global batch 4,096 (128 per core), 1,250 steps"),
        ("1024, 5000, 0.1", "global batch 4,096 (128 per core), 1,250 steps, learning rate 0.4"),
    ],
)
def test_a_training_is_scaled_as_far_as_its_figures_are_typed(figures: str, expected: str) -> None:
    assert format_scaling("v3-8", "v3-32", figures).splitlines()[0] == f"v3-8 → v3-32: {expected}"


def test_an_unknown_type_is_reported() -> None:
    with pytest.raises(UsageError, match="unknown accelerator type"):
        format_scaling("v3-8", "local-4", "1024")


@pytest.mark.parametrize("figures", ["inf", "nan", "0", "-4", "1024 inf", "1024 10 none"])
def test_only_positive_numbers_are_scaled(figures: str) -> None:
    with pytest.raises(UsageError, match="is not a"):
        format_scaling("v3-8", "v3-32", figures)


@pytest.mark.parametrize(
    ("argv", "sign"),
    [
        (("env;", "echo", "a"), "env;"),
        (("python3", "train.py", "2>&1"), "2>&1"),
        (("echo", "$TPU_TUI_WORKER"), "$TPU_TUI_WORKER"),
        (("sh", "-c", "echo $HOME; true"), None),
        (("nice", "/bin/bash", "-c", "a | b;"), None),
        (("python3", "train.py", "--price", "5$"), None),
    ],
)
def test_a_command_that_needs_a_shell_gets_a_warning(argv: tuple[str, ...], sign: str | None) -> None:
    assert warn_about_shell(argv).startswith(f"! No shell interprets this command: {sign} is") is (sign is not None)
    assert bool(warn_about_shell(argv)) is (sign is not None)
