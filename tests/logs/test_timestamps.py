"""Tests of the dates at the beginning of lines, as the loggers of trainers, tools and clouds write them."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tui.logs.attribution.timestamps import read_when
from tui.logs.files.line_filter import Choice
from tui.logs.saved_log import open_log

pytestmark = pytest.mark.py310

WHOLE = datetime(2026, 11, 23, 9, 5, 10, tzinfo=timezone.utc).timestamp()
WRITTEN = datetime(2026, 11, 24, tzinfo=timezone.utc).timestamp()

WITH_FRACTION = [
    b"2026-11-23 09:05:10,125 INFO trainer: step 1",
    b"2026-11-23T09:05:10.125Z step 1",
    b"2026-11-23T10:05:10.125+01:00 step 1",
    b"2026-11-23T04:35:10.125-0430 step 1",
    b"[2026-11-23 09:05:10,125][__main__][INFO] - step 1",
    b"[2026-11-23 09:05:10,125] [INFO] [engine.py:1:step] step 1",
    b"INFO 2026-11-23 09:05:10.125 step 1",
    b"[INFO|2026-11-23 09:05:10,125] step 1",
    b"I1123 09:05:10.125000 140245 train.py:10] step 1",
    b"I20261123 09:05:10.125000 140245 train.cc:10] step 1",
    b'{"timestamp": "2026-11-23T09:05:10.125Z", "loss": 2.0}',
    b'{"level": "info", "time": "2026-11-23T09:05:10.125+00:00", "msg": "step 1"}',
    b'{"ts": 1795424710.125, "step": 1}',
    b'{"step": 1, "ts": 1795424710125}',
    b'{"message": "step 1", "timestamp": {"seconds": 1795424710, "nanos": 125000000}}',
    b'{"asctime": "2026-11-23 09:05:10,125", "time": 0.8}',
]
WITHOUT_FRACTION = [
    b"[2026-11-23 09:05:10] step 1",
    b"2026/11/23 09:05:10 - mmengine - INFO - Epoch(train) [1][10/20]",
    b"11/23/2026 09:05:10 - INFO - __main__ - step 1",
    b"11/23/2026 09:05:10 AM step 1",
    b"Nov 23 09:05:10 t1v-n-0 python[7]: step 1",
    b"Mon Nov 23 09:05:10 2026 step 1",
    b"[11/23 09:05:10 d2.utils.events]:  eta: 0:00:01",
    b"[1123 09:05:10 @base.py:1] step 1",
    b"INFO 11-23 09:05:10 engine.py:1] step 1",
    b"I 11-23 09:05:10 provisioner.py:1] step 1",
    b'{"time": 1795424710, "step": 1}',
    b'{"log": "step 1\\n", "stream": "stdout", "time": "2026-11-23T09:05:10.000000000Z"}',
]
NONE = [
    b"| Training Device=xla:0/1 Epoch=1 Step=0 Loss=2.0 Rate=1.0 GlobalRate=1.0 Time=09:05:10",
    b"step 1 of 2026-11-23 09:05:10",
    b"Restored the checkpoint of 2026-11-23 09:05:10",
    b"2026-13-23 09:05:10 no such month",
    b"31/11/2026 09:05:10 no such month",
    b"09:05:10 step 1",
    b"I1323 09:05:10.125000 1 no such month",
    b'{"time": 0.8, "step": 1}',
    b'{"step": 1, "loss": 2.0}',
    b'{"time": true}',
    b'{"config": {"time": 1795424710}}',
    b'{"time": "2026-11-23T09:05:10Z", cut off',
    b"{'time': 1795424710}",
    b"",
]


@pytest.mark.parametrize("line", WITH_FRACTION)
def test_a_date_with_a_fraction_of_a_second_is_read(line: bytes) -> None:
    assert read_when(line, WRITTEN) == pytest.approx(WHOLE + 0.125, abs=1e-5)


@pytest.mark.parametrize("line", WITHOUT_FRACTION)
def test_a_date_to_the_second_is_read(line: bytes) -> None:
    assert read_when(line, WRITTEN) == WHOLE


@pytest.mark.parametrize("line", NONE)
def test_a_line_without_a_date_of_its_own_has_none(line: bytes) -> None:
    assert read_when(line, WRITTEN) is None


def test_a_day_without_its_year_is_the_last_one_before_the_log_was_written() -> None:
    january = datetime(2028, 1, 5, tzinfo=timezone.utc).timestamp()
    years = [
        datetime.fromtimestamp(read_when(line, january) or 0, timezone.utc).year
        for line in (b"I1231 23:59:59.000000 1 a", b"I0105 00:00:01.000000 1 a", b"I0229 00:00:01.000000 1 a")
    ]
    assert years == [2027, 2028, 2024]
    assert read_when(b"I1231 23:59:59.000000 1 a") is None


TRAIN_LOG = """\
2026-11-23 09:05:10,125 INFO step 1
2026-11-23 09:06:00,000 ERROR it broke
Traceback (most recent call last):
  File "train.py", line 1, in <module>
ValueError: nan
"""


def test_a_traceback_has_the_date_of_the_line_above_it(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(TRAIN_LOG)
    late, later = WHOLE + 30, WHOLE + 300
    assert [line.text for line in open_log(path).lines(since=late)] == TRAIN_LOG.splitlines()[1:]
    assert [line.time is None for line in open_log(path).lines(since=late)] == [False, True, True, True]
    assert [line.text for line in open_log(path).lines(since=late, tail=2)] == TRAIN_LOG.splitlines()[-2:]
    assert not list(open_log(path).lines(since=later))


def test_each_workers_lines_have_the_dates_of_that_worker(tmp_path: Path) -> None:
    lines = [
        "[rank0]: 2026-11-23 09:05:10 step 1",
        "[rank1]: 2026-11-23 09:07:10 step 1",
        "[rank0]: and on it goes",
        "[rank1]: Traceback (most recent call last):",
        "a line of no worker",
    ]
    path = tmp_path / "both.log"
    path.write_text("\n".join(lines) + "\n")
    log = open_log(path)
    assert [line.data.decode() for line in log.picked(Choice(since=WHOLE + 60), numbered=True)] == [
        f"{lines[place]}\n" for place in (1, 3, 4)
    ]
    assert [line.text for line in log.lines(worker=0, since=WHOLE)] == [lines[0], lines[2]]


def test_the_lines_of_a_saved_json_log_have_their_times(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "loss": 2.0, "ts": WHOLE + step} for step in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row.to_json()["time"] for row in open_log(path).lines()] == [
        f"2026-11-23T09:05:1{step}" for step in range(3)
    ]
    assert [line.data for line in open_log(path).lines(since=WHOLE + 2)] == [json.dumps(rows[2]).encode()]


@pytest.mark.parametrize(
    "line",
    [
        b'{"time": ' + b"1" * 400 + b"}",
        b'{"timestamp": {"seconds": 1700000000, "nanos": 1' + b"0" * 400 + b"}}",
        b'{"timestamp": {"seconds": 1700000000, "nanos": 1e300}}',
        b'{"time": "\\ud800"}',
        b'{"time": true}',
        b'{"time": ' + b"[" * 100_000,
    ],
)
def test_a_line_of_json_with_an_impossible_time_has_none(line: bytes) -> None:
    assert read_when(line) is None
