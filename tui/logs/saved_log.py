"""Read saved logs of any size, also packed ones, in blocks and in memory that does not grow with the file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tui.errors import OutOfReachError, UsageError
from tui.logs.attribution.cloud_logging import ExportReader, check_yaml
from tui.logs.attribution.host_sections import Sections
from tui.logs.attribution.launcher_prefixes import read_launcher_prefix
from tui.logs.attribution.line_owner import LineOwner
from tui.logs.attribution.xla_dist_prefix import NUMBERED_SAMPLE, PREFIX
from tui.logs.files.compressed_files import BLOCK_BYTES, Packing, explain_errors, head_of, regular, unpack
from tui.logs.files.line_filter import Choice, Picked, Picker, forwards, last, last_in_file, pick
from tui.logs.files.lines import LogLine, without_escapes
from tui.logs.files.summary_cache import LogSummary, SummaryCache, sort_rows

if TYPE_CHECKING:
    from tui.logs.demux import Demux
    from tui.logs.dialects.dialect import Dialect
    from tui.logs.snapshot import Snapshot


class SavedLine(LogLine):
    """A line of a saved log; `offset` is that of the unpacked bytes, `time` is the log's own."""

    is_wall_time = False


class SavedLog:
    """A log file that one or more workers wrote into, such as xla_dist's output kept with `tee`."""

    def __init__(
        self,
        path: Path,
        *,
        name: str,
        packing: Packing | None,
        xla_dist: bool,
        names_workers: bool,
        export: bool,
        dialects: Sequence[Dialect],
        thresholds: Mapping[str, float],
        copy: IO[bytes] | None,
    ) -> None:
        self.path = path
        self.name = name
        """Its name in messages: its path, or where it was copied from."""
        self.packing = packing
        self.xla_dist = xla_dist
        """Whether xla_dist's prefix was found at the beginning of the file."""
        self.thresholds = thresholds
        """The profile's `[thresholds]`."""
        self.problem: UsageError | None = None
        """Why a part of the file could not be read so far: its end, or the lines of a dialect."""
        self.staleness_error: OutOfReachError | None = None
        """Why this copy of a remote log may not be the newest."""
        self._names_workers = names_workers
        """Whether lines, headers or entries seem to name workers."""
        self._is_export = export
        """Whether the log begins as an export of Cloud Logging does."""
        self._own_dialects = tuple(dialects)
        self._copy = copy

    @property
    def is_compressed(self) -> bool:
        """Return whether the file is packed."""
        return self.packing is not None

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """Return the profile's dialects, then the built-in ones."""
        from tui.logs.dialects.registry import BUILT_IN

        return (*self._own_dialects, *BUILT_IN)

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Yield the unpacked bytes of the file in blocks. Raises UsageError at its end if not all can be read."""
        with explain_errors(self.path), self.path.open("rb", buffering=0) as file:
            if self.packing is not None:
                yield from unpack(file, self.packing, size, self.name)
                return
            while data := file.read(size):
                yield data

    def demux(self, *, history: bool = True, steps: bool = False) -> Demux:
        """Return a demultiplexer that has read the file, or as much of it as is readable (see `problem`)."""
        from tui.logs.demux import Demux

        demux = Demux(
            dialects=self.dialects, thresholds=self.thresholds, xla_dist=self.xla_dist, history=history, steps=steps
        )
        try:
            for block in self._buffered_blocks() if self.packing is None else self.blocks():
                demux.feed(None, block)
        except UsageError as error:
            self.problem = error
            if not demux.state.bytes:
                raise
        demux.finish()
        self.problem = self.problem or demux.dialect_error
        return demux

    def _buffered_blocks(self) -> Iterator[bytearray]:
        """Yield the blocks of a plain file, each in the memory of the one before.

        Allocating memory for each would cost as much as reading the block.
        """
        buffer = bytearray(BLOCK_BYTES)
        with explain_errors(self.path), self.path.open("rb", buffering=0) as file:
            while size := file.readinto(buffer):
                if size < len(buffer):
                    del buffer[size:]
                yield buffer
                if size < BLOCK_BYTES:
                    buffer = bytearray(BLOCK_BYTES)

    def snapshot(self, *, steps: bool = False) -> Snapshot:
        """Return the newest state of every core in the file."""
        return self.demux(steps=steps).snapshot()

    def core_rows(
        self, *, by: str = "core", reverse: bool = False, cache: Path | None = None
    ) -> list[dict[str, Any]]:
        """Return a row for every core as `cores --json` prints it, sorted as `Snapshot.sorted` does.

        With a directory as `cache`, the summary of the log is kept there until the log changes.
        """
        return sort_rows(self._summary(cache).rows, by, reverse)

    def workers(self, cache: Path | None = None) -> list[int]:
        """Return the workers that the log's lines name, ascending."""
        owners = self._owners(cache)
        entries = (worker for worker, _ in owners.entries or () if worker is not None)
        return sorted({*owners.numbers.values(), *entries})

    def worker_at(self, address: str, cache: Path | None = None) -> int | None:
        """Return the worker whose lines carry this address or host name; None for an unknown one."""
        numbers = self._owners(cache).numbers
        return next((worker for (_, named), worker in numbers.items() if named == address), None)

    def _summary(self, cache: Path | None) -> LogSummary:
        """Return the summary of the log, from the cache or by reading the log through."""
        reading = [f"{dialect.name} {dialect.source!r} {dialect.hints}" for dialect in self._own_dialects]
        reading += (f"{name}={value}" for name, value in sorted(self.thresholds.items()))
        cached = None if cache is None else SummaryCache(cache).load(self.path, reading)
        if cached is not None:
            return cached
        with explain_errors(self.path):
            before = self.path.stat()
        demux = self.demux(history=False)
        rows = [row.to_json() for row in demux.snapshot().rows()]
        summary = LogSummary(rows, demux.line_owner(xla_dist=self.xla_dist))
        if cache is not None and self._copy is None and self.problem is None:
            SummaryCache(cache).save(self.path, before, summary, reading)
        return summary

    def lines(
        self,
        *,
        worker: int | None = None,
        core: int | None = None,
        since: float | None = None,
        tail: int | None = None,
        cache: Path | None = None,
    ) -> Iterable[SavedLine]:
        """Return lines in order: all, those of a worker, of a core or since a time; with `tail` only the last ones.

        Lines without a prefix, such as redrawn progress, belong to no worker: `worker` leaves them out.
        """
        picked = self.picked(Choice(worker, core, since), tail=tail, cache=cache, numbered=True)
        return (SavedLine(line.worker, line.offset, line.time, line.data.removesuffix(b"\n")) for line in picked)

    def picked(
        self, choice: Choice, *, tail: int | None = None, cache: Path | None = None, numbered: bool = False
    ) -> Iterator[Picked]:
        """Yield the wanted lines in order, byte for byte, with their ends; for `tail`, read the file from its end.

        The lines have their worker if that is needed to choose them, or with `numbered`.
        """
        numbered |= choice.worker is not None or (choice.since is not None and self._is_export)
        written = self._written if numbered or choice.since is not None else None
        owners = self._owners(cache) if numbered else LineOwner({}, xla_dist=self.xla_dist, written=written)
        if tail is None or self.packing is not None or owners.is_by_place or choice.since is not None:
            lines = pick(forwards(self.blocks()), Picker(owners, choice))
            yield from lines if tail is None else last(lines, tail)
            return
        with explain_errors(self.path), self.path.open("rb", buffering=0) as file:
            yield from last_in_file(file, Picker(owners, choice), tail)[1]

    def _owners(self, cache: Path | None) -> LineOwner:
        """Return the finder of each line's worker, which needs the whole log if lines name workers."""
        if not self._names_workers:
            return LineOwner({}, written=self._written)
        return self._summary(cache).owners._replace(written=self._written)

    @property
    def _written(self) -> float:
        """Return when the file was last written to, not later than now (another machine's clock may be ahead)."""
        with explain_errors(self.path):
            return min(self.path.stat().st_mtime, time.time())


def open_log(
    path: Path | str,
    *,
    dialects: Sequence[Dialect] = (),
    thresholds: Mapping[str, float] | None = None,
    name: str = "",
    copy: IO[bytes] | None = None,
) -> SavedLog:
    """Open a saved log, to be read with a profile's dialects and thresholds. The bytes of a pipe are copied first.

    `name` replaces the path in messages. `copy` is the temporary file at `path`, which exists until it is closed.
    Raises UsageError for a directory or a device, and for a file that is empty, binary, unreadable or missing.
    """
    name = name or str(path)
    path, piped = regular(Path(path))
    head, packing = head_of(path, name)
    check_yaml(name, head)
    first = head.splitlines()[0]
    lines = without_escapes(head).split(b"\n")
    is_carried = any(not PREFIX.match(line) and read_launcher_prefix(line) is not None for line in lines)
    is_xla_dist, is_export = _is_xla_dist(head), ExportReader.is_export_start(first)
    return SavedLog(
        path,
        name=name,
        packing=packing,
        xla_dist=is_xla_dist,
        names_workers=is_xla_dist or is_carried or is_export or Sections.begin_with(first),
        export=is_export,
        dialects=dialects,
        thresholds=thresholds or {},
        copy=copy or piped,
    )


def _is_xla_dist(head: bytes) -> bool:
    """Return whether any line of the file's beginning has xla_dist's prefix."""
    for line in head.split(b"\n"):
        match = PREFIX.match(line)
        if (match is not None and (match["own"] is None or match["moment"])) or NUMBERED_SAMPLE.match(line):
            return True
    return False
