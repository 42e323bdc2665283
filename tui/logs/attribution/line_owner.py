"""Find the worker and the time of lines in a log of several workers: by the prefix of xla_dist or of other tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from tui.logs.attribution.cloud_logging import ExportReader
from tui.logs.attribution.host_sections import Sections
from tui.logs.attribution.launcher_prefixes import read_launcher_prefix
from tui.logs.attribution.timestamps import read_when
from tui.logs.attribution.xla_dist_prefix import read_prefix
from tui.logs.files.lines import without_escapes


class LineOwner(NamedTuple):
    """Finds the worker of each line of a log that has been read through."""

    numbers: Mapping[tuple[int | None, str | None], int]
    """The worker of each (number, address) that lines name."""
    labels: Collection[bytes] = ()
    """Hosts and tasks that stood before samples."""
    xla_dist: bool = False
    carried: bool = False
    """Whether tools other than xla_dist have put labels before lines."""
    sectioned: bool = False
    """Whether the log has one section for each host, whose header names the worker."""
    entries: Sequence[tuple[int | None, float | None]] | None = None
    """The worker and the time of each entry of an export, in the order of the export; None: the log is no export."""
    written: float | None = None
    """When the log was last written to (Unix time), which gives the year of dates without one.

    None: only xla_dist's dates are read.
    """

    @property
    def is_by_place(self) -> bool:
        """Return whether a line's worker depends on earlier lines, so that the log must be read from its start."""
        return self.sectioned or self.entries is not None

    def read(self, line: bytes) -> tuple[int | None, float | None]:
        """Return the worker of a line (None: unknown) and the date and time in the line (None: without one)."""
        prefix = read_prefix(line, xla_dist=self.xla_dist)
        if prefix is not None:
            key = (prefix.number, prefix.address)
            moment = self._when(line[prefix.length :]) if prefix.moment is None else prefix.moment
            return None if prefix.own else self.numbers.get(key, prefix.number), moment
        plain = without_escapes(line)
        moment = self._when(plain)
        launcher = read_launcher_prefix(plain, self.labels) if self.carried else None
        if launcher is None:
            return None, moment
        if moment is None:
            moment = self._when(plain[launcher.length :] if launcher.message is None else launcher.message)
        return self.numbers.get((launcher.number, launcher.address), launcher.number), moment

    def _when(self, line: bytes) -> float | None:
        return None if self.written is None else read_when(line, self.written)

    def reader(self) -> LineOwnerReader:
        """Return a reader of all lines of the log, in their order."""
        if self.entries is not None:
            return _OwnersOfEntries(self, self.entries)
        return _OwnersOfSections(self) if self.sectioned else self


class LineOwnerReader(Protocol):
    """Returns the worker and the time of each line, as `LineOwner` does."""

    def read(self, line: bytes) -> tuple[int | None, float | None]:
        """See `LineOwner.read`."""
        ...


class _OwnersOfSections:
    """Reads lines of a log in sections: where no prefix or label names a worker, the section's header does."""

    def __init__(self, owners: LineOwner) -> None:
        self._owners = owners
        self._sections = Sections()

    def read(self, line: bytes) -> tuple[int | None, float | None]:
        """Read as `LineOwner.read` does; headers belong to no worker."""
        if read_prefix(line, xla_dist=self._owners.xla_dist) is not None:
            return self._owners.read(line)
        worker, moment = self._owners.read(line)
        if worker is not None:
            return worker, moment
        is_header = self._sections.take(without_escapes(line))
        host = None if is_header else self._sections.host
        return self._owners.numbers.get((None, host)), moment


class _OwnersOfEntries:
    """Reads lines of an export: each has the worker and the time of its entry."""

    def __init__(self, owners: LineOwner, entries: Sequence[tuple[int | None, float | None]]) -> None:
        self._owners = owners
        self._entries = entries
        self._exports: ExportReader | None = None

    def read(self, line: bytes) -> tuple[int | None, float | None]:
        """Read as `LineOwner.read` does; lines between entries are read like lines of any log."""
        if self._exports is None:
            self._exports = ExportReader(line)
        belongs_to_none = any(isinstance(item, bytes) for item in self._exports.add_line(line))
        index = self._exports.started - 1
        if belongs_to_none or not 0 <= index < len(self._entries):
            return self._owners.read(line)
        return self._entries[index]
