"""A report as one self-contained HTML page: styles inside, charts as inline SVG, no script."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from tui.logs.snapshot import Snapshot
from tui.reports.curves import ChartPoint
from tui.reports.layout import REPORT_OF, ReportTable, moment, number, report_of, sections, title, warning
from tui.reports.rates import rate_title
from tui.reports.summary import Summary
from tui.text.durations import format_clock
from tui.text.printable import format_count, one_line

_WIDTH, _HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 26
"""Margins of a chart, for the labels of its axes."""
_MOST_TICKS = 4
"""Most intervals between the values of a chart's y axis."""
_X_PARTS = 3
"""Intervals between the labels of a chart's x axis."""

NOT_FINITE = ("nan", "inf", "-inf")
"""Figures, and the state of a core, that are shown in red."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2430; --soft: #5b6475; --page: #f6f7f9; --card: #fff; --rule: #dfe3ea;
  --line: #1a66d6; --band: #1a66d62e; --good: #12743b; --bad: #b3261e; --warn: #8a5a00; --warn-page: #fff4d6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b5; --page: #14171d; --card: #1d2129;
  --rule: #323945; --line: #7db0ff; --band: #7db0ff33; --good: #6fd08c; --bad: #ff8a80; --warn: #ffd479;
  --warn-page: #3a2f12; } }
* { box-sizing: border-box; }
body { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: var(--page);
  max-width: 66rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
.where { color: var(--soft); margin: .2rem 0 1.2rem; }
.warning { background: var(--warn-page); color: var(--warn); border-left: 4px solid; padding: .7rem 1rem;
  border-radius: 4px; font-weight: 600; }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.figures div { flex: 1 1 calc(25% - .8rem); background: var(--card); border: 1px solid var(--rule);
  border-radius: 8px; padding: .7rem .9rem; }
.figures dt { color: var(--soft); font-size: .8rem; }
.figures dd { margin: 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
.right { text-align: right; }
.dense td { white-space: nowrap; }
code { font: .9em ui-monospace, "SF Mono", Menlo, monospace; overflow-wrap: anywhere; }
code span { display: inline-block; max-width: 100%; }
figure { margin: 1rem 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .8rem; }
svg { width: 100%; height: auto; display: block; overflow: visible; }
svg text { fill: var(--soft); font-size: 11px; font-family: inherit; }
.grid { stroke: var(--rule); }
.curve { fill: none; stroke: var(--line); stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.band { fill: var(--band); }
figcaption { font-weight: 600; font-size: .92rem; margin-bottom: .4rem; }
@media (max-width: 60rem) { th, td { padding: .35rem .5rem; } }
@media (max-width: 40rem) { svg text { font-size: 20px; } svg .between { display: none; }
  .figures div { flex-basis: calc(50% - .8rem); } }
@media print { :root, body { font-size: 12px; } body { background: none; max-width: none; padding: 0; }
  .wide { overflow: visible; } .dense td { white-space: normal; }
  h2 { break-after: avoid; } figure, tr, .figures div { break-inside: avoid; } }
"""


def write_html(summary: Summary) -> str:
    """Return the whole page; every text from a log or a run is escaped."""
    heading = html.escape(title(summary))
    parts = [f"<h1>{heading}</h1>", f'<p class="where">{html.escape(_where(summary))}</p>']
    caution = warning(summary)
    if caution is not None:
        parts.append(f'<p class="warning" role="note">{html.escape(caution)}</p>')
    parts.append(_figures(summary))
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
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="{REPORT_OF}" content="{report_of(summary)}"><title>{heading}</title>'
        f'<meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><style>{_STYLE}</style></head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"
    )


def _where(summary: Summary) -> str:
    facts = summary.facts
    location = "/".join(part for part in (facts.zone, facts.slice) if part)
    workers = format_count(len(summary.workers), "worker") if summary.workers else ""
    parts = (location, facts.accelerator_type or "", workers, moment(facts.started))
    return one_line(" · ".join(part for part in parts if part))


def _figures(summary: Summary) -> str:
    state, snapshot = summary.facts.state, summary.snapshot
    mark = {"succeeded": "good", "failed": "bad", "lost": "bad"}.get(state or "", "")
    figures = [
        ("State", state or "", mark),
        ("Duration", format_clock(summary.seconds) if summary.seconds is not None else "", ""),
        ("Epoch", "" if snapshot.median_epoch is None else str(snapshot.median_epoch), ""),
        ("Step", "" if snapshot.median_step is None else f"{snapshot.median_step:,}", ""),
        ("Loss, median", number(summary.loss.median, 5) if summary.loss else "", ""),
        _rate_shown(snapshot),
        ("Best accuracy", f"{number(snapshot.max_accuracy)} %" if snapshot.max_accuracy is not None else "", ""),
        (f"{snapshot.noun}s".capitalize(), f"{len(summary.cores):,}" if summary.cores else "", ""),
    ]
    cards = "".join(
        f'<div><dt>{html.escape(name)}</dt><dd class="{mark}">{html.escape(one_line(value))}</dd></div>'
        for name, value, mark in figures
        if value
    )
    return f'<dl class="figures">{cards}</dl>'


def _table(table: ReportTable) -> str:
    def row(index: int, cells: Sequence[str], tag: str) -> str:
        rendered = []
        for column, cell in enumerate(cells):
            is_code = tag == "td" and (index, column) in table.code
            content = _code(cell) if is_code else html.escape(cell)
            classes = ["right"] * (column in table.right) + ["bad"] * (cell in NOT_FINITE)
            attribute = f' class="{" ".join(classes)}"' if classes else ""
            rendered.append(f"<{tag}{attribute}>{content}</{tag}>")
        return "<tr>" + "".join(rendered) + "</tr>"

    body = "\n".join(row(index, cells, "td") for index, cells in enumerate(table.rows))
    head = row(-1, table.columns, "th")
    dense = " class=dense" if table.right else ""
    return f'<div class="wide"><table{dense}><thead>{head}</thead><tbody>\n{body}\n</tbody></table></div>'


def _code(text: str) -> str:
    """Return code with each word in its own box, so that lines break between words, not at hyphens."""
    return f"<code>{' '.join(f'<span>{html.escape(word)}</span>' for word in text.split(' '))}</code>"


def _charts(summary: Summary) -> list[str]:
    points = summary.chart
    labels = [_point(point) for point in points]
    loss = _chart(
        f"Median loss over all {summary.snapshot.noun}s (band: min to max)",
        [point.loss for point in points],
        [point.loss_min for point in points],
        [point.loss_max for point in points],
        labels,
    )
    rates = [point.rate for point in points]
    over = "all cores" if summary.snapshot.rate_total is not None else "median core"
    caption = f"{rate_title(summary.snapshot.rate_unit)}, {over}"
    rate = _chart(caption, rates, rates, rates, labels, from_zero=True)
    return [chart for chart in (loss, rate) if chart]


def _rate_heading(snapshot: Snapshot) -> str:
    over = f"all {snapshot.noun}s" if snapshot.rate_total is not None else f"median {snapshot.noun}"
    return f"{rate_title(snapshot.rate_unit)}, {over}"


def _rate_shown(snapshot: Snapshot) -> tuple[str, str, str]:
    title = rate_title(snapshot.rate_unit)
    if snapshot.rate_total is not None:
        return title, number(snapshot.rate_total, 0), ""
    return f"{title}, median", number(snapshot.rate_median) if snapshot.rate_median is not None else "", ""


def _point(point: ChartPoint) -> str:
    figures = (("epoch", point.epoch), ("step", point.step))
    return ", ".join(f"{name} {value:,}" for name, value in figures if value is not None)


def _chart(
    caption: str,
    middle: Sequence[float | None],
    low: Sequence[float | None],
    high: Sequence[float | None],
    labels: Sequence[str],
    *,
    from_zero: bool = False,
) -> str:
    """Return a chart of one curve with its band; empty where fewer than two points are known.

    `labels` name the points; some of them stand below the x axis.
    """
    values = [value for column in (low, high) for value in column if value is not None] + [0.0] * from_zero
    if sum(value is not None for value in middle) < 2:
        return ""
    ticks, digits = nice_ticks(min(values), max(values))
    bottom, top = ticks[0], ticks[-1]
    scale = top - bottom
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def place(index: int, value: float) -> str:
        x = _LEFT + index * (right - _LEFT) / (len(middle) - 1)
        return f"{x:.1f},{floor - (value - bottom) / scale * (floor - _TOP):.1f}"

    def along(column: Sequence[float | None], stretch: Sequence[int]) -> list[str]:
        return [place(index, value) for index in stretch if (value := column[index]) is not None]

    stretches = _known_stretches(middle)
    bands = (" L".join(along(high, stretch) + along(low, stretch)[::-1]) for stretch in stretches)
    band = " ".join(f"M{points} Z" for points in bands)
    curve = " ".join(f"M{' L'.join(along(middle, stretch))} h0" for stretch in stretches)
    grid = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(tick, digits)}</text>'
        for tick in ticks
        for y in (floor - (tick - bottom) / scale * (floor - _TOP),)
    )
    ends = "".join(_x_labels(labels, right))
    text = html.escape(f"{caption}: {number(min(values), 5)} to {number(max(values), 5)}.")
    return (
        f'<figure><figcaption>{html.escape(caption)}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{text}">{grid}{ends}<path class="band" d="{band}"/>'
        f'<path class="curve" d="{curve}"/></svg></figure>'
    )


def _x_labels(labels: Sequence[str], right: float) -> Iterator[str]:
    """Yield the labels of the first and the last point and, on wide screens, of two in between."""
    last = len(labels) - 1
    for part in range(_X_PARTS + 1):
        index = round(part * last / _X_PARTS)
        x = _LEFT + index * (right - _LEFT) / last
        anchor = "start" if part == 0 else "end" if part == _X_PARTS else "middle"
        kind = "" if part in (0, _X_PARTS) else ' class="between"'
        yield f'<text{kind} x="{x:.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{html.escape(labels[index])}</text>'


def nice_ticks(low: float, high: float) -> tuple[list[float], int]:
    """Return ticks at multiples of 1, 2 or 5 × 10^n that enclose a range, and the decimals that they need."""
    span = (high - low) or abs(high) or 1.0
    power = math.floor(math.log10(span / _MOST_TICKS))
    step = next(size * 10.0**power for size in (1, 2, 5, 10) if size * 10.0**power * _MOST_TICKS >= span)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = max(last, first + 1)
    return [multiple * step for multiple in range(first, last + 1)], max(0, -math.floor(math.log10(step) + 1e-9))


def _known_stretches(column: Sequence[float | None]) -> list[list[int]]:
    """Return the indices of known values, one list per unbroken stretch: a gap is not bridged by a line."""
    stretches = groupby(range(len(column)), lambda index: column[index] is not None)
    return [list(stretch) for is_known, stretch in stretches if is_known]
