from __future__ import annotations

import bz2
import gzip
import json
import math
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.shapes import DEMUXES, cut, training
from tui.logs.demux import Demux
from tui.logs.dialects.dialect import LONGEST_BYTES
from tui.logs.saved_log import open_log
from tui.logs.snapshot import Snapshot

_LINE = re.compile(rb"xla:0/(\d+) Epoch=(\d+) Step=(\d+) Loss=(\S+)")
_BROKEN = ("1.00000", "nan")
_MANY = LONGEST_BYTES * 5


def lines(printed: list[tuple[int, int, str]]) -> bytes:
    """Return training lines of (core, step, loss)."""
    return b"".join(f"{training(core=core, step=step, loss=loss)}\n".encode() for core, step, loss in printed)


def read(data: bytes, *, fast: bool = True, places: list[int] | None = None, history: bool = True) -> Snapshot:
    demux = DEMUXES[fast](history=history)
    for chunk in cut(data, places or []):
        demux.feed(0, chunk)
    demux.finish()
    return demux.snapshot()


def found(snapshot: Snapshot) -> dict[int, tuple[int, int, int]]:
    """Return the epoch, step and offset of each core's first loss that is no number."""
    printed = {row.core: row.first_nan for row in snapshot.rows() if row.first_nan is not None}
    return {core: (nan.epoch, nan.step, nan.offset) for core, nan in printed.items()}  # type: ignore[misc]


def expected(data: bytes) -> dict[int, tuple[int, int, int]]:
    """Return the same, found in the text between line ends and carriage returns."""
    offset, broken, first = 0, set(), {}
    for text in re.split(rb"[\r\n]", data):
        for match in _LINE.finditer(text):
            core, epoch, step = (int(match[place]) for place in (1, 2, 3))
            if math.isfinite(float(match[4])):
                broken.discard(core)
            elif core not in broken:
                broken.add(core)
                first[core] = (epoch, step, offset)
        offset += len(text) + 1
    return first


class TestTheFirstLossThatIsNoNumber:
    def test_is_at_its_exact_step_however_long_the_run_continues(self) -> None:
        data = lines([(core, step, "nan" if core == 3 and step >= 60 else "1.50000")
                      for step in range(5000) for core in range(4)])  # fmt: skip
        snapshot = read(data)
        assert snapshot.nan_since == (1, 60)
        (nan,) = [row.first_nan for row in snapshot.rows() if row.first_nan]
        assert (nan.epoch, nan.step, nan.worker) == (1, 60, 0)
        assert nan.offset is not None
        assert data[nan.offset :].startswith(b"| Training Device=xla:0/3 Epoch=1 Step=60 Loss=nan ")
        assert json.loads(json.dumps(snapshot.row_at(3).to_json()))["first_nan"] == {
            "epoch": 1, "step": 60, "time": None, "worker": 0, "offset": nan.offset,
        }  # fmt: skip

    def test_does_not_exist_for_a_core_whose_losses_are_numbers(self) -> None:
        snapshot = read(lines([(0, 1, "1.50000"), (0, 2, "0.00000")]))
        assert (snapshot.row_at(0).first_nan, snapshot.nan_since) == (None, None)

    def test_stays_recorded_when_the_loss_is_a_number_again_and_the_state_is_training(self) -> None:
        snapshot = read(lines([(0, 1, "1.50000"), (0, 2, "nan"), (0, 3, "inf"), (0, 4, "1.50000")]))
        row = snapshot.row_at(0)
        assert row.first_nan is not None
        assert (row.first_nan.step, row.state, snapshot.nan_since) == (2, "training", None)

    def test_is_where_the_newest_series_of_them_began(self) -> None:
        snapshot = read(lines([(0, 1, "nan"), (0, 2, "1.50000"), (0, 3, "-inf"), (0, 4, "nan")]))
        assert found(snapshot)[0][:2] == (1, 3)

    def test_is_not_reset_by_lines_without_a_loss(self) -> None:
        data = b"step:  1  loss: nan  tps: 10\n{'train_runtime': 1}\nstep:  2  loss: -1.0  tps: 10\n"
        data += b"step:  3  loss: nan  tps: 10\n"
        (row,) = read(data).rows()
        assert row.first_nan is not None
        assert (row.first_nan.step, row.first_nan.offset) == (1, 0)

    def test_has_the_time_at_which_its_line_arrived(self) -> None:
        demux = Demux()
        demux.feed(2, lines([(0, 1, "1.50000")]), now=1000.0)
        demux.feed(2, lines([(0, 2, "nan")]), now=1060.0)
        demux.feed(2, lines([(0, 3, "nan")]), now=1120.0)
        nan = demux.snapshot(now=1121.0).row_at(0).first_nan
        assert nan is not None
        assert (nan.time, nan.worker) == ("1970-01-01T00:17:40Z", 2)

    def test_has_the_epoch_that_the_job_prints_on_lines_of_its_own(self) -> None:
        data = b"".join(
            b"Epoch %d train begin 18:01:42\n" % epoch
            + b"".join(
                training(step=step, epoch=None, loss="nan" if (epoch, step) >= (4, 20) else "1.00000").encode()
                + b"\n"
                for step in range(0, 60, 20)
            )
            for epoch in (3, 4, 5)
        )
        assert found(read(data))[0][:2] == (4, 20)

    def test_has_an_offset_in_the_log_of_its_own_worker(self) -> None:
        demux = Demux()
        logs = {worker: lines([(worker, step, "nan" if step >= 7 + worker else "1.00000") for step in range(20)])
                for worker in range(3)}  # fmt: skip
        for start in range(0, 3000, 100):
            for worker, data in logs.items():
                demux.feed(worker, data[start : start + 100], now=1000.0 + start)
        for row in demux.snapshot(now=4000.0).rows():
            nan = row.first_nan
            assert nan is not None
            assert nan.offset is not None
            assert nan.worker == row.core
            assert logs[nan.worker or 0][nan.offset :].startswith(
                b"| Training Device=xla:0/%d Epoch=1 Step=%d Loss=nan" % (nan.worker or 0, 7 + (nan.worker or 0))
            )

    def test_has_an_offset_from_the_beginning_of_the_workers_current_log(self) -> None:
        demux = Demux()
        demux.feed(0, lines([(0, 1, "1.00000"), (1, 1, "nan")]), now=1000.0)
        demux.finish(1000.0, worker=0)
        demux.begin_log(0)
        demux.restart()
        demux.feed(0, lines([(0, 0, "1.00000"), (0, 1, "nan")]), now=1010.0)
        first, second = (row.first_nan for row in demux.snapshot(now=1011.0).rows())
        assert first is not None
        assert second is not None
        assert first.offset == len(lines([(0, 0, "1.00000")]))
        assert (second.step, second.offset) == (1, None)


LOSSES = st.sampled_from(["nan", "inf", "-inf", "1.00000", "2.5"])
PARTS = st.lists(
    st.one_of(
        st.tuples(
            st.integers(0, 3), st.integers(0, 50), st.sampled_from(["nan", "inf", "-inf", "1.00000", "2.5"])
        ).map(lambda printed: training(core=printed[0], step=printed[1], loss=printed[2]).encode()),
        st.sampled_from([b"", b"noise", b"  0%|", b"\x1b[31mred\x1b[0m", b"x" * 70_000, b"y" * _MANY]),
    ),
    max_size=40,
)
ENDS = st.lists(st.sampled_from([b"\n", b"\n", b"\n", b"\r", b"\r\n"]), min_size=40, max_size=40)


@given(PARTS, ENDS, st.lists(st.integers(0, 600_000), max_size=8), st.booleans())
def test_every_offset_leads_to_its_line(parts: list[bytes], ends: list[bytes], at: list[int], end: bool) -> None:
    data = b"".join(part + after for part, after in zip(parts, ends, strict=False))
    data += b"" if end else training(core=1, step=99, loss="nan").encode()
    for fast in (True, False):
        assert found(read(data, fast=fast, places=at)) == expected(data)


@given(st.integers(0, 999_999), st.lists(st.integers(0, 50_000), max_size=6))
def test_the_first_nan_is_the_same_by_vectors_and_line_by_line(seed: int, places: list[int]) -> None:
    """The blocks are large enough for numpy, with a few losses that are no numbers among them."""
    rng = random.Random(seed)
    printed = [(core, step, "nan" if rng.random() < 0.03 else f"{rng.uniform(0, 9):.5f}")
            for step in range(60) for core in range(8)]  # fmt: skip
    log = lines(printed)
    for history in (True, False):
        assert found(read(log, places=places, history=history)) == expected(log)


def test_the_offset_of_a_line_so_long_that_only_its_end_is_read_is_that_of_its_beginning() -> None:
    log = b"first\n" + b"z" * _MANY + b" " + training(core=2, step=4, loss="nan").encode() + b"\rnext\n"
    log += b"q" * _MANY + b"\r" + training(core=3, step=5, loss="nan").encode() + b"\n"
    for size in (1000, 70_000, len(log)):
        places = list(range(0, len(log), size))
        for fast in (True, False):
            assert found(read(log, fast=fast, places=places)) == expected(log)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_the_offset_in_a_compressed_log_is_that_in_the_decompressed_file(tmp_path: Path, pack: object) -> None:
    prefix = "2020-08-06 02:38:57 10.164.0.%d [%d] "
    log = "".join(
        prefix % (40 + worker, worker)
        + training(core=worker, step=step, loss="nan" if worker and step > 90 else "1.00000")
        + "\n"
        for step in range(200)
        for worker in range(2)
    ).encode()
    path = tmp_path / "out.log"
    path.write_bytes(pack(log))  # type: ignore[operator]
    good, broken = open_log(path).snapshot().rows()
    assert good.first_nan is None
    assert broken.first_nan is not None
    assert broken.first_nan.offset == log.index(b"Step=91 Loss=nan") - len(
        prefix % (41, 1) + "| Training Device=xla:0/1 Epoch=1 "
    )
    assert (broken.first_nan.worker, broken.first_nan.time) == (1, "2020-08-06T02:38:57")


def test_the_offset_in_an_export_of_cloud_logging_is_that_of_the_entry(tmp_path: Path) -> None:
    entries = [
        {"textPayload": training(step=step, loss="nan" if step >= 3 else "1.00000"),
         "timestamp": f"2024-05-01T10:00:0{step}Z"}
        for step in reversed(range(6))
    ]  # fmt: skip
    path = tmp_path / "export.json"
    path.write_text(json.dumps(entries, indent=2) + "\n")
    (row,) = open_log(path).snapshot().rows()
    assert row.first_nan is not None
    assert (row.first_nan.step, row.state) == (3, "nan")
    entry = path.read_bytes()[row.first_nan.offset or 0 :]
    assert json.JSONDecoder().raw_decode(entry.decode().lstrip())[0] == entries[2]


def test_a_whole_pod_whose_losses_become_nan_at_once_has_a_first_nan_for_each_core() -> None:
    cores = 16_384
    data = lines([(core, step, "nan" if step == 2 else "1.00000") for step in range(4) for core in range(cores)])
    snapshot = read(data)
    rows = snapshot.rows()
    assert {row.first_nan.step if row.first_nan else None for row in rows} == {2}
    assert len({row.first_nan.offset for row in rows if row.first_nan}) == cores
