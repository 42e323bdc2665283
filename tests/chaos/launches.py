"""Faults during a launch: keepers killed at random moments, and workers frozen before `go` or `ok`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.runs.pipes import tagged
from tests.runs.ssh_pod import Pod, over, unattended
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.keeper.start import ensure_keeper
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_index import list_runs
from tui.runs.record.run_status import status_of
from tui.runs.worker.queries import RemoteState, query_states
from tui.runs.worker.stop import stop_worker
from tui.ssh.fleet import Fleet

EVERY = 10
"""One in so many ends with all or no workers running is checked with a new keeper; each partial one is."""
DEADLINE = 120.0
"""Seconds allowed for steps that take one or two on an idle machine."""
AIM = 0.012
"""Seconds over which aimed kills are spread, from the start of the last worker but one."""
FROZEN_LEASE_S = 10.0
"""The lease of a launch in which a worker is frozen: only that worker may run out of it, on a loaded machine too."""


@dataclass
class Tally:
    """Outcomes of launches in which a process was killed."""

    running: int = 0
    none: int = 0
    partial: int = 0

    @property
    def total(self) -> int:
        """Return the number of launches."""
        return self.running + self.none + self.partial

    def __str__(self) -> str:
        return (
            f"{self.total} kills: {self.running} all running, {self.none} none, {self.partial} partial (cleaned up)"
        )


def decided(pod: Pod, directory: RunDirectory) -> int:
    """Wait until each worker has decided; return on how many the run was confirmed.

    Stop a run that runs everywhere.
    """

    # A command reads host keys from a file; run.json does not hold them.
    access = replace(pod.access, known_hosts=(str(pod.home / "known"),))

    async def ask() -> int:
        async with Fleet(directory.run.workers, access) as fleet:
            found = list((await query_states(directory.run, fleet, 0)).values())
            running = found.count(RemoteState.RUNNING)
            if running == len(found):
                stops = [
                    stop_worker(directory.run, fleet, worker.index, grace=1.0) for worker in directory.run.workers
                ]
                assert all(answer.confirmed for answer in await asyncio.gather(*stops))
            return running

    return asyncio.run(asyncio.wait_for(ask(), DEADLINE))


def phase_seen(directory: RunDirectory, phase: str, status: str, worker: int | None = None) -> bool:
    """Return whether an event reports that status of a phase, for one worker or for any."""
    return any(
        event.kind == "phase"
        and (event.get("phase"), event.get("status")) == (phase, status)
        and worker in (None, event.worker)
        for event in directory.events()[0]
    )


def kill_a_keeper(pod: Pod, rng: random.Random, tally: Tally, *, aimed: bool, span: float) -> None:
    """Kill the keeper of one launch, at a random moment of `span` seconds, or `aimed` at the confirmations."""
    directory = pod.launch("sleep", "1000")
    keeper = directory.keeper_status().pid or 0
    if aimed:
        _await_start(directory, len(pod.workers) - 1)
        time.sleep(rng.uniform(0, AIM))
    else:
        time.sleep(rng.uniform(0, span))
    os.kill(keeper, signal.SIGKILL)
    unattended(directory)
    running = decided(pod, directory)
    tally.running += running == len(pod.workers)
    tally.none += running == 0
    partial = 0 < running < len(pod.workers)
    tally.partial += partial
    if partial or tally.total % EVERY == 1:
        _taken_over(pod, directory, partial=partial)
    wait_until(lambda: not tagged(*pod.tags(directory)))


def _await_start(directory: RunDirectory, workers: int) -> None:
    """Wait until so many workers have started, with a resolution below a millisecond: the confirmations come next."""
    started = b'"phase": "start", "status": "done"'
    deadline = time.monotonic() + DEADLINE
    while (directory.path / "events.jsonl").read_bytes().count(started) < workers:
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def _taken_over(pod: Pod, directory: RunDirectory, *, partial: bool) -> None:
    """Check that a new keeper reports what it finds, and ends and names what runs on some workers only."""
    asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))
    status = over(directory, 90)
    if partial:
        assert status.state is RunState.FAILED, (status, directory.events()[0])
        assert "does not run on worker" in (status.cause or ""), status.cause
    unattended(directory)


def command_line(pod: Pod, *words: str) -> list[str]:
    """Return a command line of `tpu-tui` that reaches the pod by a hosts file, with the pod's home."""
    hosts, known = pod.home / "pod.hosts", pod.home / "known"
    if not hosts.exists():
        pod.home.mkdir(parents=True, exist_ok=True)
        hosts.write_text("".join(f"{one.user}@{one.host}:{one.port}\n" for one in pod.workers))
        known.write_text("".join(f"[{one.host}]:{one.port} {one.host_key}\n" for one in pod.workers))
    options = ["--hosts", str(hosts), "--known-hosts", str(known), "--identity", str(pod.workers[0].identity)]
    return [sys.executable, "-m", "tui.cli", *options, *words]


def _launching(pod: Pod) -> subprocess.Popen[bytes]:
    words = ("launch", "pod", "--runtime", "none", "--", "sleep", "1000")
    return subprocess.Popen(
        command_line(pod, *words),
        env={**os.environ, "TPU_TUI_HOME": str(pod.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def time_a_command(pod: Pod) -> float:
    """Return the seconds that a `launch` command takes from its start until all workers run."""
    before = {run.id for run in list_runs(pod.home / "runs")}

    def running() -> list[RunDirectory]:
        new = [run for run in list_runs(pod.home / "runs") if run.id not in before]
        return [run for run in new if status_of(run).state is RunState.RUNNING]

    began = time.monotonic()
    with _launching(pod) as command:
        wait_until(lambda: bool(running()), seconds=DEADLINE)
        took = time.monotonic() - began
        command.kill()
    end(pod, running()[0])
    return took


def time_a_launch(pod: Pod) -> float:
    """Return the seconds that a keeper takes until all workers run."""
    began = time.monotonic()
    directory = pod.launch("sleep", "1000")
    wait_until(lambda: status_of(directory).state is RunState.RUNNING, seconds=DEADLINE)
    took = time.monotonic() - began
    end(pod, directory)
    return took


def end(pod: Pod, directory: RunDirectory) -> None:
    """Stop a run that runs on all workers."""
    assert decided(pod, directory) == len(pod.workers)
    over(directory, DEADLINE)
    wait_until(lambda: not tagged(*pod.tags(directory)))


def is_keeper_starting(directory: RunDirectory) -> bool:
    """Return whether a process that is about to become the run's keeper exists; its parent may have ended."""
    path_bytes = os.fsencode(str(directory.path.resolve()))
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path_bytes in path.read_bytes().split(b"\0"):
                return True
    return False


def kill_a_command(pod: Pod, rng: random.Random, tally: Tally, *, span: float) -> None:
    """Kill one `launch` command within `span` seconds; once its keeper exists, all workers must run."""
    runs = pod.home / "runs"
    before = set(runs.glob("*"))
    with _launching(pod) as command:
        time.sleep(rng.uniform(0, span))
        command.kill()
    made = [path for path in set(runs.glob("*")) - before if (path / "run.json").exists()]
    directory = RunDirectory.open(made[0]) if made else None
    if directory is not None:
        wait_until(lambda: directory.keeper_status().alive or not is_keeper_starting(directory), seconds=DEADLINE)
    if directory is None or not directory.keeper_status().alive:
        tally.none += 1
        assert directory is None or not directory.events_size(), "a keeper started and ended"
        assert directory is None or not any(
            pod.remote(directory, index).exists() for index in range(len(pod.workers))
        )
        return
    pod.launched.append(directory)
    wait_until(lambda: status_of(directory).state is not RunState.PREPARING, seconds=DEADLINE)
    assert status_of(directory).state is RunState.RUNNING, status_of(directory).cause
    tally.running += 1
    end(pod, directory)


def freeze_before(pod: Pod, word: str, victim: int) -> float:
    """Freeze a worker's connection before it receives `go` or `ok`; return the seconds until nothing is left."""
    slow = pod.workers[(victim + 1) % len(pod.workers)]
    if word == "go":
        (slow.home / ".profile").write_text("sleep 1\n")
    else:
        program = slow.root / "bin" / "env"
        program.unlink()
        program.write_text('#!/bin/sh\n[ "$2" = true ] || sleep 1\nexec /usr/bin/env "$@"\n')
        program.chmod(0o755)
    directory = pod.launch("sleep", "1000", lease=FROZEN_LEASE_S)
    wait_until(lambda: phase_seen(directory, "prepare" if word == "go" else "start", "done", victim))
    pod.workers[victim].freeze()
    began = time.monotonic()
    wait_until(lambda: phase_seen(directory, "start" if word == "go" else "confirm", "failed", victim))
    tags = pod.tags(directory)
    wait_until(lambda: not tagged(*tags))
    took = time.monotonic() - began
    pod.workers[victim].thaw()
    status = over(directory, 60)
    assert status.state is RunState.FAILED
    assert status.first_failure == victim, status.cause
    assert f"worker {victim}" in (status.cause or "")
    assert not tagged(*pod.tags(directory))
    unattended(directory)
    return took
