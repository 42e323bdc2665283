"""Fetch files from many workers: list them, decide where they go, copy what is not here yet.

Every file is compared by SHA-256. After a broken connection, and in the next fetch, a file continues where it ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tui.aio.backoff import backoff
from tui.aio.fan_out import for_each_worker
from tui.errors import TpuTuiError, UsageError, WorkerError
from tui.ssh.errors import SshError, quote_remote
from tui.ssh.exec.script_protocol import Answer
from tui.ssh.fetch.destination import Destination, IncompleteFile, LocalFileError
from tui.ssh.fetch.fetch_stream import FetchStream, StreamBrokenError
from tui.ssh.fetch.remote_path import Place, RemoteFile, RemotePattern, place_files
from tui.text.printable import one_line

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

_Result = TypeVar("_Result")
MAX_FILES = 1_000_000
"""Most entries in one worker's list, repeated and omitted files included; it bounds memory."""
MAX_NAMES_BYTES = 128 * 1024 * 1024
"""Most bytes of the names in one worker's list."""
_ATTEMPTS = 5
"""Broken connections in a row, without a byte in between, after which the fetch from a worker fails."""
_TRIES_PER_FILE = 3
"""Attempts to copy a file that changes while it is read."""
_REQUESTS_AHEAD = 32
_NAMED_AT_MOST = 3
_SIZE_DIGITS = 18

OnReceived = Callable[[int, int, int], None]
"""Called with a worker's index, the bytes that have arrived or were here already, and the total bytes."""


@dataclass(frozen=True)
class FetchedFile:
    """A file of a worker that is at `path` now; `skipped` if it was already there."""

    worker: int
    path: str
    bytes: int
    hash: str
    skipped: bool


@dataclass
class _Listing:
    files: dict[bytes, RemoteFile] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """The first names of each kind that is not sent."""
    counts: Counter[str] = field(default_factory=Counter)
    """Names of each kind that is not sent."""
    records: int = 0
    bytes: int = 0

    def add_record(self, size: int) -> None:
        """Count one entry of the list with the bytes of its name. Raises ValueError for too many of either."""
        self.records, self.bytes = self.records + 1, self.bytes + size
        if self.records > MAX_FILES or self.bytes > MAX_NAMES_BYTES:
            raise ValueError("too many files")

    def leave_out(self, text: str) -> None:
        kind, _, name = text.partition(" ")
        self.counts[kind] += 1
        names = self.left_out.setdefault(kind, [])
        if len(names) < _NAMED_AT_MOST:
            names.append(quote_remote(name))


async def fetch_files(
    fleet: Fleet,
    indices: Iterable[int],
    remotes: Sequence[str],
    directory: Path,
    on_received: OnReceived | None = None,
) -> AsyncGenerator[FetchedFile | TpuTuiError, None]:
    """Copy files, directories or globs of workers into a directory; yield each file or error as it becomes known.

    Raises UsageError for a remote name or a directory that cannot be used, and for names that no worker has.
    """
    patterns = [RemotePattern(text) for text in remotes]
    with Destination(directory) as destination:
        listings: dict[int, _Listing] = {}
        async for index, listing in for_each_worker(indices, lambda index: _list(fleet, index, patterns)):
            if isinstance(listing, TpuTuiError):
                yield listing
            else:
                listings[index] = listing
                for problem in _left_out_errors(index, listing):
                    yield problem
        places = place_files({index: [*listing.files.values()] for index, listing in sorted(listings.items())})

        async def copy(index: int) -> list[FetchedFile | TpuTuiError]:
            return await _WorkerCopy(fleet, index, listings[index], destination, places, on_received).run()

        async for _, rows in for_each_worker([index for index in listings if listings[index].files], copy):
            for row in [rows] if isinstance(rows, TpuTuiError) else rows:
                yield row
    missing = [
        text for text in dict.fromkeys(remotes) if not any(text in listing.found for listing in listings.values())
    ]
    if missing and listings:
        names = ", ".join(map(one_line, missing))
        yield UsageError(f"no worker has {names}", remedy="names are relative to the worker's home; quote globs")


def _left_out_errors(index: int, listing: _Listing) -> list[TpuTuiError]:
    problems: list[TpuTuiError] = []
    for kind, why in (("unreadable", "permission denied"), ("special", "not a file, or a link to a directory")):
        names = listing.left_out.get(kind)
        if names:
            more = listing.counts[kind] - len(names)
            listed = ", ".join(names) + (f" and {more} more" if more > 0 else "")
            problems.append(TpuTuiError(f"not fetched: {listed}", worker=index, why=why))
    return problems


async def _list(fleet: Fleet, index: int, patterns: Sequence[RemotePattern]) -> _Listing:
    """Return the files of one worker that match the patterns. Raises WorkerError."""

    async def read() -> _Listing:
        async with FetchStream(fleet, index, "list") as stream:
            try:
                return await _read_listing(stream, index, patterns)
            except ValueError as error:
                raise WorkerError("its list of files is refused", worker=index, why=str(error)) from None

    return await _Reconnecting(index).run(read)


async def _read_listing(stream: FetchStream, index: int, patterns: Sequence[RemotePattern]) -> _Listing:
    listing = _Listing()
    for pattern in patterns:
        stream.request(name=pattern.sent)
    for pattern in patterns:
        _expect(await stream.answer(), index, "here")
        async for record in stream.records():
            listing.add_record(len(record))
            size, _, source = record.partition(b"\t")
            file = pattern.match(source, int(size)) if size.isdigit() and len(size) <= _SIZE_DIGITS else None
            if file is None:
                raise ValueError(f"it lists {quote_remote(source)} for {pattern.text}")
            listing.files.setdefault(source, file)
            listing.found.add(pattern.text)
        while (answer := await stream.answer()).word == "left":
            listing.add_record(len(answer.text))
            listing.leave_out(answer.text)
            listing.found.add(pattern.text)
        _expect(answer, index, "listed")
    return listing


def _expect(answer: Answer, index: int, *words: str) -> Answer:
    if answer.word not in words:
        why = f"it answers: {quote_remote(f'{answer.word} {answer.text}')}"
        raise WorkerError("the files did not arrive", worker=index, why=why)
    return answer


class _Reconnecting:
    """Repeats work on one worker after broken connections, until several in a row make no progress."""

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._failures = 0
        self._waits = backoff()
        self._has_begun = False

    def progressed(self) -> None:
        self._failures = 0

    async def run(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Return what the work returns. Raises WorkerError when the connection stays broken."""
        while True:
            try:
                return await work()
            except StreamBrokenError as broken:
                why = str(broken)
            except SshError as error:
                if not self._has_begun:
                    raise
                why = error.why or error.what
            if not self._failures:
                self._waits = backoff()
            self._has_begun = True
            self._failures += 1
            if self._failures >= _ATTEMPTS:
                remedy = "check the network to that worker, and fetch again: it continues where it ended"
                raise WorkerError("the files did not arrive", worker=self._worker, why=why, remedy=remedy)
            await asyncio.sleep(next(self._waits))


@dataclass
class _Request:
    """A request for a file, of which `have` bytes with this SHA-256 are here, at its place or incomplete."""

    file: RemoteFile
    place: Place
    have: int = 0
    digest: str = ""
    incomplete: IncompleteFile | None = None


@dataclass
class _WorkerCopy:
    """Copies the files of one worker, in order, over one stream at a time."""

    fleet: Fleet
    index: int
    listing: _Listing
    destination: Destination
    places: Mapping[tuple[int, bytes], Place]
    on_received: OnReceived | None

    def __post_init__(self) -> None:
        self._pending = deque(self.listing.files.values())
        self._total = sum(file.size for file in self._pending)
        self._done = 0
        self._tries: Counter[bytes] = Counter()
        self._rows: list[FetchedFile | TpuTuiError] = []
        self._reconnecting = _Reconnecting(self.index)

    async def run(self) -> list[FetchedFile | TpuTuiError]:
        """Copy all files and return a row or an error for each, and the error that ended the copy, if one did."""
        for file in [file for file in self._pending if (self.index, file.source) not in self.places]:
            self._pending.remove(file)
            self._reject(file, "another of its files goes to the same place")
        try:
            await self._reconnecting.run(self._copy_pending)
        except TpuTuiError as error:
            self._rows.append(error)
        return self._rows

    async def _copy_pending(self) -> None:
        """Request some files ahead, and receive them in order. Files that were not received become pending again."""
        requested: deque[_Request] = deque()
        async with FetchStream(self.fleet, self.index, "send") as stream:
            try:
                while self._pending or requested:
                    while self._pending and len(requested) < _REQUESTS_AHEAD:
                        requested.append(await asyncio.to_thread(self._prepare, self._pending[0]))
                        request = requested[-1]
                        self._pending.popleft()
                        stream.request(
                            request.file.size, request.have, request.digest or "-", name=request.file.source
                        )
                    await self._receive(stream, requested[0])
                    requested.popleft()
            finally:
                for request in requested:
                    if request.incomplete is not None:
                        request.incomplete.close()
                self._pending.extendleft(request.file for request in reversed(requested))

    def _prepare(self, file: RemoteFile) -> _Request:
        """Return the request for a file, with the bytes of it that are here. Blocks."""
        place = self.places[self.index, file.source]
        if digest := self.destination.digest_of(place, file.size):
            return _Request(file, place, file.size, digest)
        incomplete = self.destination.find_incomplete(self.index, file.source, file.size)
        if incomplete is None:
            return _Request(file, place)
        return _Request(file, place, incomplete.size, incomplete.digest, incomplete)

    async def _receive(self, stream: FetchStream, request: _Request) -> None:
        """Receive one file and note its outcome; a file that changed during the transfer becomes pending again."""
        answer = _expect(await stream.answer(), self.index, "data", "no")
        file, start = request.file, answer.number_at(0)
        if answer.word == "no":
            self._reject(file, quote_remote(answer.text))
            return
        if start not in (0, request.have):
            raise WorkerError("the files did not arrive", worker=self.index, why=f"it sends {file.size} from {start}")
        is_here = request.incomplete is None and request.digest != "" and start == request.have
        digest = request.digest if is_here else await self._receive_content(stream, request, start)
        if _expect(await stream.answer(), self.index, "end").text != digest:
            self._retry(file)
            return
        if not is_here:
            try:
                self.destination.publish(self.index, file.source, request.place)
            except LocalFileError as error:
                self._finish(file, error)
                return
        path = self.destination.path_of(request.place)
        self._finish(file, FetchedFile(self.index, path, file.size, digest, is_here))

    async def _receive_content(self, stream: FetchStream, request: _Request, start: int) -> str:
        """Write a file's bytes from `start` on; return the SHA-256 of all."""
        incomplete = request.incomplete or self.destination.make_incomplete(self.index, request.file.source)
        request.incomplete = None
        try:
            if incomplete.size != start:
                incomplete.clear()
            async for block in stream.content(request.file.size - start):
                incomplete.append(block)
                self._reconnecting.progressed()
                self._report(incomplete.size)
            return incomplete.digest
        finally:
            incomplete.close()

    def _retry(self, file: RemoteFile) -> None:
        self.destination.discard(self.index, file.source)
        self._tries[file.source] += 1
        if self._tries[file.source] < _TRIES_PER_FILE:
            self._pending.append(file)
        else:
            self._reject(file, "it changes while it is read")

    def _reject(self, file: RemoteFile, why: str) -> None:
        name = quote_remote(file.source.removeprefix(b"./"))
        self._finish(file, TpuTuiError(f"not fetched: {name}", worker=self.index, why=why))

    def _finish(self, file: RemoteFile, row: FetchedFile | TpuTuiError) -> None:
        self._rows.append(row)
        self._done += file.size
        self._reconnecting.progressed()
        self._report(0)

    def _report(self, more: int) -> None:
        if self.on_received is not None:
            self.on_received(self.index, self._done + more, self._total)
