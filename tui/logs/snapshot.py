"""The state of every core at one moment: sorted columns for the screen, rows for everything else."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tui.logs._compat_numpy import Bools, Floats, Ints, np, npt
from tui.logs.core_row import (
    HAS_GLOBAL_RATE,
    HAS_LOSS,
    HAS_RATE,
    UNKNOWN,
    CoreRow,
    EpochSummary,
    FirstNan,
    Spread,
    WorkerFacts,
    optional_int,
)
from tui.logs.log_time import format_time
from tui.logs.state.progress import Progress, seconds_left
from tui.logs.state.rate_kinds import can_add_up, common_unit, total_rate, unit_of
from tui.text.numbers import round_figure

if TYPE_CHECKING:
    from tui.logs.history.history import History

SORT_KEYS = ("core", "worker", "epoch", "step", "loss", "rate", "lag")


class CoreState(enum.IntEnum):
    """What a core is doing, according to its lines; `str()` gives the stable name."""

    WAITING = 0
    TRAINING = 1
    STRAGGLER = 2
    SILENT = 3
    NAN = 4
    ENDED = 5

    def __str__(self) -> str:
        return self.name.lower()


class FirstNanColumns(NamedTuple):
    """The `FirstNan` records of cores at one moment, as columns."""

    rows: Ints
    """The row of each record, ascending."""
    epoch: Ints
    step: Ints
    time: Floats
    time_kind: npt.NDArray[np.uint8]
    offset: Ints

    def of_row(self, row: int, worker: int | None) -> FirstNan | None:
        """Return the record of a row, whose core is on `worker`; None if it has none."""
        index = int(np.searchsorted(self.rows, row))
        if index == len(self.rows) or self.rows[index] != row:
            return None
        return FirstNan(
            epoch=optional_int(self.epoch[index]),
            step=optional_int(self.step[index]),
            time=format_time(float(self.time[index]), int(self.time_kind[index])),
            worker=worker,
            offset=optional_int(self.offset[index]),
        )

    def earliest(self, rows: Ints) -> tuple[int, int] | None:
        """Return the smallest epoch and step (-1: unknown) among the records of these rows."""
        among: Bools = np.isin(self.rows, rows)
        if not among.any():
            return None
        epochs, steps = self.epoch[among], self.step[among]
        first = int(np.lexsort((steps, epochs))[0])
        return int(epochs[first]), int(steps[first])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that the demultiplexer knows at one moment. Columns are read-only, of equal length, sorted by core.

    Unknown values are -1 in `core device worker epoch step`, and NaN in `loss rate global_rate` (see `known`) and
    `lag`. `device` is the number after `xla:`, `state` holds CoreState codes, and `clock` the bytes of the line.
    """

    core: Ints
    device: Ints
    worker: Ints
    epoch: Ints
    step: Ints
    loss: Floats
    rate: Floats
    global_rate: Floats
    known: npt.NDArray[np.uint8]
    time: Floats
    time_kind: npt.NDArray[np.uint8]
    clock: npt.NDArray[np.bytes_]
    lag: Floats
    state: npt.NDArray[np.uint8]
    slot: Ints
    """The index in `workers` of each core's worker."""
    row: Ints
    """The row of each core in the history."""
    rate_kind: npt.NDArray[np.uint8]
    """What each rate counts, for a core or the whole job (`RateKind`)."""
    pace: Floats
    """Each core's rate as a share of the median core's, over its newest few samples; NaN unknown."""
    counting: Bools
    """Cores that make the pod's figures: those neither ended, silent nor hung; once all have ended, the last ones."""
    behind: Bools
    """Cores that are behind the others, whatever `state` says."""
    slow: Bools
    """Cores whose rate has been too small a share of the median for too long, whatever `state` says."""
    # The fields above are the columns: they have no default.
    workers: tuple[WorkerFacts, ...] = ()
    """Every worker that the log names, ascending, with or without cores; last the unnamed one, if it has cores."""
    epochs: tuple[EpochSummary, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The newest facts that the job printed: `max_accuracy`, `total_train_time`, `average_global_rate`,
    `data_wait_percent`, `cluster`, and totals: `total_epochs`, `total_steps`, `steps_per_epoch`, and those printed
    behind a step or an epoch, `printed_steps` and `printed_epochs`.
    """
    lines: int = 0
    bytes: int = 0
    samples: int = 0
    overlong: int = 0
    """Lines too long to be read whole."""
    dropped: int = 0
    """Samples of cores for which the table had no more rows."""
    dialects: Mapping[str, int] = field(default_factory=dict)
    """The number of lines that each dialect matched."""
    median_step: int | None = None
    median_epoch: int | None = None
    progress: Progress | None = None
    """How far the median core has come; None if no total is known."""
    first_time: str | None = None
    last_time: str | None = None
    history: History | None = None
    first_nans: FirstNanColumns | None = None
    """Where losses became non-finite; None if all losses have been finite."""

    def __len__(self) -> int:
        return len(self.core)

    @property
    def loss_spread(self) -> Spread | None:
        """Return the spread of the loss over the counting cores and those further ahead, or over all if none counts.

        Losses of nan are left out; it is nan where all are, and None where none is known.
        """
        has_loss = (self.known & HAS_LOSS) > 0
        ahead = self.lag < np.fmin.reduce(self.lag[self.counting], initial=np.nan)
        counted = has_loss & (self.counting | ahead)
        losses = self.loss[counted if counted.any() else has_loss]
        values = losses[~np.isnan(losses)]
        if not len(values):
            return Spread(math.nan, math.nan, math.nan) if len(losses) else None
        return Spread(float(np.median(values)), float(values.min()), float(values.max()))

    @cached_property
    def _has_pod_rate(self) -> Bools:
        """Return the rows whose rates count for the pod: those of counting cores, or of all if none counts."""
        has_rate = ~np.isnan(self.rate)
        counting: Bools = has_rate & self.counting
        return counting if counting.any() else has_rate

    @property
    def rate_total(self) -> float | None:
        """Return the rate of the whole pod in `rate_unit`; None without rates, or if they do not add up."""
        chosen = self._has_pod_rate
        if not chosen.any():
            return None
        return total_rate(self.rate[chosen], self.rate_kind[chosen], are_cores=not (self.core[chosen] < 0).any())

    @property
    def rates_add(self) -> bool:
        """Return whether `rate_total` is a sum, because each row's rate is a part of the pod's."""
        chosen = self._has_pod_rate
        return can_add_up(self.rate_kind[chosen], are_cores=not (self.core[chosen] < 0).any())

    @property
    def rate_source(self) -> str:
        """Return whose rate it is: `all cores`, `3 of 4 workers`, or `median core` where rates do not add up."""
        if self.rate_total is None:
            return f"median {self.noun}"
        counted = int(np.count_nonzero(self._has_pod_rate)) if self.rates_add else len(self)
        return f"all {self.noun}s" if counted == len(self) else f"{counted} of {len(self)} {self.noun}s"

    @property
    def rate_median(self) -> float | None:
        """Return the median core's rate in `rate_unit`; None without rates, or if they count different things."""
        values, kinds = self.rate[self._has_pod_rate], self.rate_kind[self._has_pod_rate]
        return float(np.median(values)) if len(values) and (kinds == kinds[0]).all() else None

    @property
    def rate_unit(self) -> str | None:
        """Return what the rates count per second; None if unknown, or if they count different things."""
        return common_unit(self.rate_kind[self._has_pod_rate])

    @property
    def straggling(self) -> Bools:
        """Return which cores hold the others up, behind or slow; once all have ended, those that did at the end.

        A core that has hung is silent, and still behind.
        """
        is_over = np.isin(self.state, (CoreState.ENDED, CoreState.NAN)).all()
        going = (CoreState.STRAGGLER, CoreState.SILENT, *((CoreState.ENDED,) if is_over else ()))
        late: Bools = (self.behind | self.slow) & np.isin(self.state, going)
        return late

    @property
    def noun(self) -> str:
        """Return what a row is: a core or, if no line names a core, a worker."""
        return "worker" if len(self) and (self.core == UNKNOWN).all() else "core"

    @property
    def reporting(self) -> int:
        """Return the number of cores with at least one step."""
        return int(np.count_nonzero(self.state != CoreState.WAITING))

    @property
    def going_on(self) -> int:
        """Return the number of cores that print lines now: those neither ended, silent nor hung."""
        has_stopped = np.isin(self.state, (CoreState.ENDED, CoreState.SILENT))
        return int(np.count_nonzero(self.counting & ~has_stopped))

    def cores_in(self, state: CoreState) -> tuple[int | None, ...]:
        """Return the cores in a state, ascending."""
        return tuple(optional_int(core) for core in self.core[self.state == state])

    @property
    def stragglers(self) -> tuple[int | None, ...]:
        """Return the cores that are behind the others, or slow although they keep step."""
        return self.cores_in(CoreState.STRAGGLER)

    @property
    def nan_cores(self) -> tuple[int | None, ...]:
        """Return the cores whose newest loss is not a finite number."""
        return self.cores_in(CoreState.NAN)

    @property
    def max_accuracy(self) -> float | None:
        """Return the best accuracy that the job printed, in per cent."""
        value = self.facts.get("max_accuracy")
        return None if value is None else float(value)

    @property
    def data_wait_share(self) -> float | None:
        """Return the share (0 to 1) of the newest epoch in which the job waited for data, as the job printed it."""
        value = self.facts.get("data_wait_percent")
        return None if value is None else float(value) / 100

    @property
    def place(self) -> tuple[str, ...]:
        """Return how far the median core has come: `epoch 2 of 10`, `step 40 of 391`, without what is unknown."""
        epochs, steps = (None, None) if self.progress is None else (self.progress.epochs, self.progress.steps)
        reached = (("epoch", self.median_epoch, epochs), ("step", self.median_step, steps))
        return tuple(
            f"{name} {number}" if total is None else f"{name} {number} of {total}"
            for name, number, total in reached
            if number is not None
        )

    def seconds_left(self) -> float | None:
        """Return the seconds from the newest line until the run is done (see `Progress`); None if unknown."""
        if self.progress is None or self.history is None:
            return None
        return seconds_left(self.progress, self.history, self.row)

    def address_of(self, index: int) -> str | None:
        """Return the address of a row's worker."""
        return self.workers[int(self.slot[index])].address

    def row_at(self, index: int) -> CoreRow:
        """Return one row of the view; a table builds only those that are visible."""
        known = int(self.known[index])
        clock = bytes(self.clock[index])
        lag = float(self.lag[index])
        device, pace, nans = int(self.device[index]), float(self.pace[index]), self.first_nans
        return CoreRow(
            core=optional_int(self.core[index]),
            device=None if device < 0 else f"xla:{device}",
            worker=optional_int(self.worker[index]),
            address=self.address_of(index),
            epoch=optional_int(self.epoch[index]),
            step=optional_int(self.step[index]),
            loss=float(self.loss[index]) if known & HAS_LOSS else None,
            rate=float(self.rate[index]) if known & HAS_RATE else None,
            global_rate=float(self.global_rate[index]) if known & HAS_GLOBAL_RATE else None,
            time=format_time(float(self.time[index]), int(self.time_kind[index])),
            clock=clock.decode("ascii", "replace") if clock else None,
            lag=None if math.isnan(lag) else int(lag),
            state=str(CoreState(int(self.state[index]))),
            rate_unit=unit_of(int(self.rate_kind[index])) if known & HAS_RATE else None,
            pace=None if math.isnan(pace) else round_figure(pace),
            first_nan=nans.of_row(int(self.row[index]), optional_int(self.worker[index])) if nans else None,
        )

    @property
    def nan_since(self) -> tuple[int, int] | None:
        """Return epoch and step (-1: unknown) of the first loss that is still non-finite; None if all are finite."""
        if self.first_nans is None:
            return None
        return self.first_nans.earliest(self.row[self.state == CoreState.NAN])

    def rows(self) -> list[CoreRow]:
        """Return every row, in the snapshot's order."""
        return [self.row_at(index) for index in range(len(self))]

    def order(self, by: str, reverse: bool) -> Ints:
        """Return the indices of the rows in sorted order: ties by core; unknown and NaN last, also with `reverse`.

        Raises ValueError for a column that is not in SORT_KEYS.
        """
        if by not in SORT_KEYS:
            raise ValueError(f"not a column to sort by: {by}")
        values = np.asarray(getattr(self, by), dtype=np.float64)
        unknown = np.isnan(values)
        if by not in ("loss", "rate", "lag"):
            unknown |= values == UNKNOWN
        keys = np.where(unknown, 0.0, -values if reverse else values)
        ties = np.where(self.core == UNKNOWN, np.iinfo(np.int64).max, self.core)
        return np.lexsort((ties, keys, unknown)).astype(np.int64)

    def sorted(self, by: str, reverse: bool = False) -> Snapshot:
        """Return the snapshot with its rows in another order (see `order`)."""
        order = self.order(by, reverse)
        columns: dict[str, Any] = {name: freeze(getattr(self, name)[order]) for name in COLUMNS}
        return replace(self, **columns)


COLUMNS = tuple(
    column.name for column in fields(Snapshot) if column.default is MISSING and column.default_factory is MISSING
)
"""The names of a snapshot's columns."""


def freeze(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make an array read-only and return it."""
    column.flags.writeable = False
    return column
