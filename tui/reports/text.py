"""A report as plain text, for a terminal or a mail."""

from __future__ import annotations

from rich.cells import cell_len

from tui.reports.layout import REPORT_OF, ReportTable, report_of, sections, title, warning
from tui.reports.summary import Summary


def write_text(summary: Summary) -> str:
    """The whole report; columns aligned, nothing cut."""
    heading = title(summary)
    parts = [f"{heading}\n{'=' * cell_len(heading)}"]
    caution = warning(summary)
    if caution is not None:
        parts.append(caution.upper())
    for section in sections(summary):
        lines = [section.title, "-" * len(section.title), *section.sentences]
        if section.table is not None and section.table.rows:
            lines += [""] * bool(section.sentences) + _table(section.table)
        parts.append("\n".join(lines))
    parts.append(f"{REPORT_OF}: {report_of(summary)}")
    return "\n\n".join(parts) + "\n"


def _table(table: ReportTable) -> list[str]:
    rows = (table.columns, *table.rows)
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(table.columns))]
    return ["  ".join(_padded(row[i], widths[i], i in table.right) for i in range(len(row))).rstrip() for row in rows]


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks
