"""Hostile input from workers, damaged files and other users: it raises at most a TpuTuiError and hides no other run.

`TPU_TUI_FUZZ=100000 TPU_TUI_FUZZ_SEED=1 pytest tests/runs/test_hostile_input.py` reads that many inputs.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs.hostile import NONCE, RUN, RUN_ID, Hostility
from tui.checks.workers.check_facts import facts_from
from tui.cloud.hosts_file import read_hosts
from tui.console.render.pod_rows import make_run_row
from tui.errors import TpuTuiError
from tui.pod.run import RunState, is_run_id
from tui.reports.facts import summary_of_run
from tui.reports.html import write_html
from tui.reports.json_csv import write_csv, write_json
from tui.reports.markdown import write_markdown
from tui.reports.status import status_document
from tui.reports.text import write_text
from tui.runs.read.arrivals_reader import ArrivalsReader
from tui.runs.record.directory_lock import living_keeper
from tui.runs.record.keeper_file import KEEPER_FILE
from tui.runs.record.run_directory import ARRIVALS_FILE, EVENTS_FILE, RunDirectory
from tui.runs.record.run_index import list_runs
from tui.runs.record.run_status import TAGS, status_of, summary_status
from tui.runs.worker.calls import parse_outcome
from tui.runs.worker.queries import parse_attempt, parse_listing, parse_record, parse_state
from tui.settings.profiles import profile_path, read_profile
from tui.ssh.exec.script_protocol import parse_answers
from tui.text.bounded_json import MOST_DEPTH, parse_json
from tui.text.numbers import MOST_INTEGER, parse_integer

pytestmark = pytest.mark.py310

INPUTS = int(os.environ.get("TPU_TUI_FUZZ", "1500"))
SEED = int(os.environ.get("TPU_TUI_FUZZ_SEED", "25"))
LOG = b"".join(
    b"| Training Device=xla:0/%d Epoch=1 Step=%d Loss=6.5 Rate=25.4 GlobalRate=25.4 Time=02:38:57\n" % (core, step)
    for step in range(0, 60, 20)
    for core in (0, 1)
)


def read_answers(hostility: Hostility, _home: Path) -> None:
    output = hostility.answers()
    replies = parse_answers(NONCE, output)
    for answer in replies:
        outcome = parse_outcome(answer)
        assert outcome.exit_code is None or 0 <= outcome.exit_code <= 255
        assert outcome.size is None or 0 <= outcome.size <= MOST_INTEGER
        assert 0 <= parse_attempt(answer, RUN) <= RUN.job.restarts
        parse_state(answer)
        answer.number_at(0)
        str(outcome.cause)
    facts_from(0, replies, 1.0, 2.0)
    assert all(is_run_id(run_id) for run_id in parse_listing(NONCE, 0, output) or {})


def read_record(hostility: Hostility, _home: Path) -> None:
    body = hostility.record()
    try:
        run = parse_record(NONCE, RUN_ID, b"x\n@%s json %d\n%b" % (NONCE.encode(), len(body), body))
    except ValueError:
        return
    assert run.id == RUN_ID
    assert all(0 <= worker.index < 1_000_000 and isinstance(worker.name, str) for worker in run.workers)
    json.dumps(run.to_json(), allow_nan=False)


def read_state(hostility: Hostility, home: Path) -> None:
    """Read a run whose files are damaged, and one next to it that is intact."""
    path = home / "runs" / RUN_ID
    sound = _two_sound_runs(home) if not path.exists() else _sound(home)
    kinds: dict[str, Callable[[], bytes]] = {
        "run.json": hostility.record,
        EVENTS_FILE: hostility.events,
        ARRIVALS_FILE: hostility.arrivals,
        KEEPER_FILE: hostility.keeper,
    }
    for name, content in sound.items():
        (path / name).write_bytes(content)
    for name in hostility.random.sample(list(kinds), 2):
        (path / name).write_bytes(kinds[name]())
    problems: list[TpuTuiError] = []
    listed = list_runs(home / "runs", problems)  # type: ignore[arg-type]
    assert "whole" in {directory.path.name for directory in listed}
    assert len(listed) + len(problems) == 2
    for directory in listed:
        living_keeper(directory)
        status = status_of(directory)
        json.dumps([status_document(status, None), status_document(summary_status(directory), None)], allow_nan=False)
        make_run_row(status, 1764e6)
        arrivals = ArrivalsReader(directory)
        while arrivals.read():
            pass
        if directory.path == path and hostility.random.random() < REPORTED:
            summary = summary_of_run(directory)
            for write in (write_json, write_csv, write_html, write_markdown, write_text):
                write(summary).encode("utf-8", "surrogatepass")


def _two_sound_runs(home: Path) -> dict[str, bytes]:
    """Create a run whose files stay intact and one whose files will be damaged."""
    whole = RunDirectory.create(home / "runs", RUN)
    whole.append_event("state", state="running", cause=None)
    whole.path.rename(home / "runs" / "whole")
    spoiled = RunDirectory.create(home / "runs", RUN)
    for worker in RUN.workers:
        spoiled.log_path(worker.index).write_bytes(LOG)
    return _sound(home)


def _sound(home: Path) -> dict[str, bytes]:
    record = (home / "runs" / "whole" / "run.json").read_bytes()
    return {"run.json": record, EVENTS_FILE: b"", ARRIVALS_FILE: b"", KEEPER_FILE: b""}


REPORTED = 0.05
"""The share of readable damaged runs of which a report is written, by far the slowest step."""


def read_files(hostility: Hostility, home: Path) -> None:
    hosts, profile = home / "hosts", profile_path(home, "p")
    profile.parent.mkdir(exist_ok=True)
    hosts.write_bytes(hostility.hosts())
    profile.write_bytes(hostility.profile())
    with contextlib.suppress(TpuTuiError):
        read_hosts(hosts)
    with contextlib.suppress(TpuTuiError):
        read_profile(home, "p", home)


@pytest.mark.parametrize("read", [read_answers, read_record, read_state, read_files])
def test_no_input_raises_anything_but_an_error_of_tpu_tui(
    read: Callable[[Hostility, Path], None], tmp_path: Path
) -> None:
    for number in range(INPUTS // 4):
        seed = SEED * 1_000_000 + number
        try:
            read(Hostility(seed), tmp_path)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("tags", [[1], "x", 5, True, 1.5])
def test_an_event_whose_tags_are_no_object_is_skipped(tmp_path: Path, tags: object) -> None:
    directory = RunDirectory.create(tmp_path / "runs", RUN)
    directory.append_event("state", state="running", cause=None)
    directory.append_event(TAGS, tags=tags)
    assert [event.kind for event in directory.events()[0]] == ["state"]
    assert status_of(directory).state is RunState.RUNNING


@pytest.mark.parametrize("text", ["", "9" * 5000, "-1", "²", "1_000", "+1", " 1", "0x1", str(MOST_INTEGER + 1)])
def test_text_that_is_not_a_plain_integer_is_none(text: str) -> None:
    assert parse_integer(text) is None
    assert parse_integer(text.encode()) is None


def test_integers_are_read_up_to_a_bound() -> None:
    assert [parse_integer(text, 255) for text in ("0", "255", "256", "007")] == [0, 255, None, 7]
    assert parse_integer(str(MOST_INTEGER)) == MOST_INTEGER


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1),
        b"9" * 5000,
        b"-" + b"9" * 20,
        b"\xff",
        b"",
    ],
    ids=["lists", "objects", "depth", "digits", "large", "bytes", "nothing"],
)
def test_a_document_beyond_its_bounds_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_json(data)


def test_a_document_within_its_bounds_is_read() -> None:
    assert parse_json(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH)
    assert parse_json(b"[1, -5, 1.5, {}]" + b" " * 40) == [1, -5, 1.5, {}]
