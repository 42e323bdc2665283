"""Send code to every worker: one command per worker, whose script and files arrive on its standard input.

A worker needs sh and coreutils only. The script cuts files out of the stream with `head -c`, checks them with
sha256sum and renames the finished directory into place, so no reader ever sees half of it.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tui.aio.fan_out import for_each_worker
from tui.errors import WorkerError
from tui.ssh.errors import quote_remote
from tui.ssh.exec.script_protocol import START_UP_FILES
from tui.ssh.sync.bundle import BLOCK_BYTES, Bundle, read_bundle

if TYPE_CHECKING:
    import asyncssh

    from tui.ssh.fleet import Fleet

RUN_ROOT = "~/.tpu-tui"
_STDERR_TAIL_BYTES = 160
"""The part of a worker's complaints that a message repeats."""
_MAX_CHATTER_BYTES = 1 << 20
"""What a login shell may print before the script answers."""


@dataclass(frozen=True)
class UploadTimeouts:
    """How long an upload waits for a worker, in seconds."""

    begin_s: float = 90.0
    """For the login shell to reach the script: some start-up files sleep, some never end."""
    progress_s: float = 600.0
    """For the worker to take or answer something: checking gigabytes on a slow disk takes minutes."""
    complaint_s: float = 2.0
    """For the rest of its complaints after a failure."""


TIMEOUTS = UploadTimeouts()
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
unpack
"""


@dataclass(frozen=True)
class SyncResult:
    """What one worker has now: the tree with this `hash`; `bytes` sent, 0 when it was already there (`skipped`)."""

    worker: int
    hash: str
    bytes: int
    skipped: bool


def code_directory(run_root: str, hash_: str) -> str:
    """Return where a synced tree lies on a worker; a leading `~` is the worker's home."""
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
    """Copy a tree that was read before, as `sync_tree` does."""

    async def upload(index: int) -> SyncResult:
        return await _Upload(fleet, index, bundle, run_root, on_sent).run()

    async for _, result in for_each_worker(indices, upload):
        yield result


class _StalledUpload(Exception):
    """The worker neither reads nor answers for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no progress for {seconds:g} s")


class _RefusedUpload(Exception):
    """The worker gives another answer than expected; `words` are its own, empty when it broke off."""

    def __init__(self, words: str = "", remedy: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.remedy = remedy or "check its disk (`df`), and that sh, head, sha256sum and mv are on its PATH"
        if not words:
            self.remedy += f"; {START_UP_FILES}"


class _UploadSession:
    """One command on a worker that takes the tree in: sends the bundle and reads the answers."""

    def __init__(
        self,
        process: asyncssh.SSHClientProcess[bytes],
        nonce: str,
        blocks: Iterator[bytes],
        on_sent: Callable[[int], None],
    ) -> None:
        self._process = process
        self._mark = f"@{nonce} ".encode()
        self._blocks = blocks
        self._on_sent = on_sent
        self._sent = 0

    async def expect(self, *words: str, within_s: float | None = None) -> str:
        """Return the worker's next word, one of these; skip the login shell's chatter.

        Raises _RefusedUpload for another word, _StalledUpload for none in time (`progress_s` by default).
        """
        seconds = TIMEOUTS.progress_s if within_s is None else within_s
        try:
            return await asyncio.wait_for(self._read_answer(words), seconds)
        except asyncio.TimeoutError:
            raise _StalledUpload(seconds) from None

    async def _read_answer(self, words: Sequence[str]) -> str:
        received = 0
        while received < _MAX_CHATTER_BYTES:
            line = await self._process.stdout.readline()
            received += len(line)
            if not line:
                raise _RefusedUpload
            _, found, rest = line.partition(self._mark)
            if found:
                word, _, more = rest.decode("utf-8", "replace").strip().partition(" ")
                if word in words:
                    return word
                raise _RefusedUpload(more)
        raise _RefusedUpload("the login shell prints too much", "let its start-up files there (~/.bashrc) print less")

    def write(self, data: bytes) -> None:
        """Send bytes; a command that has ended takes none, and its answer says why."""
        with suppress(BrokenPipeError):
            self._process.stdin.write(data)

    async def send(self) -> None:
        """Send the whole bundle and the end of input. Raises _StalledUpload when nothing moves."""
        sending = asyncio.ensure_future(self._send_blocks())
        sent = -1
        try:
            while not sending.done() and self._sent > sent:
                sent = self._sent
                await asyncio.wait({sending}, timeout=TIMEOUTS.progress_s)
            if not sending.done():
                raise _StalledUpload(TIMEOUTS.progress_s)
            sending.result()
        finally:
            sending.cancel()

    async def _send_blocks(self) -> None:
        # A worker that failed reads no further: its answer says why.
        with suppress(BrokenPipeError):
            for block in self._blocks:
                self._process.stdin.write(block)
                await self._process.stdin.drain()
                self._sent += len(block)
                self._on_sent(self._sent)
            self._process.stdin.write_eof()

    async def read_complaints(self) -> bytes:
        """Return the end of what the worker's programs write to standard error."""
        tail = b""
        while block := await self._process.stderr.read(BLOCK_BYTES):
            tail = (tail + block)[-_STDERR_TAIL_BYTES:]
        return tail

    def end_input(self) -> None:
        """Send no more, so that the worker's programs end."""
        with suppress(OSError):
            self._process.stdin.write_eof()


class _Upload:
    """One tree on its way to one worker."""

    def __init__(self, fleet: Fleet, index: int, bundle: Bundle, run_root: str, on_sent: OnSent | None) -> None:
        self._fleet = fleet
        self._index = index
        self._bundle = bundle
        self._run_root = run_root
        self._on_sent = on_sent

    async def run(self) -> SyncResult:
        """Bring the tree to the worker. Raises WorkerError."""
        import asyncssh

        try:
            answer = await self._send()
        except _RefusedUpload as refused:
            raise self._failed(quote_remote(refused.words) or "the worker broke off", refused.remedy) from None
        except _StalledUpload as stalled:
            raise self._failed(str(stalled), f"check its disk and load (`tpu-tui exec`); {START_UP_FILES}") from None
        except (OSError, asyncssh.Error) as error:
            why = quote_remote(str(error)) or "the connection broke off"
            raise self._failed(why, "check the network to that worker, and sync again") from error
        tree, skipped = self._bundle.tree, answer == "have"
        return SyncResult(self._index, tree.hash, 0 if skipped else tree.bytes, skipped)

    def _failed(self, why: str, remedy: str) -> WorkerError:
        return WorkerError("the code did not arrive", worker=self._index, why=why, remedy=remedy)

    async def _send(self) -> str:
        """Return the worker's last word: `done`, or `have` when the tree was already there."""
        nonce = secrets.token_hex(8)
        remote = _REMOTE.encode()
        arguments = shlex.join([nonce, self._bundle.tree.hash, self._run_root])
        command = f"exec sh -c 's=$(head -c {len(remote)}); eval \"$s\"' tpu-tui {arguments}"
        process = await self._fleet.process(self._index, command)
        try:
            session = _UploadSession(process, nonce, self._bundle.blocks(self._index), self._report)
            session.write(remote)
            await session.expect("here", within_s=TIMEOUTS.begin_s)
            if await session.expect("have", "want") == "have":
                return "have"
            return await self._send_bundle(session)
        finally:
            process.close()

    async def _send_bundle(self, session: _UploadSession) -> str:
        complaints = asyncio.ensure_future(session.read_complaints())
        try:
            await session.send()
            return await session.expect("done")
        except _RefusedUpload as refused:
            session.end_input()
            await asyncio.wait({complaints}, timeout=TIMEOUTS.complaint_s)
            if complaints.done():
                words = f"{refused.words}: {quote_remote(complaints.result())}"
                raise _RefusedUpload(words, refused.remedy) from None
            raise
        finally:
            complaints.cancel()
            await asyncio.gather(complaints, return_exceptions=True)

    def _report(self, sent: int) -> None:
        if self._on_sent is not None:
            self._on_sent(self._index, sent, self._bundle.size)
