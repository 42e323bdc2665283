"""One row of a check's result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tui.errors import TpuTuiError

SEVERITY = {"fail": 0, "unknown": 1, "warn": 2, "pass": 3}
"""Sort order of rows by status."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """The finding of one check. `status` is pass, warn, fail or unknown; unknown is not a success."""

    check: str
    """`slice health symptom runtime`; `tcp handshake host_key reachability` (login); `disk memory load chips device
    lockfile runs worker`; `versions code clock` (comparisons of workers); `ports`; `firewall`;
    `region data` (buckets and their objects)."""
    worker: int | None
    """The worker; None for the slice."""
    peer: int | None
    """The worker at the other end, where there is one."""
    port: int | None
    status: str
    state: str | None
    """State of a port, in nmap's terms: open, closed or filtered; None if unknown."""
    detail: str
    remedy: str | None = None

    @property
    def prevents_launch(self) -> bool:
        """Return whether the finding prevents a launch; warnings and unknown findings do not."""
        return self.status == "fail"

    def to_json(self) -> dict[str, Any]:
        """Return the row for `check --json`; its names are stable."""
        return asdict(self)


Report = Callable[[CheckRow], None]
"""Called with each row of a check."""


def make_row(
    check: str, status: str, detail: str, remedy: str | None = None, *, worker: int | None = None
) -> CheckRow:
    """Return a row about the slice, or about one worker; for rows about a port see `CheckRow`."""
    return CheckRow(check, worker, None, None, status, None, detail, remedy)


def error_row(check: str, status: str, error: TpuTuiError, *, worker: int | None = None) -> CheckRow:
    """Return the row for an error: what and why, and its remedy."""
    return make_row(check, status, error.explanation, error.remedy or None, worker=worker)
