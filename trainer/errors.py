"""The errors of the trainer as sentences: what could not be done, why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable

# Exit codes of a rank and of the process that started it. 1 is a crash; 128 + n a signal, as shells count.
REFUSED = 2  # after printing why: wrong arguments, no data, no accelerator, no memory
BELOW_TARGET = 21  # trained to the end, but not to --target-accuracy
PARTNER_LOST = 75  # this rank ended because another one did (EX_TEMPFAIL of sysexits.h: try again)
INTERRUPTED = 130  # Ctrl-C, while shards are made or measured
STOPPED = 143  # ended on SIGTERM or SIGHUP, or because the log has no reader


class TrainerError(Exception):
    """Training cannot start or continue: `what` could not be done, `why`, and `remedy`, the next step."""

    def __init__(self, what: str, why: str = "", remedy: str = "") -> None:
        super().__init__(what, why, remedy)
        self.what = what
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        """Return one line, which stays whole in a log that several processes share."""
        sentence = f"{self.what}: {self.why.rstrip('. ')}" if self.why else self.what
        return f"{sentence}. {self.remedy}." if self.remedy else f"{sentence}."

    def without_remedy(self) -> str:
        """Return `what` and `why` only, for a caller that has already applied the remedy."""
        return str(TrainerError(self.what, why=self.why))


class ConfigError(TrainerError):
    """The arguments or the environment of a run contradict each other or the machine."""


class PartnerLostError(TrainerError):
    """Another rank ended or froze, so that a collective could not complete."""


class PartnersMissingError(PartnerLostError):
    """Some ranks did not come or cannot come; one rank has reported it, the others just end."""


class ReportedElsewhereError(TrainerError):
    """Something that all ranks depend on failed; one rank has reported it, the others just end."""


class StoppedError(TrainerError):
    """The run ended on SIGTERM; if training had begun, its state is saved."""


def check_schema(what: str, schema: object, known: int, remedy: str) -> None:
    """Raise TrainerError for a schema later than the `known` one, ValueError for any other."""
    if schema == known:
        return
    why = f"it has schema {schema}, this trainer reads {known}"
    if isinstance(schema, int) and schema > known:
        raise _newer(what, why, remedy)
    raise ValueError(why)


def check_fields(what: str, found: Iterable[str], known: Iterable[str], remedy: str) -> None:
    """Raise TrainerError where `found` has fields that this trainer does not know and would ignore."""
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise _newer(what, f"this trainer does not know its {', '.join(unknown)}", remedy)


def _newer(what: str, why: str, remedy: str) -> TrainerError:
    """Return the error of a file that a newer trainer wrote, which must not count as damaged (a ValueError)."""
    return TrainerError(
        f"{what} was written by a newer trainer", why=why, remedy=f"Update the trainer here, or {remedy}"
    )
