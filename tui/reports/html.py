"""A report as one page of HTML that needs nothing else: styles inside, charts as inline SVG, no script."""

from __future__ import annotations

import html
from collections.abc import Sequence

from tui.reports.layout import Table, number, sections, title
from tui.reports.summary import Summary

_WIDTH, _HEIGHT, _MARGIN = 720, 180, 8

_STYLE = """
:root { color-scheme: light dark; --line: #1a73e8; --band: #1a73e833; --rule: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--rule); text-align: left; }
.right { text-align: right; }
svg { width: 100%; height: auto; border: 1px solid var(--rule); border-radius: 4px; }
.curve { fill: none; stroke: var(--line); stroke-width: 1.5; }
.band { fill: var(--band); }
figcaption { opacity: .75; }
figure { margin: 1rem 0; }
"""


def write_html(summary: Summary) -> str:
    """The whole page; every text from a log or a run is escaped."""
    heading = html.escape(title(summary))
    parts = [f"<h1>{heading}</h1>"]
    for section in sections(summary):
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        if section.sentences:
            items = "".join(f"<li>{html.escape(text)}</li>" for text in section.sentences)
            parts.append(f"<ul>{items}</ul>")
        if section.table is not None and section.table.rows:
            parts.append(_table(section.table))
        if section.title == "Outcome":
            parts += _charts(summary)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f'<meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><style>{_STYLE}</style></head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"
    )


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        made = (
            f"<{tag}{' class=right' if place in table.right else ''}>{html.escape(cell)}</{tag}>"
            for place, cell in enumerate(cells)
        )
        return "<tr>" + "".join(made) + "</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    return (
        f'<div class="wide"><table><thead>{row(table.columns, "th")}</thead><tbody>\n{body}\n</tbody></table></div>'
    )


def _charts(summary: Summary) -> list[str]:
    points = summary.chart
    loss = _chart(
        "Loss, median over the cores; the band from the smallest to the largest",
        [point.loss for point in points],
        [point.loss_min for point in points],
        [point.loss_max for point in points],
        5,
    )
    rates = [point.rate for point in points]
    return [chart for chart in (loss, _chart("Examples/s over all cores", rates, rates, rates, 2)) if chart]


def _chart(
    caption: str,
    middle: Sequence[float | None],
    low: Sequence[float | None],
    high: Sequence[float | None],
    digits: int,
) -> str:
    """One curve with its band over the run; empty when fewer than two points are known."""
    known = [value for column in (low, high) for value in column if value is not None]
    if sum(value is not None for value in middle) < 2:
        return ""
    bottom, top = min(known), max(known)
    scale = (top - bottom) or 1.0

    def place(index: int, value: float) -> str:
        x = _MARGIN + index * (_WIDTH - 2 * _MARGIN) / (len(middle) - 1)
        y = _HEIGHT - _MARGIN - (value - bottom) / scale * (_HEIGHT - 2 * _MARGIN)
        return f"{x:.1f},{y:.1f}"

    curve = " ".join(place(index, value) for index, value in enumerate(middle) if value is not None)
    upper = [place(index, value) for index, value in enumerate(high) if value is not None]
    lower = [place(index, value) for index, value in enumerate(low) if value is not None]
    band = " ".join(upper + lower[::-1])
    text = html.escape(f"{caption}: {number(bottom, digits)} to {number(top, digits)}.")
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text}">'
        f'<polygon class="band" points="{band}"/><polyline class="curve" points="{curve}"/></svg>'
        f"<figcaption>{text}</figcaption></figure>"
    )
