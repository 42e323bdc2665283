from __future__ import annotations

import itertools
import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.logs.shapes import generated_log, training
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.read import arrivals_reader, line_reader, mirror_tail
from tui.runs.read.line_reader import LineReader, LogLine, lines_since
from tui.runs.read.mirror_tail import MirrorTail
from tui.runs.read.sample_reader import RunReader
from tui.runs.record import run_directory
from tui.runs.record.log_mirror import archive_attempt_logs, record_missing_arrivals
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.py310


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    workers = tuple(Worker(index, internal_ip=f"10.0.0.{index + 1}") for index in range(3))
    return RunDirectory.create(
        tmp_path, Run(id="demo-20260101-000000-abcd", slice="demo", job=JobOptions(("x",)), workers=workers)
    )


def write(
    directory: RunDirectory, worker: int, data: str | bytes, when: float = 1000.0, *, is_recorded: bool = True
) -> None:
    with directory.log_path(worker).open("ab") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        end = file.tell()
    if is_recorded:
        directory.append_arrival(worker, end, when)


def drained(reader: RunReader, budget: int = 1 << 20) -> RunReader:
    while reader.poll(budget):
        pass
    return reader


_Result = TypeVar("_Result")


def peak_memory(call: Callable[[], _Result]) -> tuple[_Result, int]:
    """Return what a call returns and the bytes that it held at most."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestRunReader:
    def test_reads_what_has_grown_and_nothing_twice(self, directory: RunDirectory) -> None:
        reader = RunReader(directory)
        assert reader.poll() is False
        write(directory, 1, training(core=4) + "\n" + training(core=5)[:30], 1000.0)
        assert reader.poll() is True
        assert reader.poll() is False
        assert [row.core for row in reader.snapshot(now=1001.0).rows()] == [4]
        write(directory, 1, training(core=5)[30:] + "\n", 1002.5)
        assert reader.poll() is True
        rows = reader.snapshot(now=1003.0).rows()
        assert [(row.core, row.worker, row.address) for row in rows] == [(4, 1, "10.0.0.2"), (5, 1, "10.0.0.2")]
        assert rows[1].time == "1970-01-01T00:16:42.500Z"
        assert reader.snapshot(now=1003.0).samples == 2

    def test_reads_no_further_than_arrivals_say(self, directory: RunDirectory) -> None:
        write(directory, 0, training(core=0) + "\n")
        write(directory, 0, training(core=1) + "\n", is_recorded=False)
        reader = drained(RunReader(directory))
        assert len(reader.snapshot(now=1000.0)) == 1

    def test_when_the_run_is_over_reads_bytes_without_an_arrival(self, directory: RunDirectory) -> None:
        write(directory, 0, training(core=0) + "\n")
        write(directory, 0, training(core=1), is_recorded=False)
        directory.append_event("state", state="failed")
        rows = drained(RunReader(directory)).snapshot().rows()
        assert [(row.core, row.state) for row in rows] == [(0, "ended"), (1, "ended")]

    def test_a_poll_keeps_to_its_budget(self, directory: RunDirectory) -> None:
        data = generated_log(2000, 8, prefix=False)
        write(directory, 0, data)
        reader = RunReader(directory)
        polls = 0
        while reader.poll(10_000):
            polls += 1
            assert reader.demux.state.bytes <= polls * 10_000
        assert reader.demux.state.bytes == len(data)

    def test_cores_of_a_worker_whose_process_ended_are_marked_as_ended(self, directory: RunDirectory) -> None:
        write(directory, 0, training(core=0) + "\n")
        write(directory, 1, training(core=1) + "\n")
        directory.append_event("state", state="running")
        directory.append_event("exit", worker=1, exit_code=1)
        rows = drained(RunReader(directory)).snapshot(now=1001.0).rows()
        assert [row.state for row in rows] == ["training", "ended"]

    def test_a_late_reader_sees_the_same_as_a_live_one(self, directory: RunDirectory) -> None:
        live = RunReader(directory)
        for turn in range(40):
            for worker in range(3):
                lines = "".join(training(core=worker * 2 + n, step=turn, epoch=1) + "\n" for n in range(2))
                write(directory, worker, lines, 1000.0 + turn)
                live.poll()
        late = drained(RunReader(directory))
        assert late.snapshot(now=1040.0).rows() == live.snapshot(now=1040.0).rows()

    def test_a_restarted_run_goes_on_with_its_new_logs(self, directory: RunDirectory) -> None:
        write(directory, 0, (training(core=0, step=70) + "\n") * 3)
        directory.attempt_path(0).mkdir(parents=True)
        directory.log_path(0).rename(directory.attempt_path(0) / directory.log_path(0).name)
        write(directory, 0, training(core=0, step=60) + "\n")
        snapshot = drained(RunReader(directory)).snapshot(now=1000.0)
        assert (snapshot.samples, snapshot.rows()[0].step) == (4, 60)

    def test_the_first_core_of_a_restart_is_not_compared_with_the_attempt_before(
        self, directory: RunDirectory
    ) -> None:
        for step in range(0, 100, 10):
            for worker in range(3):
                write(directory, worker, training(core=worker, step=step) + "\n", 1000.0 + step)
        reader = drained(RunReader(directory))
        directory.append_event("state", state="preparing")
        archive_attempt_logs(directory, 0)
        write(directory, 1, training(core=1, step=40) + "\n", 1200.0)
        rows = drained(reader).snapshot(now=1200.0).rows()
        assert [(row.state, row.lag) for row in rows] == [("waiting", None), ("training", 0), ("waiting", None)]
        for worker in (0, 2):
            write(directory, worker, training(core=worker, step=50) + "\n", 1201.0)
        rows = drained(reader).snapshot(now=1201.0).rows()
        assert [(row.state, row.lag) for row in rows] == [("training", 0), ("training", 10), ("training", 0)]

    def test_while_part_of_the_logs_is_unread_no_core_is_a_straggler(self, directory: RunDirectory) -> None:
        for step in range(0, 1000, 10):
            write(directory, 0, training(core=0, step=step) + "\n", 1000.0 + step)
            write(directory, 1, training(core=1, step=step) + "\n", 1000.0 + step)
            write(directory, 2, training(core=2, step=min(step, 100)) + "\n", 1000.0 + step)
        reader = RunReader(directory)
        while reader.poll(1000):
            if reader.tail.is_ahead:
                assert reader.snapshot(now=2000.0).stragglers == ()
        assert reader.snapshot(now=2000.0).stragglers == (2,)

    def test_a_line_that_a_restart_cut_off_is_not_joined_with_the_new_log(self, directory: RunDirectory) -> None:
        write(directory, 0, training(core=0, step=70) + "\n" + training(core=0, step=80)[:40])
        directory.attempt_path(0).mkdir(parents=True)
        directory.log_path(0).rename(directory.attempt_path(0) / directory.log_path(0).name)
        write(directory, 0, training(core=0, step=60)[40:] + "\n")
        assert drained(RunReader(directory)).snapshot(now=1000.0).samples == 1

    def test_many_more_workers_than_files_kept_open_are_all_read(self, tmp_path: Path) -> None:
        workers = tuple(Worker(index) for index in range(300))
        run = Run(id="wide-20260101-000000-abcd", slice="wide", job=JobOptions(("x",)), workers=workers)
        directory = RunDirectory.create(tmp_path, run)
        reader = RunReader(directory)
        for step in (10, 20):
            for worker in range(300):
                write(directory, worker, training(core=worker, step=step) + "\n")
            drained(reader)
        snapshot = reader.snapshot(now=1001.0)
        assert (len(snapshot), snapshot.samples, set(snapshot.step.tolist())) == (300, 600, {20})
        opened = list(reader.tail._files._open.values())
        assert len(opened) <= reader.tail._files.MOST
        del reader
        for descriptor in opened:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)

    def test_a_missing_log_does_not_delay_the_others(self, directory: RunDirectory) -> None:
        write(directory, 0, training(core=0) + "\n")
        directory.log_path(0).unlink()
        write(directory, 1, training(core=1) + "\n")
        assert [row.core for row in drained(RunReader(directory)).snapshot(now=1000.0).rows()] == [1]

    def test_every_worker_of_the_run_is_listed_before_it_writes_anything(self, directory: RunDirectory) -> None:
        workers = RunReader(directory).snapshot(now=1000.0).workers
        assert [(worker.worker, worker.address) for worker in workers] == [
            (0, "10.0.0.1"), (1, "10.0.0.2"), (2, "10.0.0.3"),
        ]  # fmt: skip

    def test_read_newest_returns_complete_lines_once_and_skips_older_ones(self, directory: RunDirectory) -> None:
        line = (training(core=0, step=10) + "\n").encode()
        write(directory, 0, line * 9 + line[:30], is_recorded=False)
        tail = MirrorTail(directory)
        assert tail.read_newest(0, 3 * len(line)) == line * 2
        assert tail.read_newest(0, 3 * len(line)) == b""
        write(directory, 0, line[30:] + b"bar 1\rbar 2\rba", is_recorded=False)
        assert tail.read_newest(0, 3 * len(line)) == line + b"bar 1\rbar 2\r"
        assert tail.read_newest(0, 3 * len(line), unfinished=True) == b"ba"
        assert tail.read_newest(2, 100) == b""

    def test_torn_and_broken_arrivals_do_no_harm(self, directory: RunDirectory) -> None:
        write(directory, 0, training(core=0) + "\n")
        with (directory.path / "arrivals").open("ab") as file:
            file.write(b"nonsense\n1 2\n0 99")
        assert len(drained(RunReader(directory)).snapshot(now=1000.0)) == 1


class TestLineReader:
    def test_gives_lines_in_order_of_arrival_with_their_places(self, directory: RunDirectory) -> None:
        write(directory, 0, "one\ntwo\nthr", 1000.0)
        write(directory, 1, b"\xffelf\n", 1001.0)
        write(directory, 0, "ee\n", 1002.0)
        reader = LineReader(directory)
        assert [line.to_json() for line in reader.poll()] == [
            {"worker": 0, "offset": 0, "time": "1970-01-01T00:16:40Z", "text": "one"},
            {"worker": 0, "offset": 4, "time": "1970-01-01T00:16:40Z", "text": "two"},
            {"worker": 1, "offset": 0, "time": "1970-01-01T00:16:41Z", "text": "�elf"},
            {"worker": 0, "offset": 8, "time": "1970-01-01T00:16:42Z", "text": "three"},
        ]
        assert list(reader.poll()) == []

    def test_the_last_line_without_a_newline_is_given_when_the_log_is_final(self, directory: RunDirectory) -> None:
        write(directory, 0, "one\ntw")
        reader = LineReader(directory)
        assert [line.text for line in reader.poll()] == ["one"]
        assert [(line.text, line.offset) for line in reader.poll(final=True)] == [("tw", 4)]
        assert list(reader.poll(final=True)) == []

    def test_gives_only_lines_of_the_chosen_workers_or_core(self, directory: RunDirectory) -> None:
        write(directory, 0, f"a\n{training(core=1)}\n")
        write(directory, 2, f"b\n{training(core=11)}\n")
        assert [line.text for line in LineReader(directory, workers=[2]).poll()] == ["b", training(core=11)]
        assert [line.text for line in LineReader(directory, core=1).poll()] == [training(core=1)]

    def test_every_byte_of_a_log_is_read(self, directory: RunDirectory) -> None:
        data = b"x" * 3_000_000 + b"\n\n\r\n\x00" + generated_log(100, 4) + b"end"
        for start in range(0, len(data), 700_001):
            write(directory, 0, data[start : start + 700_001])
        lines = list(LineReader(directory).poll(final=True))
        assert b"".join(line.data for line in lines) == data.replace(b"\n", b"")
        assert all(data[line.offset :].startswith(line.data) for line in lines)


def last_lines(
    directory: RunDirectory, count: int, workers: tuple[int, ...] | None = None, core: int | None = None
) -> list[LogLine]:
    return list(LineReader(directory, workers=workers, core=core, tail=count).poll(final=True))


class TestTheLastLines:
    @pytest.fixture
    def many(self, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
        """Write batches that end in the middle of lines, in two attempts, and a worker that stops writing early."""
        monkeypatch.setattr(line_reader, "_FIRST_BATCHES", 1)
        monkeypatch.setattr(mirror_tail, "LINE_BLOCK_BYTES", 16)
        write(directory, 2, "early\nand torn", 1000.0)
        for attempt in (0, 1):
            chance = random.Random(attempt)
            logs = {worker: generated_log(60, 8, prefix=False) for worker in (0, 1)}
            for turn in range(40):
                worker = chance.choice((0, 1))
                size = chance.choice((7, 90, 250))
                piece, logs[worker] = logs[worker][:size], logs[worker][size:]
                write(directory, worker, piece, 1001.0 + 100 * attempt + turn)
            if not attempt:
                archive_attempt_logs(directory, 1)
        return directory

    @pytest.mark.parametrize("workers", [None, (0,), (1, 2)])
    @pytest.mark.parametrize("core", [None, 3])
    def test_read_from_the_end_equal_those_read_from_the_beginning(
        self, many: RunDirectory, workers: tuple[int, ...] | None, core: int | None
    ) -> None:
        every = list(LineReader(many, workers=workers, core=core).poll(final=True))
        assert every
        for count in (0, 1, 2, 5, 17, len(every), len(every) + 1):
            wanted = every[len(every) - count :] if count < len(every) else every
            assert last_lines(many, count, workers, core) == wanted

    @pytest.mark.parametrize("moment", [0.0, 1000.0, 1003.0, 1020.5, 1105.0, 5000.0])
    def test_since_a_time_are_those_that_arrived_since_then(self, many: RunDirectory, moment: float) -> None:
        every = LineReader(many).poll(final=True)
        assert list(lines_since(many, moment)) == [line for line in every if line.time and line.time >= moment]

    def test_last_lines_of_a_long_run_are_found_by_reading_little(
        self, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for turn in range(500):
            write(directory, turn % 3, "x" * 2000 + "\n", 1000.0 + turn)
        read: list[int] = []
        pread = os.pread

        def counted(descriptor: int, size: int, start: int) -> bytes:
            data = pread(descriptor, size, start)
            read.append(len(data))
            return data

        monkeypatch.setattr(os, "pread", counted)
        found = last_lines(directory, 5)
        assert [line.worker for line in found] == [(turn % 3) for turn in range(495, 500)]
        assert sum(read) < 600_000

    def test_last_lines_and_those_since_a_time_take_no_memory_for_what_arrived_before(
        self, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(arrivals_reader, "BLOCK_BYTES", 16 * 1024)
        many = b"".join(b"%d %d %d.5\n" % (turn % 3, 2 * (turn // 3 + 1), turn) for turn in range(60_000))
        (directory.path / "arrivals").write_bytes(many)
        for worker in range(3):
            directory.log_path(worker).write_bytes(b"x\n" * 20_000)
        for read in (lambda: last_lines(directory, 3), lambda: list(lines_since(directory, 59_997))):
            lines, peak = peak_memory(read)
            assert [line.worker for line in lines] == [0, 1, 2]
            assert peak < len(many)

    @pytest.mark.parametrize("is_there", [True, False])
    def test_an_arrival_far_beyond_the_end_of_its_log_is_not_searched_for(
        self, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, is_there: bool
    ) -> None:
        if is_there:
            write(directory, 0, "first\nsecond", 1000.0)
        directory.append_arrival(0, 10**17, 1001.0)
        for turn in range(70):
            write(directory, 1, f"{turn}\n", 1002.0 + turn)
        reads = itertools.count()
        pread = MirrorTail._pread

        def counted(tail: MirrorTail, worker: int, start: int, size: int) -> bytes:
            assert next(reads) < 1000
            return pread(tail, worker, start, size)

        monkeypatch.setattr(MirrorTail, "_pread", counted)
        assert [line.text for line in last_lines(directory, 2)] == (["69", "second"] if is_there else ["68", "69"])
        since = [line.text for line in lines_since(directory, 1070.0)]
        assert since == ["68", "69"]

    def test_a_long_run_is_merged_in_the_order_of_arrival(
        self, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(arrivals_reader, "BLOCK_BYTES", 64)
        for turn in range(60):
            write(directory, turn % 3, f"{turn}\n", 1000.0 + turn)
        assert [line.text for line in LineReader(directory).poll(final=True)] == [str(turn) for turn in range(60)]


class TestWhatAKillLeftUnrecorded:
    def test_is_found_without_reading_all_that_was_recorded(self, directory: RunDirectory) -> None:
        many = b"".join(b"%d %d %d.5\n" % (turn % 2, turn // 2 + 1, turn) for turn in range(100_000))
        (directory.path / "arrivals").write_bytes(many)
        directory.log_path(0).write_bytes(b"x" * 50_000)
        directory.log_path(1).write_bytes(b"x" * 50_007)
        directory.log_path(2).write_bytes(b"")
        _, peak = peak_memory(lambda: record_missing_arrivals(directory))
        assert [(arrival.worker, arrival.end) for arrival in directory.arrivals(len(many))[0]] == [(1, 50_007)]
        assert peak < 100_000

    def test_is_found_whatever_else_stands_in_the_file(
        self, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run_directory, "_NEWEST_ARRIVALS_BYTES", 16)
        (directory.path / "arrivals").write_bytes(
            b"0 5 1.5\n1 6 2.5\n" + b"\x00" * 99 + b"1 9 3.5\nnonsense\n2 7 4.5\n2 8"
        )
        for worker in range(3):
            directory.log_path(worker).write_bytes(b"x" * (5 + worker))
        assert [(arrival.worker, arrival.end) for arrival in directory.newest_arrivals()] == [(2, 7), (1, 6), (0, 5)]
        record_missing_arrivals(directory)
        assert directory.last_arrival() == 4.5

    def test_a_log_is_archived_once(self, directory: RunDirectory) -> None:
        write(directory, 0, "one\n")
        for attempt in (1, 1, 2):
            archive_attempt_logs(directory, attempt)
        assert directory.archived_logs() == {0: 2, 1: 2, 2: 2}
        assert (directory.attempt_path(0) / directory.log_path(0).name).read_bytes() == b"one\n"


def test_what_follows_a_damaged_stretch_of_arrivals_is_read(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals_reader, "BLOCK_BYTES", 64)
    (directory.path / "arrivals").write_bytes(b"\x00" * 200)
    write(directory, 0, "one\n", 1000.0)
    assert [line.text for line in LineReader(directory).poll()] == ["one"]
