"""A report for programs: JSON with everything, CSV with a row per core or per point of its curve."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from tui.logs.core_row import CoreRow, json_figure, json_number
from tui.pod.run import is_rehearsal_command
from tui.reports.curves import POINT_COLUMNS
from tui.reports.layout import REPORT_OF, report_of, warning
from tui.reports.summary import Summary
from tui.runs.record.versions import PACKAGES, RUNTIME
from tui.text.printable import one_line

CURVE_COLUMNS = ("core", "device", "worker", "address", *POINT_COLUMNS)

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of text that a spreadsheet takes for a formula."""


def to_document(summary: Summary) -> dict[str, Any]:
    """Return the report as one JSON document; unknown is null, non-finite numbers are strings."""
    facts, snapshot = summary.facts, summary.snapshot
    return {
        "report_of": report_of(summary),
        "title": facts.title,
        "rehearsal": is_rehearsal_command(facts.argv),
        "warning": warning(summary),
        "run": facts.title if facts.is_run else None,
        "slice": facts.slice,
        "zone": facts.zone,
        "accelerator_type": facts.accelerator_type,
        "runtime_version": facts.runtime_version,
        "versions": {RUNTIME: facts.runtime_version, **{name: facts.versions.get(name) for name in PACKAGES}},
        "spot": facts.spot,
        "argv": list(facts.argv),
        "env": dict(facts.env),
        "code_hash": facts.code_hash,
        "state": facts.state,
        "cause": facts.cause,
        "attempt": facts.attempt,
        "restarts": [asdict(restart) for restart in facts.restarts],
        "started": facts.started,
        "ended": facts.ended,
        "seconds": summary.seconds,
        "epoch": snapshot.median_epoch,
        "step": snapshot.median_step,
        "loss": summary.loss.to_json() if summary.loss else None,
        "rate_total": json_figure(snapshot.rate_total),
        "rate_median": json_figure(snapshot.rate_median),
        "rate_unit": snapshot.rate_unit,
        "data_wait_share": json_figure(snapshot.data_wait_share),
        "max_accuracy": json_number(snapshot.max_accuracy),
        "average_global_rate": json_number(snapshot.facts.get("average_global_rate")),
        "total_train_time": snapshot.facts.get("total_train_time"),
        "rate_check": summary.rate_check.to_json() if summary.rate_check else None,
        "cores_expected": facts.cores_expected,
        "exit_codes": [worker.exit_code for worker in summary.workers],
        "stragglers": [dict(row) for row in summary.stragglers],
        "remarks": list(summary.remarks),
        "epochs": [epoch.to_json() for epoch in snapshot.epochs],
        "workers": [worker.to_json() for worker in summary.workers],
        "cores": [row.to_json() for row in summary.cores],
        "series": [{name: json_number(getattr(point, name)) for name in point.__slots__} for point in summary.chart],
        "curves": {curve.key: curve.points for curve in summary.curves},
        "lines": snapshot.lines,
        "bytes": snapshot.bytes,
        "samples": snapshot.samples,
        "dialects": dict(snapshot.dialects),
    }


def write_json(summary: Summary) -> str:
    """Return the document as text, with a core's curve on one line."""
    document = to_document(summary)
    curves = document.pop("curves")
    lines = ",\n".join(f"  {_json(key)}: {_json(points)}" for key, points in curves.items())
    head = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    return f'{head},\n "curves": {{\n{lines}\n }}\n}}\n'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_csv(summary: Summary) -> str:
    """Return a row for each core, with the names of `cores --json`; unknown is empty."""
    rows = (row.to_json() | {"first_nan": row.first_nan and str(row.first_nan)} for row in summary.cores)
    return _table(summary, CoreRow.__annotations__, rows)


def write_curves(summary: Summary) -> str:
    """Return a row for each point of each core's curve; unknown is empty."""
    return _table(summary, CURVE_COLUMNS, _points(summary))


def _points(summary: Summary) -> Iterator[dict[str, Any]]:
    for curve in summary.curves:
        core = {"core": curve.core, "device": curve.device, "worker": curve.worker, "address": curve.address}
        for values in zip(*(curve.points[name] for name in POINT_COLUMNS), strict=True):
            yield core | dict(zip(POINT_COLUMNS, values, strict=True))


def _table(summary: Summary, names: Iterable[str], rows: Iterable[dict[str, Any]]) -> str:
    """Return rows as CSV, each with the report's source; a warning is one more column."""
    caution = warning(summary)
    extra = {REPORT_OF: report_of(summary)} | ({} if caution is None else {"warning": caution})
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=(*names, *extra), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in (row | extra).items()})
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value != "-inf":
        text = one_line(value)
        return "'" + text if text.startswith(_FORMULA) else text
    return "" if value is None else value
