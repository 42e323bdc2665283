"""Whole blocks of a log at once: plain training lines by numpy, everything else line by line, in the same order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tui.logs.dialects import TRAINING
from tui.logs.fast import MOMENT, Found, Words, scan
from tui.logs.prefix import PREFIX, read_moment
from tui.logs.snapshot import LOG_TIME, NO_TIME, WALL_TIME
from tui.logs.table import ALL_KNOWN, CLOCK_BYTES, Bools, Floats, Ints, Samples

if TYPE_CHECKING:
    from tui.logs.demux import Demux
    from tui.logs.streams import Stream

BLOCK = 1024 * 1024
"""Bytes looked at together: what fits the caches, with room for the columns made of it."""

LEAST = 2048
"""Shorter blocks are read line by line, which then costs less."""

_MOST_LEARNED = 256
"""Prefixes learned from one block."""

_MOMENT = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
_MIX = np.array([0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9], np.uint64)
"""Odd multipliers that spread prefixes over 64 bits."""


def read_block(demux: Demux, stream: Stream, block: bytes, now: float | None) -> None:
    """Take in a block that begins at a line's start and ends with a line end."""
    found = scan(block)
    slots = _slots(demux, stream, found)
    if slots is None:
        for line in block.split(b"\n")[:-1]:
            demux.read_line(stream, line, now)
        _learn(demux, stream, found, block)
        return
    moments, good = _moments(found, block)
    good &= slots >= 0
    if not good.all():
        found, slots, moments = found.part(good), slots[good], moments[good]
    demux.queue.begin(_samples(found, slots, moments, now), found.lines)
    _count(demux, slots, moments, now)
    others = np.ones(len(found.ends), bool)
    others[found.lines] = False
    places = np.flatnonzero(others)
    ends = found.ends
    starts = np.where(places > 0, ends[places - 1] + 1, 0)
    for line, start, end in zip(places.tolist(), starts.tolist(), ends[places].tolist(), strict=True):
        demux.queue.line = line
        demux.read_line(stream, block[start:end], now)
    demux.queue.end()


def _slots(demux: Demux, stream: Stream, found: Found) -> Ints | None:
    """The slot of each line, -1 where the prefix is none; None when some prefix has not been seen before."""
    bare = found.prefix == 0
    if not len(found):
        return np.zeros(0, np.int64)
    if bare.all():
        return np.full(len(found), demux.slot_of(stream), np.int64)
    slots = np.full(len(found), demux.slot_of(stream) if bare.any() else -1, np.int64)
    prefixed = np.flatnonzero(~bare)
    known = stream.known
    if not len(known.hashes):
        return None
    tails = found.tail[prefixed]
    places = np.searchsorted(known.hashes, _hashes(tails))
    places[places == len(known.hashes)] = 0
    seen = (known.tails[places] == tails).all(axis=1)
    if not seen.all() and not known.is_full:
        return None
    slots[prefixed] = np.where(seen, known.slots[places], -1)
    return slots


def _hashes(tails: Words) -> Words:
    mixed: Words = tails[:, 0] * _MIX[0] ^ tails[:, 1] * _MIX[1] ^ tails[:, 2] * _MIX[2]
    return mixed


def _learn(demux: Demux, stream: Stream, found: Found, block: bytes) -> None:
    """Note the prefixes of a block whose lines have been read one by one."""
    left = np.flatnonzero(found.prefix)
    for _ in range(_MOST_LEARNED):
        if not len(left):
            return
        place = int(left[0])
        start = int(found.starts[place])
        prefix = block[start : start + int(found.prefix[place])]
        whole, tail_only = PREFIX.fullmatch(prefix), PREFIX.fullmatch(prefix[MOMENT:])
        if tail_only is not None and (whole is None or whole["moment"] is None):
            left = left[1:]
            continue
        slot = -1
        if whole is not None and whole["address"] is not None:
            number, address = int(whole["number"]), whole["address"].decode()
            slot = demux.slot_named(number, address) if stream.slot is None else stream.slot
        tail = found.tail[place]
        stream.known.add(int(_hashes(tail[None, :])[0]), tail, slot)
        left = left[(found.tail[left] != tail).any(axis=1)]


def _moments(found: Found, block: bytes) -> tuple[Floats, Bools]:
    """The date of each line's prefix (NaN none), and which lines' beginnings are no prefix's."""
    moments = np.full(len(found), np.nan)
    good = np.ones(len(found), bool)
    if not found.prefix.any():
        return moments, good
    words = found.moment
    changes = np.flatnonzero(np.r_[True, (words[1:] != words[:-1]).any(axis=1)])
    sizes = np.diff(np.r_[changes, len(found)])
    values, fine = [], []
    for place in changes.tolist():
        value = None
        is_prefix = True
        if found.prefix[place]:
            text = block[found.starts[place] : found.starts[place] + MOMENT]
            is_prefix = _MOMENT.fullmatch(text) is not None
            value = read_moment(text[:-1]) if is_prefix else None
        values.append(np.nan if value is None else value)
        fine.append(is_prefix)
    return np.repeat(np.array(values), sizes), np.repeat(np.array(fine), sizes)


def _samples(found: Found, slots: Ints, moments: Floats, now: float | None) -> Samples:
    size = len(found)
    if now is None:
        time, kind = moments, np.where(np.isnan(moments), NO_TIME, LOG_TIME).astype(np.uint8)
    else:
        time, kind = np.full(size, now), np.full(size, WALL_TIME, np.uint8)
    clock = np.zeros(size, f"S{CLOCK_BYTES}")
    clock.view(np.uint64).reshape(size, CLOCK_BYTES // 8)[:, 0] = found.clock
    return Samples(
        slot=slots,
        core=found.core,
        device=found.device,
        epoch=found.epoch,
        step=found.step,
        loss=found.loss,
        rate=found.rate,
        global_rate=found.global_rate,
        known=np.full(size, ALL_KNOWN, np.uint8),
        clock=clock,
        time=time,
        time_kind=kind,
        seen=np.full(size, np.nan if now is None else now),
    )


def _count(demux: Demux, slots: Ints, moments: Floats, now: float | None) -> None:
    """What `Demux` counts of every line and sample."""
    if not len(slots):
        return
    demux.lines += len(slots)
    demux.samples += len(slots)
    demux.matched[TRAINING.name] = demux.matched.get(TRAINING.name, 0) + len(slots)
    dated = moments[~np.isnan(moments)]
    if len(dated):
        demux.note_moments(float(dated.min()), float(dated.max()))
    counts = np.bincount(slots)
    newest = np.full(len(counts), np.nan if now is None else now)
    if now is None and len(dated):
        np.fmax.at(newest, slots, moments)
    for slot in np.flatnonzero(counts).tolist():
        demux.slots[slot].count(int(counts[slot]), int(counts[slot]), float(newest[slot]), now is not None)
