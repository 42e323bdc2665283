from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest

from trainer import progress
from trainer.progress import RateTracker

NOW = datetime(2020, 8, 6, 2, 38, 57)


def test_a_training_line_has_the_shape_of_pytorch_xlas_own() -> None:
    line = progress.training_line("xla:0/14", 1, 0, 6.875, 258.468, 258.466, NOW)
    assert line == (
        "| Training Device=xla:0/14 Epoch=1 Step=0 Loss=6.87500 Rate=258.47 GlobalRate=258.47 Time=02:38:57"
    )


@pytest.mark.parametrize(("loss", "shown"), [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")])
def test_a_loss_that_is_not_finite_is_shown_as_it_is(loss: float, shown: str) -> None:
    assert f" Loss={shown} " in progress.training_line("xla:0/0", 1, 0, loss, 1, 1, NOW)


def test_a_test_line_has_its_step_before_its_epoch() -> None:
    assert progress.test_line("xla:0/1", 1, 20, 71.2, NOW) == (
        "| Test Device=xla:0/1 Step=20 Epoch=1 Accuracy=71.20 Time=02:38:57"
    )


def test_epoch_lines_have_the_tutorials_shape() -> None:
    now = datetime(2021, 7, 1, 18, 2, 10)
    assert progress.train_begin_line(8, now) == "Epoch 8 train begin 18:02:10"
    assert progress.train_end_line(8, 27.6, 39664, 45676.5, now) == (
        "Epoch 8 train end 18:02:10, Epoch Time=0:00:28, Replica Train Samples=39664, Reduced GlobalRate=45676.50"
    )
    assert progress.test_end_line(8, 36.84, 36.1, 1563, now) == (
        "Epoch 8 test end 18:02:10, Reduced Accuracy=36.84%, Replica Accuracy=36.10%, Replica Test Samples=1563"
    )


def test_a_run_ends_with_its_totals_one_per_line() -> None:
    assert progress.total_lines(41 * 60 + 25, 36.84, 48718.114) == [
        "Total Train Time: 0:41:25",
        "Max Accuracy: 36.84%",
        "Avg. Global Rate: 48718.11 examples per second",
    ]


def test_the_rate_of_a_run_that_did_not_train_is_not_printed() -> None:
    assert progress.total_lines(2, 36.84, None) == ["Total Train Time: 0:00:02", "Max Accuracy: 36.84%"]


def test_a_line_waits_for_room_in_a_full_non_blocking_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write_end, b"." * 4096)
    waited = []
    wait = select.select

    def make_room(reading: list[int], writing: list[int], odd: list[int]) -> object:
        waited.append(writing)
        os.read(read_end, 65536)
        return wait(reading, writing, odd)

    monkeypatch.setattr(select, "select", make_room)
    progress.write_line("after all", write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as reader:
        assert reader.read().endswith(b"after all\n")
    assert waited == [[write_end]]


def test_without_an_evaluation_no_accuracy_is_printed() -> None:
    assert not any("Accuracy" in line for line in progress.total_lines(1, None, 1))


def test_a_duration_of_more_than_a_day_is_shown_with_days() -> None:
    assert progress.duration(90061) == "1 day, 1:01:01"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_rate_moves_by_six_tenths_towards_the_latest_measurement() -> None:
    clock = Clock()
    tracker = RateTracker(clock)
    clock.now += 2
    tracker.add(200)
    assert tracker.rate() == pytest.approx(100)
    clock.now += 1
    tracker.add(200)
    assert tracker.rate() == pytest.approx(0.6 * 200 + 0.4 * 100)
    assert tracker.global_rate() == pytest.approx(400 / 3)


def test_a_rate_requested_twice_at_the_same_time_is_unchanged() -> None:
    clock = Clock()
    tracker = RateTracker(clock)
    assert tracker.rate() == tracker.global_rate() == 0
    clock.now += 1
    tracker.add(10)
    assert tracker.rate() == tracker.rate() == 10


def test_a_line_is_one_write_whatever_it_contains(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, bytes]] = []
    monkeypatch.setattr(os, "write", lambda descriptor, data: written.append((descriptor, data)) or len(data))
    progress.write_line("Loss=ü\nand more\r\n")
    assert written == [(1, "Loss=ü and more\n".encode())]


def test_what_a_terminal_would_obey_is_replaced_in_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    progress.write_error(
        "the first is \x1b]0;pwned\x07\x1b[31mred\u202e\x9b2J\ufeff\udcff\x00.tar \t ü é \u200d 東 x\r."
    )
    marks = "\ufffd" * 2
    expected = f"the first is \ufffd]0;pwned{marks}[31mred{marks}2J{marks}\ufffd.tar \t ü é \u200d 東 x .\n"
    assert capfd.readouterr().err == expected


def test_a_line_without_a_reader_is_lost_without_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    progress.write_line("Saved", descriptor=writer)
    os.close(writer)


def test_a_log_that_cannot_be_written_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_losing", False)
    with Path("/dev/full").open("wb") as full:
        for _ in range(3):
            progress.write_line("Saved", descriptor=full.fileno())
    [reported] = capfd.readouterr().err.splitlines()
    assert reported.startswith("Lines of the log are being lost: No space left on device. Make room")


def test_lines_of_processes_that_share_a_pipe_never_mix() -> None:
    reader, writer = os.pipe()
    code = "import sys; from trainer.progress import write_line; [write_line(sys.argv[1] * 100) for _ in range(200)]"
    root = Path(__file__).parents[2]
    children = [subprocess.Popen([sys.executable, "-c", code, name], stdout=writer, cwd=root) for name in "abcd"]
    os.close(writer)
    with os.fdopen(reader) as stream:
        lines = stream.read().splitlines()
    assert [child.wait() for child in children] == [0] * 4
    assert len(lines) == 800
    assert all(re.fullmatch(r"a{100}|b{100}|c{100}|d{100}", line) for line in lines)
