"""Code to every worker: one command a worker, whose script and files come on its standard input.

A worker needs sh and coreutils only. Files are cut out of the stream with `head -c`, checked with sha256sum, and the
finished directory is renamed into place, so nobody ever sees half of it. Where the link turns out to be slow, all of
it goes over a connection that compresses.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tui.aio.fan_out import for_each_worker
from tui.errors import WorkerError
from tui.ssh.errors import quoted
from tui.ssh.exec.script_protocol import START_UP_FILES
from tui.ssh.fleet import Fleet
from tui.ssh.sync.bundle import BLOCK, Bundle, encode_length, read_bundle

if TYPE_CHECKING:
    import asyncssh

    from tui.ssh.connection import WorkerConnection

RUN_ROOT = "~/.tpu-tui"
SLOW = 2_000_000
"""Bytes per second to all workers together below which compression pays: zlib takes in some 15 MB of code a second of
one core and leaves a quarter, so it keeps a link of up to 4 MB/s busy, and needs half a core for one of 2 MB/s.
"""
FIRST = 1 << 20
"""Bytes that are sent before the link is judged, by how long their second half takes; a quarter of a smaller tree.
TCP has sped up by then: where the round trip is 100 ms, it sends half a MiB in one.
"""
LARGE = 2 << 20
"""Bytes of a tree for which the link is judged at all: it costs a round trip."""
LOGIN = 2.0
"""Seconds that must be saved, after the first bytes were sent twice: the login that this takes needs one or two."""
_WORDS = 160
"""Bytes of a worker's complaints that a message repeats."""
_PARTING = 2.0
"""Seconds to wait for the last of them."""
_MOST_CHATTER = 1 << 20
"""Bytes a login shell may print before our own answer."""
BEGINS_WITHIN = 90.0
"""Seconds in which a login shell must have come to our script: some of them sleep, some never come to an end."""
MOVES_WITHIN = 600.0
"""Seconds in which a worker must take or say something: to check gigabytes on a slow disk takes minutes."""
_REMOTE = r"""
umask 077; LC_ALL=C; export LC_ALL
nonce=$1 hash=$2 root=$3
say() { printf '@%s %s\n' "$nonce" "$*"; }
say here
case $root in
  '~') root=$HOME ;;
  '~/'*) root=$HOME/${root#'~/'} ;;
  /*) ;;
  *) root=$HOME/$root ;;
esac
right() { [ -d "$1" ] && { [ ! -s "$2" ] || ( cd "$1" && sha256sum --status -c "../$2" ) 2>/dev/null; }; }
number() { n=$(head -c 20); n=${n#"${n%%[!0]*}"}; printf %s "${n:-0}"; }
mkdir -p "$root/code" && cd "$root/code" || { say failed "cannot make $root/code"; exit 1; }
[ -e "$hash.sha256" ] && right "$hash" "$hash.sha256" && { say have; exit 0; }
new=.new-$hash-$nonce
trap 'cd "$root/code" && rm -rf "$new" "$new.sha256"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$new" || { say failed "cannot make $root/code/$new"; exit 1; }
intact() { [ -e "$hash.sha256" ] && right "$hash" "$hash.sha256"; }
unpack() {
  head -c "$(number)" >"$new.sha256"
  script=$(head -c "$(number)")
  ( set -e; cd "$new"; eval "$script" )
  [ $? = 0 ] || { say failed "a file could not be written"; exit 1; }
  right "$new" "$new.sha256" || { say failed "what arrived is not what was sent"; exit 1; }
  sync -f "$new" 2>/dev/null
  if [ -e "$hash" ] && ! intact; then mv "$hash" ".old-$hash-$nonce"; fi
  mv -f "$new.sha256" "$hash.sha256"
  mv -T "$new" "$hash" 2>/dev/null || right "$hash" "$hash.sha256" || { say failed "cannot be put in place"; exit 1; }
  rm -rf "$new" "$new.sha256"
  say done
}
say want
half=$(number)
[ "$half" != 0 ] || { unpack; exit; }
exec 3>&1
{ for _ in 1 2; do head -c "$half"; say got >&3; done; exec cat; } | unpack
"""


@dataclass(frozen=True)
class SyncResult:
    """What one worker has now: the tree with this `hash`; `bytes` sent, none when it was there (`skipped`)."""

    worker: int
    hash: str
    bytes: int
    skipped: bool


def code_directory(run_root: str, hash_: str) -> str:
    """Where a synced tree lies on a worker; a leading `~` is the worker's home."""
    return f"{run_root.rstrip('/')}/code/{hash_}"


OnSent = Callable[[int, int, int], None]
"""Told how far a worker is: its index, bytes sent to it and bytes to send, script and checksums included."""
OnBytes = Callable[[int], None]
Start = Callable[[str], Awaitable["asyncssh.SSHClientProcess[bytes]"]]
"""Starts a command on a worker."""


async def sync_tree(
    fleet: Fleet,
    indices: Iterable[int],
    directory: Path,
    *,
    run_root: str = RUN_ROOT,
    on_sent: OnSent | None = None,
) -> AsyncIterator[SyncResult | WorkerError]:
    """Bring a directory to workers as `<run_root>/code/<hash>/`; what became of each, as it becomes known.

    The tree is read once, in a thread of its own, before anything is sent. Raises UsageError when it cannot be read.
    """
    parcel = await asyncio.to_thread(read_bundle, directory)
    async for result in send_bundle(fleet, indices, parcel, run_root=run_root, on_sent=on_sent):
        yield result


async def send_bundle(
    fleet: Fleet,
    indices: Iterable[int],
    parcel: Bundle,
    *,
    run_root: str = RUN_ROOT,
    on_sent: OnSent | None = None,
) -> AsyncIterator[SyncResult | WorkerError]:
    """As `sync_tree`, for a tree that was read before."""

    async def one(index: int) -> SyncResult:
        return await _Upload(fleet, index, parcel, run_root, on_sent).run()

    async for _, result in for_each_worker(indices, one):
        yield result


class _StalledUpload(Exception):
    """The worker neither takes nor says anything; for how many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it neither took nor said anything for {seconds:g} s")


class _RefusedUpload(Exception):
    """The worker does not say what was to be heard; its own words, none when it broke off."""

    def __init__(self, words: str = "", todo: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.todo = todo or "see its disk (`df`), and that sh, head, sha256sum and mv are on its PATH"
        if not words:
            self.todo += f"; {START_UP_FILES}"


class _UploadSession:
    """One command on a worker that takes the tree in: what is sent to it, and what it answers."""

    def __init__(
        self, process: asyncssh.SSHClientProcess[bytes], nonce: str, blocks: Iterator[bytes], on_sent: OnBytes
    ) -> None:
        self._process = process
        self._mark = f"@{nonce} ".encode()
        self._blocks = blocks
        self._on_sent = on_sent
        self._sent = 0

    async def expect(self, *words: str, within: float | None = None) -> str:
        """The worker's next word, one of these; a login shell's chatter is left out.

        Raises _Refused for another, _Silent for none within so many seconds (`MOVES_WITHIN` unless given).
        """
        seconds = MOVES_WITHIN if within is None else within
        try:
            return await asyncio.wait_for(self._next(words), seconds)
        except asyncio.TimeoutError:
            raise _StalledUpload(seconds) from None

    async def _next(self, words: Sequence[str]) -> str:
        heard = 0
        while heard < _MOST_CHATTER:
            line = await self._process.stdout.readline()
            heard += len(line)
            if not line:
                raise _RefusedUpload
            _, found, rest = line.partition(self._mark)
            if found:
                word, _, more = rest.decode("utf-8", "replace").strip().partition(" ")
                if word in words:
                    return word
                raise _RefusedUpload(more)
        raise _RefusedUpload("the login shell prints too much", "let its start-up files there (~/.bashrc) print less")

    async def pour(self, most: float = math.inf) -> None:
        """Send until so many bytes are on their way, or all, and then the end. Raises _Silent when nothing moves."""
        pouring = asyncio.ensure_future(self._pour(most))
        sent = -1
        try:
            while not pouring.done() and self._sent > sent:
                sent = self._sent
                await asyncio.wait({pouring}, timeout=MOVES_WITHIN)
            if not pouring.done():
                raise _StalledUpload(MOVES_WITHIN)
            pouring.result()
        finally:
            pouring.cancel()

    async def _pour(self, most: float) -> None:
        # A worker that gave up reads no further: its answer says why.
        with suppress(BrokenPipeError):
            while self._sent < most:
                block = next(self._blocks, b"")
                if not block:
                    self._process.stdin.write_eof()
                    return
                self._process.stdin.write(block)
                await self._process.stdin.drain()
                self._sent += len(block)
                self._on_sent(self._sent)

    async def pour_first(self, first: int) -> float:
        """Send so many bytes; how many seconds their second half took."""
        halves = asyncio.ensure_future(self._second_half())
        try:
            await self.pour(first)
            return await halves
        finally:
            halves.cancel()
            await asyncio.gather(halves, return_exceptions=True)

    async def _second_half(self) -> float:
        await self.expect("got")
        began = time.monotonic()
        await self.expect("got")
        return time.monotonic() - began

    async def last_words(self) -> bytes:
        """The end of what the worker's programs complain about."""
        kept = b""
        while block := await self._process.stderr.read(BLOCK):
            kept = (kept + block)[-_WORDS:]
        return kept

    def give_up(self) -> None:
        """Send no more: the worker's programs end."""
        with suppress(OSError):
            self._process.stdin.write_eof()


def _send(process: asyncssh.SSHClientProcess[bytes], data: bytes) -> None:
    """Send to a worker's command; one that has ended by then takes nothing, and its answer says why."""
    with suppress(BrokenPipeError):
        process.stdin.write(data)


class _Upload:
    """One tree on its way to one worker."""

    def __init__(self, fleet: Fleet, index: int, parcel: Bundle, run_root: str, on_sent: OnSent | None) -> None:
        self._fleet = fleet
        self._index = index
        self._parcel = parcel
        self._run_root = run_root
        self._on_sent = on_sent
        self._reported = 0
        self._faster: WorkerConnection | None = None
        """A connection that compresses, made where the link is slow."""

    async def run(self) -> SyncResult:
        """Bring it there. Raises WorkerError."""
        import asyncssh

        tree = self._parcel.tree
        try:
            last = await self._attempt(partial(self._fleet.process, self._index), measured=self._parcel.size >= LARGE)
            if self._faster is not None:
                last = await self._attempt(self._faster.process, measured=False)
        except _RefusedUpload as refused:
            raise WorkerError(
                "the code did not arrive",
                worker=self._index,
                why=quoted(refused.words) or "the worker broke off",
                remedy=refused.todo,
            ) from None
        except _StalledUpload as silent:
            raise WorkerError(
                "the code did not arrive",
                worker=self._index,
                why=str(silent),
                remedy=f"see its disk and load (`tpu-tui exec`); {START_UP_FILES}",
            ) from None
        except (OSError, asyncssh.Error) as error:
            raise WorkerError(
                "the code did not arrive",
                worker=self._index,
                why=quoted(str(error)) or "the connection broke off",
                remedy="check the network to that worker, and send it again",
            ) from error
        finally:
            if self._faster is not None:
                await self._faster.close()
        skipped = last == "have"
        return SyncResult(self._index, tree.hash, 0 if skipped else tree.bytes, skipped)

    async def _attempt(self, start: Start, *, measured: bool) -> str:
        """The worker's last word: `done`, `have` when it was there, `got` when it is left to a faster way."""
        nonce = secrets.token_hex(8)
        remote = _REMOTE.encode()
        arguments = shlex.join([nonce, self._parcel.tree.hash, self._run_root])
        process = await start(f"exec sh -c 's=$(head -c {len(remote)}); eval \"$s\"' tpu-tui {arguments}")
        try:
            _send(process, remote)
            delivery = _UploadSession(process, nonce, self._parcel.blocks(self._index), self._report)
            await delivery.expect("here", within=BEGINS_WITHIN)
            if await delivery.expect("have", "want") == "have":
                return "have"
            first = min(FIRST, self._parcel.size // 4) if measured else 0
            _send(process, encode_length(first // 2))
            return await self._sent(delivery, first)
        finally:
            process.close()

    async def _sent(self, delivery: _UploadSession, first: int) -> str:
        complaints = asyncio.ensure_future(delivery.last_words())
        try:
            if first and await self._is_slow(delivery, first):
                self._faster = await self._fleet.compressing(self._index)
                if self._faster is not None:
                    return "got"
            await delivery.pour()
            return await delivery.expect("done")
        except _RefusedUpload as refused:
            delivery.give_up()
            await asyncio.wait({complaints}, timeout=_PARTING)
            if complaints.done():
                raise _RefusedUpload(f"{refused.words}: {quoted(complaints.result())}", refused.todo) from None
            raise
        finally:
            complaints.cancel()
            await asyncio.gather(complaints, return_exceptions=True)

    async def _is_slow(self, delivery: _UploadSession, first: int) -> bool:
        """Send the first part; whether the link is slow, and all of it again but compressed is sooner there."""
        seconds = await delivery.pour_first(first)
        if first / 2 * len(self._fleet.workers) >= SLOW * seconds:
            return False
        rate = first / 2 / seconds
        shrinks_to = await asyncio.to_thread(lambda: self._parcel.shrinks_to)
        return self._parcel.size * (1 - shrinks_to) - first > LOGIN * rate

    def _report(self, sent: int) -> None:
        """Pass on how far it is; what is sent a second time is no step back."""
        if self._on_sent is not None and sent > self._reported:
            self._reported = sent
            self._on_sent(self._index, sent, self._parcel.size)
