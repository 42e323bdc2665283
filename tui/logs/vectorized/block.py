"""Read a block of lines: plain training lines become samples, lines that no dialect can match are skipped.

The other lines are left over and read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tui.logs._compat_numpy import Bools, Floats, Ints, Words, np, npt, places_of
from tui.logs.attribution.launcher_prefixes import LABELLED_SAMPLE
from tui.logs.attribution.xla_dist_prefix import PREFIX, moment_before_text
from tui.logs.core_row import UNKNOWN
from tui.logs.dialects.dialect import LONGEST_BYTES
from tui.logs.files.block_buffer import BLOCK_BYTES, BlockBuffer
from tui.logs.files.log_stream import LogStream
from tui.logs.hint_search import HintFinder
from tui.logs.log_time import LOG_TIME, NO_TIME, WALL_TIME
from tui.logs.packed_digits import FIRST
from tui.logs.prefix_index import UNSEEN, PrefixIndex
from tui.logs.state.rate_kinds import RateKind
from tui.logs.state.samples import ALL_KNOWN, Samples
from tui.logs.vectorized.line_scanner import MOMENT, TAILS, Scanner, words_at

_FEW_LINES = 12
"""Most lines besides samples that are read one by one without a search for skippable ones."""

_NAN = float("nan")

_TAIL_PLACES = np.arange(MOMENT + TAILS.start - 2, MOMENT + TAILS.stop - 2)
"""Positions in a line of the bracket that closes a prefix."""

_TAIL_MASKS = [FIRST.take(np.arange(MOMENT + TAILS.stop) - (MOMENT + 8 * row), mode="clip") for row in (1, 2)]
"""Masks for the second and third word of a prefix's address and number, by the length of the prefix."""

_POINT_PLACES = np.arange(1, 4)
"""Positions in an address of its first point."""

_ODD = np.zeros(256, bool)
_ODD[[*b"\r[({\x1b"]] = True
"""First bytes of lines that begin with another tool's label, a progress bar or a colour."""

_DIGIT = np.zeros(256, bool)
_DIGIT[[*b"0123456789"]] = True


class NewPrefixes(NamedTuple):
    """Unknown prefixes of a stream's lines: address and number of each, as words and as text."""

    stream: LogStream
    tails: Words
    texts: list[bytes]


class BlockLines(NamedTuple):
    """The lines of a block, numbered from 0. Positions are in bytes from the beginning of the block."""

    begins: Ints
    ends: Ints
    samples: Samples
    sample_lines: Ints
    skipped: Ints
    """Lines that no dialect can match, with their slots and times (NaN unknown)."""
    skipped_slots: Ints
    skipped_times: Floats
    left: Ints
    """All other lines, which must be read one by one."""
    first_moment: float
    last_moment: float
    """Earliest and latest date in the prefixes of samples and skipped lines; NaN without dates."""
    new_prefixes: list[NewPrefixes]
    """Unknown prefixes of lines that were left over only because of them."""


class Block:
    """The lines gathered in a buffer, with the streams that they came from.

    `prefixes` are the known ones of each stream; `finder` finds lines that a dialect could match (None: any line
    could); `unnamed_slot` returns the slot of lines that name no worker.
    """

    def __init__(
        self,
        buffer: BlockBuffer,
        prefixes: Mapping[LogStream, PrefixIndex],
        finder: HintFinder | None,
        unnamed_slot: Callable[[], int],
    ) -> None:
        parts = buffer.parts
        self._text = buffer.text
        self._scanner = Scanner(buffer)
        self._finder = finder
        self._unnamed_slot = unnamed_slot
        self._is_wall = parts[0].now is not None
        self._nows = np.array([np.nan if part.now is None else part.now for part in parts])
        self._bounds = np.array([part.end for part in parts])
        self._streams = list(dict.fromkeys(part.stream for part in parts))
        self._prefixes = [prefixes[stream] for stream in self._streams]
        index_of = {stream: index for index, stream in enumerate(self._streams)}
        self._stream_of = np.array([index_of[part.stream] for part in parts])
        self._new_prefixes: list[NewPrefixes] = []

    def read(self) -> BlockLines:
        """Read all lines of the block."""
        begins, ends = self._scanner.lines()
        training = self._scanner.training_lines(begins, ends)
        remaining = np.ones(len(ends), bool)
        remaining[training.lines] = False
        others = places_of(remaining)
        skippable, skipped_prefix = self._skippable_lines(begins[others], ends[others])
        skipped = others[skippable]
        starts = np.concatenate((begins[training.lines], begins[skipped]))
        slots, times, good, span = self._read_prefixes(starts, np.concatenate((training.prefix, skipped_prefix)))
        count = len(training.lines)
        remaining[skipped] = ~good[count:]
        if not good.all():
            remaining[training.lines] = ~good[:count]
            training, skipped = training.part(good[:count]), skipped[good[count:]]
            count, slots, times = len(training.lines), slots[good], times[good]
        kind = WALL_TIME if self._is_wall else np.where(np.isnan(times[:count]), NO_TIME, LOG_TIME)
        samples = Samples(
            slot=slots[:count],
            core=training.core,
            device=training.device,
            epoch=training.epoch,
            step=training.step,
            loss=training.loss,
            rate=training.rate,
            global_rate=training.global_rate,
            known=np.full(count, ALL_KNOWN, np.uint8),
            clock=training.clock,
            time=times[:count],
            time_kind=np.full(count, kind, np.uint8),
            seen=times[:count] if self._is_wall else np.full(count, np.nan),
            rate_kind=np.full(count, RateKind.EXAMPLES, np.uint8),
            offset=np.full(count, UNKNOWN, np.int64),
        )
        return BlockLines(
            begins, ends, samples, training.lines, skipped, slots[count:], times[count:], places_of(remaining), *span,
            self._new_prefixes,
        )  # fmt: skip

    def _read_prefixes(self, starts: Ints, prefix: Ints) -> tuple[Ints, Floats, Bools, tuple[float, float]]:
        """Return slot and time (NaN for none) of each line, and which lines have a known prefix or certainly none.

        The last two numbers are the earliest and the latest date in the prefixes of these lines.
        """
        owners = self._owners(starts)
        slots = self._default_slots(owners, prefix == 0)
        times = self._nows.take(owners)
        prefixed = places_of(prefix > 0)
        if not len(prefixed):
            return slots, times, slots >= 0, (_NAN, _NAN)
        # Usually all lines have one, and a slice of an array costs less than an array of indices.
        are_first = prefixed[-1] == len(prefixed) - 1
        dated = slice(len(prefixed)) if are_first else prefixed
        begins, lengths = starts[dated], prefix[dated]
        tails, moments, sizes = self._parse_prefixes(begins, lengths)
        are_moments = np.array([moment is not None for moment in moments]).repeat(sizes)
        slots[dated] = prefix_slots = self._find(owners[dated], tails)
        self._note_new_prefixes(are_moments & (prefix_slots == UNSEEN), owners[dated], begins, lengths, tails)
        good = slots >= 0
        good[dated] &= are_moments
        prefix_times = np.array([_NAN if moment is None else moment for moment in moments])
        if not (self._is_wall and good.all()):
            dates = np.full(len(good), np.nan)
            dates[dated] = prefix_times.repeat(sizes)
            prefix_times, times = dates[good], times if self._is_wall else dates
        first = float(np.fmin.reduce(prefix_times, initial=_NAN))
        return slots, times, good, (first, float(np.fmax.reduce(prefix_times, initial=_NAN)))

    def _note_new_prefixes(self, new: Bools, owners: Ints, begins: Ints, lengths: Ints, tails: Words) -> None:
        """Collect the prefixes not seen before; if there are none, all prefixes of the streams count as known."""
        if not new.any():
            for index in self._prefixes:
                index.bytes_read = max(index.bytes_read, BLOCK_BYTES)
            return
        streams = self._stream_of[owners]
        for number, stream in enumerate(self._streams):
            mine = places_of(new & (streams == number))
            spans = zip((begins[mine] + MOMENT).tolist(), (begins[mine] + lengths[mine]).tolist(), strict=True)
            texts = [self._text(start, end) for start, end in spans]
            if texts:
                self._new_prefixes.append(NewPrefixes(stream, tails[:, mine], texts))

    def _parse_prefixes(self, begins: Ints, lengths: Ints) -> tuple[Words, list[float | None], Ints]:
        """Return address and number of each prefix, and the moment and size of each run of lines with one moment."""
        heads = self._scanner.prefix_bytes(begins)
        differ = np.ones(len(begins), bool)
        differ[1:] = False
        for offset in (0, 8, MOMENT - 8):
            words = words_at(heads, offset).copy()
            differ[1:] |= words[1:] != words[:-1]
        changes = places_of(differ)
        moments = [moment_before_text(self._text(start, start + MOMENT)) for start in begins[changes].tolist()]
        return _prefix_tails(heads, lengths), moments, np.diff(changes, append=len(begins))

    def _owners(self, starts: Ints) -> Ints:
        """Return the index of the part that each line belongs to."""
        if len(self._bounds) == 1:
            return np.zeros(len(starts), np.int64)
        owners: Ints = np.searchsorted(self._bounds, starts, side="right").astype(np.int64)
        return owners

    def _default_slots(self, owners: Ints, bare: Bools) -> Ints:
        """Return the slot of each line if its stream has lines without a prefix, else -1."""
        homes = np.full(len(self._streams), -1, np.int64)
        for index in places_of(np.bincount(self._stream_of[owners[bare]]) > 0).tolist():
            slot = self._streams[index].slot
            homes[index] = self._unnamed_slot() if slot is None else slot
        slots: Ints = homes[self._stream_of].take(owners)
        return slots

    def _find(self, owners: Ints, tails: Words) -> Ints:
        """Return the slot that each prefix names; negative for none, or one that was not seen before."""
        if len(self._streams) == 1:
            return self._prefixes[0].find(tails)
        streams, slots = self._stream_of[owners], np.empty(len(owners), np.int64)
        for index in places_of(np.bincount(streams) > 0).tolist():
            mine = places_of(streams == index)
            slots[mine] = self._prefixes[index].find(tails[:, mine])
        return slots

    def _skippable_lines(self, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Return lines that no dialect can match, with the possible length of each prefix.

        Lines without a prefix come last. No lines are returned if a search is not possible, or not worth its cost.
        """
        none: Ints = np.zeros(0, np.int64)
        carried = any(stream.is_carried for stream in self._streams)
        finder = self._finder
        if len(starts) <= _FEW_LINES or finder is None or carried:
            return none, none
        first = self._scanner.octets(starts)
        odd = _ODD.take(first)
        odd |= ends - starts > LONGEST_BYTES
        quiet = places_of(~odd)
        begins, stops = starts[quiet], ends[quiet]
        prefix, is_none = self._prefix_lengths(begins, stops, first[quiet])
        hinted = finder.lines_with(*self._scanner.join(begins if finder.in_prefixes else begins + prefix, stops))
        for line in hinted.tolist():
            if LABELLED_SAMPLE.match(self._text(int(begins[line]), int(stops[line])).lstrip(b"\r")):
                return none, none
        skippable = (prefix > 0) | is_none
        skippable[hinted] = False
        chosen = np.concatenate((places_of(skippable & (prefix > 0)), places_of(skippable & (prefix == 0))))
        return quiet[chosen], prefix[chosen]

    def _prefix_lengths(self, starts: Ints, ends: Ints, first: npt.NDArray[np.uint8]) -> tuple[Ints, Bools]:
        """Return the possible length of each line's prefix, and which lines certainly have none."""
        prefix = np.zeros(len(starts), np.int64)
        is_none = np.ones(len(starts), bool)
        dated = places_of(_DIGIT.take(first))
        dated = dated[self._could_be_prefixed(starts[dated])]
        is_none[dated] = False
        if not len(dated):
            return prefix, is_none
        begins, rooms = starts[dated], (ends - starts)[dated]
        closing = self._scanner.octets(begins[:, None] + _TAIL_PLACES) == ord("]")
        lengths = _TAIL_PLACES[np.argmax(closing, axis=1)] + 2
        lengths[~closing.any(axis=1) | (lengths > rooms)] = 0
        prefix[dated] = lengths
        for line in dated[lengths == 0].tolist():
            is_none[line] = PREFIX.match(self._text(int(starts[line]), int(ends[line]))) is None
        return prefix, is_none

    def _could_be_prefixed(self, starts: Ints) -> Bools:
        """Return which lines that begin with a digit can have a prefix; many loggers begin lines with a date, too."""
        octets = self._scanner.octets
        after = octets(starts + (MOMENT - 1))
        next_ = octets(starts + np.where(after == ord(","), MOMENT + len(",123"), MOMENT))
        goes_on = _DIGIT.take(next_) | (next_ == ord(" "))
        could: Bools = ((after == ord(" ")) | (after == ord(","))) & goes_on
        others = places_of(~could)
        could[others] = (octets(starts[others, None] + _POINT_PLACES) == ord(".")).any(axis=1)
        return could


def _prefix_tails(heads: npt.NDArray[np.uint8], lengths: Ints) -> Words:
    """Return address and number of each line's prefix, of the given length, as three rows of words."""
    tails = np.empty((3, len(lengths)), np.uint64)
    tails[0] = words_at(heads, MOMENT)
    for row, masks in enumerate(_TAIL_MASKS, 1):
        np.bitwise_and(words_at(heads, MOMENT + 8 * row), masks.take(lengths, mode="clip"), out=tails[row])
    return tails
