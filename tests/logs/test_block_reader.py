"""Tests of the block reader against the line reader: the same bytes must leave exactly the same state."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.logs.shapes import DEMUXES, LOGS, SAMPLE_LOG, cut, generated_log, training
from tui.logs import block_reader
from tui.logs.demux import Demux
from tui.logs.dialects.registry import BUILT_IN
from tui.logs.dialects.user_dialects import user_dialects
from tui.logs.files import block_buffer
from tui.logs.files.block_buffer import BlockBuffer
from tui.logs.files.log_stream import LogStream
from tui.logs.prefix_index import PrefixIndex
from tui.logs.vectorized import block
from tui.logs.vectorized.block import Block


@pytest.fixture(autouse=True, scope="module")
def _blocks_of_any_size() -> object:
    """Let the block reader take short blocks too, so that small examples reach it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_reader, "LEAST_BYTES", 1)
        patch.setattr(block_reader, "BLOCK_BYTES", 700)
        patch.setattr(block_buffer, "BLOCK_BYTES", 700)
        patch.setattr(block, "BLOCK_BYTES", 700)
        patch.setattr(block, "_FEW_LINES", 0)
        yield


def state_of(demux: Demux) -> list[object]:
    """Return everything a demultiplexer holds, in comparable form."""
    snapshot = demux.snapshot()
    table = demux.state.table
    columns = {name: table.column(name).tolist() for name in table.columns}
    history = table.history
    assert history is not None
    trails = [[repr(history.losses(row).tolist()), repr(history.rates(row).tolist())] for row in range(table.size)]
    slots = sorted(repr(vars(slot)) for slot in demux.state.sources)
    columns["slot"] = [
        (demux.state.sources[slot].number, demux.state.sources[slot].address) for slot in columns["slot"]
    ]
    counts = (
        demux.state.lines,
        demux.state.bytes,
        demux.state.samples,
        demux.state.overlong,
        demux.state.matched,
        repr(demux.state.facts),
    )
    rows = [row.to_json() for row in snapshot.rows()]
    return [repr(columns), trails, slots, counts, rows, snapshot.epochs, snapshot.first_time, snapshot.last_time]


def assert_same(data: bytes, chunks: list[bytes], worker: int | None, now: float | None = None) -> None:
    states = []
    for fast in (False, True):
        demux = DEMUXES[fast]()
        demux.feed(worker, b"", now)
        for chunk in chunks if fast else [data]:
            demux.feed(worker, chunk, now)
        demux.finish(now)
        states.append(state_of(demux))
    assert states[1] == states[0]


@given(LOGS, st.lists(st.integers(0, 3000), max_size=5), st.sampled_from([None, 3]))
@example((training() + "\r\n").encode() * 3, [], None)
@example((training(core=1234567) + "\n").encode(), [], None)
@example((training(epoch=None) + "\n" + training() + "\n").encode() * 2, [], None)
@example(("2020-08-06 02:38:57 10.164.0.43 [0] " + training() + "\n").encode() * 2, [], 3)
@example(("2020-99-06 02:38:57 10.164.0.43 [0] " + training() + "\n").encode() * 2, [], None)
@example((training(step=99) + "\n" + training(step=12345, core=512) + "\n").encode(), [], None)
@example(training(step=99).encode().replace(b"Step=", b"Step=\xff") + b"\n" + training().encode() + b"\n", [], None)
@example((training(loss="100.00000") + "\n" + training(loss="-1.00000") + "\n").encode(), [], None)
def test_both_readers_leave_the_same_state(data: bytes, places: list[int], worker: int | None) -> None:
    assert_same(data, cut(data, places), worker)


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, None]), LOGS, st.sampled_from([None, 5.0, 6.5])), max_size=12),
    st.lists(st.integers(0, 12), max_size=3),
)
@example([(0, f"| Test Device=xla:0/1 Step=20 Epoch=1 Accuracy=71.20\n{training(core=1)}\n".encode(), 6.5)], [])
def test_small_chunks_of_many_workers_read_together_equal_chunks_read_one_by_one(
    chunks: list[tuple[int | None, bytes, float | None]], snapshots_after: list[int]
) -> None:
    states = []
    for fast in (False, True):
        demux = DEMUXES[fast]()
        for worker in (0, 1, 2, None):
            demux.feed(worker, b"")
        for place, (worker, data, now) in enumerate(chunks):
            demux.feed(worker, data, now)
            if place in snapshots_after:
                demux.snapshot()
        demux.finish(7.0)
        states.append(state_of(demux))
    assert states[1] == states[0]


@given(st.integers(0, 200), st.binary(min_size=1, max_size=3), st.integers(0, 3000))
def test_both_readers_agree_on_a_log_with_one_damaged_place(line: int, damage: bytes, place: int) -> None:
    data = generated_log(30, 8, junk=0)
    at = place % len(data)
    damaged = data[:at] + damage + data[at + len(damage) :]
    assert_same(damaged, [damaged], None)


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("now", [None, 1_600_000_000.5])
def test_both_readers_agree_on_a_generated_log(prefix: bool, now: float | None) -> None:
    data = generated_log(3000, 32, prefix=prefix)
    assert_same(data, cut(data, list(range(0, len(data), 10_007))), None, now)


def test_both_readers_agree_on_the_sample_log() -> None:
    assert_same(SAMPLE_LOG.read_bytes(), [SAMPLE_LOG.read_bytes()], None)


@pytest.mark.parametrize("now", [None, 1_600_000_000.5])
def test_both_readers_distinguish_lines_with_a_date_from_lines_with_a_prefix(now: float | None) -> None:
    lines = [
        "2020-08-06 02:38:57 10.164.0.109 [1] " + training(core=9),
        "2020-08-06 02:38:58,123 INFO step 3 of 10",
        "2020-08-06 02:38:58,123 10.164.0.109 [1] loaded",
        "2020-08-06 02:38:59 10.164.0.7 [2] loaded",
        "10.164.0.8 [3] loaded",
        "10.164.0.8 [3]",
        "2020-08-06 02:39:00  [] Cluster configuration: {}",
        "2020-08-06 02:39:01.718250: W tensorflow/core",
        "2020-08-06 02:39:02 3 of 4 hosts are up",
        "2020-08-06 02:39:03",
        "1234",
        "2020-08-06 02:39:04,123",
    ]
    data = ("\n".join(lines * 30) + "\n").encode()
    assert_same(data, [data], None, now)
    assert_same(data, [data], 3, now)


def test_a_users_pattern_may_match_the_prefix_of_a_line() -> None:
    (own,) = user_dialects({"by-host": {"pattern": r"10\.0\.0\.7 \[\d+\] pass (?P<step>\d+) at (?P<loss>\d+)"}})
    before = "2020-08-06 02:38:57 10.0.0.7 [2] "
    data = "".join(f"{before}{training(step=step)}\n{before}pass {step} at 3\n" for step in range(60)).encode()
    states = []
    for fast in (False, True):
        demux = DEMUXES[fast](dialects=[own, *BUILT_IN])
        demux.feed(None, data)
        demux.finish()
        states.append(state_of(demux))
        assert demux.state.matched["by-host"] == 60
    assert states[1] == states[0]


def test_the_block_reader_takes_plain_training_lines_and_no_others() -> None:
    lines = [
        training(core=3),
        training(loss="nan"),
        "2020-08-06 02:38:57 10.164.0.109 [1] " + training(core=9, epoch=None, device=10),
        "|" + training(),
        training(rate="12345678.25"),
        training(core=4)[:-1],
    ]
    text = ("\n".join(lines) + "\n").encode()
    buffer, stream = BlockBuffer(), LogStream(None)
    buffer.add(stream, text, 0, len(text), None, 0)
    index = PrefixIndex()
    before_known = Block(buffer, {stream: index}, None, lambda: 5).read()
    (news,) = before_known.new_prefixes
    assert (before_known.sample_lines.tolist(), news.texts) == ([0], [b"10.164.0.109 [1] "])
    index.add(news.tails, news.texts, lambda _: 6)
    found = Block(buffer, {stream: index}, None, lambda: 5).read()
    assert found.sample_lines.tolist() == [0, 2]
    assert found.left.tolist() == [1, 3, 4, 5]
    samples = found.samples
    assert (samples.slot.tolist(), samples.core.tolist(), samples.epoch.tolist()) == ([5, 6], [3, 9], [1, -1])
    assert (samples.device.tolist(), samples.loss[:].tolist(), samples.rate[:].tolist()) == (
        [0, 10],
        [6.875, 6.875],
        [258.47, 258.47],
    )
