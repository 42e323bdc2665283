"""A report as plain text, for a terminal or an e-mail."""

from __future__ import annotations

from rich.cells import cell_len

from tui.reports.layout import REPORT_OF, report_of, sections, title, warning
from tui.reports.summary import Summary
from tui.text.columns import align_columns


def write_text(summary: Summary) -> str:
    """Return the whole report with aligned columns, nothing cut."""
    heading = title(summary)
    parts = [f"{heading}\n{'=' * cell_len(heading)}"]
    caution = warning(summary)
    if caution is not None:
        parts.append(caution.upper())
    for section in sections(summary):
        lines = [section.title, "-" * len(section.title), *section.sentences]
        if section.table is not None and section.table.rows:
            rows = (section.table.columns, *section.table.rows)
            lines += [*[""] * bool(section.sentences), *align_columns(rows, section.table.right)]
        parts.append("\n".join(lines))
    parts.append(f"{REPORT_OF}: {report_of(summary)}")
    return "\n\n".join(parts) + "\n"
