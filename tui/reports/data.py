"""A report for programs: JSON with everything, CSV with a row for each core."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from tui.logs.snapshot import CoreRow, json_figure, json_number
from tui.pod.run import rehearses
from tui.printable import one_line
from tui.reports.layout import warning
from tui.reports.summary import Summary

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula at the beginning of a text."""


def to_document(summary: Summary) -> dict[str, Any]:
    """The report as one JSON document; unknown is null, non-finite numbers are strings."""
    facts = summary.facts
    return {
        "title": facts.title,
        "rehearsal": rehearses(facts.argv),
        "warning": warning(summary),
        "run": facts.title if facts.is_run else None,
        "slice": facts.slice,
        "zone": facts.zone,
        "accelerator_type": facts.accelerator_type,
        "runtime_version": facts.runtime_version,
        "argv": list(facts.argv),
        "env": dict(facts.env),
        "code_hash": facts.code_hash,
        "state": facts.state,
        "cause": facts.cause,
        "attempt": facts.attempt,
        "started": facts.started,
        "ended": facts.ended,
        "seconds": summary.seconds,
        "epoch": summary.epoch,
        "step": summary.step,
        "loss": summary.loss.to_json() if summary.loss else None,
        "rate_total": json_figure(summary.rate_total),
        "max_accuracy": json_number(summary.max_accuracy),
        "average_global_rate": json_number(summary.average_global_rate),
        "total_train_time": summary.total_train_time,
        "rate_check": summary.rate_check.to_json() if summary.rate_check else None,
        "exit_codes": [worker.exit_code for worker in summary.workers],
        "stragglers": [dict(row) for row in summary.stragglers],
        "remarks": list(summary.remarks),
        "epochs": [epoch.to_json() for epoch in summary.epochs],
        "workers": [worker.to_json() for worker in summary.workers],
        "cores": [row.to_json() for row in summary.cores],
        "series": [{name: json_number(getattr(point, name)) for name in point.__slots__} for point in summary.chart],
        "lines": summary.lines,
        "bytes": summary.bytes,
        "samples": summary.samples,
        "dialects": dict(summary.dialects),
    }


def write_json(summary: Summary) -> str:
    """The document as text."""
    return json.dumps(to_document(summary), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_csv(summary: Summary) -> str:
    """One row for each core, with the names of `cores --json`; unknown is empty. A warning is one more column."""
    out = io.StringIO()
    told = warning(summary)
    warned = {} if told is None else {"warning": told}
    writer = csv.DictWriter(out, fieldnames=(*CoreRow.__slots__, *warned), lineterminator="\n")
    writer.writeheader()
    for row in summary.cores:
        writer.writerow({name: _cell(value) for name, value in (row.to_json() | warned).items()})
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value not in ("-inf",):
        text = one_line(value)
        return "'" + text if text.startswith(_FORMULA) else text
    return "" if value is None else value
