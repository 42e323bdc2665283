"""The newest state of every (worker, ordinal, device) of the logs, as growing columns."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from tui.logs._compat_numpy import Bools, Ints, np, npt, places_of
from tui.logs.core_row import HAS_GLOBAL_RATE, HAS_LOSS, HAS_RATE, UNKNOWN
from tui.logs.history.grouping import MOST_ROWS, RowGroups, ends_of
from tui.logs.history.history import History
from tui.logs.log_time import NO_TIME
from tui.logs.state.first_nan import FirstNans
from tui.logs.state.recent_rates import RecentRates
from tui.logs.state.samples import ALL_KNOWN, SAMPLE_TYPES, TABLE_FIELDS, Samples

MOST_EPOCHS = 4096
"""Most epochs whose first and last steps are remembered."""

_FEW_EPOCHS = 8
"""Most epochs between the first and last of a batch for which each is looked for, without sorting."""

RECENT_RATES = 20
"""Default number of newest rates that are kept of each row."""

_FIRST_ROWS = 64
_ORDINAL_BITS, _DEVICE_BITS = 21, 15
_NONE_KNOWN = (1 << _DEVICE_BITS) + 1
"""Makes the key of an unknown ordinal and device, -1 each, that of a slot alone."""


_GAINS = ("newest_gain", "second_gain", "third_gain")


class CoreTable:
    """One row for every (worker slot, ordinal, device) seen; `build_snapshot` decides which of them are one core."""

    def __init__(self, *, history: bool = True, steps: bool = False, recent: int = RECENT_RATES) -> None:
        """Keep the `recent` newest rates of each row, with `history` also series, and with `steps` their steps."""
        self.size = 0
        self.sequence = 0
        """Samples added so far; the number of its last sample gives the age of a row."""
        self.restarted_at = 0
        """Samples added before the job was last restarted."""
        self.dropped = 0
        self.history: History | None = History(steps=steps) if history else None
        self.recent = RecentRates(recent)
        self.first_nans = FirstNans()
        self.epoch_steps: dict[int, tuple[int, int]] = {}
        """Smallest and largest step of each epoch."""
        self.first_epoch: int | None = None
        """The smallest epoch that lines have named."""
        self._rows: dict[int, int] = {}
        self._index = _Index(self._rows)
        self.columns: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(0, kind) for name, kind in SAMPLE_TYPES.items() if name != "offset"
        }
        for name in ("wraps", "count", "first", "last", *_GAINS):
            self.columns[name] = np.zeros(0, np.int64)

    @property
    def stride(self) -> int:
        """Return the usual steps between two lines of a core; while no core has two, its steps so far.

        One gain is not enough: an epoch's last line may come early, and lines may be missing.
        """
        gains = np.array([self.column(name) for name in _GAINS])
        smallest_first = np.sort(gains[:, gains[0] > 0], axis=0)
        if not smallest_first.size:
            return max(1, int(self.column("step").max(initial=1)))
        strides = np.sort(np.where(smallest_first[0] > 0, smallest_first[1], smallest_first[2]))
        return int(strides[len(strides) // 2])

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the part of a column that has rows.

        Besides the fields of `Samples`: `wraps` (how often the step went back without a named epoch), `count` (of
        samples), `first` and `last` (the numbers of the first and last sample, -1 for none), `newest_gain` and those
        before it (the steps by which one sample was ahead of the one before, 0 unknown).
        """
        return self.columns[name][: self.size]

    def _row_for(self, slot: int, core: int, device: int) -> int:
        """Return the row of a (slot, ordinal, device), making it if it is new; -1 if there are too many."""
        row = self._rows.get(int(_key(slot, core, device)))
        if row is None:
            row = self.size if self.size < MOST_ROWS else -1
            self._make_rows(*(np.array([value]) for value in (slot, core, device)))
        return row

    def add_core(self, slot: int, core: int, device: int, now: float | None) -> None:
        """Note that a core printed a line, at `now` if that is known; make its row if it is new."""
        row = self._row_for(slot, core, device)
        if row >= 0 and now is not None:
            self.columns["seen"][row] = now

    def forget_offsets(self, slot: int) -> None:
        """Forget the offsets of lines of a source, because another log of it begins."""
        self.first_nans.forget_offsets(places_of(self.column("slot") == slot))

    def newest_of(self, slot: int) -> tuple[int, int] | None:
        """Return epoch and step (-1: unknown) of a worker's newest sample; None without samples."""
        rows = places_of((self.column("slot") == slot) & (self.column("last") >= 0))
        if not len(rows):
            return None
        newest = rows[self.columns["last"][rows].argmax()]
        return int(self.columns["epoch"][newest]), int(self.columns["step"][newest])

    def _make_rows(self, slots: Ints, cores: Ints, devices: Ints) -> None:
        """Make as many of these rows as there is room for."""
        start, end = self.size, min(MOST_ROWS, self.size + len(slots))
        room = len(self.columns["slot"])
        if end > room:
            more = max(_FIRST_ROWS, room, end - room)
            self.columns = {
                name: np.concatenate((column, np.zeros(more, column.dtype))) for name, column in self.columns.items()
            }
        self.size = end
        for name, values in (("slot", slots), ("core", cores), ("device", devices)):
            self.columns[name][start:end] = values[: end - start]
        for name in ("epoch", "step", "first", "last"):
            self.columns[name][start:end] = UNKNOWN
        for name in ("loss", "rate", "global_rate", "time", "seen"):
            self.columns[name][start:end] = np.nan
        self._rows.update(zip(_key(slots, cores, devices).tolist(), range(start, end), strict=False))

    def _rows_for(self, samples: Samples) -> Ints:
        keys = _key(samples.slot, samples.core, samples.device)
        if self._index.size < self.size:
            self._index = _Index(self._rows)
        rows = self._index.rows(keys)
        if (rows >= 0).all() or self.size >= MOST_ROWS:
            return rows
        missing = places_of(rows < 0)
        firsts = missing[np.sort(np.unique(keys[missing], return_index=True)[1])]
        self._make_rows(samples.slot[firsts], samples.core[firsts], samples.device[firsts])
        self._index = _Index(self._rows)
        return self._index.rows(keys)

    def update(self, samples: Samples) -> None:
        """Add a batch, with the same result as adding its samples one by one."""
        rows = self._rows_for(samples)
        if (rows < 0).any():
            placed = places_of(rows >= 0)
            self.dropped += len(rows) - len(placed)
            rows, samples = rows[placed], samples.part(placed)
        if not len(rows):
            return
        complete = samples.known == ALL_KNOWN
        if complete.all():
            self._update_whole(rows, samples)
            return
        edges = places_of(complete[1:] != complete[:-1]) + 1
        for start, end in itertools.pairwise([0, *edges.tolist(), len(rows)]):
            if complete[start]:
                self._update_whole(rows[start:end], samples.part(slice(start, end)))
            else:
                self._update_parts(rows[start:end], samples.part(slice(start, end)))

    def restart(self, first_epoch: int | None) -> None:
        """Note that the job was restarted, so that earlier steps, rates and NaNs no longer count.

        `first_epoch` is the epoch of samples without a named epoch before their step first went back.
        """
        self.restarted_at = self.sequence
        self.recent.restart()
        self.first_nans.restart(first_epoch)
        if self.history is not None:
            self.history.restart()

    def _update_whole(self, rows: Ints, samples: Samples) -> None:
        columns = self.columns
        have_epochs = self._note_steps(samples.epoch, samples.step)
        self.recent.take(rows, samples)
        if self.first_nans.may_take(samples):
            self.first_nans.take(rows, samples, self._wraps_at(rows, samples))
        runs = RowGroups.of(rows)
        self._note_gains(runs, samples.step)
        if not have_epochs:
            np.add.at(columns["wraps"], runs.ordered[self._goes_back(runs, samples)], 1)
        if self.history is not None:
            figures = samples.loss, samples.rate, samples.epoch, samples.step
            self.history.add(runs, *figures, samples.time, samples.clocks)
        touched, last = runs.rows, runs.order[runs.ends]
        fresh = touched[columns["first"][touched] == UNKNOWN]
        if len(fresh):
            first = np.empty(self.size, np.int64)
            first[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
            columns["first"][fresh] = self.sequence + first[fresh]
        for name in TABLE_FIELDS:
            columns[name][touched] = getattr(samples, name)[last]
        columns["count"][touched] += runs.sizes
        columns["last"][touched] = self.sequence + last
        self.sequence += len(rows)

    def _update_parts(self, rows: Ints, samples: Samples) -> None:
        """Add samples that lack fields; those that may complete the sample before them are added one by one."""
        runs = RowGroups.of(rows)
        adds = np.empty(len(rows), bool)
        adds[runs.order] = samples.step[runs.order] == self._steps_before(runs, samples.step)
        adds &= samples.step != UNKNOWN
        start = 0
        for index in [*places_of(adds).tolist(), len(rows)]:
            if index > start:
                self._update_whole(rows[start:index], samples.part(slice(start, index)))
            if index < len(rows):
                self._update_one(int(rows[index]), samples, index)
            start = index + 1

    def _note_gains(self, runs: RowGroups, steps: Ints) -> None:
        """Note the newest gains of each row in steps."""
        before = self._steps_before(runs, steps)
        gains = steps[runs.order] - before
        indices = places_of((gains > 0) & (before != UNKNOWN))
        if not len(indices):
            return
        rows, gains = runs.ordered[indices], gains[indices]
        ends = ends_of(rows)
        sizes = np.diff(ends, prepend=-1)
        rows = rows[ends]
        newest, second, third = (self.columns[name] for name in _GAINS)
        earlier = np.where(sizes > 1, newest[rows], second[rows])
        third[rows] = np.where(sizes > 2, gains[np.maximum(ends - 2, 0)], earlier)
        second[rows] = np.where(sizes > 1, gains[np.maximum(ends - 1, 0)], newest[rows])
        newest[rows] = gains[ends]

    def _steps_before(self, runs: RowGroups, steps: Ints) -> Ints:
        """Return the step of the sample before each sample in its row, grouped by row; -1 after a restart."""
        before: Ints = np.empty_like(steps)
        before[1:] = steps[runs.order[:-1]]
        is_new = self.columns["last"][runs.rows] < self.restarted_at
        before[runs.starts] = np.where(is_new, UNKNOWN, self.columns["step"][runs.rows])
        return before

    def _wraps_at(self, rows: Ints, samples: Samples) -> Ints:
        """Return how often the steps of each sample's row had gone back when it came."""
        runs = RowGroups.of(rows)
        back = self._goes_back(runs, samples)
        counted: Ints = np.cumsum(back, dtype=np.int64)
        counted -= np.repeat(counted[runs.starts] - back[runs.starts], runs.sizes)
        wraps: Ints = self.columns["wraps"][rows]
        wraps[runs.order] += counted
        return wraps

    def _goes_back(self, runs: RowGroups, samples: Samples) -> Bools:
        """Return which samples, grouped by row, have a smaller step than the one before and name no epoch."""
        back: Bools = samples.step[runs.order] < self._steps_before(runs, samples.step)
        back &= samples.epoch[runs.order] == UNKNOWN
        return back

    def _note_steps(self, epochs: Ints, steps: Ints) -> bool:
        """Note the first and last step of each epoch; return whether every sample names its epoch."""
        first, last = int(epochs.min()), int(epochs.max())
        if first != UNKNOWN:
            self.first_epoch = first if self.first_epoch is None else min(first, self.first_epoch)
        for epoch in range(first, last + 1) if last - first < _FEW_EPOCHS else np.unique(epochs).tolist():
            in_epoch = steps if first == last else steps[epochs == epoch]
            if len(in_epoch) and (highest := int(in_epoch.max())) != UNKNOWN:
                low, high = self.epoch_steps.get(epoch, (highest, highest))
                lowest = int(in_epoch.view(np.uint64).min())  # as an unsigned number, the unknown -1 is the largest
                self.epoch_steps[epoch] = (min(low, lowest), max(high, highest))
        while len(self.epoch_steps) > MOST_EPOCHS:
            del self.epoch_steps[next(iter(self.epoch_steps))]
        return first != UNKNOWN

    def _update_one(self, row: int, samples: Samples, index: int) -> None:
        """Add one sample that lacks fields, or complete its row's newest sample if that has the same step."""
        columns = self.columns
        same = (
            columns["count"][row] > 0
            and samples.known[index] != ALL_KNOWN
            and samples.step[index] != UNKNOWN
            and columns["step"][row] == samples.step[index]
            and samples.epoch[index] in (UNKNOWN, columns["epoch"][row])
        )
        if not same:
            self._update_whole(np.array([row]), samples.part(slice(index, index + 1)))
            return
        self._add_figures(row, samples, index)
        for bit, name in ((HAS_LOSS, "loss"), (HAS_RATE, "rate"), (HAS_GLOBAL_RATE, "global_rate")):
            if samples.known[index] & bit:
                columns[name][row] = getattr(samples, name)[index]
                columns["known"][row] |= bit
        if samples.known[index] & HAS_RATE:
            columns["rate_kind"][row] = samples.rate_kind[index]
        if samples.clock[index]:
            columns["clock"][row] = samples.clock[index]
        if samples.time_kind[index] != NO_TIME:
            columns["time"][row], columns["time_kind"][row] = samples.time[index], samples.time_kind[index]
        columns["seen"][row] = np.fmax(columns["seen"][row], samples.seen[index])
        columns["last"][row] = self.sequence
        self.sequence += 1
        if self.history is not None:
            self.history.replace(row, float(samples.loss[index]), float(samples.rate[index]))

    def _add_figures(self, row: int, samples: Samples, index: int) -> None:
        """Note the loss and the rate that a sample adds to its row's newest step, or prints again."""
        rows, sample = np.array([row]), samples.part(slice(index, index + 1))
        self.first_nans.take(rows, sample, self.columns["wraps"][rows])
        if samples.known[index] & self.columns["known"][row] & HAS_RATE:
            self.recent.correct(row, float(samples.rate[index]))
        else:
            self.recent.take(rows, sample)


class _Index:
    """Finds the rows of many keys at once: by a hash table, and by sorted keys where two keys collide in it."""

    _MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
    _ROOM = 8
    """Entries of the table per key."""

    def __init__(self, rows: Mapping[int, int]) -> None:
        self.size = len(rows)
        self._keys = np.fromiter(rows, np.int64, self.size)
        self._order = np.argsort(self._keys)
        self._sorted = self._keys[self._order]
        bits = max(1, (self._ROOM * len(rows)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, np.int64)
        self._table[self._places(self._keys)] = np.arange(len(rows))

    def _places(self, keys: Ints) -> Ints:
        places: npt.NDArray[np.uint64] = keys.view(np.uint64) * self._MIX
        places >>= self._shift
        return places.view(np.int64)

    def rows(self, keys: Ints) -> Ints:
        """Return the row of each key, -1 for an unknown key. The rows are numbered in the order of the keys."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        rows: Ints = self._table.take(self._places(keys))
        wrong = places_of(self._keys.take(rows) != keys)
        if len(wrong):
            sought = np.searchsorted(self._sorted, keys[wrong])
            sought[sought == len(self._sorted)] = 0
            rows[wrong] = np.where(self._sorted[sought] == keys[wrong], self._order[sought], -1)
        return rows


def _key(slot: Any, core: Any, device: Any) -> Any:
    """Return (slot, ordinal, device) as one integer; an unknown ordinal or device is -1."""
    return ((((slot << _ORDINAL_BITS) + core) << _DEVICE_BITS) + device) + _NONE_KNOWN
