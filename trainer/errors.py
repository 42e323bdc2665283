"""What can go wrong in training, as sentences: what could not be done, why, and what to do next."""

from __future__ import annotations

# Exit codes of a rank and of the process that started it. 1 is a crash; 128 + n a signal, as shells count.
REFUSED = 2  # a sentence was printed: wrong arguments, no data, no accelerator, no memory
BELOW_TARGET = 21  # trained to the end, but not to --target-accuracy
PARTNER_LOST = 75  # another rank ended; this one is not the culprit (sysexits.h: try again)
STOPPED = 143  # SIGTERM was obeyed


class TrainerError(Exception):
    """Training cannot start or go on; `what` could not be done, `why`, and `remedy`, the next step."""

    def __init__(self, what: str, *, why: str = "", remedy: str = "") -> None:
        super().__init__(what, why, remedy)
        self.what = what
        self.why = why
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.why, self.remedy)

    def __str__(self) -> str:
        """One line, so that it stays whole in a log that several processes share."""
        sentence = f"{self.what}: {self.why.rstrip('. ')}" if self.why else self.what
        return f"{sentence}. {self.remedy}." if self.remedy else f"{sentence}."


class ConfigError(TrainerError):
    """The arguments or the environment of a run contradict themselves or the machine."""


class PartnerLostError(TrainerError):
    """Another rank ended or froze, so that a collective could not complete."""


class PartnersMissingError(PartnerLostError):
    """Rank 0 waited in vain for some ranks to come, and has said so; the others just end."""


class ToldElsewhereError(TrainerError):
    """Rank 0 has failed at something all ranks depend on, and has said so; the others just end."""


class StoppedError(TrainerError):
    """SIGTERM arrived before the first training step."""


def _rebuild(kind: type[TrainerError], what: str, why: str, remedy: str) -> TrainerError:
    return kind(what, why=why, remedy=remedy)
