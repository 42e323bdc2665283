"""Send code to every worker: one command per worker, whose script and files arrive on its standard input.

A worker needs sh and coreutils only. The script cuts files out of the stream with `head -c`, checks them with
sha256sum and renames the finished directory into place, so no reader sees an incomplete one.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tui.aio.fan_out import cancel_all, for_each_worker
from tui.aio.timeouts import within
from tui.errors import WorkerError
from tui.pod.worker import RUN_ROOT
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
    load_script,
    parse_line,
)
from tui.ssh.sync.bundle import Bundle, read_bundle

if TYPE_CHECKING:
    import asyncssh

    from tui.ssh.fleet import Fleet

    Process: TypeAlias = asyncssh.SSHClientProcess[bytes]

_STDERR_TAIL_BYTES = 160
"""Bytes of a worker's error output that a message repeats."""
_BROKE_OFF = "the worker broke off"
_CHECK_WORKER = (
    "sync again if the code here was being changed; otherwise check the worker's disk (`df`), and that sh, head, "
    "sha256sum and mv are on its PATH"
)

COMPLAINT_TIMEOUT_S = 2.0
"""Seconds for the rest of a worker's error output after a failure."""
_SCRIPT = load_script(Path(__file__).with_name("install_tree.sh"))
"""Read at import: a keeper may send the code to a new slice after this version of the package was replaced."""


@dataclass(frozen=True)
class SyncResult:
    """The tree that one worker has now: its `hash`, and the `bytes` sent; 0 if it was already there (`skipped`)."""

    worker: int
    hash: str
    bytes: int
    skipped: bool


def code_directory(run_root: str, hash_: str) -> str:
    """Return the directory of a synced tree on a worker; a leading `~` is the worker's home."""
    return f"{run_root.rstrip('/')}/code/{hash_}"


OnSent = Callable[[int, int, int], None]
"""Called with a worker's index, the bytes sent to it and the bytes to send, script and checksums included."""


async def sync_tree(
    fleet: Fleet,
    indices: Iterable[int],
    directory: Path,
    *,
    run_root: str = RUN_ROOT,
    on_sent: OnSent | None = None,
) -> AsyncIterator[SyncResult | WorkerError]:
    """Copy a directory to workers as `<run_root>/code/<hash>/`; yield each worker's result as it becomes known.

    The tree is read once, in a thread, before anything is sent. Raises UsageError when it cannot be read.
    """
    bundle = await asyncio.to_thread(read_bundle, directory)
    async for result in send_bundle(fleet, indices, bundle, run_root=run_root, on_sent=on_sent):
        yield result


async def send_bundle(
    fleet: Fleet,
    indices: Iterable[int],
    bundle: Bundle,
    *,
    run_root: str = RUN_ROOT,
    on_sent: OnSent | None = None,
) -> AsyncIterator[SyncResult | WorkerError]:
    """Copy a tree that was already read, as `sync_tree` does."""

    async def upload(index: int) -> SyncResult:
        return await _Upload(fleet, index, bundle, run_root, on_sent).run()

    async for _, result in for_each_worker(indices, upload):
        yield result


class _UploadError(WorkerError):
    """The worker did not take the tree."""


@dataclass
class _Upload:
    """The upload of one tree to one worker: one command takes the script and the bundle, and answers."""

    fleet: Fleet
    index: int
    bundle: Bundle
    run_root: str
    on_sent: OnSent | None

    def __post_init__(self) -> None:
        nonce = secrets.token_hex(8)
        script = f"tt_root={shlex.quote(self.run_root)}\n{_SCRIPT}".encode()
        self._call = Call(script, shlex.join([nonce, self.bundle.tree.hash]), nonce)
        self._sent = 0

    async def run(self) -> SyncResult:
        """Copy the tree to the worker. Raises WorkerError."""
        process = await self.fleet.process(self.index, self._call.command)
        try:
            answer = await self._transfer(process)
        except channel_errors() as error:
            why = quote_remote(str(error)) or "the connection broke"
            raise self._error(why, "check the network to that worker, and sync again") from error
        finally:
            process.close()
        tree, skipped = self.bundle.tree, answer == "have"
        return SyncResult(self.index, tree.hash, 0 if skipped else tree.bytes, skipped)

    def _error(self, why: str, remedy: str) -> _UploadError:
        return _UploadError("the code did not arrive", worker=self.index, why=why, remedy=remedy)

    def _stall_error(self, seconds: float) -> _UploadError:
        remedy = f"check its disk and load (`tpu-tui exec`); {START_UP_FILES}"
        return self._error(f"no progress for {seconds:g} s", remedy)

    async def _transfer(self, process: Process) -> str:
        """Send the tree if the worker lacks it. Return the last answer: `done`, or `have` if the tree was there."""
        with suppress(BrokenPipeError):  # the answer says why the command ended
            process.stdin.write(self._call.input)
        await self._expect(process, "here", within_s=BEGIN_TIMEOUT_S)
        if await self._expect(process, "have", "want") == "have":
            return "have"
        complaints = asyncio.ensure_future(_read_tail(process))
        try:
            await self._send(process)
            return await self._expect(process, "done")
        except _UploadError as failed:
            with suppress(OSError):
                process.stdin.write_eof()
            await asyncio.wait({complaints}, timeout=COMPLAINT_TIMEOUT_S)
            if complaints.done() and (message := quote_remote(complaints.result())):
                raise self._error(f"{failed.why}: {message}", failed.remedy) from None
            raise
        finally:
            await cancel_all([complaints])

    async def _send(self, process: Process) -> None:
        """Send the whole bundle and the end of input. Raises _UploadError when nothing moves."""
        sending = asyncio.ensure_future(self._send_blocks(process))
        last_sent = -1
        try:
            while not sending.done() and self._sent > last_sent:
                last_sent = self._sent
                await asyncio.wait({sending}, timeout=PROGRESS_TIMEOUT_S)
            if not sending.done():
                raise self._stall_error(PROGRESS_TIMEOUT_S)
            sending.result()
        finally:
            sending.cancel()

    async def _send_blocks(self, process: Process) -> None:
        with suppress(BrokenPipeError):  # a worker that failed reads no further; its answer says why
            for block in self.bundle.blocks(self.index):
                process.stdin.write(block)
                await process.stdin.drain()
                self._sent += len(block)
                if self.on_sent is not None:
                    self.on_sent(self.index, self._sent, self.bundle.size)
            process.stdin.write_eof()

    async def _expect(self, process: Process, *words: str, within_s: float | None = None) -> str:
        """Return the word of the worker's next answer, one of `words`; skip the output of its login shell.

        Raises _UploadError for another word, or for none within the time (`PROGRESS_TIMEOUT_S` by default).
        """
        seconds = PROGRESS_TIMEOUT_S if within_s is None else within_s
        try:
            answer = await within(self._read_answer(process), seconds)
        except asyncio.TimeoutError:
            raise self._stall_error(seconds) from None
        if answer.word not in words:
            raise self._error(quote_remote(answer.text) or _BROKE_OFF, _CHECK_WORKER)
        return answer.word

    async def _read_answer(self, process: Process) -> Answer:
        received = 0
        while received < MAX_CHATTER_BYTES:
            line = await process.stdout.readline()
            received += len(line)
            if not line:
                raise self._error(_BROKE_OFF, f"{_CHECK_WORKER}; {START_UP_FILES}")
            if answer := parse_line(self._call.nonce, line):
                return answer
        raise self._error("its login shell prints too much", "let its start-up files (~/.bashrc) print less")


async def _read_tail(process: Process) -> bytes:
    tail = b""
    while block := await process.stderr.read(READ_BYTES):
        tail = (tail + block)[-_STDERR_TAIL_BYTES:]
    return tail
