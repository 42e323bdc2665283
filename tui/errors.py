"""The one exception tree: what could not be done, on which worker, why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar


class TpuTuiError(Exception):
    """Something a person asked for could not be done.

    `what` says what could not be done, `worker` on which worker (index or name), `why` the cause as far as it
    is known, `remedy` the next step. Raised where it is known; shown in one place by each front end.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, worker: int | str | None = None, why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.worker = worker
        self.why = why
        self.remedy = remedy

    @property
    def sentence(self) -> str:
        """What and why on one line, the worker named first."""
        where = "" if self.worker is None else f"worker {self.worker}: "
        return f"{where}{self.what}" + (f": {self.why}" if self.why else "")

    def __str__(self) -> str:
        return self.sentence + (f"\n  → {self.remedy}" if self.remedy else "")

    def to_json(self) -> dict[str, Any]:
        """The error as the `--json` outputs carry it."""
        return {"error": self.what, "worker": self.worker, "why": self.why, "remedy": self.remedy}


class UsageError(TpuTuiError):
    """Wrong arguments, no such run, slice or file, or refused by `--read-only`."""

    exit_code = 2


class OutOfReachError(TpuTuiError):
    """The cloud or a worker could not be reached, or did not let us in."""

    exit_code = 3


class CloudError(OutOfReachError):
    """The Cloud TPU, Compute Engine or Cloud Storage API refused or did not answer."""


class WorkerError(OutOfReachError):
    """One worker could not be reached over SSH, or broke off."""


class LaunchError(TpuTuiError):
    """A gang launch started nothing, or was rolled back; `worker` is the one it failed on."""


def near_matches(name: str, names: Iterable[str], most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Up to so many of `names` that look like `name`, the likest first: for a remedy that says "did you mean"."""
    import difflib

    return difflib.get_close_matches(name, sorted(set(names)), n=most, cutoff=cutoff)
