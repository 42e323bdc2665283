"""The gang launch: connect, prepare, sync, one barrier, start, confirm; in the end it runs everywhere or nowhere.

Each worker has a front: one SSH session that stays open until the launch is decided. What a front's worker does
without the launcher is in worker.sh: unconfirmed jobs end themselves, at once when their connection closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import LaunchError, TpuTuiError, UsageError, WorkerError
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.directory import RunDirectory, to_bytes
from tui.runs.job import check_job, job_text, masked
from tui.runs.policies import Patience
from tui.runs.remote import Answer, Call, call, no_answer, parse_line
from tui.ssh.access import Access

if TYPE_CHECKING:
    import asyncssh

    from tui.ssh.fleet import Fleet
    from tui.ssh.tree import Tree

CONNECT_TIMEOUT = 120.0
PREPARE_TIMEOUT = 90.0
"""Seconds for login files and conda on a cold worker."""
SYNC_TIMEOUT = 3600.0
_OTHERS = 2.0
"""Seconds in which other workers may fail too once one has, so that all of them are named."""
_LINE = 64 * 1024

_REFUSALS = {
    "busy": ("another run is alive here", "stop it first, or wait for it: `tpu-tui runs`"),
    "device": ("the TPU is held by another process", "end that process, or `docker stop` its container"),
    "command": ("the command cannot run here", "see that it is there: --sync, --venv, --conda-env, --workdir"),
    "directory": ("cannot make the run's directory", "see that run_root is writable there"),
    "full": ("no room for the log", "free some space on the worker's disk"),
    "tag": ("cannot mark the run's processes", "raise the hard limit on file locks (ulimit) on that worker"),
    "stopped": ("the run was stopped for good", "launch it anew"),
    "cut": ("the launch data did not arrive whole", "launch again"),
}


@dataclass(frozen=True)
class LaunchSpec:
    """Everything a keeper needs to launch a run. `env` holds the secret values: it travels through pipes only."""

    run: Run = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    access: Access = field(repr=False)
    sync: Path | None = None
    on_end: str | None = None
    force: bool = False
    """Launch although a device is held by another process."""
    patience: Patience = field(default_factory=Patience)
    """How long the keeper waits for what."""

    def to_json(self) -> dict[str, Any]:
        """The document that goes to a keeper's standard input, and nowhere else."""
        return {
            "run": self.run.to_json(),
            "env": dict(self.env),
            "access": self.access.to_json(),
            "sync": str(self.sync) if self.sync else None,
            "on_end": self.on_end,
            "force": self.force,
            "patience": self.patience.to_json(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LaunchSpec:
        """Read what `to_json` gave. Raises ValueError when it is none."""
        sync = document.get("sync")
        return cls(
            run=Run.from_json(document["run"]),
            env=dict(document["env"]),
            access=Access.from_json(document["access"]),
            sync=Path(sync) if sync else None,
            on_end=document.get("on_end"),
            force=bool(document.get("force")),
            patience=Patience(**document.get("patience", {})),
        )


def check_spec(spec: LaunchSpec) -> None:
    """Refuse what could not run anywhere. Raises UsageError."""
    check_job(spec.run.argv, spec.env, spec.run.runtime)
    if not spec.run.workers:
        raise UsageError(f"{spec.run.slice} has no workers to launch on")
    if spec.run.on_failure not in ("stop", "leave"):
        raise UsageError(f"no failure policy {spec.run.on_failure!r}", remedy="stop or leave")


def launch_call(
    spec: LaunchSpec, worker: Worker, code: str | None = None, *, attempt: int = 0, again: bool = False
) -> Call:
    """The call that prepares one worker: script, settings, the job's text and run.json.

    `again`: neither is sent; the worker takes those of its attempt before, secrets included.
    """
    text = b"" if again else job_text(spec.run, worker, spec.env, code).encode("utf-8", "surrogateescape")
    record = b"" if again else to_bytes(spec.run.to_json())
    return call(
        "launch",
        spec.run.id,
        worker.index,
        len(text),
        len(record),
        attempt,
        run_root=spec.run.run_root,
        data=text + record,
        lease=spec.run.lease,
        force=spec.force,
        sync=spec.sync is not None,
    )


def dry_run(spec: LaunchSpec) -> str:
    """Exactly what would run on each worker, secret values masked; for workers after the first, what differs."""
    check_spec(spec)
    shown: list[str] = [f"run {spec.run.id} on {spec.run.slice}, {len(spec.run.workers)} workers"]
    if spec.sync:
        shown.append(f"sync {spec.sync} to every worker")
    first: list[str] = []
    for worker in spec.run.workers:
        lines = job_text(spec.run, worker, masked(spec.env)).splitlines()
        mine = lines if not first else [line for line in lines if line not in first]
        note = "" if not first else " (the rest as on the first)"
        shown += [f"worker {worker.index} {worker.name}{note}:", *(f"  {line}" for line in mine), '  exec "$@"']
        first = first or lines
    return "\n".join(shown) + "\n"


class Front:
    """One worker's open launch session: words in, answers out."""

    def __init__(self, worker: Worker, made: Call, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.worker = worker
        self.process = process
        self._nonce = made.nonce
        self.notes: list[str] = []
        self.decided = ""
        process.stdin.write(made.input)

    async def expect(self, word: str, timeout: float) -> Answer:
        """Wait for an answer. Raises LaunchError for a refusal, WorkerError for silence or a lost connection."""
        try:
            return await asyncio.wait_for(self._answer(word), timeout)
        except asyncio.TimeoutError:
            raise WorkerError(
                f"no answer ({word}) for {timeout:.0f} s",
                worker=self.worker.index,
                why="the worker or the network to it is stuck",
                remedy=f"look at it: `tpu-tui exec … --worker {self.worker.index} -- uptime`",
            ) from None

    async def _answer(self, word: str) -> Answer:
        while True:
            try:
                line = await self.process.stdout.readline()
            except Exception as error:
                raise WorkerError("the connection broke", worker=self.worker.index, why=str(error)) from error
            if not line:
                raise await self._ended(word)
            answer = parse_line(self._nonce, line[:_LINE])
            if answer is None:
                continue
            if answer.word == word:
                return answer
            if answer.word == "refused":
                raise refusal(self.worker, answer)
            if answer.word == "note":
                self.notes.append(answer.text)
            if answer.word in ("disarmed", "aborted"):
                self.decided = answer.word

    async def _ended(self, word: str) -> TpuTuiError:
        stderr = b""
        with suppress(Exception):
            stderr = await asyncio.wait_for(self.process.stderr.read(_LINE), 2)
        if self.decided:
            return LaunchError(f"the worker {self.decided} the launch", worker=self.worker.index)
        return no_answer(self.worker.index, f"the launch ended without its answer ({word})", stderr, None)

    def send(self, word: bytes) -> None:
        """Write a word at once."""
        self.process.stdin.write(word)

    async def close(self, patience: float) -> None:
        """Let go: an undecided worker takes the end of its input for a no, and has some seconds to say so."""
        with suppress(Exception):
            self.process.stdin.write_eof()
        with suppress(Exception):
            await asyncio.wait_for(self._answer(""), patience)
        self.process.close()


def refusal(worker: Worker, answer: Answer) -> LaunchError:
    """The error for a worker that refused to prepare."""
    kind, _, text = answer.text.partition(" ")
    what, remedy = _REFUSALS.get(kind, ("refused the launch", ""))
    if kind == "command" and text.startswith("command not found"):
        what, text = text, ""
    return LaunchError(what, worker=worker.index, why=text, remedy=remedy)


class Gang:
    """One launch over a fleet. `run` returns when every worker runs; else it raises, with nothing left undecided."""

    def __init__(
        self, directory: RunDirectory, spec: LaunchSpec, fleet: Fleet, *, attempt: int = 0, again: bool = False
    ) -> None:
        """`again`: the keeper never knew the job's secrets, so the workers use what they were sent before."""
        self.directory = directory
        # A further attempt runs the very code of the first one, which lies on the workers already.
        self.spec = spec if attempt == 0 else replace(spec, run=directory.run, sync=None)
        self.attempt = attempt
        self.again = again
        self.fleet = fleet
        self.fronts: dict[int, Front] = {}
        self.passed_barrier = False
        self._tree: Tree | None = None

    async def run(self) -> None:
        """Launch on every worker, or raise the first worker's error (LaunchError or WorkerError).

        `passed_barrier` then says whether jobs may have been started, and a stop is owed.
        """
        try:
            await self._each("connect", self._connect, CONNECT_TIMEOUT)
            await self._read_tree()
            await self._each("prepare", self._prepare, PREPARE_TIMEOUT)
            if self.spec.sync is not None:
                await self._each("sync", self._sync, SYNC_TIMEOUT)
            await self._barrier()
            await self._each("start", self._started, self._word_timeout)
            for front in self.fronts.values():
                front.send(b"ok!")
            await self._each("confirm", self._confirmed, self._word_timeout)
        finally:
            await asyncio.gather(*(front.close(self.spec.patience.answer) for front in self.fronts.values()))

    @property
    def _word_timeout(self) -> float:
        return self.spec.run.lease + self.spec.patience.answer

    async def _connect(self, worker: Worker) -> str:
        await self.fleet.connect(worker.index)
        return ""

    async def _prepare(self, worker: Worker) -> str:
        made = launch_call(self.spec, worker, self._code, attempt=self.attempt, again=self.again)
        front = Front(worker, made, await self.fleet.process(worker.index, made.command))
        self.fronts[worker.index] = front
        await front.expect("prepared" if self.spec.sync is not None else "armed", PREPARE_TIMEOUT)
        for text in front.notes:
            self.directory.append_event("note", worker=worker.index, text=text)
        return ""

    async def _read_tree(self) -> None:
        """Read the tree that is to be synced, once, and note its hash in run.json here and on every worker."""
        if self.spec.sync is None:
            return
        from tui.ssh.tree import read_tree

        self._tree = await asyncio.to_thread(read_tree, self.spec.sync)
        self.spec = replace(self.spec, run=replace(self.spec.run, code_hash=self._tree.hash))
        self.directory.amend(self.spec.run)

    @property
    def _code(self) -> str | None:
        """Where the working tree will lie on the workers."""
        if self.spec.run.code_hash is None:
            return None
        from tui.ssh.transfer import code_directory

        return code_directory(self.spec.run.run_root, self.spec.run.code_hash)

    async def _sync(self, worker: Worker) -> str:
        from tui.ssh.transfer import send_tree

        assert self._tree is not None
        detail = ""
        async for result in send_tree(self.fleet, [worker.index], self._tree, run_root=self.spec.run.run_root):
            if isinstance(result, TpuTuiError):
                raise result
            detail = "there already" if result.skipped else f"{result.bytes} bytes"
        front = self.fronts[worker.index]
        front.send(b"chk")
        await front.expect("armed", PREPARE_TIMEOUT)
        return detail

    async def _barrier(self) -> None:
        """Everybody is armed: the last moment at which nothing has started anywhere."""
        for worker in self.spec.run.workers:
            self._phase(worker, "barrier", "done")
        self.passed_barrier = True
        for front in self.fronts.values():
            front.send(b"go!")

    async def _started(self, worker: Worker) -> str:
        answer = await self.fronts[worker.index].expect("started", self._word_timeout)
        return f"pid {answer.text}"

    async def _confirmed(self, worker: Worker) -> str:
        await self.fronts[worker.index].expect("running", self._word_timeout)
        return ""

    def _phase(self, worker: Worker, phase: str, status: str, detail: str = "") -> None:
        self.directory.append_event("phase", worker=worker.index, phase=phase, status=status, detail=detail)

    async def _each(self, phase: str, step: Callable[[Worker], Awaitable[str]], timeout: float) -> None:
        """One phase on every worker at once. Raises the first failure; the others' are events too."""
        failures: list[TpuTuiError] = []

        async def one(worker: Worker) -> None:
            self._phase(worker, phase, "started")
            try:
                detail = await asyncio.wait_for(step(worker), timeout)
            except TpuTuiError as error:
                failures.append(error)
                self._phase(worker, phase, "failed", _told(error))
                raise
            except asyncio.TimeoutError:
                late = WorkerError(f"{phase} took longer than {timeout:.0f} s", worker=worker.index)
                failures.append(late)
                self._phase(worker, phase, "failed", _told(late))
                raise late from None
            self._phase(worker, phase, "done", detail)

        await _first_failure([one(worker) for worker in self.spec.run.workers])
        if failures:
            raise failures[0]


def _told(error: TpuTuiError) -> str:
    return error.what + (f": {error.why}" if error.why else "") + (f". {error.remedy}" if error.remedy else "")


async def _first_failure(steps: Sequence[Awaitable[None]]) -> None:
    """Run steps together; after a first failure the others have a moment, then they are cancelled."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        _done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if pending:
            _done, pending = await asyncio.wait(pending, timeout=_OTHERS)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, TpuTuiError):
            raise result
