"""Whole blocks of logs at once: plain training lines and plain noise by numpy, the rest line by line, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from tui.logs._compat_numpy import np, npt, places_of
from tui.logs.attribution.launcher_prefixes import LABELLED_SAMPLE
from tui.logs.attribution.xla_dist_prefix import PREFIX, Moments
from tui.logs.dialects.registry import LONGEST, TRAINING, Dialect
from tui.logs.files.line_assembler import Bytes, Stream
from tui.logs.single_line_reader import SingleLineReader
from tui.logs.state.demux_state import DemuxState
from tui.logs.state.samples import Bools, Floats, Ints
from tui.logs.vectorized.hint_search import HintFinder, hint_finder_for
from tui.logs.vectorized.line_scanner import MOMENT, TAILS, Chunk, MatchedLines, Scanner
from tui.logs.vectorized.packed_digits import Words
from tui.logs.vectorized.prefix_index import UNSEEN, PrefixIndex

BLOCK = 1024 * 1024
"""Bytes looked at together: what fits the caches, with room for the columns made of it."""

LEAST = 2048
"""Shorter blocks are read line by line, which then costs less."""

FIRST = 16 * 1024
"""Bytes looked at together while a stream's prefixes are not known: lines with a new one are read one by one."""

_FEW_LINES = 12
"""So many other lines are read one by one at once."""

_NAN = float("nan")

_TAIL_PLACES = np.arange(MOMENT + TAILS.start - 2, MOMENT + TAILS.stop - 2)
"""Where the bracket that closes a prefix can stand, from a line's beginning."""

_POINT_PLACES = np.arange(1, 4)
"""Where the first point of an address can stand."""

_ODD = np.zeros(256, bool)
_ODD[[*b"\r[({"]] = True
"""Bytes that lines begin with which other tools, or a progress bar, have begun."""

_DIGIT = np.zeros(256, bool)
_DIGIT[[*b"0123456789"]] = True


@dataclass(slots=True)
class Part:
    """Whole lines of one stream within a batch: where they end in it, and when they came."""

    stream: Stream
    start: int
    end: int
    now: float | None
    offset: int
    """Where they begin in the stream's log, in bytes."""

    def offset_of(self, place: int) -> int:
        """Return where a place of the batch is in the stream's log."""
        return self.offset + place - self.start


class BlockReader:
    """Lines of any number of streams, gathered to be looked at together."""

    def __init__(self, state: DemuxState, lines: SingleLineReader, dialects: Sequence[Dialect]) -> None:
        self._context = _BlockContext(state, lines, tuple(dialects))
        self._lines = lines
        self._parts: list[Part] = []
        self._scanner: Scanner | None = None
        self.size = 0
        """Bytes gathered."""

    def room_for(self, stream: Stream) -> int:
        """Return how many bytes of a stream can be added now; below one: `flush` first."""
        read = BLOCK if stream.slot is not None else self._context.prefixes[stream].bytes_read
        return min(BLOCK, FIRST + read) - self.size

    def add(self, stream: Stream, data: Bytes, start: int, end: int, now: float | None, offset: int) -> None:
        """Add whole lines, which begin at an offset of the stream's log; the bytes are copied."""
        last = self._parts[-1] if self._parts else None
        if last is not None and (last.now is None) != (now is None):
            self.flush()
            last = None
        if self._scanner is None or self._scanner.size < BLOCK:
            self._scanner = Scanner(BLOCK)
        self._scanner.put(data, start, end)
        after = self.size + end - start
        is_next = last is not None and last.stream is stream and last.offset_of(self.size) == offset
        if last is not None and is_next and last.now == now:
            last.end = after
        else:
            self._parts.append(Part(stream, self.size, after, now, offset))
        self.size = after
        prefixes = self._context.prefixes[stream]
        prefixes.bytes_read += end - start
        if stream.slot is None and prefixes.bytes_read < BLOCK:
            # Prefixes learned from these lines make the next ones cheap.
            self.flush()

    def flush(self) -> None:
        """Read all that was added."""
        if self._scanner is None or not self._parts:
            return
        parts, size = self._parts, self.size
        self._parts, self.size = [], 0
        if size >= LEAST:
            _Block(self._context, self._scanner, parts).read()
            return
        texts = [self._scanner.text(part.start, part.end - 1) for part in parts]
        self._scanner.clear()
        for part, text in zip(parts, texts, strict=True):
            offset = part.offset
            for line in text.split(b"\n"):
                self._lines.read_line(part.stream, line, part.now, offset)
                offset += len(line) + 1


class _BlockContext:
    """What all blocks share: the state, the reader of single lines, and what depends on the dialects."""

    def __init__(self, state: DemuxState, lines: SingleLineReader, dialects: tuple[Dialect, ...]) -> None:
        self.state = state
        self.lines = lines
        self.moments = Moments()
        self.matches_prefixes = any(dialect.is_own for dialect in dialects)
        """Whether a dialect matches what stands before a line's own text, too."""
        self._dialects = dialects
        self.prefixes: defaultdict[Stream, PrefixIndex] = defaultdict(PrefixIndex)
        """The known prefixes of each stream's lines."""

    @cached_property
    def hint_finder(self) -> HintFinder | None:
        """Return what finds lines that a dialect could match, or with escapes; None if any line could be one."""
        return hint_finder_for(self._dialects)


class _Block:
    """The lines of one block, and the parts of streams that they came in."""

    def __init__(self, context: _BlockContext, scanner: Scanner, parts: list[Part]) -> None:
        self.context = context
        self.state = context.state
        self.lines = context.lines
        self.scanner = scanner
        self.parts = parts
        self.is_wall = parts[0].now is not None
        self.nows = np.array([np.nan if part.now is None else part.now for part in parts])
        self._bounds = np.array([part.end for part in parts])
        self._streams = list({id(part.stream): part.stream for part in parts}.values())
        places = {id(stream): place for place, stream in enumerate(self._streams)}
        self._stream_of = np.array([places[id(part.stream)] for part in parts])
        self._news: tuple[Ints, Ints, Ints, Words] | None = None
        """Owners, beginnings, lengths and tails of prefixes not seen before."""

    def read(self) -> None:
        """Read the block: samples and skippable lines together, then the rest in the order of its lines."""
        state = self.state
        found = self.scanner.scan()
        left = np.ones(len(found.ends), bool)
        left[found.lines] = False
        others = places_of(left)
        places, quiet_prefix = self._skippable_lines(found.begins[others], found.ends[others])
        quiet = others[places]
        starts = np.concatenate((found.starts, found.begins[quiet]))
        prefix = np.concatenate((found.prefix, quiet_prefix))
        owners = self._owners(starts)
        slots, times, good = self._read_prefixes(starts, prefix, owners)
        samples = len(found)
        skipped = quiet[good[samples:]]
        left[skipped] = False
        if not good.all():
            left[found.lines[~good[:samples]]] = True
            found = found.part(good[:samples])
            samples, slots, times = len(found), slots[good], times[good]
        seen = times[:samples] if self.is_wall else np.full(samples, np.nan)
        found.samples.set_source(slots[:samples], times[:samples], seen)
        state.queue.begin(found.samples, found.lines)
        state.samples += samples
        if samples:
            state.count_match(TRAINING.name, samples)
        reread = self._read_singly(places_of(left), np.sort(skipped), found)
        if reread:
            is_final = np.ones(len(slots), bool)
            is_final[samples:] = np.isin(skipped, reread, invert=True)
            slots, times = slots[is_final], times[is_final]
        self._count(slots, times, samples)
        state.queue.end()
        self._learn()

    def _read_prefixes(self, starts: Ints, prefix: Ints, owners: Ints) -> tuple[Ints, Floats, Bools]:
        """Return slot and time (NaN none) of each line, and which lines have a known prefix, or surely none."""
        slots = self._default_slots(owners, prefix == 0)
        places = places_of(prefix > 0)
        if not len(places):
            return slots, self.nows[owners], slots >= 0
        # Most often all lines have one: a part of an array costs less than picked places.
        are_first = places[-1] == len(places) - 1
        dated = slice(len(places)) if are_first else places
        begins, lengths = starts[dated], prefix[dated]
        heads = self.scanner.prefix_bytes(begins)
        tails = heads.prefix_tails(lengths)
        moments, sizes = self._moments(begins, heads)
        are_moments = np.array([moment is not None for moment in moments]).repeat(sizes)
        slots[dated] = found = self._find(owners[dated], tails)
        self._queue_new_prefixes(are_moments & (found == UNSEEN), owners[dated], begins, lengths, tails)
        good = slots >= 0
        good[dated] &= are_moments
        prefix_times = np.array([_NAN if moment is None else moment for moment in moments])
        return slots, self._times(prefix_times, sizes, dated, owners, good), good

    def _queue_new_prefixes(self, new: Bools, owners: Ints, begins: Ints, lengths: Ints, tails: Words) -> None:
        """Keep the prefixes not seen before, to be learned once their lines have been read one by one."""
        if new.any():
            self._news = owners[new], begins[new], lengths[new], tails[:, new]
            return
        for stream in self._streams:
            prefixes = self.context.prefixes[stream]
            prefixes.bytes_read = max(prefixes.bytes_read, BLOCK)

    def _times(self, prefix_times: Floats, sizes: Ints, dated: slice | Ints, owners: Ints, good: Bools) -> Floats:
        """Return when each line came, or else its prefix's time; widen the log's span by those of good lines.

        `prefix_times` are the moments of runs of dated lines, `sizes` long.
        """
        times = self.nows[owners]
        if not (self.is_wall and good.all()):
            dates = np.full(len(good), np.nan)
            dates[dated] = prefix_times.repeat(sizes)
            prefix_times, times = dates[good], times if self.is_wall else dates
        first = float(np.fmin.reduce(prefix_times, initial=_NAN))
        last = float(np.fmax.reduce(prefix_times, initial=_NAN))
        if first == first:
            self.state.add_moments(first, last)
        return times

    def _moments(self, begins: Ints, heads: Chunk) -> tuple[list[float | None], Ints]:
        """Return the moments of runs of lines with the same date and time, and how long the runs are."""
        changes = heads.moments_change()
        read, text = self.context.moments.read, self.scanner.text
        moments = [read(text(start, start + MOMENT)) for start in begins[changes].tolist()]
        return moments, np.concatenate((changes[1:], [len(begins)])) - changes

    def _owners(self, starts: Ints) -> Ints:
        """Return the part that each line belongs to."""
        if len(self.parts) == 1:
            return np.zeros(len(starts), np.int64)
        owners: Ints = np.searchsorted(self._bounds, starts, side="right").astype(np.int64)
        return owners

    def _default_slots(self, owners: Ints, bare: Bools) -> Ints:
        """Return the slot of each line where its stream has lines without a prefix; else -1."""
        if len(self._streams) == 1:
            return np.full(
                len(owners), self.state.slot_or_unnamed(self._streams[0].slot) if bare.any() else -1, np.int64
            )
        streams = self._stream_of[owners]
        homes = np.full(len(self._streams), -1, np.int64)
        for place in places_of(np.bincount(streams[bare]) > 0).tolist():
            homes[place] = self.state.slot_or_unnamed(self._streams[place].slot)
        slots: Ints = homes[streams]
        return slots

    def _find(self, owners: Ints, tails: Words) -> Ints:
        """Return the slot that each prefix names; negative where it is none, or was not seen before."""
        if len(self._streams) == 1:
            return self.context.prefixes[self._streams[0]].find(tails)
        streams, slots = self._stream_of[owners], np.empty(len(owners), np.int64)
        for place in places_of(np.bincount(streams) > 0).tolist():
            mine = places_of(streams == place)
            slots[mine] = self.context.prefixes[self._streams[place]].find(tails[:, mine])
        return slots

    def _count(self, slots: Ints, times: Floats, samples: int) -> None:
        """Count the lines of each slot; the first ones are samples."""
        self.state.lines += len(slots)
        if len(slots):
            seen = float(self.nows[0]) if self.is_wall and len(self.parts) == 1 else times
            self.state.counts.add(slots, seen, is_wall=self.is_wall, samples=samples)

    def _read_singly(self, lines: Ints, skipped: Ints, found: MatchedLines) -> list[int]:
        """Read these lines one by one, in their order; and which of the skipped ones were read among them."""
        starts, ends = found.begins[lines], found.ends[lines]
        owners = self._owners(starts).tolist()
        reread: list[int] = []
        before = 0
        for line, start, end, owner in zip(lines.tolist(), starts.tolist(), ends.tolist(), owners, strict=True):
            if self.lines.has_open_header:
                reread += self._read_beneath(skipped, before, line, found)
            self._read_line(line, start, end, owner)
            before = line
        if self.lines.has_open_header:
            reread += self._read_beneath(skipped, before, len(found.ends), found)
        return reread

    def _read_beneath(self, skipped: Ints, first: int, last: int, found: MatchedLines) -> list[int]:
        """Read skipped lines from one line to another as long as they may belong to a header; which these are."""
        reread = []
        for line in skipped[slice(*np.searchsorted(skipped, (first, last)))].tolist():
            if not self.lines.has_open_header:
                break
            start = found.begins[line : line + 1]
            self._read_line(line, int(start[0]), int(found.ends[line]), int(self._owners(start)[0]))
            reread.append(line)
        return reread

    def _read_line(self, line: int, start: int, end: int, owner: int) -> None:
        self.state.queue.line = line
        part = self.parts[owner]
        self.lines.read_line(part.stream, self.scanner.text(start, end), part.now, part.offset_of(start))

    def _skippable_lines(self, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Return lines that no dialect can match, and how long the prefix of each could be; none where unknown.

        Those without a prefix come last.
        """
        none: Ints = np.zeros(0, np.int64)
        carried = any(stream.is_carried for stream in self._streams)
        signs = self.context.hint_finder
        if len(starts) <= _FEW_LINES or signs is None or carried:
            return none, none
        first = self.scanner.octets(starts)
        odd = _ODD.take(first)
        odd |= ends - starts > LONGEST
        quiet = places_of(~odd)
        begins, stops = starts[quiet], ends[quiet]
        prefix, is_none = self._prefixes(begins, stops, first[quiet])
        hinted = self._lines_with_hints(signs, begins if self.context.matches_prefixes else begins + prefix, stops)
        for place in hinted.tolist():
            if LABELLED_SAMPLE.match(self.scanner.text(int(begins[place]), int(stops[place])).lstrip(b"\r")):
                return none, none
        skippable = (prefix > 0) | is_none
        skippable[hinted] = False
        chosen = np.concatenate((places_of(skippable & (prefix > 0)), places_of(skippable & (prefix == 0))))
        return quiet[chosen], prefix[chosen]

    def _lines_with_hints(self, signs: HintFinder, starts: Ints, ends: Ints) -> Ints:
        """Return which lines contain something that a dialect could match, from these places on."""
        # Each with its line end.
        after = ends + 1
        return signs.lines_with(self.scanner.joined(starts, after), np.cumsum(after - starts))

    def _prefixes(self, starts: Ints, ends: Ints, first: npt.NDArray[np.uint8]) -> tuple[Ints, Bools]:
        """Return how long the prefix of each line could be, and which lines surely have none."""
        prefix = np.zeros(len(starts), np.int64)
        is_none = np.ones(len(starts), bool)
        dated = places_of(_DIGIT.take(first))
        dated = dated[self._could_be_prefixed(starts[dated])]
        is_none[dated] = False
        if not len(dated):
            return prefix, is_none
        begins, rooms = starts[dated], (ends - starts)[dated]
        closing = self.scanner.octets(begins[:, None] + _TAIL_PLACES) == ord("]")
        lengths = _TAIL_PLACES[np.argmax(closing, axis=1)] + 2
        lengths[~closing.any(axis=1) | (lengths > rooms)] = 0
        prefix[dated] = lengths
        for place in dated[lengths == 0].tolist():
            is_none[place] = PREFIX.match(self.scanner.text(int(starts[place]), int(ends[place]))) is None
        return prefix, is_none

    def _could_be_prefixed(self, starts: Ints) -> Bools:
        """Return which lines that begin with a digit may have a prefix: many loggers begin theirs with a date."""
        octets = self.scanner.octets
        after = octets(starts + (MOMENT - 1))
        next_ = octets(starts + np.where(after == ord(","), MOMENT + len(",123"), MOMENT))
        goes_on = _DIGIT.take(next_) | (next_ == ord(" "))
        could: Bools = ((after == ord(" ")) | (after == ord(","))) & goes_on
        others = places_of(~could)
        could[others] = (octets(starts[others, None] + _POINT_PLACES) == ord(".")).any(axis=1)
        return could

    def _learn(self) -> None:
        """Note the prefixes of lines that have been read one by one because of them."""
        if self._news is None:
            return
        owners, begins, lengths, tails = self._news
        streams = self._stream_of[owners]
        for place in places_of(np.bincount(streams) > 0).tolist():
            mine, stream = places_of(streams == place), self._streams[place]
            slot_of = partial(self._slot_in_prefix, stream, begins[mine], lengths[mine])
            self.context.prefixes[stream].add(tails[:, mine], slot_of)

    def _slot_in_prefix(self, stream: Stream, begins: Ints, lengths: Ints, place: int) -> int:
        """Return the slot of the worker that a prefix names after its moment; -1 where it names none."""
        begin = int(begins[place])
        match = PREFIX.fullmatch(self.scanner.text(begin + MOMENT, begin + int(lengths[place])))
        if match is None or match["address"] is None:
            return -1
        if stream.slot is not None:
            return stream.slot
        return self.state.slot_for(int(match["number"]), match["address"].decode())
