"""Resources as table rows: plain data in, cells out."""

from __future__ import annotations

from datetime import datetime, timezone

from tui.console.render import state_styles
from tui.console.render.safe_text import escape_line
from tui.console.widgets.tables.row_table import TableRow
from tui.console.widgets.tables.table_columns import Cell, Column
from tui.pod.resources import CloudResource, find_unused
from tui.text.durations import format_elapsed
from tui.text.printable import format_count

RESOURCE_COLUMNS = (
    Column("costs", "costs", 7),
    Column("kind", "kind", 15),
    Column("name", "name", 16, flexible=2, wanted=30),
    Column("state", "state", 10, rank=1, flexible=1),
    Column("age", "age", 6, right=True),
    Column("used", "used by", 14, rank=2, flexible=2, wanted=30),
    Column("maker", "by tpu-tui", 10, rank=4),
    Column("chips", "chips", 5, right=True, rank=5),
    Column("size", "size", 9, right=True, rank=6),
    Column("zone", "zone", 14, rank=3),
)
_COSTS = {True: Cell("yes", "warn"), False: Cell("no", "dim"), None: Cell("unknown", "dim")}


def make_resource_row(resource: CloudResource, now: datetime | None = None) -> TableRow:
    """Return the row of a resource, by its ref."""
    age = resource.age_s(now or datetime.now(timezone.utc))
    used = "unknown" if resource.used_by is None else ", ".join(resource.used_by)
    size = None if resource.size_gb is None else f"{resource.size_gb:,.0f} GB"
    state = Cell("") if resource.state is None else state_styles.style_slice_state(escape_line(resource.state))
    return TableRow(
        resource.ref,
        (
            _COSTS[resource.cost_relevant],
            Cell(resource.kind),
            Cell(escape_line(resource.name)),
            state,
            Cell(format_elapsed(age)),
            Cell(escape_line(used), "dim" if resource.used_by is None else ""),
            Cell("yes", "") if resource.made_by_us else Cell("no", "dim"),
            state_styles.UNKNOWN if resource.chips is None else Cell(str(resource.chips)),
            Cell(size or ""),
            Cell(escape_line(resource.zone or ""), "dim"),
        ),
        {"age": age, "size": resource.size_gb},
    )


def count_resources(resources: tuple[CloudResource, ...]) -> str:
    """Return how many resources there are, cost money and are unused."""
    costly = sum(resource.cost_relevant is True for resource in resources)
    unused = len(find_unused(resources))
    cost = "costs" if costly == 1 else "cost"
    counted = format_count(len(resources), "resource")
    return f"{counted} · {costly} {cost} money · {unused} unused" if resources else ""
