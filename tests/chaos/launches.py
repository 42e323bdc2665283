"""Faults during a launch: keepers killed at random moments, workers frozen at the two words that matter."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from dataclasses import dataclass

from tests.runs.pipes import tagged, until
from tests.runs.ssh_pod import Pod, over, unattended
from tui.pod.run import RunState
from tui.runs.directory import RunDirectory
from tui.runs.keeper import attend
from tui.runs.status import status_of
from tui.runs.survey import Found, survey
from tui.ssh.fleet import Fleet


@dataclass
class Tally:
    """What became of launches whose keeper was killed."""

    running: int = 0
    none: int = 0
    partial: int = 0

    def __str__(self) -> str:
        total = self.running + self.none + self.partial
        return f"{total} kills: {self.running} all running, {self.none} none, {self.partial} partial (cleaned up)"


def found_on(pod: Pod, directory: RunDirectory) -> list[Found]:
    """What each worker has of the run once it is decided."""

    async def ask() -> list[Found]:
        async with Fleet(directory.run.workers, pod.access) as fleet:
            return list((await survey(directory.run, fleet)).values())

    return asyncio.run(ask())


def phase_seen(directory: RunDirectory, phase: str, status: str, worker: int | None = None) -> bool:
    """Whether an event tells that phase of a worker, of any one where none is given."""
    return any(
        event.kind == "phase"
        and (event.get("phase"), event.get("status")) == (phase, status)
        and worker in (None, event.worker)
        for event in directory.events()[0]
    )


def kill_a_keeper(pod: Pod, rng: random.Random, tally: Tally, *, aimed: bool, span: float) -> None:
    """One launch whose keeper is killed: at a random moment of `span` seconds, or `aimed` at the confirmations."""
    directory = pod.launch("sleep", "1000")
    keeper = directory.attended().pid or 0
    if aimed:
        until(lambda: phase_seen(directory, "start", "done"))
        time.sleep(rng.uniform(0, 0.01))
    else:
        time.sleep(rng.uniform(0, span))
    os.kill(keeper, signal.SIGKILL)
    unattended(directory)
    found = found_on(pod, directory)
    running = found.count(Found.RUNNING)
    partial = 0 < running < len(found)
    tally.partial += partial
    tally.running += running == len(found)
    tally.none += running == 0
    asyncio.run(attend(directory, pod.access, patience=pod.patience))
    until(lambda: status_of(directory).state is not RunState.PREPARING)
    status = status_of(directory)
    if partial:
        assert over(directory).state is RunState.FAILED
        assert "does not run on worker" in (status_of(directory).cause or "")
    elif running:
        assert status.state is RunState.RUNNING, status.cause
    else:
        assert over(directory).state is RunState.FAILED
    if not partial and running:
        assert all(answer.confirmed for answer in pod.stop(directory))
        over(directory)
    until(lambda: not any(tagged(tag) for tag in pod.tags(directory)))
    unattended(directory)


def freeze_before(pod: Pod, word: str, victim: int) -> float:
    """Freeze a worker's connection before it can hear `go` or `ok`; seconds until nothing is left anywhere.

    Another worker is slow, so that the others wait for it while the victim freezes.
    """
    slow = pod.workers[(victim + 1) % len(pod.workers)]
    if word == "go":
        (slow.home / ".profile").write_text("sleep 1\n")
    else:
        program = slow.root / "bin" / "env"
        program.unlink()
        program.write_text('#!/bin/sh\n[ "$2" = true ] || sleep 1\nexec /usr/bin/env "$@"\n')
        program.chmod(0o755)
    directory = pod.launch("sleep", "1000")
    until(lambda: phase_seen(directory, "prepare" if word == "go" else "start", "done", victim))
    pod.workers[victim].freeze()
    began = time.monotonic()
    until(lambda: phase_seen(directory, "start" if word == "go" else "confirm", "failed", victim))
    tags = pod.tags(directory)
    until(lambda: not any(tagged(tag) for tag in tags))
    took = time.monotonic() - began
    pod.workers[victim].thaw()
    status = over(directory, 60)
    assert status.state is RunState.FAILED
    assert status.first_failure == victim, status.cause
    assert f"worker {victim}" in (status.cause or "")
    assert not any(tagged(tag) for tag in pod.tags(directory))
    unattended(directory)
    return took
