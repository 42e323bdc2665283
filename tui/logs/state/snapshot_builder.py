"""Build the sorted per-core view from the table: which rows are one core, and each core's progress and state."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tui.logs._compat_numpy import Bools, Floats, Ints, np, npt
from tui.logs.core_row import HAS_LOSS, UNKNOWN, WorkerFacts
from tui.logs.log_time import LOG_TIME, format_time
from tui.logs.snapshot import CoreState, Snapshot, freeze
from tui.logs.state.core_table import CoreTable
from tui.logs.state.demux_state import AT_THE_END, DemuxState
from tui.logs.state.line_counts import LogSource
from tui.logs.state.progress import progress_of
from tui.logs.state.stragglers import find_behind, measure_paces

_FEW = 2
"""Samples that a row needs to count as another core with the same number; a single one may be a torn line."""

_ALTERNATING_DEVICES = 1
"""Two threads of a process print devices 0 and 1 for one ordinal; a higher device number is another core."""

_COPIED_COLUMNS = (
    "core", "device", "step", "loss", "rate", "global_rate", "known", "time", "time_kind", "clock", "rate_kind",
)  # fmt: skip
"""Columns of a snapshot that are the table's own."""

SILENT_INTERVALS = 3
"""Usual intervals between lines after which a core counts as silent; some jobs print a line every ten minutes."""


class _Cores(NamedTuple):
    """The rows that are shown, and the slot of each."""

    rows: Ints
    slots: Ints


def build_snapshot(state: DemuxState, now: float | None, *, partial: bool = False) -> Snapshot:
    """Return the sorted view of everything known; with `partial`, the stragglers are those of the view before."""
    table = state.table
    numbers = worker_numbers(state.sources)
    cores = _cores(table, numbers, alike=are_named_alike(state.sources))
    rows, slots = cores.rows, cores.slots
    workers = numbers[slots]
    order = np.lexsort((table.column("device")[rows], workers, _unknown_last(table.column("core")[rows])))
    rows, slots, workers = rows[order], slots[order], workers[order]
    columns = {name: table.column(name)[rows] for name in _COPIED_COLUMNS}
    epoch, wraps = table.column("epoch")[rows], table.column("wraps")[rows]
    sampled = _sampled(state, rows)
    position = _positions(table, np.where(epoch == UNKNOWN, wraps, epoch), columns["step"])
    position[~sampled | (columns["step"] == UNKNOWN)] = np.nan
    ended = np.array([source.ended for source in state.sources], bool)[slots]
    usual = _usual(state, rows, now)
    goes_on = sampled & ~ended
    at = now if goes_on.any() else None
    silent = _quiet(state, rows, at, np.fmax(state.thresholds.silent, SILENT_INTERVALS * usual))
    counting = _first_with_any(goes_on & ~silent, sampled & ~silent, sampled)
    lag, middle = _lags(position, counting)
    if state.epochs.offset is not None:
        epoch = np.where((epoch == UNKNOWN) & sampled, wraps + state.epochs.offset, epoch)
    late = find_behind(lag, usual, table.stride, state.thresholds)
    lines = np.maximum(table.column("count")[rows], 1)  # a slow core has fewer, at longer intervals
    hung = late & _quiet(state, rows, at, SILENT_INTERVALS * usual * lines.max(initial=1) / lines) & (not partial)
    counting = _first_with_any(counting & ~hung, counting)
    pace, slow = measure_paces(table.recent, rows, columns["rate_kind"], counting, state.thresholds)
    slow &= sampled
    if partial:
        late, slow = (np.isin(rows, before) for before in state.stragglers)
    else:
        state.stragglers = rows[late].tolist(), rows[slow].tolist()
    ended |= now is None and _is_over(state)  # in a live run, each worker's exit is known
    states = _states(sampled, columns["known"], columns["loss"], ended, late | slow, silent)
    facts_of = _workers(state, numbers, workers)
    listed = [UNKNOWN if facts.worker is None else facts.worker for facts in facts_of]
    dated = [source for source in state.sources if np.isfinite(source.last_seen)]
    median_step = None if middle is None else int(columns["step"][middle])
    median_epoch = _median_of(epoch[counting] if middle is None else epoch[[middle]])
    newest = max(dated, key=lambda source: source.last_seen, default=None)
    return Snapshot(
        **{name: freeze(column) for name, column in columns.items()},
        worker=freeze(workers),
        epoch=freeze(epoch),
        lag=freeze(lag),
        pace=freeze(pace),
        counting=freeze(counting),
        behind=freeze(late),
        slow=freeze(slow),
        state=freeze(states),
        slot=freeze(np.searchsorted(_unknown_last(np.array(listed, np.int64)), _unknown_last(workers))),
        row=freeze(rows),
        workers=facts_of,
        epochs=state.epochs.summaries(),
        facts=dict(state.facts),
        lines=state.lines,
        bytes=state.bytes,
        samples=state.samples,
        overlong=state.overlong,
        dropped=table.dropped,
        dialects=dict(state.matched),
        median_step=median_step,
        median_epoch=median_epoch,
        progress=progress_of(
            state.facts,
            median_epoch,
            median_step,
            first_epoch=table.first_epoch,
            epoch_ranges=table.epoch_steps,
        ),
        first_time=format_time(state.first_moment, LOG_TIME),
        last_time=None if newest is None else format_time(newest.last_seen, newest.last_kind),
        history=table.history,
        first_nans=table.first_nans.of(rows, state.epochs.offset),
    )


def worker_numbers(sources: Sequence[LogSource]) -> Ints:
    """Return the worker number of each slot: that of the log or, if that is ambiguous, one counted up by address."""
    addresses: dict[int, set[str]] = {}
    for source in sources:
        if source.number is not None and source.address is not None:
            addresses.setdefault(source.number, set()).add(source.address)
    numbers = np.full(len(sources), UNKNOWN, np.int64)
    ambiguous = any(len(group) > 1 for group in addresses.values())
    ordinals: dict[str, int] = {}
    for slot, source in enumerate(sources):
        if source.number is not None and not (ambiguous and source.address is not None):
            numbers[slot] = source.number
        elif source.address is not None:
            numbers[slot] = ordinals.setdefault(source.address, len(ordinals))
    return numbers


def are_named_alike(sources: Sequence[LogSource]) -> bool:
    """Return whether several hosts have the same number, so that only their addresses distinguish them."""
    hosts = {(each.number, each.address) for each in sources if each.number is not None and each.address is not None}
    return len(hosts) > 1 and len({number for number, _address in hosts}) == 1


def _cores(table: CoreTable, numbers: Ints, *, alike: bool) -> _Cores:
    """Return the rows that are shown, the newest of each core; `numbers` are the workers of the slots."""
    core, slot = table.column("core"), table.column("slot")
    candidates = np.flatnonzero(~_only_sum_up(table, numbers))
    if not len(candidates):
        return _Cores(candidates, candidates)
    order = candidates[np.lexsort((slot[candidates], core[candidates]))]
    starts = np.flatnonzero(np.r_[True, core[order][1:] != core[order][:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    single = order[starts[sizes == 1]]
    rows, slots = [single], [slot[single]]
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        if size > 1:
            chosen = _choose(table, order[start : start + size], numbers, alike=alike)
            rows.append(chosen.rows)
            slots.append(chosen.slots)
    return _Cores(np.concatenate(rows), np.concatenate(slots))


def _only_sum_up(table: CoreTable, numbers: Ints) -> Bools:
    """Return the rows that only sum up epochs: without ordinal and step, of workers whose cores have both."""
    core, slot = table.column("core"), table.column("slot")
    named = core != UNKNOWN
    of_cores = np.zeros(len(numbers), bool)
    of_cores[slot[named]] = True
    summing: Bools = ~named & (table.column("step") == UNKNOWN)
    summing &= of_cores[slot] | (named.any() & (numbers[slot] == UNKNOWN))
    return summing


def _choose(table: CoreTable, group: Ints, numbers: Ints, *, alike: bool) -> _Cores:
    """Return which of several rows with the same ordinal (or all without one) are separate cores.

    Hosts that are named `alike` each count their cores from 0; different devices show that they are not one host that
    was recreated.
    """
    slot, device = table.column("slot")[group], table.column("device")[group]
    worker = numbers[slot]
    if _one_process_for_all(worker, device) or (alike and len(np.unique(device)) == len(device)):
        return _Cores(group, slot)
    first, last, count = (table.column(name)[group] for name in ("first", "last", "count"))
    newest = int(np.argmax(last))
    named = worker != UNKNOWN
    owners, owner_of = np.unique(worker[named], return_inverse=True)
    begins, ends = np.full(len(owners), np.iinfo(np.int64).max), np.full(len(owners), UNKNOWN, np.int64)
    counts = np.zeros(len(owners), np.int64)
    np.minimum.at(begins, owner_of, np.where(first[named] == UNKNOWN, np.iinfo(np.int64).max, first[named]))
    np.maximum.at(ends, owner_of, last[named])
    np.add.at(counts, owner_of, count[named])
    without_ordinal = table.column("core")[group[0]] == UNKNOWN
    real = np.flatnonzero(counts >= (1 if without_ordinal else _FEW))
    order = real[np.argsort(begins[real])]
    at_once = (np.maximum.accumulate(ends[order])[:-1] > begins[order][1:]).any()
    if len(order) > 1 and (without_ordinal or at_once):
        shown = np.array([_newest_of(worker, last, owners[index]) for index in real])
        return _Cores(group[shown], slot[shown])
    owner = newest
    if not named[newest] and named.any():
        owner = int(np.flatnonzero(named)[int(np.argmax(last[named]))])
    return _Cores(group[[newest]], slot[[owner]])


def _one_process_for_all(worker: Ints, device: Ints) -> bool:
    """Return whether a worker prints many devices under one ordinal, so that (worker, device) identifies cores."""
    order = np.lexsort((device, worker))
    worker, device = worker[order], device[order]
    other_device = (worker[1:] == worker[:-1]) & (device[1:] != device[:-1]) & (device[:-1] != UNKNOWN)
    return bool((other_device & (device[1:] > _ALTERNATING_DEVICES)).any())


def _newest_of(worker: Ints, last: Ints, owner: int) -> int:
    own = np.flatnonzero(worker == owner)
    return int(own[int(np.argmax(last[own]))])


def _positions(table: CoreTable, epochs: Ints, steps: Ints) -> Floats:
    """Return the progress of each core in steps since the first epoch, so that it compares across epochs."""
    position = steps.astype(np.float64)
    present = sorted(set(epochs.tolist()) & table.epoch_steps.keys())
    offset, stride = 0.0, table.stride
    for before, after in itertools.pairwise(present):
        first, last = table.epoch_steps[after][0], table.epoch_steps[before][1]
        if first < last:
            offset += (last + stride - first) * (after - before)
        position[epochs == after] += offset
    if not present and table.epoch_steps:
        first = min(low for low, _ in table.epoch_steps.values())
        last = max(high for _, high in table.epoch_steps.values())
        position += epochs * float(last + stride - first)
    return position


def _first_with_any(*choices: Bools) -> Bools:
    """Return the first choice that selects any row, or the last choice."""
    return next((rows for rows in choices if rows.any()), choices[-1])


def _lags(position: Floats, counting: Bools) -> tuple[Floats, int | None]:
    """Return the steps behind the median core, and its row; of two in the middle, the one further ahead.

    The median is over the `counting` cores and those that are at least as far: a worker that ended early does not
    count, but a straggler stays behind workers that have finished.
    """
    furthest = np.fmax.reduce(position[counting], initial=-np.inf)
    counted = np.where(counting | (position >= furthest), position, np.nan)
    order = np.argsort(counted, kind="stable")
    count = int(np.count_nonzero(~np.isnan(counted)))
    if not count:
        return np.full(len(position), np.nan), None
    middle = int(order[count // 2])
    return position[middle] - position, middle


def _median_of(epochs: Ints) -> int | None:
    """Return the median of the known epochs, of two in the middle the larger; None if none is known."""
    known = np.sort(epochs[epochs != UNKNOWN])
    return int(known[len(known) // 2]) if len(known) else None


def _sampled(state: DemuxState, rows: Ints) -> Bools:
    """Return which rows have a sample; once any has one since a restart, only those that have."""
    ever: Bools = state.table.column("count")[rows] > 0
    since: Bools = state.table.column("last")[rows] >= state.table.restarted_at
    return ever & since if (ever & since).any() else ever


def _usual(state: DemuxState, rows: Ints, now: float | None) -> float:
    """Return the usual seconds between two lines of a core; NaN if the lines have no times."""
    table = state.table
    if now is not None:
        return float("nan") if table.history is None else table.history.interval()
    most = int(table.column("count").max(initial=0))
    return (_newest_date(table, rows) - state.first_moment) / (most - 1) if most > 1 else float("nan")


def _newest_date(table: CoreTable, rows: Ints) -> float:
    """Return the newest date of these rows in a saved log; -inf if none has one."""
    dated = table.column("time_kind")[rows] == LOG_TIME
    return float(np.fmax.reduce(table.column("time")[rows][dated], initial=-np.inf))


def _quiet(state: DemuxState, rows: Ints, now: float | None, patience: float | Floats) -> Bools:
    """Return which rows have been quiet for longer: by the clock in a live run, else compared with other cores."""
    table = state.table
    seen = table.column("seen")[rows]
    if np.isfinite(seen).any():
        quiet: Bools = (np.fmax.reduce(seen) if now is None else now) - seen > patience
        return quiet
    late: Bools = _newest_date(table, rows) - table.column("time")[rows] > patience
    late &= table.column("time_kind")[rows] == LOG_TIME
    return late


def _is_over(state: DemuxState) -> bool:
    """Return whether the log has lines that a job prints at its end."""
    return not AT_THE_END.isdisjoint(state.facts)


def _states(
    sampled: Bools, known: npt.NDArray[np.uint8], loss: Floats, ended: Bools, straggling: Bools, silent: Bools
) -> npt.NDArray[np.uint8]:
    bad = sampled & ((known & HAS_LOSS) > 0) & ~np.isfinite(loss)
    state = np.full(len(sampled), int(CoreState.TRAINING), np.uint8)
    state[straggling] = CoreState.STRAGGLER
    state[silent] = CoreState.SILENT
    state[~sampled] = CoreState.WAITING
    state[ended] = CoreState.ENDED
    state[bad] = CoreState.NAN
    return state


def _unknown_last(numbers: Ints) -> Ints:
    """Return numbers of cores or workers for sorting: unknown ones last."""
    return np.where(numbers == UNKNOWN, np.iinfo(np.int64).max, numbers)


def _workers(state: DemuxState, numbers: Ints, workers: Ints) -> tuple[WorkerFacts, ...]:
    """Return every worker with a number, ascending, and last the unnamed one if it has rows."""
    sources: dict[int, list[LogSource]] = {}
    for number, source in zip(numbers.tolist(), state.sources, strict=True):
        sources.setdefault(number, []).append(source)
    cores = Counter(workers.tolist())
    named = sorted(number for number in sources if number != UNKNOWN)
    return tuple(
        WorkerFacts(
            worker=None if number == UNKNOWN else number,
            address=next((each.address for each in sources[number] if each.address is not None), None),
            lines=sum(each.lines for each in sources[number]),
            samples=sum(each.samples for each in sources[number]),
            cores=cores[number],
            last_seen=max((each.last_seen for each in sources[number] if np.isfinite(each.last_seen)), default=None),
            ended=all(each.ended for each in sources[number]),
        )
        for number in named + ([UNKNOWN] if UNKNOWN in cores else [])
    )
