"""Read lines one at a time: strip prefixes, find the worker of the line, match its text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tui.logs.attribution.cloud_logging import Chronology, ExportEntry, ExportReader
from tui.logs.attribution.host_sections import Sections
from tui.logs.attribution.launcher_prefixes import label_of, read_launcher_prefix
from tui.logs.attribution.line_owner import LineOwner
from tui.logs.attribution.xla_dist_prefix import Prefix, read_prefix
from tui.logs.core_row import UNKNOWN
from tui.logs.dialects.catalogue_files import expand_parts
from tui.logs.dialects.dialect import LONGEST_BYTES
from tui.logs.dialects.matcher import Matcher
from tui.logs.dialects.registry import TRAINING
from tui.logs.files.lines import segments_of, without_escapes
from tui.logs.files.log_stream import LogStream
from tui.logs.state.demux_state import MOST_SOURCES, DemuxState

_NAN = float("nan")


class SingleLineReader:
    """Reads lines of any stream one at a time and records in the state what they say.

    With `is_torch_xla`, PyTorch/XLA's training lines are matched first.
    """

    def __init__(self, state: DemuxState, matcher: Matcher, *, is_torch_xla: bool) -> None:
        self._state = state
        self._matcher = matcher
        self._training = re.compile(expand_parts(TRAINING.source)) if is_torch_xla else None
        self._sections: Sections | None = None
        """Set for a saved log with a section for each host."""
        self._exports: ExportReader | None = None
        """Set for a saved log that Cloud Logging has exported."""
        self._entries: list[tuple[int, float | None]] = []
        """The slot (UNKNOWN: it names no worker) and time of each entry of an export, in the order of the export."""
        self._chronology = Chronology()

    @property
    def has_open_header(self) -> bool:
        """Return whether the next line may belong to a header before it."""
        return self._matcher.has_open_header

    @property
    def needs_every_line(self) -> bool:
        """Return whether all lines must be read here, because a line's worker depends on the lines before."""
        if self._exports is not None and self._exports.is_refuted:
            self._exports = None
        return self._sections is not None or self._exports is not None

    def read_first_line(self, line: bytes) -> None:
        """Find out from a saved log's first line whether the log has sections or is an export."""
        if Sections.begin_with(line):
            self._sections = Sections()
        elif ExportReader.is_export_start(line):
            self._exports = ExportReader(line)

    def read_lines(self, stream: LogStream, block: bytes, now: float | None, offset: int) -> None:
        """Read lines that begin at an offset of the stream's log."""
        *lines, rest = block.split(b"\n")
        for line in lines:
            self.read_line(stream, line, now, offset)
            offset += len(line) + 1
        if rest and self._exports is not None and stream.slot is None:
            self._exports.hold_part(rest)
        elif rest:
            self._read_segments(stream, rest, now, offset)

    def read_line(self, stream: LogStream, line: bytes, now: float | None, offset: int) -> None:
        """Read a line without its end, or the rest of one after a carriage return.

        It begins at `offset` in the stream's log.
        """
        self._state.lines += 1
        if self._exports is not None and stream.slot is None:
            stream.begun_at = None
            self._read_export(stream, self._exports.add_line(line, offset), now, offset + len(line))
            return
        if line:
            self._read_segments(stream, line, now, offset)
        self._end_line(stream, now)

    def finish(self, stream: LogStream, now: float | None) -> None:
        """Read what is held of a stream, since no more bytes will be added to it."""
        if self._exports is not None and stream.slot is None:
            self._read_export(stream, self._exports.finish(), now, UNKNOWN)
            self._read_entries(stream, self._chronology.finish(), now)
        self._matcher.finish(stream)
        stream.end_line()

    def line_owner(self, numbers: list[int], stream: LogStream, *, xla_dist: bool) -> LineOwner:
        """Return the finder of the worker of each line of a saved log, given the worker number of each slot."""
        sources = zip(self._state.sources, numbers, strict=True)
        by_source = {(source.number, source.address): number for source, number in sources if number != UNKNOWN}
        entries: list[tuple[int | None, float | None]] | None = None
        if self._exports is not None:
            # UNKNOWN is -1, so that entries without a slot get the last worker: None.
            workers = [*(None if number == UNKNOWN else number for number in numbers), None]
            entries = [(workers[slot], moment) for slot, moment in self._entries]
        labels = frozenset(stream.labels)
        return LineOwner(by_source, labels, xla_dist, stream.is_carried, self._sections is not None, entries)

    def _end_line(self, stream: LogStream, now: float | None) -> None:
        slot = self._state.slot_or_unnamed(stream.known_slot)
        moment = stream.line_moment if now is None else now
        self._state.sources[slot].count(1, 0, _NAN if moment is None else moment, now is not None)
        stream.end_line()

    def _read_export(
        self, stream: LogStream, parts: Iterable[bytes | tuple[int, ExportEntry]], now: float | None, end: int
    ) -> None:
        """Read the entries that lines of an export have completed, and lines that belong to no entry.

        The last of these lines ends at offset `end` (-1: unknown).
        """
        items = list(parts)
        offset = end - sum(len(item) + 1 for item in items if isinstance(item, bytes)) + 1
        for item in items:
            if not isinstance(item, bytes):
                self._read_entries(stream, self._chronology.add_entry(*item), now)
                continue
            if item:
                self._read_segments(stream, item, now, UNKNOWN if end == UNKNOWN else offset)
            offset += len(item) + 1
            self._end_line(stream, now)

    def _read_entries(self, stream: LogStream, entries: Iterable[tuple[int, ExportEntry]], now: float | None) -> None:
        """Read the lines in the texts of entries of an export."""
        for index, entry in entries:
            stream.is_carried = True
            is_named = entry.number is not None or entry.address is not None
            slot = self._state.slot_for(entry.number, entry.address) if is_named else None
            self._entries += [(UNKNOWN, None)] * (index + 1 - len(self._entries))
            self._entries[index] = UNKNOWN if slot is None else slot, entry.moment
            if entry.moment is not None:
                self._state.add_moments(entry.moment, entry.moment)
            for line in entry.text.splitlines():
                stream.line_slot, stream.line_moment, stream.line_offset = slot, entry.moment, entry.offset
                self._read_segment(stream, line, now)
                self._end_line(stream, now)

    def _read_segments(self, stream: LogStream, line: bytes, now: float | None, offset: int) -> None:
        stream.begin_text(offset)
        is_plain = stream.at_start and not stream.xla_dist and not stream.labels and self._sections is None
        if is_plain and self._matcher.match_known(stream, line, now):
            return
        position = 0
        for segment in segments_of(line):
            if segment:
                self._read_segment(stream, segment, now)
            position += len(segment)
            if line.startswith(b"\r", position):
                position += 1
                stream.line_offset = UNKNOWN if offset == UNKNOWN else offset + position

    def _read_segment(self, stream: LogStream, text: bytes, now: float | None) -> None:
        is_clipped = len(text) > LONGEST_BYTES
        if is_clipped:
            text = text[-LONGEST_BYTES:]
            self._state.overlong += 1
        text = without_escapes(text)
        start, message = 0, None
        if stream.at_start:
            stream.at_start = False
            prefix = None if is_clipped else read_prefix(text, xla_dist=stream.xla_dist)
            if prefix is not None and self._apply_prefix(stream, prefix):
                start = prefix.length
            elif stream.slot is None and not is_clipped:
                start, message = self._strip_prefix(stream, text)
                if not start and self._sections is not None:
                    self._apply_section(stream, self._sections, text)
        own_text = text[start:] if start else text
        for line in (own_text,) if message is None else without_escapes(message).splitlines():
            match = (
                self._training.fullmatch(line, 2) if self._training is not None and line.startswith(b"| ") else None
            )
            if match is not None:
                self._matcher.training(stream, match, now)
            else:
                self._matcher.match(stream, text, line, now)

    def _apply_prefix(self, stream: LogStream, prefix: Prefix) -> bool:
        """Attribute the line to the worker that xla_dist's prefix names; return whether it counts as a prefix."""
        if stream.slot is not None and prefix.number is not None and prefix.address is None:
            return False
        state = self._state
        stream.xla_dist = True
        if prefix.moment is not None:
            stream.line_moment = prefix.moment
            state.add_moments(prefix.moment, prefix.moment)
        if stream.slot is None:
            stream.line_slot = None if prefix.own else state.slot_for(prefix.number, prefix.address)
        elif prefix.address is not None and state.sources[stream.slot].address is None:
            state.sources[stream.slot].address = prefix.address
        return True

    def _strip_prefix(self, stream: LogStream, text: bytes) -> tuple[int, bytes | None]:
        """Attribute the line by a launcher's prefix; return the prefix's length, and the text of a JSON entry."""
        launcher = read_launcher_prefix(text, stream.labels)
        if launcher is None:
            return 0, None
        stream.is_carried = True
        label = label_of(text)
        if label is not None and len(stream.labels) < MOST_SOURCES:
            stream.labels.add(label)
        if stream.line_slot is None and (launcher.number is not None or launcher.address is not None):
            stream.line_slot = self._state.slot_for(launcher.number, launcher.address)
        return launcher.length, launcher.message

    def _apply_section(self, stream: LogStream, sections: Sections, text: bytes) -> None:
        """Attribute the line to the host of its section; the header of a section belongs to no host."""
        if not sections.take(text) and sections.host is not None:
            stream.line_slot = self._state.slot_for(None, sections.host)
