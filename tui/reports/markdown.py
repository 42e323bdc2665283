"""A report as Markdown (CommonMark with GitHub's tables). Remote text is escaped: it never becomes markup."""

from __future__ import annotations

import re

from tui.reports.layout import Table, sections, title
from tui.reports.summary import Summary

_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$@&]|:(?=//)|(?<=www)\.|^(?:[-+=]|\d+[.)])", re.ASCII | re.IGNORECASE)
"""What can begin markup: emphasis, code, links (bare ones too), HTML, tables, mentions, lists at a line's start."""

_NUMERIC = re.compile(r"[-–+]?[\d,.:]*")


def write_markdown(summary: Summary) -> str:
    """The whole report."""
    parts = [f"# {escape(title(summary))}"]
    for section in sections(summary):
        parts.append(f"## {section.title}")
        if section.sentences:
            parts.append("\n".join(f"- {escape(text)}" for text in section.sentences))
        if section.table is not None and section.table.rows:
            parts.append(_table(section.table))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it stands; plain numbers are left as they are."""
    if _NUMERIC.fullmatch(text):
        return text
    return _SPECIAL.sub(lambda match: "".join(_escaped(char) for char in match.group()), text)


def _escaped(char: str) -> str:
    return char if char.isalnum() else f"\\{char}"


def _table(table: Table) -> str:
    rule = "|".join("--:" if place in table.right else ":--" for place in range(len(table.columns)))
    rows = ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in (table.columns, *table.rows)]
    return "\n".join([rows[0], f"|{rule}|", *rows[1:]])
