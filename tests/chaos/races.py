"""Users, keepers and networks that act on one run at random moments, and the checks of its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.chaos.launches import is_keeper_starting
from tests.runs.pipes import tagged
from tests.runs.ssh_pod import Pod, digest
from tui.pod.run import RunState
from tui.runs.discovery import discover, import_run
from tui.runs.keeper.start import ensure_keeper, is_complete
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import RunStatus, status_of
from tui.runs.worker.stop import StopAnswer
from tui.ssh.fleet import Fleet

SPAN = 3.0
"""Seconds over which acts are spread: a launch, one or two restarts, an end."""
SHORTEST, LONGEST = 0.05, 1.5
"""Seconds that jobs take that end by themselves."""
RESTARTS = 2
SETTLED = 180.0
"""Seconds for the remaining steps once nothing interferes any more."""
UNTRUE = ("rebooted", "another machine (", "power loss", "fault of tpu-tui", "Traceback")
"""Words that no report may hold here: no machine reboots, none shares another's home, and tpu-tui has no fault."""


@dataclass(frozen=True)
class Job:
    """A launched command, and the states that its run may end in unless it is stopped."""

    name: str
    argv: tuple[str, ...]
    restarts: int
    ends: tuple[RunState, ...]


def random_job(rng: random.Random) -> Job:
    """Return a job that sleeps, ends, obeys a stop with exit code 0, or fails and is launched again."""
    seconds = rng.uniform(SHORTEST, LONGEST)
    loop = f"i=0; while [ $i -lt {round(seconds * 20)} ]; do sleep 0.05; i=$((i+1)); done"
    return rng.choice(
        [
            Job("sleeps", ("sleep", "1000"), 0, ()),
            Job("ends", ("sh", "-c", f"echo on; sleep {seconds:.3f}; echo end"), 0, (RunState.SUCCEEDED,)),
            Job("obeys", ("sh", "-c", f"trap 'echo bye; exit 0' TERM; echo on; {loop}"), 0, (RunState.SUCCEEDED,)),
            Job("fails", ("sh", "-c", f"echo on; sleep {seconds / 5:.3f}; exit 3"), RESTARTS, (RunState.FAILED,)),
        ]
    )


@dataclass
class Race:
    """One run, in the home that launched it and perhaps in a second one, with what was done to it."""

    pod: Pod
    rng: random.Random
    job: Job
    here: RunDirectory
    elsewhere: Path
    there: RunDirectory | None = None
    disturbed: bool = False
    """Whether a worker or a keeper was taken away."""
    stops: list[list[StopAnswer]] = field(default_factory=list)

    def stop(self, directory: RunDirectory | None = None) -> None:
        """Stop the run as a user would; if all workers confirm, check at once that no process is left."""
        answers = self.pod.stop(RunDirectory.open((directory or self.here).path))
        self.stops.append(answers)
        if all(answer.confirmed for answer in answers):
            assert not self._left(), answers

    def stop_there(self) -> None:
        """Stop the run from another machine, which finds it on the workers."""
        if self.there is None:
            self.find()
        if self.there is not None:
            self.stop(self.there)

    def find(self) -> None:
        """Find the run from another machine, without starting a keeper there."""

        async def ask() -> None:
            async with Fleet(self.pod.launch_workers, self.pod.access) as fleet:
                runs = (await discover(fleet, self.here.run.run_root)).runs
            for found in runs:
                if found.run.id == self.here.id:
                    self.there = import_run(found, self.elsewhere)
                    self.pod.launched.append(self.there)

        asyncio.run(ask())

    def follow_there(self) -> None:
        """Start a keeper on another machine."""
        self.find()
        if self.there is not None:
            self.ensure_keeper(self.there)

    def kill_keeper(self) -> None:
        """Kill the keeper, and have two commands start another one at the same time."""
        self.disturbed = True
        attendance = self.here.keeper_status()
        if attendance.alive and attendance.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(attendance.pid, signal.SIGKILL)
        with ThreadPoolExecutor(2) as both:
            list(both.map(self.ensure_keeper, [self.here, self.here]))

    def ensure_keeper(self, directory: RunDirectory) -> None:
        """Start a keeper if there is none and the run is not over."""
        again = RunDirectory.open(directory.path)
        asyncio.run(ensure_keeper(again, self.pod.access, timeouts=self.pod.timeouts))

    def restart_sshd(self) -> None:
        """Make one worker unreachable for a moment."""
        self.disturbed = True
        worker = self.pod.workers[self.rng.randrange(len(self.pod.workers))]
        if worker.process is not None:
            worker.stop()
            time.sleep(self.rng.uniform(0, 0.5))
            worker.start()

    def settle(self, directory: RunDirectory) -> RunStatus:
        """Wait until the run is complete; replace a keeper that has ended, as any command does."""
        deadline = time.monotonic() + SETTLED
        while directory.keeper_status().alive or is_keeper_starting(directory) or not is_complete(directory):
            assert time.monotonic() < deadline, (status_of(directory), directory.events()[0][-5:])
            self.ensure_keeper(directory)
            time.sleep(0.1)
        return status_of(directory)

    def check(self, directory: RunDirectory, status: RunStatus) -> None:
        """Check that nothing is left, no report is wrong, every log is mirrored, and the state fits what was done."""
        text = "\n".join(path.read_text() for path in directory.path.glob("*.jsonl"))
        text += (directory.path / "keeper.log").read_text() if (directory.path / "keeper.log").exists() else ""
        assert not [words for words in UNTRUE if words in text], text
        assert not self._left(), text
        allowed = (*self.job.ends, RunState.STOPPED) if self.stops else self.job.ends
        # A launch may fail when a worker or its keeper was taken away before all workers ran.
        if status.started is None and self.disturbed:
            allowed = (*allowed, RunState.FAILED)
        assert status.state in allowed, (self.job.name, status.state, status.cause, text)
        if status.state is RunState.SUCCEEDED:
            assert set(status.exit_codes) == {0}, text
        for index in range(len(self.pod.workers)):
            self._check_mirror(directory, status, index)

    def _check_mirror(self, directory: RunDirectory, status: RunStatus, index: int) -> None:
        remote, mirror = self.pod.remote(directory, index), directory.log_path(index)
        if (remote / "status").exists() and (remote / "attempt").read_text() == f"{status.attempt}\n":
            same = mirror.exists() and digest(mirror) == digest(remote / "log")
            assert same or not (remote / "log").stat().st_size, f"worker {index}: {mirror}"

    def _left(self) -> list[int]:
        return tagged(*self.pod.tags(self.here))


def race(pod: Pod, rng: random.Random, root: Path) -> Counter[str]:
    """Launch one run, do up to four acts at random moments of its life, and check what is known of it in the end."""
    job = random_job(rng)
    before, pod.timeouts = pod.timeouts, replace(pod.timeouts, lost_after=60.0, gone_after=60.0, newer_acts=5.0)
    directory = pod.launch(*job.argv, restarts=job.restarts)
    made = Race(pod, rng, job, directory, root / f"elsewhere-{directory.id}")
    acts: list[Callable[[], None]] = [made.stop, made.stop_there, made.follow_there, made.kill_keeper]
    acts.append(made.restart_sshd)
    chosen = [made.stop, *rng.choices(acts, k=rng.randrange(4))]

    def act_at(act: Callable[[], None], moment: float) -> str:
        time.sleep(moment)
        act()
        return act.__name__

    moments = [rng.uniform(0, SPAN) for _ in chosen]
    with ThreadPoolExecutor(len(chosen)) as pool:
        done = Counter(pool.map(act_at, chosen, moments))
    for one in filter(None, (made.here, made.there)):
        made.check(one, made.settle(one))
    pod.timeouts = before
    return done
