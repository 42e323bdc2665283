"""Look up the workers that the prefixes of lines name, for many prefixes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui.logs._compat_numpy import Bools, Ints, Words, np

_SHORTCUT_BITS = 12
"""The first bits of a hash, which index the most likely position of its prefix."""

_SHIFT = np.uint64(64 - _SHORTCUT_BITS)

MOST_PREFIXES = 8192
"""Most prefixes (address and number) that are remembered of one stream."""

UNSEEN = -2
"""The slot returned for a prefix that no earlier line had."""


class PrefixIndex:
    """Finds the slots of many prefixes at once, by a hash of each."""

    def __init__(self) -> None:
        self.hashes: Words = np.zeros(0, np.uint64)
        self.tails: Words = np.zeros((3, 0), np.uint64)
        self.slots: Ints = np.zeros(0, np.int64)
        self._shortcut: Ints = np.zeros(0, np.int64)
        self.bytes_read = 0
        """Bytes of the stream read in blocks; at least `BLOCK_BYTES` once a block had no new prefixes."""

    def find(self, tails: Words) -> Ints:
        """Return the slot of each prefix (address and number as three rows of words): -1 for none, or `UNSEEN`."""
        if not len(self.hashes):
            return np.full(tails.shape[1], UNSEEN, np.int64)
        hashes = _hashes(tails)
        indices = self._shortcut.take((hashes >> _SHIFT).view(np.int64))
        same = self._matches(indices, tails)
        slots: Ints = self.slots.take(indices)
        if same.all():
            return slots
        # Two prefixes can share a shortcut, and others are new.
        misses = np.flatnonzero(~same)
        sought = np.searchsorted(self.hashes, hashes[misses])
        sought[sought == len(self.hashes)] = 0
        slots[misses] = np.where(self._matches(sought, tails[:, misses]), self.slots[sought], UNSEEN)
        return slots

    def _matches(self, indices: Ints, tails: Words) -> Bools:
        same: Bools = self.tails[0].take(indices) == tails[0]
        same &= self.tails[1].take(indices) == tails[1]
        same &= self.tails[2].take(indices) == tails[2]
        return same

    def add(self, tails: Words, texts: Sequence[bytes], slot_of: Callable[[bytes], int]) -> None:
        """Add prefixes, given as words and as texts; `slot_of` returns the slot of the named worker (-1: none)."""
        firsts = np.sort(np.unique(_hashes(tails), return_index=True)[1])
        firsts = firsts[: MOST_PREFIXES - len(self.hashes)]
        slots = np.array([slot_of(texts[index]) for index in firsts.tolist()], np.int64)
        hashes = np.concatenate((self.hashes, _hashes(tails[:, firsts])))
        order = hashes.argsort()
        self.hashes = hashes[order]
        self.tails = np.concatenate((self.tails, tails[:, firsts]), axis=1)[:, order]
        self.slots = np.concatenate((self.slots, slots))[order]
        self._shortcut = np.zeros(1 << _SHORTCUT_BITS, np.int64)
        self._shortcut[self.hashes >> _SHIFT] = np.arange(len(self.hashes))


_MIX = np.array([0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9], np.uint64)
"""Odd multipliers that spread prefixes over 64 bits."""


def _hashes(tails: Words) -> Words:
    mixed: Words = tails[0] * _MIX[0] ^ tails[1] * _MIX[1] ^ tails[2] * _MIX[2]
    return mixed
