"""What a dialect is: one shape of line, as a pattern with named groups, and what a match of it is."""

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
"""What a sample can tell. `rate` and `global_rate` in the trainer's own unit: see `Dialect.rate`."""

LONGEST = 65_536
"""Of a longer line only the last so many bytes are looked at: memory stays bounded, whatever a job prints."""

LOOSE_REACH = 2048
"""`reach` of dialects with loose middles, a user's own among them; real lines are shorter."""

SUFFIXES = {b"k": 1e3, b"K": 1e3, b"M": 1e6, b"G": 1e9, b"B": 1e9, b"T": 1e12}
"""What stands behind shortened numbers (`2.06k`)."""


class LineMatch(Protocol):
    """A match of a pattern, as of `re` and of `regex`."""

    re: Any

    def __getitem__(self, group: str, /) -> Any: ...
    def start(self) -> int: ...
    def span(self, group: str, /) -> tuple[int, int]: ...


class LinePattern(Protocol):
    """A compiled pattern, as far as dialects need it."""

    def finditer(self, text: bytes, start: int = 0, /) -> Iterable[LineMatch]:
        """Return all matches from a place on."""


class OwnPattern(LinePattern, Protocol):
    """The pattern of a profile's dialect, which matches nothing any more once it has taken too long."""

    @property
    def is_given_up(self) -> bool:
        """Whether it has taken too long."""


class Kind(enum.Enum):
    """What a matching line is."""

    SAMPLE = "sample"
    """A core's step and loss."""
    TEST = "test"
    """An evaluation row of a core: the core lives, but this is no training step."""
    EPOCH = "epoch"
    """Something about an epoch as a whole."""
    FACT = "fact"
    """Something told once about the run."""
    HEADER = "header"
    """What the lines beneath are: the names over a table, a step above its loss."""
    SECTION = "section"
    """What the lines beneath are about: training, or an evaluation."""


@dataclass(frozen=True)
class Dialect:
    """One shape of line. `hints` are byte strings of which a line must hold one to be tried at all."""

    name: str
    kind: Kind
    hints: tuple[bytes, ...]
    source: bytes
    """The pattern as a regular expression that may refer to parts of the catalogue (`(?&LOSS)`)."""
    rate: RateKind = RateKind.UNKNOWN
    """What its `rate` counts, and whose it is; unknown: the words beside the number tell it, where any do."""
    moment: str = ""
    """For epochs: `begin` (samples follow) or `end` (samples came before)."""
    ignored_loss: float | None = None
    """A loss that says there is none (torchtitan's pipeline stages print -1)."""
    reach: int = LONGEST
    """Bytes at a line's end that are searched: patterns with loose middles must not be tried on megabytes."""
    last_only: bool = False
    """Of several matches in one line only the last is the newest state (redrawn progress bars)."""
    is_bar: bool = False
    """A bar that runs to its `total` once an epoch: one that begins again without an epoch is an evaluation's."""
    is_part: bool = False
    """A line that tells a part of a sample: the dialects of one name tell step and loss together (see `Parts`)."""
    is_summary: bool = False
    """An epoch's loss, which is a sample only of those who tell no steps (see `Summaries`)."""

    is_doubtful: bool = False
    """A row that is a sample only of those who tell no other step with a loss (see `Doubtful`)."""

    is_first: bool = False
    """A loss that nothing calls training's: it is, as the first beneath the line that names its epoch."""

    hints_end: bool = False
    """Whether no word may follow its hints in a line: many lines name a step, and few end with it."""

    own_pattern: OwnPattern | None = None
    """The pattern of a profile's dialect, which may match what stands before a line's own text, too."""

    @property
    def is_own(self) -> bool:
        """Whether the dialect is a profile's, not the catalogue's."""
        return self.own_pattern is not None

    @cached_property
    def pattern(self) -> LinePattern:
        """The pattern, compiled when the first line is tried: most logs are of one dialect."""
        return self.own_pattern or re.compile(expand_parts(self.source))


def dialect_error(name: str, why: str, remedy: str = "") -> UsageError:
    """Return the error of a profile's dialect that cannot be used."""
    return UsageError(f"dialect {name!r} in the profile cannot be used", why=why, remedy=remedy)


def slow_dialect_error(dialects: Iterable[Dialect]) -> UsageError | None:
    """Return the error of the first dialect whose pattern was given up because it took too long; None without one."""
    for dialect in dialects:
        if dialect.own_pattern is not None and dialect.own_pattern.is_given_up:
            why = "its pattern could hold up everything: searching these lines takes too long"
            return dialect_error(dialect.name, why, "say how often at most: {1,30} instead of + or *")
    return None
