"""Dialects: shapes of lines as patterns with named groups, and what their matches mean."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from tui.errors import UsageError
from tui.logs.dialects.catalogue_files import expand_parts
from tui.logs.state.rate_kinds import RateKind

COLUMNS = ("core", "device", "epoch", "step", "loss", "rate", "global_rate", "clock", "worker")
"""The values of a sample. `Dialect.rate` gives the unit of `rate` and `global_rate`."""

LONGEST_BYTES = 65_536
"""Bytes that are searched at the end of a longer line, so that memory stays bounded whatever a job prints."""

LOOSE_REACH = 2048
"""`reach` of a profile's dialects and of those whose patterns can skip text; real lines are shorter."""

SUFFIXES = {b"k": 1e3, b"K": 1e3, b"M": 1e6, b"G": 1e9, b"B": 1e9, b"T": 1e12}
"""Suffixes of shortened numbers (`2.06k`)."""


class LineMatch(Protocol):
    """A match of a pattern, as `re` and `regex` return it."""

    @property
    def re(self) -> Any:
        """Return the compiled pattern."""

    def __getitem__(self, group: str, /) -> Any:
        """Return the text of a group; None if the group did not match."""

    def start(self) -> int:
        """Return where the match begins."""

    def span(self, group: str, /) -> tuple[int, int]:
        """Return where a group begins and ends."""


class LinePattern(Protocol):
    """The part of a compiled pattern's interface that dialects need."""

    def finditer(self, text: bytes, start: int = 0, /) -> Iterable[LineMatch]:
        """Return all matches from a position on."""


class OwnPattern(LinePattern, Protocol):
    """The pattern of a profile's dialect, which matches nothing once it has taken too long."""

    @property
    def is_given_up(self) -> bool:
        """Return whether it has taken too long."""


class Kind(enum.Enum):
    """What a matching line is."""

    SAMPLE = "sample"
    """A core's step and loss."""
    TEST = "test"
    """A core's row of an evaluation: a sign of life, but no training step."""
    EPOCH = "epoch"
    """A line about a whole epoch."""
    FACT = "fact"
    """A fact about the run that is printed once."""
    HEADER = "header"
    """A header of the lines below: the names over a table, or a step above its loss."""
    SECTION = "section"
    """A heading that says whether the lines below are training's or an evaluation's."""


class Role(enum.Enum):
    """What decides whether a match of a sample dialect is a training sample."""

    SAMPLE = "sample"
    """The line itself: every match is a sample."""
    BAR = "bar"
    """A bar that runs to its `total` once an epoch: one that begins again without a new epoch is an evaluation's."""
    ABOVE_BAR = "above_bar"
    """A sample whose step a bar right below may show (see `StepBars`)."""
    PART = "part"
    """A part of a sample: dialects with the same name match its step and its loss on different lines."""
    PACE = "pace"
    """The rate of the sample above, on a line of its own."""
    DOUBTFUL = "doubtful"
    """A row that is a sample only if the worker prints no other step with a loss."""
    EPOCH_SUMMARY = "epoch_summary"
    """The loss of an epoch, which is a sample only if the worker prints no steps."""
    LOSS_OF_EPOCH = "loss_of_epoch"
    """An epoch's loss as in `EPOCH_SUMMARY`, below the line that names the epoch."""
    FIRST_LOSS_OF_EPOCH = "first_loss_of_epoch"
    """A loss that is not marked as training's, but is the first below the line that names its epoch."""

    @property
    def has_epoch_above(self) -> bool:
        """Return whether a line above names the epoch."""
        return self in _WITH_EPOCH_ABOVE

    @property
    def is_summary(self) -> bool:
        """Return whether the match is the loss of a whole epoch."""
        return self in _SUMMARIES


_SUMMARIES = (Role.EPOCH_SUMMARY, Role.LOSS_OF_EPOCH, Role.FIRST_LOSS_OF_EPOCH)
_WITH_EPOCH_ABOVE = (Role.BAR, Role.LOSS_OF_EPOCH, Role.FIRST_LOSS_OF_EPOCH)


@dataclass(frozen=True)
class Dialect:
    """One shape of line. Only lines that contain one of the `hints` are tried; all lines if there are none."""

    name: str
    kind: Kind
    hints: tuple[bytes, ...]
    source: bytes
    """The pattern as a regular expression that may refer to parts of the catalogue (`(?&LOSS)`)."""
    rate: RateKind = RateKind.UNKNOWN
    """What `rate` counts, for one core or all; if unknown, the words beside the number decide."""
    moment: str = ""
    """For epochs: `begin` (samples of all cores follow), `end` (they came before), `above` (steps below it) or none
    (only the epoch's loss follows)."""
    ignored_loss: float | None = None
    """A printed loss that stands for none (torchtitan's pipeline stages print -1)."""
    reach: int = LONGEST_BYTES
    """Bytes that are searched at the end of a line: patterns that can skip text must not be tried on megabytes."""
    last_only: bool = False
    """Whether only the last of several matches in a line counts (redrawn progress bars)."""
    role: Role = Role.SAMPLE
    """What decides whether a match is a training sample (see `TrainingStage`)."""
    hints_end: bool = False
    """Whether no word may follow the hint in a line: many lines name a step, but few end with it."""
    grammar: str = ""
    """Instead of a pattern, the role of the matching lines of names and values (see `LineReading.role`)."""
    own_pattern: OwnPattern | None = None
    """The pattern of a profile's dialect, which may also match the prefix of a line."""

    @property
    def is_own(self) -> bool:
        """Return whether the dialect is a profile's, not the catalogue's."""
        return self.own_pattern is not None

    @cached_property
    def pattern(self) -> LinePattern:
        """Return the pattern, compiled for the first line that is tried: most logs have one dialect."""
        if self.grammar:
            from tui.logs.dialects.grammar.names_and_values import NamesAndValues

            return NamesAndValues(self.grammar)
        return self.own_pattern or re.compile(expand_parts(self.source))


def dialect_error(name: str, why: str, remedy: str = "") -> UsageError:
    """Return the error of a profile's dialect that cannot be used."""
    return UsageError(f"dialect {name!r} in the profile cannot be used", why=why, remedy=remedy)


def slow_dialect_error(dialects: Iterable[Dialect]) -> UsageError | None:
    """Return the error of the first dialect whose pattern was given up because it took too long; None if none was."""
    for dialect in dialects:
        if dialect.own_pattern is not None and dialect.own_pattern.is_given_up:
            why = "its pattern could hold up everything: searching these lines takes too long"
            return dialect_error(dialect.name, why, "say how often at most: {1,30} instead of + or *")
    return None
