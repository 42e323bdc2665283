"""The gang launch: connect, check, prepare, sync, one barrier, start, confirm. The run starts on all workers or none.

Each worker has one SSH session, which stays open until the launch is decided. What a worker does without the launcher
is in worker.sh: an unconfirmed job ends itself, at once if its connection closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from tui.aio.fan_out import cancel_all
from tui.errors import TpuTuiError, WorkerError
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.launch.job_script import job_text
from tui.runs.launch.launch_spec import LaunchSpec
from tui.runs.launch.worker_session import AlreadyLaunchedError, RunStoppedError, WorkerSession
from tui.runs.record.event_log import to_bytes
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import TAGS
from tui.runs.record.worker_status import is_tag
from tui.runs.worker.calls import build_call, follow_timeout_s, poll_interval_s
from tui.ssh.exec.script_protocol import Answer, Call
from tui.ssh.fleet import Fleet
from tui.ssh.sync.bundle import Bundle, read_bundle
from tui.ssh.sync.upload import code_directory, send_bundle

_DECIDED = (RunStoppedError, AlreadyLaunchedError)
"""Errors that explain the end of a launch better than other workers' errors."""
_OTHER_FAILURES_S = 2.0
"""Seconds to wait for further failures once one worker has failed, so that all of these workers are named."""


@dataclass(eq=False)
class Gang:
    """One launch over a fleet. `run` returns once the job runs on every worker; otherwise it raises.

    The sessions of a successful launch stay open, each as the follower of its worker's log.
    """

    directory: RunDirectory
    spec: LaunchSpec
    fleet: Fleet
    attempt: int
    again: bool
    """Whether the keeper does not know the job's secrets, so that the workers use what they received before."""
    keeper: int
    """The launching keeper's number, which a first attempt leaves with the workers."""

    def __post_init__(self) -> None:
        if self.attempt:
            # A restart runs the same code as the first attempt, which is already on the workers.
            self.spec = replace(self.spec, run=self.directory.run, sync=None)
            self.keeper = 0
        self.sessions: dict[int, WorkerSession] = {}
        self.passed_barrier = False
        self._tags: dict[str, str] = {}
        self._bundle: Bundle | None = None
        self._record = b""
        self._lost: asyncio.Future[TpuTuiError] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Launch on every worker, or raise the first worker's error (LaunchError or WorkerError).

        `passed_barrier` then says whether jobs may have started, which must be stopped.
        """
        timeouts = self.spec.timeouts
        try:
            await self._each("connect", self._connect, timeouts.connect)
            await self._run_preflight()
            await self._read_tree()
            await self._each("prepare", self._prepare, timeouts.prepare)
            if self.spec.sync is not None:
                await self._each("sync", self._sync, timeouts.sync)
            self._barrier()
            await self._each("start", self._await_started, self._word_timeout)
            for session in self.sessions.values():
                session.send(b"ok!")
            await self._each("confirm", self._await_running, self._word_timeout)
        except BaseException:
            await asyncio.gather(
                *(session.close(self.spec.keeper_timeouts.answer) for session in self.sessions.values())
            )
            raise

    @property
    def _word_timeout(self) -> float:
        return self.spec.run.lease + self.spec.keeper_timeouts.answer

    async def _connect(self, worker: Worker) -> None:
        await self.fleet.connect(worker.index)

    async def _run_preflight(self) -> None:
        """Check the workers before anything is left on them, if the spec says so; only for a run's first attempt."""
        if self.spec.preflight is not None and self.attempt == 0:
            from tui.runs.launch.preflight import run_preflight

            self._phase_of_all("check", "started")
            await run_preflight(self.directory, self.spec, self.spec.preflight, self.fleet, self._ask)
            self._phase_of_all("check", "done")

    async def _ask(self, index: int, call: Call) -> list[Answer]:
        """Make a check's call in the session in which the worker's launch then continues."""
        session = WorkerSession(self.fleet.workers[index], await self.fleet.process(index, call.command_of_two))
        try:
            answers = await session.answers_to(call)
        except BaseException:
            session.process.close()
            raise
        self.sessions[index] = session
        return answers

    async def _read_tree(self) -> None:
        """Read the tree to sync, and note its hash in run.json here and on every worker."""
        if self.spec.sync is not None:
            self._bundle = await asyncio.to_thread(read_bundle, self.spec.sync)
            self.spec = replace(self.spec, run=replace(self.spec.run, code_hash=self._bundle.tree.hash))
            self.directory.update_run(self.spec.run)
        self._record = to_bytes(self.spec.run.to_json())

    async def _prepare(self, worker: Worker) -> None:
        call = self._launch_call(worker)
        session = self.sessions.get(worker.index)
        if session is None or session.has_ended:
            session = self.sessions[worker.index] = WorkerSession(
                worker, await self.fleet.process(worker.index, call.command)
            )
        session.begin(call)
        first, then = ("armed", "started") if self.spec.sync is None else ("prepared", "armed")
        self._note_tag(worker, await session.expect(first))
        session.read_ahead(then, self._report_loss)
        for text in session.notes:
            self.directory.append_event("note", worker=worker.index, text=text)

    def _launch_call(self, worker: Worker) -> Call:
        """Return the call that prepares one worker: script, settings, the job's text and the run's record.

        For a launch `again` neither of the last two is sent: the worker uses those of its previous attempt, secrets
        included. Once the launch is confirmed, the session goes on as the log's follower.
        """
        run, text, record = self.spec.run, b"", b""
        if not self.again:
            code = None if run.code_hash is None else code_directory(run.run_root, run.code_hash)
            text = job_text(run, worker, self.spec.env, code).encode("utf-8", "surrogateescape")
            record = self._record
        return build_call(
            "launch",
            run.id,
            worker.index,
            len(text),
            len(record),
            self.attempt,
            self.keeper,
            follow_timeout_s(),
            run_root=run.run_root,
            data=text + record,
            lease=run.lease,
            sync=self.spec.sync is not None,
            pace=poll_interval_s(len(run.workers)),
        )

    async def _sync(self, worker: Worker) -> str:
        assert self._bundle is not None
        detail = ""
        async for result in send_bundle(self.fleet, [worker.index], self._bundle, run_root=self.spec.run.run_root):
            if isinstance(result, TpuTuiError):
                raise result
            detail = "there already" if result.skipped else f"{result.bytes} bytes"
        session = self.sessions[worker.index]
        session.send(b"chk")
        self._note_tag(worker, await session.expect("armed"))
        session.read_ahead("started", self._report_loss)
        return detail

    def _note_tag(self, worker: Worker, answer: Answer) -> None:
        if is_tag(tag := answer.fields.get("tag", "")):
            self._tags[str(worker.index)] = tag

    def _barrier(self) -> None:
        """Send the start signal: every worker is armed, and nothing has started anywhere yet."""
        if self._lost.done():
            raise self._lost.result()
        self._phase_of_all("barrier", "done")
        self.directory.append_event(TAGS, tags=self._tags)
        self.passed_barrier = True
        for session in self.sessions.values():
            session.send(b"go!")

    async def _await_started(self, worker: Worker) -> str:
        session = self.sessions[worker.index]
        answer = await session.expect("started")
        session.read_ahead("running", self._report_loss)
        return f"pid {answer.text}"

    async def _await_running(self, worker: Worker) -> None:
        await self.sessions[worker.index].expect("running")

    def _report_loss(self, session: WorkerSession, error: TpuTuiError) -> None:
        """Note that a waiting worker was lost: the launch has failed."""
        self._record_failure(session.worker, "confirm" if self.passed_barrier else "barrier", error)
        if not self._lost.done():
            self._lost.set_result(error)

    def _record_failure(self, worker: Worker, phase: str, error: TpuTuiError) -> None:
        fields = {"detail": error.explanation, "remedy": error.remedy}
        self.directory.append_event("phase", worker=worker.index, phase=phase, status="failed", **fields)

    def _phase_of_all(self, phase: str, status: str) -> None:
        indices = [worker.index for worker in self.spec.run.workers]
        self.directory.append_phases(indices, phase=phase, status=status, detail="")

    async def _each(self, phase: str, step: Callable[[Worker], Awaitable[str | None]], timeout: float) -> None:
        """Run one phase on every worker at once, for `timeout` seconds at most. Raises the first failure.

        A step returns a detail of its success to record, if there is one.
        """
        failures: list[TpuTuiError] = []

        async def run_step(worker: Worker) -> None:
            try:
                detail = await step(worker) or ""
            except TpuTuiError as error:
                self._record_failure(worker, phase, error)
                failures.append(error)
                raise
            self.directory.append_event("phase", worker=worker.index, phase=phase, status="done", detail=detail)

        self._phase_of_all(phase, "started")
        tasks = {asyncio.ensure_future(run_step(worker)): worker for worker in self.spec.run.workers}
        all_steps = asyncio.ensure_future(_all_or_first_failure(tasks, timeout))
        futures: set[asyncio.Future[Any]] = {all_steps, self._lost}
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all([all_steps])
        if self._lost.done():
            raise self._lost.result()
        for task in all_steps.result():
            late = _late(phase, tasks[task], timeout, self.spec.run)
            self._record_failure(tasks[task], phase, late)
            failures.append(late)
        if failures:
            raise next((failure for failure in failures if isinstance(failure, _DECIDED)), failures[0])


def _late(phase: str, worker: Worker, timeout: float, run: Run) -> WorkerError:
    return WorkerError(
        f"{phase} took longer than {timeout:g} s",
        worker=worker.index,
        why="the worker or the network to it is slow or stuck",
        remedy="see whether it answers: "
        f"tpu-tui exec {run.slice_path} --worker {worker.index} --timeout 60 -- uptime",
    )


async def _all_or_first_failure(tasks: Collection[asyncio.Task[None]], timeout: float) -> list[asyncio.Task[None]]:
    """Wait for all tasks, after a first failure only for a moment; cancel and return those that exceed `timeout`."""
    late: list[asyncio.Task[None]] = []
    try:
        done, pending = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_EXCEPTION)
        if pending and any(task.exception() for task in done):
            await asyncio.wait(pending, timeout=_OTHER_FAILURES_S)
        else:
            late = list(pending)
    finally:
        results = await cancel_all(tasks)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, TpuTuiError):
            raise result
    return late
