"""What a dialect is: one shape of line, as a pattern with named groups, and what a match of it is."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cached_property

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

    is_own: bool = False
    """A user's: it may look at what stands before a line's own text, too."""

    is_digit_blind: bool = True
    """Whether the pattern takes every digit for any other, so that lines that differ in digits only match alike."""

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The pattern, compiled when the first line is tried: most logs speak one dialect."""
        return re.compile(expand_parts(self.source))
