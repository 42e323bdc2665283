"""Make runs from one set of fields, of the run or of its job."""

from __future__ import annotations

from collections.abc import Sequence

from tui.pod.job_options import OPTIONS, JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker


def make_run(run_id: str, slice_: str, argv: Sequence[str], workers: Sequence[Worker], **values: object) -> Run:
    """Return a run; `values` are fields of the run or of its job."""
    job = {name: values.pop(name) for name in OPTIONS if name in values}
    return Run(run_id, slice_, JobOptions(tuple(argv), **job), tuple(workers), **values)  # type: ignore[arg-type]
