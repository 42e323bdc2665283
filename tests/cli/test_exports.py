"""`logs FILE --since` on an export of Cloud Logging: the times of its entries decide."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.commands import Shell

NAMES = ("insertId", "resource.labels.worker_id", "textPayload", "timestamp")
ENTRIES = [(worker, second) for second in (10, 20, 30) for worker in (0, 1)]
"""The worker and the second of each entry, oldest first."""
Write = Callable[[Sequence[tuple[int, int]]], str]


def log_text(worker: int, second: int) -> str:
    return f"worker {worker} step {second}"


def as_json(entries: Sequence[tuple[int, int]]) -> str:
    documents = [
        {
            "textPayload": log_text(worker, second),
            "resource": {"labels": {"worker_id": str(worker)}},
            "timestamp": f"2025-03-01T10:00:{second}.5Z",
        }
        for worker, second in entries
    ]
    return json.dumps(documents, indent=2) + "\n"


def as_yaml(entries: Sequence[tuple[int, int]]) -> str:
    return "".join(
        f"---\nresource:\n  labels:\n    worker_id: '{worker}'\ntextPayload: '{log_text(worker, second)}'\n"
        f"timestamp: '2025-03-01T10:00:{second}.5Z'\n"
        for worker, second in entries
    )


def as_csv(entries: Sequence[tuple[int, int]]) -> str:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(NAMES)
    rows.writerows(
        ["a", worker, f'{log_text(worker, second)}\nbeneath it, "quoted"', f"2025-03-01T10:00:{second}.5Z"]
        for worker, second in entries
    )
    return text.getvalue()


@pytest.fixture(params=[as_json, as_yaml, as_csv], ids=["JSON", "YAML", "CSV"])
def write(request: pytest.FixtureRequest) -> Write:
    given: Write = request.param
    return given


def exported(shell: Shell, text: str) -> str:
    path = shell.home / "export"
    path.write_text(text, newline="")
    return str(path)


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
def test_only_entries_since_the_time_are_printed_unchanged(shell: Shell, write: Write, order: int) -> None:
    entries = ENTRIES[::order]
    log = exported(shell, write(entries))
    answer = shell.call("logs", log, "--since", "2025-03-01T10:00:20Z")
    assert (answer.code, answer.errors) == (0, "")
    shown = [each for each in entries if log_text(*each) in answer.out]
    assert shown == [each for each in entries if each[1] >= 20]
    assert answer.raw in Path(log).read_bytes()


def test_the_entries_of_a_worker_since_the_time_have_their_times(shell: Shell, write: Write) -> None:
    log = exported(shell, write(ENTRIES))
    rows = shell.call("logs", log, "--worker", "1", "--since", "2025-03-01T10:00:20Z", "--json").document
    assert {row["worker"] for row in rows} == {1}
    assert {row["time"] for row in rows} == {"2025-03-01T10:00:20.500", "2025-03-01T10:00:30.500"}
    text = "\n".join(row["text"] for row in rows)
    assert [each for each in ENTRIES if log_text(*each) in text] == [(1, 20), (1, 30)]
    last = shell.call("logs", log, "--since", "2025-03-01T10:00:20Z", "--tail", "1", "--json").document
    assert [row["time"] for row in last] == ["2025-03-01T10:00:30.500"]


def test_a_log_whose_lines_have_no_date_is_reported(shell: Shell) -> None:
    log = exported(shell, "a line\nanother\n")
    for words in ((), ("--json",)):
        answer = shell.call("logs", log, "--since", "1h", *words)
        assert answer.out.strip() in ("", "[]")
        assert "has a date" in answer.errors


def test_a_log_that_only_begins_like_an_export_keeps_the_dates_of_its_lines(shell: Shell) -> None:
    lines = [f"2025-03-01 10:00:{second} 10.0.0.{worker + 2} [{worker}] hello\n" for worker, second in ENTRIES]
    log = exported(shell, "---\nlearning_rate: 1\n---\n" + "".join(lines))
    assert shell.call("logs", log, "--since", "2025-03-01T10:00:20Z").out == "".join(lines[2:])
