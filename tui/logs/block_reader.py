"""Read blocks of lines: those that `Block.read` cannot read are read one by one, and all are recorded in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property, partial

from tui.logs._compat_numpy import np
from tui.logs.attribution.xla_dist_prefix import PREFIX
from tui.logs.dialects.dialect import Dialect
from tui.logs.dialects.registry import TRAINING
from tui.logs.files.block_buffer import BLOCK_BYTES, BlockBuffer
from tui.logs.files.log_stream import Bytes, LogStream
from tui.logs.hint_search import HintFinder, hint_finder_for
from tui.logs.prefix_index import PrefixIndex
from tui.logs.single_line_reader import SingleLineReader
from tui.logs.state.demux_state import DemuxState
from tui.logs.vectorized.block import Block, BlockLines, NewPrefixes

LEAST_BYTES = 2048
"""Bytes of the shortest block that is read as a whole; shorter ones cost less line by line."""

FIRST_BYTES = 16 * 1024
"""Bytes read together while a stream's prefixes are unknown: lines with a new prefix are read one by one."""


class BlockReader:
    """Gathers lines of any number of streams and reads them together."""

    def __init__(self, state: DemuxState, lines: SingleLineReader, dialects: Sequence[Dialect]) -> None:
        self._state = state
        self._lines = lines
        self._dialects = tuple(dialects)
        self._prefixes: defaultdict[LogStream, PrefixIndex] = defaultdict(PrefixIndex)
        """The known prefixes of each stream's lines."""
        self._buffer: BlockBuffer | None = None

    @property
    def size(self) -> int:
        """Return the number of gathered bytes."""
        return self._buffer.size if self._buffer else 0

    @cached_property
    def _hint_finder(self) -> HintFinder | None:
        """Return the finder of lines that a dialect could match (made for the first block)."""
        return hint_finder_for(self._dialects)

    def room_for(self, stream: LogStream) -> int:
        """Return how many bytes of a stream can be added now; below one, `flush` is needed first."""
        bytes_read = BLOCK_BYTES if stream.slot is not None else self._prefixes[stream].bytes_read
        return min(BLOCK_BYTES, FIRST_BYTES + bytes_read) - self.size

    def add(self, stream: LogStream, data: Bytes, start: int, end: int, now: float | None, offset: int) -> None:
        """Add a copy of whole lines, which begin at `offset` in the stream's log."""
        if self._buffer is None:
            self._buffer = BlockBuffer()
        if self._buffer.parts and (self._buffer.parts[0].now is None) != (now is None):
            self.flush()
        self._buffer.add(stream, data, start, end, now, offset)
        prefixes = self._prefixes[stream]
        prefixes.bytes_read += end - start
        if stream.slot is None and prefixes.bytes_read < BLOCK_BYTES:
            # The prefixes in these lines, once known, let the next ones be read together.
            self.flush()

    def flush(self) -> None:
        """Read all lines that were added."""
        if not self.size:
            return
        buffer = self._buffer
        assert buffer is not None
        if buffer.size >= LEAST_BYTES:
            self._read_together(buffer)
        else:
            for part in buffer.parts:
                self._lines.read_lines(part.stream, buffer.text(part.start, part.end), part.now, part.offset)
        buffer.clear()

    def _read_together(self, buffer: BlockBuffer) -> None:
        """Read samples and skippable lines together, then the other lines in their order."""
        state = self._state
        block = Block(buffer, self._prefixes, self._hint_finder, partial(state.slot_or_unnamed, None)).read()
        samples, slots, times = block.samples, block.skipped_slots, block.skipped_times
        state.queue.begin(samples, block.sample_lines)
        state.samples += len(samples)
        if len(samples):
            state.count_match(TRAINING.name, len(samples))
        if block.first_moment == block.first_moment:
            state.add_moments(block.first_moment, block.last_moment)
        reread = self._read_singly(buffer, block)
        if reread:
            is_final = np.isin(block.skipped, reread, invert=True)
            slots, times = slots[is_final], times[is_final]
        state.lines += len(samples) + len(slots)
        is_wall = buffer.parts[0].now is not None
        state.counts.add(samples.slot, samples.time, is_wall=is_wall, are_samples=True)
        state.counts.add(slots, times, is_wall=is_wall)
        state.queue.end()
        self._learn(block.new_prefixes)

    def _read_singly(self, buffer: BlockBuffer, block: BlockLines) -> list[int]:
        """Read the lines left over one by one, in their order; return the skipped lines that had to be read as well.

        Skipped lines below a header may belong to it, although their text does not show it.
        """
        skipped = np.sort(block.skipped)
        reread: list[int] = []
        before = 0
        for line in [*block.left.tolist(), len(block.ends)]:
            if self._lines.has_open_header:
                for beneath in skipped[slice(*np.searchsorted(skipped, (before, line)))].tolist():
                    self._read_line(buffer, block, beneath)
                    reread.append(beneath)
                    if not self._lines.has_open_header:
                        break
            if line < len(block.ends):
                self._read_line(buffer, block, line)
            before = line
        return reread

    def _read_line(self, buffer: BlockBuffer, block: BlockLines, line: int) -> None:
        start, end = int(block.begins[line]), int(block.ends[line])
        part = buffer.part_at(start)
        self._state.queue.line = line
        self._lines.read_line(part.stream, buffer.text(start, end), part.now, part.offset_of(start))

    def _learn(self, new_prefixes: Sequence[NewPrefixes]) -> None:
        """Add new prefixes to the known ones; their lines have been read one by one."""
        for stream, tails, texts in new_prefixes:
            self._prefixes[stream].add(tails, texts, partial(self._slot_in_prefix, stream))

    def _slot_in_prefix(self, stream: LogStream, text: bytes) -> int:
        """Return the slot of the worker that the address and number of a prefix name; -1 if they name none."""
        match = PREFIX.fullmatch(text)
        if match is None or match["address"] is None:
            return -1
        if stream.slot is not None:
            return stream.slot
        return self._state.slot_for(int(match["number"]), match["address"].decode())
