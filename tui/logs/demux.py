"""The demultiplexer, which turns the log bytes of any number of workers into the sorted state of every core. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.errors import UsageError
from tui.logs.attribution.line_owner import LineOwner
from tui.logs.block_reader import BlockReader
from tui.logs.dialects.dialect import LONGEST_BYTES, Dialect, slow_dialect_error
from tui.logs.dialects.matcher import Matcher
from tui.logs.dialects.registry import BUILT_IN, TRAINING
from tui.logs.files.log_stream import Bytes, LogPiece, LogStream
from tui.logs.single_line_reader import SingleLineReader
from tui.logs.snapshot import Snapshot
from tui.logs.state.core_table import CoreTable
from tui.logs.state.demux_state import DemuxState
from tui.logs.state.snapshot_builder import build_snapshot, worker_numbers
from tui.logs.state.stragglers import CoreThresholds


class Demux:
    """Takes bytes in any chunks and keeps the newest state of every core.

    `dialects` are tried in order, a user's first; `addresses` are those of known workers; `xla_dist` says that short
    prefixes can be trusted. Without `history` no series are kept; with `steps` each point of them has its step.
    The samples do not depend on how each worker's bytes are cut into chunks.
    """

    def __init__(
        self,
        *,
        dialects: Sequence[Dialect] = BUILT_IN,
        addresses: Mapping[int, str] | None = None,
        thresholds: Mapping[str, float] | None = None,
        history: bool = True,
        steps: bool = False,
        xla_dist: bool = False,
    ) -> None:
        limits = CoreThresholds.from_settings(thresholds or {})
        table = CoreTable(history=history, steps=steps, recent=int(limits.slow_samples))
        self.state = DemuxState(limits, table)
        self._dialects = tuple(dialects)
        self._is_torch_xla = TRAINING in dialects
        self._matcher = Matcher(self.state, dialects)
        self._lines = SingleLineReader(self.state, self._matcher, is_torch_xla=self._is_torch_xla)
        self._blocks = BlockReader(self.state, self._lines, dialects)
        self._addresses = dict(addresses or {})
        self._xla_dist = xla_dist
        self._streams: dict[int | None, LogStream] = {}
        for worker in self._addresses:
            self._stream(worker)

    @property
    def reads_blocks(self) -> bool:
        """Return whether blocks of lines are read together; otherwise every line is read alone."""
        return self._is_torch_xla and not self._lines.needs_every_line

    @property
    def dialect_error(self) -> UsageError | None:
        """Return the error of a profile's dialect that was given up because it took too long; None if none was."""
        return slow_dialect_error(self._dialects)

    def feed(self, worker: int | None, data: Bytes, now: float | None = None) -> None:
        """Take the next bytes of a worker's log, or (`None`) of a saved log of several workers.

        Small chunks of many workers are gathered and read together, at the latest when a snapshot is taken. `now` is
        the time of their arrival in UTC seconds; without it, only the dates in the log are known.
        """
        stream = self._stream(worker)
        self.state.bytes += len(data)
        for piece in stream.take(data):
            self._read(stream, piece, now)

    def finish(self, now: float | None = None, *, worker: int | None = None) -> None:
        """Read the lines that have no line end yet, since this worker (None: any worker) sends no more bytes."""
        self._blocks.flush()
        for stream in [self._stream(worker)] if worker is not None else list(self._streams.values()):
            block, offset = stream.rest()
            if block:
                self._lines.read_lines(stream, block, now, offset)
            self._lines.finish(stream, now)

    def set_ended(self, worker: int, ended: bool) -> None:
        """Note that the worker's process has ended, or was started again."""
        stream = self._stream(worker)
        if stream.slot is not None:
            self.state.sources[stream.slot].ended = ended

    def begin_log(self, worker: int) -> None:
        """Begin another log of the worker, whose offsets count from 0."""
        self._blocks.flush()
        self.state.queue.flush()
        stream = self._stream(worker)
        stream.begin_log()
        if stream.slot is not None:
            self.state.table.forget_offsets(stream.slot)

    def restart(self) -> None:
        """Note that the job was restarted on all workers: earlier samples are not compared with later ones."""
        self._blocks.flush()
        self._matcher.restart()
        self.state.restart()

    def snapshot(self, now: float | None = None, *, partial: bool = False) -> Snapshot:
        """Return everything known, sorted by core; `now` (UTC seconds) decides which cores are silent.

        `partial` says that the lines of some workers have been read further than those of others: then the
        stragglers are those of the snapshot before.
        """
        self._blocks.flush()
        if now is not None:
            self._matcher.expire(now)
        self.state.queue.flush()
        self.state.counts.settle(self.state.sources)
        return build_snapshot(self.state, now, partial=partial)

    def line_owner(self, *, xla_dist: bool) -> LineOwner:
        """Return the finder of the worker of each line, once the whole saved log has been read."""
        numbers = worker_numbers(self.state.sources).tolist()
        return self._lines.line_owner(numbers, self._stream(None), xla_dist=xla_dist)

    def _stream(self, worker: int | None) -> LogStream:
        stream = self._streams.get(worker)
        if stream is None:
            slot = None if worker is None else self.state.slot_for(worker, self._addresses.get(worker))
            stream = LogStream(slot, xla_dist=self._xla_dist and worker is None, line_slot=slot)
            self._streams[worker] = stream
        return stream

    def _read(self, stream: LogStream, piece: LogPiece, now: float | None) -> None:
        """Read a piece of a stream: whole lines in blocks, the rest of a line that has begun alone."""
        data, start, end, offset, begun_at = piece
        first = start
        if stream.is_new:
            stream.is_new = False
            if stream.slot is None:
                self._lines.read_first_line(_first_line(data, start, end))
        if not self.reads_blocks:
            self._blocks.flush()
            stream.begun_at = begun_at
            self._lines.read_lines(stream, bytes(data[start:end]), now, offset)
            return
        blocks = self._blocks
        if not stream.at_start or begun_at is not None:
            blocks.flush()
            stream.begun_at = begun_at
            middle = data.find(b"\n", start, end) + 1 or end
            self._lines.read_lines(stream, bytes(data[start:middle]), now, offset)
            start = middle
        while start < end:
            line_end = data.rfind(b"\n", start, min(end, start + max(0, blocks.room_for(stream)))) + 1
            if line_end:
                blocks.add(stream, data, start, line_end, now, offset + start - first)
                start = line_end
            elif blocks.size:
                blocks.flush()
            else:
                line_end = data.find(b"\n", start, end) + 1 or end
                self._lines.read_lines(stream, bytes(data[start:line_end]), now, offset + start - first)
                start = line_end


def _first_line(data: Bytes, start: int, end: int) -> bytes:
    """Return the bytes before the first line end or carriage return."""
    return bytes(data[start : min(end, start + LONGEST_BYTES)]).splitlines()[0]
