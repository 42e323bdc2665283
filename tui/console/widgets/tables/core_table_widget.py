"""The core table: numpy columns in, visible rows out, so that 16,384 cores cost no more than 32."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import ClassVar

import numpy as np
from textual.binding import Binding, BindingType

from tui.console.render import state_styles
from tui.console.render.safe_text import format_number
from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.sparkline import draw_deviations, draw_sparkline
from tui.console.widgets.tables.table_columns import SORT_MARK_WIDTH, Cell, Column
from tui.logs._compat_numpy import Floats, Ints
from tui.logs.core_row import HAS_GLOBAL_RATE, HAS_LOSS, HAS_RATE, UNKNOWN, CoreRow
from tui.logs.snapshot import SORT_KEYS, CoreState, Snapshot

TREND = "trend"
RATE_TREND = "rate_trend"
LOSS_TREND, LOSS_DEVIATION = "loss trend", "loss vs median"
TREND_WIDTH, WIDEST_TREND = len(LOSS_DEVIATION) + SORT_MARK_WIDTH, 64
"""Columns of a trend: at most as many as a core's history has points."""
MIN_CORES_TO_COMPARE = 3
"""Cores from which a core's losses are compared with the pod's median: fewer show their own trend."""
MEDIAN_SAMPLE_CORES = 256
"""Most cores, evenly spread, for the pod's median: it is computed for every snapshot."""
MIN_DEVIATION_SCALE = 0.05
"""Share of the median loss that fills the scale of deviations at least: small noise must not look like a storm."""
LOSS_WIDTH, RATE_WIDTH, GLOBAL_RATE_WIDTH = 9, 8, 9

COLUMNS = (
    Column("core", "core", 5, right=True),
    Column("worker", "wkr", 4, right=True, rank=2),
    Column("state", "state", 11),
    Column("epoch", "epoch", 5, right=True, rank=4),
    Column("step", "step", 7, right=True),
    Column("lag", "lag", 5, right=True, rank=5),
    Column("loss", "loss", LOSS_WIDTH, right=True),
    Column("rate", "rate", RATE_WIDTH, right=True, rank=1),
    Column("global_rate", "global", GLOBAL_RATE_WIDTH, right=True, rank=6),
    Column(TREND, LOSS_TREND, TREND_WIDTH, right=True, rank=3, flexible=1, most=WIDEST_TREND),
    Column(RATE_TREND, "rate trend", WIDEST_TREND, right=True, rank=10, leaves=WIDEST_TREND - TREND_WIDTH),
    Column("clock", "clock", 9, right=True, rank=7),
    Column("device", "device", 8, rank=8),
    Column("address", "address", 15, rank=9),
)
SORT_BY = {
    "C": "core",
    "W": "worker",
    "T": "state",
    "E": "epoch",
    "S": "step",
    "A": "lag",
    "L": "loss",
    "R": "rate",
}
"""Columns by the key that sorts by them."""
_LONGEST_CLOCK = 24
_LIVE = frozenset((CoreState.TRAINING, CoreState.WAITING, CoreState.SILENT, CoreState.STRAGGLER))
UNSEEN = Cell("? frozen", "warn")
"""The state of a core whose worker's log does not arrive: its figures are frozen."""
LAUNCHING = Cell("· launching", "dim")
"""The state of a core during a launch: its figures belong to the attempt before."""
READING = Cell("… reading", "dim")
"""The state of a core while its logs are still being read: the figures are old."""
FAILED = Cell("✗ failed", "bad")
"""The state of a core of the worker that failed first."""
SLOW = "▲ slow"
"""The state of a straggler in lock-step with the others, which wait for it."""
_STATE_WORDS = {CoreState.STRAGGLER: "▲ straggler", CoreState.NAN: "✗ nan", CoreState.SILENT: "… silent"}


class CoreTableWidget(LineTable):
    """One row per core; sorted by any column, filtered by core, worker, address or state."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"sort('{column}')", f"Sort by {column}", show=False, id=f"cores.{column}")
        for key, column in SORT_BY.items()
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(COLUMNS, sort="core", empty="No metrics yet", id=id)
        self.stays_on_top = True
        self._snapshot: Snapshot | None = None
        self._order: Ints = np.empty(0, np.int64)
        self._keys: Ints = np.empty(0, np.int64)
        self._unseen: frozenset[int] = frozenset()
        self._reading = False
        self._is_launching = False
        self._failed_worker: int | None = None
        self._medians: Floats | None = None
        """The pod's median losses over the run, once a row of this snapshot needed them."""
        self._scale = 1.0

    def show(
        self,
        snapshot: Snapshot,
        unseen: frozenset[int] = frozenset(),
        *,
        reading: bool = False,
        is_launching: bool = False,
        failed_worker: int | None = None,
    ) -> None:
        """Take a newer snapshot and the workers without a connection; only lines that differ are repainted.

        While older lines are still being read (`reading`), figures and states are old. During another launch
        (`is_launching`) no core trains, and the figures belong to the previous attempt. The rows of
        `failed_worker`, the one that failed first, are marked.
        """
        state = (unseen, reading, is_launching, failed_worker)
        before = (self._unseen, self._reading, self._is_launching, self._failed_worker)
        if snapshot is not self._snapshot or state != before:
            self._snapshot = snapshot
            self._unseen, self._reading, self._is_launching, self._failed_worker = state
            self._medians = None
            self._name_trend(LOSS_DEVIATION if len(snapshot) >= MIN_CORES_TO_COMPARE else LOSS_TREND)
            self.reorder()
            self.rows_changed()

    def _name_trend(self, title: str) -> None:
        """Set the title of the column of losses over time."""
        columns = tuple(replace(column, title=title) if column.key == TREND else column for column in self.columns)
        if columns != self.columns:
            self.columns = columns
            self._layout_width = -1
            self.refresh()

    def reorder(self) -> None:
        """Sort and filter on the columns; no row is made."""
        if self._snapshot is None:
            return
        order = sort_cores(self._snapshot, self.sort_key or "core", self.sort_reverse)
        mask = filter_cores(self._snapshot, self.filter_text)
        self._order = order if mask is None else order[mask[order]]
        self._keys = self._snapshot.row[self._order]

    def row_count(self) -> int:
        """Return the number of cores that match the filter."""
        return len(self._order)

    def row_key(self, row: int) -> Hashable:
        """Return the core's row in the history, which never changes."""
        return int(self._keys[row])

    def row_of(self, key: Hashable) -> int | None:
        """Return the core's place in the present order."""
        if not isinstance(key, int):
            return None
        indices = np.flatnonzero(self._keys == key)
        return int(indices[0]) if len(indices) else None

    def core_of(self, key: Hashable) -> CoreRow | None:
        """Return the core of the row with this key; None if no row has it."""
        row = self.row_of(key)
        return None if self._snapshot is None or row is None else self._snapshot.row_at(int(self._order[row]))

    def row_cells(self, row: int) -> tuple[Cell, ...]:
        """Return the cells of one core."""
        snapshot = self._snapshot
        assert snapshot is not None
        index = int(self._order[row])
        state = CoreState(int(snapshot.state[index]))
        known = int(snapshot.known[index])
        state_cell, flagged, usual = self._state_of(snapshot, index, state)
        loss = float(snapshot.loss[index]) if known & HAS_LOSS else None
        rate = float(snapshot.rate[index]) if known & HAS_RATE else None
        global_rate = float(snapshot.global_rate[index]) if known & HAS_GLOBAL_RATE else None
        lag = float(snapshot.lag[index])
        is_nan = state is CoreState.NAN and not self._reading
        device = int(snapshot.device[index])
        return (
            _integer(snapshot.core[index], flagged),
            _integer(snapshot.worker[index]),
            state_cell,
            _integer(snapshot.epoch[index]),
            _integer(snapshot.step[index]),
            Cell("–", "dim") if np.isnan(lag) else Cell(f"{int(lag)}", "warn" if flagged and lag > 0 else "dim"),
            Cell(format_number(loss, 5, LOSS_WIDTH), "bad" if is_nan else usual),
            Cell(format_number(rate, 2, RATE_WIDTH), "warn" if flagged and state is CoreState.STRAGGLER else usual),
            Cell(format_number(global_rate, 2, GLOBAL_RATE_WIDTH), "dim"),
            Cell(self._trend(snapshot, index), "busy"),
            Cell(self._rate_trend(snapshot, index), "good"),
            Cell(bytes(snapshot.clock[index])[-_LONGEST_CLOCK:].decode("ascii", "replace") or "–", "dim"),
            Cell("–" if device < 0 else f"xla:{device}", "dim"),
            Cell(snapshot.address_of(index) or "–", "dim"),
        )

    def _state_of(self, snapshot: Snapshot, index: int, state: CoreState) -> tuple[Cell, str, str]:
        """Return the cell of a core's state, the tone of the figures that it is about, and that of the others."""
        worker, is_live = int(snapshot.worker[index]), state in _LIVE
        if self._is_launching and is_live:
            return LAUNCHING, "", "dim"
        is_unseen = is_live and worker in self._unseen
        usual = "dim" if self._reading or is_unseen else ""
        if worker == self._failed_worker:
            return FAILED, FAILED.tone, usual
        if is_unseen:
            return UNSEEN, "", usual
        if self._reading:
            return READING, "", usual
        tone = state_styles.get_core_tone(str(state))
        is_slow = state is CoreState.STRAGGLER and not snapshot.behind[index]
        name = SLOW if is_slow else _STATE_WORDS.get(state, str(state))
        return Cell(name, tone), tone if state in _STATE_WORDS else "", usual

    def _trend(self, snapshot: Snapshot, index: int) -> str:
        width = self.width_of(TREND)
        if not width or snapshot.history is None:
            return ""
        row = int(snapshot.row[index])
        if len(snapshot) < MIN_CORES_TO_COMPARE:
            return draw_sparkline(snapshot.history.losses(row), width)
        if self._medians is None:
            step = -(-len(snapshot) // MEDIAN_SAMPLE_CORES)
            self._medians = snapshot.history.loss_medians(snapshot.row[::step])
            self._scale = deviation_scale(snapshot)
        return draw_deviations(snapshot.history.loss_deviations(row, self._medians), width, self._scale)

    def _rate_trend(self, snapshot: Snapshot, index: int) -> str:
        width = self.width_of(RATE_TREND)
        if not width or snapshot.history is None:
            return ""
        rates = snapshot.history.rates(int(snapshot.row[index]))
        highest = max(float(values[np.isfinite(values)].max(initial=0.0)) for values in (rates, snapshot.rate))
        return draw_sparkline(rates, width, high=highest or None)


def deviation_scale(snapshot: Snapshot) -> float:
    """Return the deviation of a loss from the median that fills the scale: the largest one in this snapshot."""
    losses = snapshot.loss[np.isfinite(snapshot.loss)]
    if not len(losses):
        return 1.0
    median = float(np.median(losses))
    return max(float(np.abs(losses - median).max()), MIN_DEVIATION_SCALE * abs(median))


def _integer(value: np.int64, tone: str = "") -> Cell:
    return Cell("–", "dim") if value == UNKNOWN else Cell(str(int(value)), tone)


def sort_cores(snapshot: Snapshot, key: str, reverse: bool) -> Ints:
    """Return places sorted by any column of the table; ties by core, unknown last both ways."""
    key = "rate" if key == RATE_TREND else key
    if key in SORT_KEYS:
        return snapshot.order(key, reverse)
    if key == "address":
        ranks = {address: rank for rank, address in enumerate(sorted({w.address or "~" for w in snapshot.workers}))}
        of_slot = np.array([ranks[worker.address or "~"] for worker in snapshot.workers] or [0])
        values = of_slot[snapshot.slot].astype(np.float64) if len(snapshot) else np.empty(0)
    elif key in ("global_rate", "state", "device"):
        values = np.asarray(getattr(snapshot, key), dtype=np.float64)
    elif key == "clock":
        values = np.asarray(snapshot.time, dtype=np.float64)
    else:
        values = np.asarray(snapshot.loss, dtype=np.float64)
    unknown = np.isnan(values)
    keys = np.where(unknown, 0.0, -values if reverse else values)
    return np.lexsort((snapshot.core, keys, unknown)).astype(np.int64)


def filter_cores(snapshot: Snapshot, text: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None:
    """Return the rows that match a filter: `14`, `w2` (worker 2), else part of a state or address; None: all."""
    query = text.strip().lower()
    if not query:
        return None
    if query.isdecimal():
        return np.asarray(snapshot.core == int(query))
    if query[0] == "w" and query[1:].strip().isdecimal():
        return np.asarray(snapshot.worker == int(query[1:]))
    states = [int(state) for state in CoreState if query in str(state)]
    slots = [slot for slot, worker in enumerate(snapshot.workers) if query in (worker.address or "").lower()]
    return np.asarray(np.isin(snapshot.state, states) | np.isin(snapshot.slot, slots))
