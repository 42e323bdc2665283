"""The line at which each core's loss became non-finite, stored only for cores to which that happened."""

from __future__ import annotations

from typing import Any

from tui.logs._compat_numpy import Ints, np, npt, places_of
from tui.logs.core_row import HAS_LOSS, UNKNOWN
from tui.logs.packed_digits import Decimals
from tui.logs.snapshot import FirstNanColumns
from tui.logs.state.samples import Samples

_RECORD = np.dtype(
    [
        ("is_known", np.bool_), ("is_broken", np.bool_), ("time_kind", np.uint8), ("epoch", np.int64),
        ("wraps", np.int64), ("step", np.int64), ("offset", np.int64), ("time", np.float64),
    ]
)  # fmt: skip

_TAKEN = ("epoch", "step", "time", "time_kind", "offset")
"""Fields that a record copies from its sample."""


class FirstNans:
    """The sample with which each row's newest series of non-finite losses began.

    A series begins with a non-finite loss after a finite one, or after a restart of the job, or with a first loss
    that is non-finite. Samples without a loss do not end it. Once the loss is finite again, the record stays until
    another series begins: the newest sample shows whether the loss is finite now.
    """

    def __init__(self) -> None:
        self._records: npt.NDArray[Any] = np.zeros(0, _RECORD)
        self._are_broken = False
        """Whether the newest loss of any row may be non-finite."""

    def may_take(self, samples: Samples) -> bool:
        """Return whether these samples could change any record."""
        if isinstance(samples.loss, Decimals):
            return self._are_broken
        if not self._are_broken and np.isfinite(samples.loss).all():
            return False
        return self._are_broken or not np.isfinite(samples.loss[(samples.known & HAS_LOSS) > 0]).all()

    def take(self, rows: Ints, samples: Samples, wraps: Ints) -> None:
        """Add a batch in arrival order; `wraps` is how often the step of each sample's row had gone back by then."""
        with_loss = places_of((samples.known & HAS_LOSS) > 0)
        if not len(with_loss):
            return
        self._make_room(int(rows.max()) + 1)
        order = with_loss[rows[with_loss].argsort(kind="stable")]
        ordered, broken = rows[order], ~np.isfinite(samples.loss[order])
        is_first = np.append(True, ordered[1:] != ordered[:-1])
        before = np.append(False, broken[:-1])
        before[is_first] = self._records["is_broken"][ordered[is_first]]
        begins = places_of(broken & ~before)
        # Of several values for one row, numpy keeps the last, of the newest series.
        at, indices = ordered[begins], order[begins]
        for name in _TAKEN:
            self._records[name][at] = getattr(samples, name)[indices]
        self._records["wraps"][at] = wraps[indices]
        self._records["is_known"][at] = True
        is_last = np.append(is_first[1:], True)
        self._records["is_broken"][ordered[is_last]] = broken[is_last]
        self._are_broken = bool(self._records["is_broken"].any())

    def restart(self, first_epoch: int | None) -> None:
        """Note that the job was restarted, which ends every series; for `first_epoch` see `of`."""
        self._records["epoch"] = _epochs(self._records, first_epoch)
        self._records["is_broken"] = False
        self._are_broken = False

    def forget_offsets(self, rows: Ints) -> None:
        """Forget the offsets of these rows' records, because another log of theirs is read now."""
        self._records["offset"][rows[rows < len(self._records)]] = UNKNOWN

    def of(self, rows: Ints, first_epoch: int | None) -> FirstNanColumns | None:
        """Return the records of these rows; None if there are none.

        `first_epoch` is the epoch of samples without a named epoch before their step first went back.
        """
        near = rows[rows < len(self._records)]
        recorded = np.sort(near[self._records["is_known"][near]])
        if not len(recorded):
            return None
        records = self._records[recorded]
        columns = {name: records[name].copy() for name in _TAKEN if name != "epoch"}
        return FirstNanColumns(rows=recorded, epoch=_epochs(records, first_epoch), **columns)

    def _make_room(self, size: int) -> None:
        if size > len(self._records):
            more = np.zeros(max(size, 2 * len(self._records)) - len(self._records), _RECORD)
            self._records = np.concatenate((self._records, more))


def _epochs(records: npt.NDArray[Any], first_epoch: int | None) -> Ints:
    """Return the epochs of records; those that were not named follow from the first one, if that is known."""
    epochs: Ints = records["epoch"].copy()
    if first_epoch is not None:
        unknown = epochs == UNKNOWN
        epochs[unknown] = records["wraps"][unknown] + first_epoch
    return epochs
