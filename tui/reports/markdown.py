"""A report as Markdown (CommonMark with GitHub's tables). Remote text is escaped and never becomes markup."""

from __future__ import annotations

import re

from tui.reports.layout import REPORT_OF, ReportTable, report_of, sections, title, warning
from tui.reports.summary import Summary

_SPECIAL = re.compile(
    r"[\\`*<|~$@\[\]]|_(?!(?<=[^\W_]_)[^\W_])|&(?=#?\w+;)|(?:https?|ftp)(?=://)|(?<=www)\.|^(?:#|>|[-+=](?=\s|[-=]|$)|\d+[.)])",
    re.IGNORECASE,
)
"""What can begin markup: emphasis, code, links (bare ones too), HTML, tables, mentions, lists at a line's start."""

_NUMERIC = re.compile(r"[-–+]?[\d,.:]*")


def write_markdown(summary: Summary) -> str:
    """Return the whole report."""
    parts = [f"<!-- {REPORT_OF}: {report_of(summary)} -->", f"# {escape(title(summary))}"]
    caution = warning(summary)
    if caution is not None:
        parts.append(f"> **{escape(caution)}**")
    for section in sections(summary):
        parts.append(f"## {section.title}")
        if section.sentences:
            parts.append("\n".join(f"- {escape(text)}" for text in section.sentences))
        if section.table is not None and section.table.rows:
            parts.append(_table(section.table))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Escape text so that Markdown shows it unchanged; plain numbers need no escape."""
    if _NUMERIC.fullmatch(text):
        return text
    return _SPECIAL.sub(lambda match: _escape(match.group()), text)


def _escape(mark: str) -> str:
    """Escape one mark with a backslash, or a link's scheme by writing its first letter as an entity."""
    if mark[0].isalpha():
        return f"&#{ord(mark[0])};{mark[1:]}"
    return "".join(char if char.isalnum() else f"\\{char}" for char in mark)


def code(text: str) -> str:
    """Return a code span with exactly this text, also valid within a table's cell."""
    if "|" in text:
        # In GitHub's tables a bar ends the cell even in a code span, and an escaped one is shown correctly.
        text = text.replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{edge}{text}{edge}{fence}" if text.strip() else ""


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _table(table: ReportTable) -> str:
    rule = "|".join("--:" if index in table.right else ":--" for index in range(len(table.columns)))
    rows = [_row([escape(cell) for cell in table.columns]), f"|{rule}|"]
    for index, row in enumerate(table.rows):
        cells = [code(cell) if (index, column) in table.code else escape(cell) for column, cell in enumerate(row)]
        rows.append(_row(cells))
    return "\n".join(rows)
