"""Where each core's loss became no finite number: the exact line, kept for those cores alone that it happened to."""

from __future__ import annotations

from typing import Any

from tui.logs._compat_numpy import Ints, np, npt, places_of
from tui.logs.packed_digits import Decimals
from tui.logs.snapshot import HAS_LOSS, UNKNOWN, FirstNanColumns
from tui.logs.state.samples import Samples

_RECORD = np.dtype(
    [
        ("is_known", np.bool_), ("is_broken", np.bool_), ("time_kind", np.uint8), ("epoch", np.int64),
        ("wraps", np.int64), ("step", np.int64), ("offset", np.int64), ("time", np.float64),
    ]
)  # fmt: skip

_TAKEN = ("epoch", "step", "time", "time_kind", "offset")
"""Fields that a record takes from its sample."""


class FirstNans:
    """The sample with which each row's newest stretch of non-finite losses began.

    A stretch begins where a loss that is not finite follows a finite one, or none, and where the job was started
    again. It goes on over samples without a loss. The record of a core whose loss is finite again stays, until
    another stretch begins: whether the loss is a number now is up to the newest sample.
    """

    def __init__(self) -> None:
        self._records: npt.NDArray[Any] = np.zeros(0, _RECORD)
        self._are_broken = False
        """Whether any row's newest loss may be no finite number."""

    def may_take(self, samples: Samples) -> bool:
        """Return whether these samples could change any record."""
        if isinstance(samples.loss, Decimals):
            return self._are_broken
        if not self._are_broken and np.isfinite(samples.loss).all():
            return False
        return self._are_broken or not np.isfinite(samples.loss[(samples.known & HAS_LOSS) > 0]).all()

    def take(self, rows: Ints, samples: Samples, wraps: Ints) -> None:
        """Take in a batch in arrival order: the row of each sample, and how often its step had gone back by then."""
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
        # Of several values for one row numpy keeps the last: the newest stretch.
        at, indices = ordered[begins], order[begins]
        for name in _TAKEN:
            self._records[name][at] = getattr(samples, name)[indices]
        self._records["wraps"][at] = wraps[indices]
        self._records["is_known"][at] = True
        is_last = np.append(is_first[1:], True)
        self._records["is_broken"][ordered[is_last]] = broken[is_last]
        self._are_broken = bool(self._records["is_broken"].any())

    def restart(self) -> None:
        """Note that the job was started again: what was not finite before does not go on."""
        self._records["is_broken"] = False
        self._are_broken = False

    def forget_offsets(self, rows: Ints) -> None:
        """Note that the logs in which these rows' records stand are no longer those that are read."""
        self._records["offset"][rows[rows < len(self._records)]] = UNKNOWN

    def of(self, rows: Ints, first_epoch: int | None) -> FirstNanColumns | None:
        """Return the records of these rows; None where there are none.

        `first_epoch` is the epoch before the first time that a step went back, for samples without an epoch.
        """
        near = rows[rows < len(self._records)]
        recorded = np.sort(near[self._records["is_known"][near]])
        if not len(recorded):
            return None
        records = self._records[recorded]
        epoch = records["epoch"].copy()
        if first_epoch is not None:
            unknown = epoch == UNKNOWN
            epoch[unknown] = records["wraps"][unknown] + first_epoch
        columns = {name: records[name].copy() for name in _TAKEN if name != "epoch"}
        return FirstNanColumns(rows=recorded, epoch=epoch, **columns)

    def _make_room(self, size: int) -> None:
        if size > len(self._records):
            more = np.zeros(max(size, 2 * len(self._records)) - len(self._records), _RECORD)
            self._records = np.concatenate((self._records, more))
