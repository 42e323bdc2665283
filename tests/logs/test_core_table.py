from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tui.logs._compat_numpy import np
from tui.logs.core_row import HAS_GLOBAL_RATE, HAS_LOSS, HAS_RATE, UNKNOWN
from tui.logs.log_time import LOG_TIME, NO_TIME, WALL_TIME
from tui.logs.state.core_table import CoreTable
from tui.logs.state.line_counts import LineCounts, LogSource
from tui.logs.state.rate_kinds import RateKind
from tui.logs.state.samples import Record, samples_from

NAN = float("nan")


def record(core: int, step: int, known: int, epoch: int = UNKNOWN, number: float = 1.0) -> Record:
    """Return one sample with the figures that `known` names."""
    figures = [number if known & bit else NAN for bit in (HAS_LOSS, HAS_RATE, HAS_GLOBAL_RATE)]
    kind = WALL_TIME if known & HAS_LOSS else NO_TIME
    when = (number if kind else NAN, kind, number)
    return (0, core, 0, epoch, step, *figures, known, b"", *when, RateKind.EXAMPLES, step)  # type: ignore[return-value]


RECORDS = st.lists(
    st.builds(record, st.integers(0, 2), st.integers(-1, 2), st.integers(0, 7), st.integers(-1, 1), st.floats(0, 9)),
    min_size=1,
    max_size=30,
)


def state(table: CoreTable) -> str:
    """Return everything a table holds, in comparable form."""
    assert table.history is not None
    trails = [(table.history.losses(row).tolist(), table.history.rates(row).tolist()) for row in range(table.size)]
    columns = {name: table.column(name).tolist() for name in table.columns}
    return repr((columns, trails, sorted(table.epoch_steps.items()), table.sequence))


class TestIncompleteSamples:
    @given(RECORDS, st.lists(st.integers(0, 30), max_size=3))
    def test_adding_together_or_one_by_one_makes_the_same_table(self, records: list[Record], cuts: list[int]) -> None:
        together, singly = CoreTable(), CoreTable()
        for start, end in itertools.pairwise(sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})):
            together.update(samples_from(records[start:end]))
        for each in records:
            singly.update(samples_from([each]))
        assert state(together) == state(singly)

    def test_a_second_sample_of_a_step_completes_it_and_is_not_counted(self) -> None:
        table = CoreTable()
        table.update(samples_from([record(0, 1, HAS_LOSS, number=3.0), record(0, 1, HAS_RATE, number=5.0)]))
        assert (table.column("loss")[0], table.column("rate")[0], table.column("count")[0]) == (3.0, 5.0, 1)
        table.update(samples_from([record(0, 2, HAS_LOSS, number=2.0)]))
        assert (table.column("loss")[0], table.column("count")[0]) == (2.0, 2)

    def test_without_steps_each_sample_counts(self) -> None:
        table = CoreTable()
        table.update(samples_from([record(0, UNKNOWN, HAS_LOSS, number=float(n)) for n in range(3)]))
        assert table.column("count").tolist() == [3]


def test_a_core_that_printed_a_line_without_figures_keeps_its_row_when_it_trains() -> None:
    table = CoreTable()
    table.update(samples_from([record(0, 1, HAS_LOSS)]))
    table.add_core(0, 1, 0, now=5.0)
    table.update(samples_from([record(1, 1, HAS_LOSS), record(2, 1, HAS_LOSS)]))
    assert table.column("core").tolist() == [0, 1, 2]


def test_the_newest_time_of_a_source_is_of_its_own_kind() -> None:
    counts, source = LineCounts(), LogSource(0, None)
    counts.add(np.array([0]), np.array([5.0]), is_wall=True)
    counts.add(np.array([0]), np.array([9.0]), is_wall=False)
    counts.add(np.array([0]), np.array([NAN]), is_wall=True)
    counts.settle([source])
    assert (source.lines, source.last_seen, source.last_kind) == (3, 9.0, LOG_TIME)
