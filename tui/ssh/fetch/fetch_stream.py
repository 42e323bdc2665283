"""One run of fetch.sh on a worker: requests go in, answers and bytes of files come out, in bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tui.aio.timeouts import within
from tui.errors import WorkerError
from tui.ssh.errors import quote_remote
from tui.ssh.exec.script_protocol import (
    BEGIN_TIMEOUT_S,
    MAX_CHATTER_BYTES,
    PROGRESS_TIMEOUT_S,
    READ_BYTES,
    START_UP_FILES,
    Answer,
    Call,
    channel_errors,
    parse_line,
)

if TYPE_CHECKING:
    import asyncssh

    from tui.ssh.fleet import Fleet

    Process: TypeAlias = asyncssh.SSHClientProcess[bytes]

SCRIPT = Path(__file__).with_name("fetch.sh")
_MAX_LINE_BYTES = 1 << 16
_MAX_RECORD_BYTES = 1 << 14
"""Longest record of a listing: a path has up to 4096 bytes."""


class StreamBrokenError(Exception):
    """The connection or the command ended too early; the text says why."""


class FetchStream:
    """The streams of one command; an async context manager. Raises StreamBrokenError when they end too early."""

    def __init__(self, fleet: Fleet, worker: int, action: str) -> None:
        self._fleet = fleet
        self._worker = worker
        nonce = secrets.token_hex(8)
        self._call = Call(SCRIPT.read_bytes(), f"{nonce} {action}", nonce)
        self._buffer = bytearray()
        self._process: Process | None = None
        self._within_s = BEGIN_TIMEOUT_S

    async def __aenter__(self) -> FetchStream:
        self._process = await self._fleet.process(self._worker, self._call.command)
        with contextlib.suppress(BrokenPipeError):  # what the command printed says why it ended
            self._process.stdin.write(self._call.input)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.close()

    def request(self, *fields: object, name: bytes) -> None:
        """Send one request: fields on a line, the length of a name and the name. The worker answers in order."""
        assert self._process is not None
        line = " ".join(map(str, (*fields, len(name))))
        try:
            self._process.stdin.write(f"{line}\n".encode() + name)
        except channel_errors() as error:
            raise StreamBrokenError(quote_remote(str(error))) from error

    async def answer(self) -> Answer:
        """Return the next answer, after any output of the login shell. Raises WorkerError for too much output."""
        skipped = 0
        while skipped < MAX_CHATTER_BYTES:
            line = await self._until(b"\n", _MAX_LINE_BYTES)
            skipped += len(line)
            if answer := parse_line(self._call.nonce, line):
                self._within_s = PROGRESS_TIMEOUT_S
                return answer
        raise self._foreign("its login shell prints too much", "let its start-up files (~/.bashrc) print less")

    async def records(self) -> AsyncIterator[bytes]:
        """Yield records that end with a NUL, up to an empty one."""
        while record := (await self._until(b"\0", _MAX_RECORD_BYTES))[:-1]:
            yield record

    async def content(self, size: int) -> AsyncIterator[bytes]:
        """Yield exactly `size` bytes, in blocks."""
        while size > 0:
            if not self._buffer:
                await self._fill()
            block = bytes(self._buffer[:size])
            del self._buffer[:size]
            size -= len(block)
            yield block

    async def _until(self, end: bytes, limit: int) -> bytes:
        """Return the bytes up to and including `end`, or a piece of `limit` bytes without it."""
        searched = 0
        while (position := self._buffer.find(end, searched)) < 0 and len(self._buffer) < limit:
            searched = len(self._buffer)
            await self._fill()
        if position < 0 and end == b"\0":
            raise self._foreign("it sends names that are not paths", "check what its sh and du are")
        size = limit if position < 0 else position + 1
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        return piece

    async def _fill(self) -> None:
        assert self._process is not None
        try:
            block = await within(self._process.stdout.read(READ_BYTES), self._within_s)
        except asyncio.TimeoutError:
            raise self._foreign(f"nothing came for {self._within_s:g} s", START_UP_FILES) from None
        except channel_errors() as error:
            raise StreamBrokenError(quote_remote(str(error)) or "the connection broke") from error
        if not block:
            raise StreamBrokenError("the worker broke off")
        self._buffer += block

    def _foreign(self, why: str, remedy: str) -> WorkerError:
        return WorkerError("the files did not arrive", worker=self._worker, why=why, remedy=remedy)
