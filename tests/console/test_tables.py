from __future__ import annotations

import math

import pytest
from textual.app import App, ComposeResult
from textual.widget import Widget

from tests.console.stage import training_line
from tui.console.widgets.tables.core_table_widget import COLUMNS as CORE_COLUMNS
from tui.console.widgets.tables.core_table_widget import WIDEST_TREND, CoreTableWidget, filter_cores, sort_cores
from tui.console.widgets.tables.line_table import LineTable
from tui.console.widgets.tables.row_table import RowTable, TableRow
from tui.console.widgets.tables.sparkline import draw_deviations, draw_sparkline
from tui.console.widgets.tables.table_columns import Cell, Column, fit_columns
from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot

COLUMNS = (
    Column("name", "name", 8, flexible=1),
    Column("size", "size", 6, right=True),
    Column("note", "note", 6, rank=1),
)


class WidgetApp(App[None]):
    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self._widget = widget

    def compose(self) -> ComposeResult:
        yield self._widget


def row(name: str, size: int | None, note: str = "") -> TableRow:
    return TableRow(name, (Cell(name), Cell("–" if size is None else str(size)), Cell(note)), {"size": size})


def cores(count: int, step: int = 10, changed: int | None = None, demux: Demux | None = None) -> Snapshot:
    demux = demux or Demux()
    for core in range(count) if changed is None else [changed]:
        loss = 5.0 - core % 7 * 0.1
        demux.feed(core // 8, training_line(core, 1, step, loss, 100.0), now=1_790_000_000.0)
    return demux.snapshot(now=1_790_000_001.0)


def shown(table: LineTable) -> list[str]:
    return [table.render_line(y).text.rstrip() for y in range(table.size.height)]


WANTING = (
    Column("name", "name", 8, flexible=1),
    Column("news", "news", 6, rank=1, flexible=3, wanted=20),
    Column("note", "note", 6, rank=2),
)


def test_a_column_is_no_wider_than_its_maximum() -> None:
    columns = (Column("name", "name", 8), Column("trend", "trend", 10, flexible=1, most=20))
    assert [[width for _, width in fit_columns(columns, room)] for room in (19, 24, 99)] == [
        [8, 10],
        [8, 15],
        [8, 20],
    ]


def test_a_column_is_added_only_when_another_has_its_full_width() -> None:
    columns = (
        Column("name", "name", 8),
        Column("trend", "trend", 10, flexible=1, most=20),
        Column("more", "more", 15, rank=1, leaves=10),
    )
    assert [[width for _, width in fit_columns(columns, room)] for room in (44, 45)] == [[8, 20], [8, 20, 15]]


def test_each_core_has_a_curve_of_its_rate_where_the_screen_is_very_wide() -> None:
    rooms = (150, 235, 236, 298)
    shown = [{column.key: width for column, width in fit_columns(CORE_COLUMNS, room)} for room in rooms]
    assert ["rate_trend" in widths for widths in shown] == [False, False, True, True]
    assert shown[1]["trend"] == shown[2]["trend"] == WIDEST_TREND, "the earlier columns keep their width"


async def test_a_core_that_became_slow_shows_it_in_the_curve_of_its_rate() -> None:
    demux = Demux()
    for step in range(20):
        rate = 250.0 if step < 10 else 50.0
        demux.feed(0, training_line(0, 1, step, 5.0, rate), now=1_790_000_000.0 + step)
    table = CoreTableWidget()
    async with WidgetApp(table).run_test(size=(298, 8)):
        table.show(demux.snapshot(now=1_790_000_020.0))
        assert "█" * 10 + "▂" * 10 in shown(table)[1]


@pytest.mark.parametrize(
    ("room", "widths"),
    [
        (4, {"name": 8}),
        (14, {"name": 14}),
        (15, {"name": 8, "news": 6}),
        (31, {"name": 12, "news": 18}),
        (36, {"name": 11, "news": 16, "note": 6}),
    ],
)
def test_a_column_is_added_only_when_a_more_important_one_has_the_width_it_wants(
    room: int, widths: dict[str, int]
) -> None:
    assert {column.key: width for column, width in fit_columns(WANTING, room)} == widths


def test_no_column_takes_more_than_it_wants_before_the_others_have_what_they_want() -> None:
    columns = (
        Column("news", "news", 6, rank=1, flexible=3, wanted=20),
        Column("exit", "exit", 6, flexible=1, rank=2, wanted=10),
    )
    shown = [
        {column.key: width for column, width in fit_columns(columns, room, {"news": 99, "exit": 12})}
        for room in (27, 31, 41)
    ]
    assert shown == [{"news": 20, "exit": 6}, {"news": 20, "exit": 10}, {"news": 30, "exit": 10}]


async def test_an_empty_column_that_collapses_leaves_its_room_to_others() -> None:
    columns = (Column("name", "name", 4, flexible=1), Column("keeper", "keeper", 13, collapses=True))
    table = RowTable(columns)
    async with WidgetApp(table).run_test(size=(40, 5)) as pilot:
        table.show([TableRow(1, (Cell("run"), Cell("")))])
        await pilot.pause()
        assert table.width_of("keeper") == 7
        table.show([TableRow(1, (Cell("run"), Cell("none")))])
        await pilot.pause()
        assert table.width_of("keeper") == 13


@pytest.mark.parametrize(
    ("room", "needs", "widths"),
    [
        (31, {"name": 14, "news": 10}, {"name": 14, "news": 9, "note": 6}),
        (24, {"name": 14, "news": 20}, {"name": 14, "news": 9}),
        (29, {"name": 8, "news": 10}, {"name": 8, "news": 12, "note": 6}),
    ],
    ids=["by rank", "before a cheaper one is shown", "no more than it needs"],
)
def test_spare_width_goes_to_cells_that_need_it(room: int, needs: dict[str, int], widths: dict[str, int]) -> None:
    assert {column.key: width for column, width in fit_columns(WANTING, room, needs)} == widths


async def test_a_column_grows_with_its_content_and_never_shrinks() -> None:
    table = RowTable((Column("name", "name", 4, flexible=1), Column("rest", "rest", 4, flexible=9)))
    row = lambda name: TableRow(1, (Cell(name), Cell("-")))  # noqa: E731
    async with WidgetApp(table).run_test(size=(40, 5)) as pilot:
        table.show([row("short")])
        await pilot.pause()
        table.show([row("a-name-of-some-length")])
        await pilot.pause()
        assert "a-name-of-some-length" in shown(table)[1]
        wide = table.width_of("name")
        table.show([row("short")])
        await pilot.pause()
        assert table.width_of("name") == wide


async def test_the_cursor_stays_on_top_until_it_is_moved_and_comes_back_there_with_home() -> None:
    table = RowTable((Column("name", "name", 8),))
    table.stays_on_top = True
    row = lambda name: TableRow(name, (Cell(name),))  # noqa: E731
    async with WidgetApp(table).run_test(size=(40, 8)) as pilot:
        table.show([row("pass")])
        await pilot.pause()
        table.show([row("fail"), row("pass")])
        assert table.cursor_key == "fail"
        table.focus()
        await pilot.press("down")
        table.show([row("worse"), row("fail"), row("pass")])
        assert table.cursor_key == "pass"
        await pilot.press("home")
        table.show([row("worst"), row("worse"), row("fail"), row("pass")])
        assert table.cursor_key == "worst"


async def test_cells_without_a_sort_value_sort_by_what_they_show_unknown_last_both_ways() -> None:
    table = RowTable((Column("size", "size", 8),))
    async with WidgetApp(table).run_test(size=(60, 10)):
        table.show([TableRow(text, (Cell(text),)) for text in ("10", "–", "9", "none")])
        for expected in (["9", "10", "none", "–"], ["none", "10", "9", "–"]):
            table.action_sort("size")
            assert [table.row_key(row) for row in range(4)] == expected


async def test_rows_sort_by_any_column_and_unknown_stays_last() -> None:
    table = RowTable(COLUMNS)
    async with WidgetApp(table).run_test(size=(40, 12)):
        table.show([row("b", 2), row("a", None), row("c", 10)])
        table.action_sort("size")
        assert [table.row_key(n) for n in range(3)] == ["b", "c", "a"]
        table.action_sort("size")
        assert [table.row_key(n) for n in range(3)] == ["c", "b", "a"]


async def test_the_cursor_stays_on_its_row_when_the_order_changes() -> None:
    table = RowTable(COLUMNS, sort="size")
    async with WidgetApp(table).run_test(size=(40, 12)) as pilot:
        table.show([row("a", 1), row("b", 2), row("c", 3)])
        table.focus()
        await pilot.press("down")
        assert table.cursor_key == "b"
        table.show([row("a", 9), row("b", 8), row("c", 3)])
        assert table.cursor_key == "b"
        assert table.row_of("b") == 1
        await pilot.press("up")
        assert table.cursor_key == "c"


async def test_a_header_click_sorts_and_a_double_click_opens() -> None:
    opened: list[object] = []

    class Listening(WidgetApp):
        def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
            opened.append(event.key)

    table = RowTable(COLUMNS)
    async with Listening(table).run_test(size=(40, 12)) as pilot:
        table.show([row("a", 2), row("b", 1)])
        await pilot.pause()
        layout = {column.key: size for column, size in table._layout}
        await pilot.click(table, offset=(layout["name"] + 3, 0))
        assert table.sort_key == "size"
        await pilot.click(table, offset=(2, 2), times=2)
        assert opened == ["a"]


async def test_a_filter_hides_what_does_not_match() -> None:
    table = RowTable(COLUMNS)
    async with WidgetApp(table).run_test(size=(40, 12)):
        table.show([row("alpha", 1), row("beta", 2)])
        table.set_filter("BET")
        assert [table.row_key(n) for n in range(table.row_count())] == ["beta"]
        table.set_filter("")
        assert table.row_count() == 2


async def test_a_filter_that_hides_the_row_of_the_cursor_moves_it_to_the_first_row() -> None:
    table = RowTable(COLUMNS)
    async with WidgetApp(table).run_test(size=(40, 8)) as pilot:
        table.show([row("alpha", 1, "old"), row("beta", 2, "new"), row("gamma", 3, "new")])
        await pilot.pause()
        table.set_filter("no such row")
        assert table.cursor_key is None, "keys never act on a hidden row"
        table.set_filter("new")
        assert table.cursor_key == "beta"
        table.set_filter("")
        assert table.cursor_key == "beta"
        table.show([row("alpha", 1), row("gamma", 3)])
        assert table.cursor_key == "alpha", "nor on one that is gone"


async def test_a_filter_that_hides_the_core_of_the_cursor_moves_it_to_the_first_core() -> None:
    table = CoreTableWidget()
    async with WidgetApp(table).run_test(size=(100, 20)) as pilot:
        table.show(cores(16))
        await pilot.pause()
        table.action_cursor(3)
        table.set_filter("w1")
        assert table.cursor_key == table.row_key(0)
        assert table.core_of(table.cursor_key).core == 8


async def test_control_characters_in_cells_never_reach_the_terminal() -> None:
    from tests.console.stage import a_slice
    from tui.console.render.pod_rows import SLICE_COLUMNS, make_slice_row

    table = RowTable(SLICE_COLUMNS)
    async with WidgetApp(table).run_test(size=(100, 8)):
        table.show([make_slice_row(a_slice("\x1b[2J[bold]evil[/]", state="REA\rDY"))])
        assert "\x1b" not in "".join(shown(table))
        assert "␛[2J[bold]" in shown(table)[1]


def test_a_narrow_table_leaves_out_the_least_important_columns() -> None:
    assert [column.key for column, _ in fit_columns(COLUMNS, 30)] == ["name", "size", "note"]
    assert [column.key for column, _ in fit_columns(COLUMNS, 18)] == ["name", "size"]
    assert sum(size + 1 for _, size in fit_columns(COLUMNS, 40)) - 1 == 40


async def test_one_changed_core_repaints_one_row() -> None:
    table = CoreTableWidget()
    async with WidgetApp(table).run_test(size=(100, 30)) as pilot:
        demux = Demux()
        cores(16_384, demux=demux)
        # The next sample widens the cells of the history, which changes the medians and with them every row.
        table.show(cores(16_384, step=11, changed=16_000, demux=demux))
        await pilot.pause()
        before = table.rows_drawn
        table.show(cores(16_384, step=11, changed=5, demux=demux))
        await pilot.pause()
        assert table.rows_drawn - before == 1
        before = table.rows_drawn
        table.show(cores(16_384, step=12, changed=16_000, demux=demux))
        await pilot.pause()
        assert table.rows_drawn - before == 0


async def test_only_visible_rows_are_ever_drawn() -> None:
    table = CoreTableWidget()
    async with WidgetApp(table).run_test(size=(100, 30)) as pilot:
        table.show(cores(16_384))
        await pilot.pause()
        assert table.row_count() == 16_384
        assert table.rows_drawn <= 2 * 30
        table.focus()
        await pilot.press("end")
        assert "16383" in shown(table)[-1]
        assert table.rows_drawn <= 5 * 30


async def test_cores_sort_by_a_shifted_letter_and_the_selection_survives() -> None:
    table = CoreTableWidget()
    async with WidgetApp(table).run_test(size=(110, 30)) as pilot:
        table.show(cores(16))
        table.focus()
        await pilot.press("down", "down", "L")
        await pilot.pause()
        assert table.sort_key == "loss"
        first = [line.split()[0] for line in shown(table)[1:4]]
        assert first == ["6", "13", "5"]
        assert table.core_of(table.cursor_key).core == 2
        await pilot.press("L")
        assert shown(table)[1].split()[0] == "0"


async def test_a_core_whose_loss_is_nan_has_the_state_nan() -> None:
    demux = Demux()
    for core, loss in ((0, "1.00000"), (1, "nan")):
        line = f"| Training Device=xla:0/{core} Epoch=1 Step=5 Loss={loss} Rate=9.00 GlobalRate=9.00 Time=02:38:57\n"
        demux.feed(0, line.encode(), now=1_790_000_000.0)
    table = CoreTableWidget()
    async with WidgetApp(table).run_test(size=(110, 8)):
        table.show(demux.snapshot(now=1_790_000_000.5))
        assert "nan" in shown(table)[2].split()[2:4]
        assert "training" in shown(table)[1]


@pytest.mark.parametrize(
    ("text", "expected"), [("3", [3]), ("w1", [8, 9, 10, 11]), ("training", list(range(12))), ("zzz", [])]
)
def test_cores_are_filtered_by_number_worker_or_state(text: str, expected: list[int]) -> None:
    snapshot = cores(12)
    wanted = filter_cores(snapshot, text)
    assert wanted is not None
    assert snapshot.core[wanted].tolist() == expected


def test_every_column_of_the_core_table_can_be_sorted_by() -> None:
    snapshot = cores(20)
    for column in CoreTableWidget().columns:
        assert sorted(sort_cores(snapshot, column.key, False).tolist()) == list(range(20))


def test_a_flat_series_looks_flat_and_a_falling_one_falls() -> None:
    assert len(set(draw_sparkline([99.0, 99.1, 99.0, 99.05], 4))) <= 2
    assert draw_sparkline([8, 7, 6, 5, 4, 3, 2, 1], 8) == "█▇▆▅▄▃▂▁"
    assert draw_sparkline([1.0, math.nan, 2.0], 5) == "  ▁×█"
    assert draw_sparkline(range(100), 5)[0] == "▁"
    assert draw_sparkline([], 3) == "   "
    assert draw_sparkline([0, 50, 100, 200], 4, high=100.0) == "▁▅██"


def test_deviations_share_a_scale_with_zero_in_the_middle() -> None:
    assert draw_deviations([0.0, 0.01, -0.01], 3, 1.0) == "▄▄▄"
    assert draw_deviations([1.0, 9.0, -1.0, math.nan], 4, 1.0) == "██▁×"


async def test_a_common_falling_loss_looks_flat_and_a_core_that_deviates_does_not() -> None:
    demux = Demux()
    for step in range(20):
        for core in range(16):
            loss = 5.0 - step * 0.2 + (step * 0.05 if core == 9 else 0.0)
            demux.feed(core // 8, training_line(core, 1, step, loss, 100.0), now=1_790_000_000.0 + step)
    table = CoreTableWidget()
    async with WidgetApp(table).run_test(size=(110, 24)) as pilot:
        table.show(demux.snapshot(now=1_790_000_021.0))
        await pilot.pause()
        trends = [
            table.row_cells(row)[[column.key for column in CORE_COLUMNS].index("trend")].text for row in range(16)
        ]
        assert "loss vs median" in shown(table)[0]
        assert {trend.strip() for row, trend in enumerate(trends) if row != 9} == {"▄" * len(trends[0].strip())}
        assert trends[9].strip()[0] == "▄"
        assert trends[9].strip()[-1] == "█"
