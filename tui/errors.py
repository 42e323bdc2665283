"""The exception tree: what could not be done, on which worker, why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar


class TpuTuiError(Exception):
    """Something that the user requested could not be done.

    `what` names it, `worker` is the worker concerned (index or name), `why` the cause where it is known, and `remedy`
    the next step. Errors are raised where their cause is known; each front end shows them in one place.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, worker: int | str | None = None, why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.worker = worker
        self.why = why
        self.remedy = remedy

    @property
    def explanation(self) -> str:
        """What and why on one line, without the worker."""
        return f"{self.what}: {self.why}" if self.why else self.what

    @property
    def sentence(self) -> str:
        """What and why on one line, with the worker before them."""
        return self.explanation if self.worker is None else f"worker {self.worker}: {self.explanation}"

    def __str__(self) -> str:
        return self.sentence + (f"\n  → {self.remedy}" if self.remedy else "")

    def to_json(self) -> dict[str, Any]:
        """Return the error as `--json` outputs contain it."""
        return {"error": self.what, "worker": self.worker, "why": self.why, "remedy": self.remedy}


class UsageError(TpuTuiError):
    """Wrong arguments, no such run, slice or file, or refused by `--read-only`."""

    exit_code = 2


class NoSuchResourceError(UsageError):
    """The resource that a request names does not exist."""


class UnknownZone(UsageError):
    """A zone does not exist, or this login cannot use it."""


class OutOfReachError(TpuTuiError):
    """The cloud or a worker could not be reached, or refused the login."""

    exit_code = 3


class CloudError(OutOfReachError):
    """The Cloud TPU, Compute Engine or Cloud Storage API refused or did not answer."""


class WorkerError(OutOfReachError):
    """One worker could not be reached over SSH, or its connection broke."""


class LaunchError(TpuTuiError):
    """A gang launch started nothing, or was rolled back; `worker` is the worker on which it failed."""


def near_matches(name: str, names: Iterable[str], most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return up to `most` of `names` that are similar to `name`, the most similar first, for "did you mean"."""
    import difflib

    return difflib.get_close_matches(name, sorted(set(names)), n=most, cutoff=cutoff)


def did_you_mean(near: Sequence[str]) -> str:
    """Return the question with one or more names: `did you mean a, b or c?`."""
    others = ", ".join(near[:-1])
    return f"did you mean {others} or {near[-1]}?" if others else f"did you mean {near[0]}?"
