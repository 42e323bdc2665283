"""Failures of one worker in any phase of a launch: the launch ends everywhere, and names the worker."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.chaos.launches import phase_seen
from tests.runs.ssh_pod import Pod, over, unattended
from tests.sshd import OpensshWorker, openssh_worker
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.keeper.start import start_keeper
from tui.runs.launch.phases import PhaseTimeouts
from tui.runs.record.run_directory import RunDirectory

LATE = 10.0
"""Seconds allowed for a phase that one worker never finishes: enough for the others on a busy machine."""
WAITING = 'until [ -e "$HOME/on" ]; do sleep 0.1; done\n'
"""A command in a start-up file or program that holds a worker up until the file `on` exists."""
JOB = ("sh", "-c", 'echo >"$HOME/ran"; exec sleep 1000')
Sabotage = Callable[[Pod, int], AbstractContextManager[object]]
Strike = Callable[[Pod, int, RunDirectory], None]


def no_strike(pod: Pod, victim: int, directory: RunDirectory) -> None:
    """Do nothing: the sabotage before the launch is enough."""


@dataclass(frozen=True)
class Failure:
    """A way in which one worker fails: what is done to it before the launch, and during the launch."""

    name: str
    phase: str
    says: str
    sabotage: Sabotage = field(repr=False)
    strike: Strike = field(default=no_strike, repr=False)
    argv: tuple[str, ...] = JOB
    run: dict[str, Any] = field(default_factory=dict, repr=False)
    spec: dict[str, Any] = field(default_factory=dict, repr=False)
    sync: bool = False

    @property
    def starts_nothing(self) -> bool:
        """Return whether the failure comes before the barrier, so that no job starts."""
        return self.phase not in ("start", "confirm")


def fail(pod: Pod, failure: Failure, victim: int, tree: Path) -> None:
    """Launch with that failure on one worker; check that the cause names it and that nothing is left anywhere."""
    for worker in pod.workers:
        for name in ("ran", "on"):
            (worker.home / name).unlink(missing_ok=True)
    with failure.sabotage(pod, victim):
        spec = replace(pod.spec(*failure.argv, **failure.run), **failure.spec)
        directory = RunDirectory.create(pod.home / "runs", spec.run)
        pod.launched.append(directory)
        start_keeper(directory, replace(spec, sync=tree) if failure.sync else spec)
        failure.strike(pod, victim, directory)
        wait_until(lambda: phase_seen(directory, failure.phase, "failed", victim), seconds=90)
        for worker in pod.workers:
            (worker.home / "on").touch()
    status = over(directory, 90)
    assert status.state is RunState.FAILED
    assert (status.cause or "").startswith(f"worker {victim}"), status.cause
    assert status.first_failure == victim
    assert failure.says in (status.cause or ""), status.cause
    unattended(directory)
    wait_until(lambda: not processes_of(directory))
    if failure.starts_nothing:
        assert not any((worker.home / "ran").exists() for worker in pod.workers)
        wait_until(lambda: not any(pod.remote(directory, index).exists() for index in range(len(pod.workers))))


def processes_of(directory: RunDirectory) -> list[str]:
    """Return the command lines of all processes of this machine whose arguments or environment name the run."""
    mark = directory.id.encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if mark in words or b"TPU_TUI_RUN=" + mark in (process / "environ").read_bytes():
                found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


# -- what is done to a worker before the launch ---------------------------------------------------------------------


@contextmanager
def down(pod: Pod, victim: int) -> Iterator[None]:
    pod.workers[victim].stop()
    try:
        yield
    finally:
        pod.workers[victim].start()


@contextmanager
def replaced(path: Path, text: str | None, mode: int = 0o644) -> Iterator[None]:
    """Replace a file by one with this text, or by nothing, and restore it afterwards."""
    aside = path.with_name(path.name + ".aside")
    if path.exists():
        path.rename(aside)
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        if aside.exists() or aside.is_symlink():
            aside.rename(path)


def no_key(pod: Pod, victim: int) -> AbstractContextManager[None]:
    return replaced(pod.workers[victim].root / "authorized_keys", "")


@contextmanager
def another_host(pod: Pod, victim: int) -> Iterator[None]:
    worker = pod.workers[victim]
    true, worker.host_key = worker.host_key, pod.workers[victim - 1].host_key
    try:
        yield
    finally:
        worker.host_key = true


@contextmanager
def mute(pod: Pod, victim: int) -> Iterator[None]:
    """Stop the server, which then accepts connections and sends nothing."""
    server = pod.workers[victim].process
    assert server is not None
    server.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.send_signal(signal.SIGCONT)


def a_file_for_a_root(pod: Pod, victim: int) -> AbstractContextManager[None]:
    return replaced(pod.workers[victim].home / ".tpu-tui", "")


@contextmanager
def occupied(pod: Pod, victim: int) -> Iterator[None]:
    lone = Pod([pod.workers[victim]], pod.home)
    spec = replace(lone.spec("sleep", "1000"), keeper_timeouts=pod.timeouts)
    directory = RunDirectory.create(pod.home / "runs", spec.run)
    pod.launched.append(directory)
    start_keeper(directory, spec)
    wait_until(lambda: phase_seen(directory, "confirm", "done"))
    try:
        yield
    finally:
        assert all(answer.confirmed for answer in lone.stop(directory))
        over(directory)


@contextmanager
def device_held(pod: Pod, victim: int) -> Iterator[None]:
    device = device_of(pod.workers[victim].root.parent, victim)
    device.touch()
    with device.open() as held, subprocess.Popen(["sleep", "1000"], stdin=held) as owner:
        try:
            yield
        finally:
            owner.kill()
    device.unlink()


def device_of(root: Path, index: int) -> Path:
    """Return the file that stands for the TPU of a server started by `servers_with_devices`."""
    return root / f"accel{index}"


@contextmanager
def servers_with_devices(root: Path, count: int) -> Iterator[list[OpensshWorker]]:
    """Start servers, each of which looks for its TPU at its own path, where no file exists yet."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                openssh_worker(
                    root, index=index, bare=True, environment={"TPU_TUI_DEVICES": str(device_of(root, index))}
                )
            )
            for index in range(count)
        ]


@contextmanager
def program_elsewhere_only(pod: Pod, victim: int) -> Iterator[None]:
    links = [worker.root / "bin" / "rare" for index, worker in enumerate(pod.workers) if index != victim]
    for link in links:
        link.symlink_to("/bin/true")
    try:
        yield
    finally:
        for link in links:
            link.unlink()


@contextmanager
def directory_elsewhere_only(pod: Pod, victim: int) -> Iterator[None]:
    made = [worker.home / "work" for index, worker in enumerate(pod.workers) if index != victim]
    for directory in made:
        directory.mkdir()
    try:
        yield
    finally:
        for directory in made:
            directory.rmdir()


def small_disk(name: str, size: str) -> Sabotage:
    """Return a sabotage that mounts a file system of this size below the worker's home."""

    @contextmanager
    def mounted(pod: Pod, victim: int) -> Iterator[None]:
        place = pod.workers[victim].home / name
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
        try:
            yield
        finally:
            wait_until(lambda: subprocess.run(["umount", str(place)], capture_output=True).returncode == 0)

    return mounted


def without(program: str) -> Sabotage:
    def removed(pod: Pod, victim: int) -> AbstractContextManager[None]:
        return replaced(pod.workers[victim].root / "bin" / program, None)

    return removed


def held_up(pod: Pod, victim: int) -> AbstractContextManager[None]:
    """Hold the worker up in its start-up files."""
    return replaced(pod.workers[victim].home / ".profile", WAITING)


def next_held_up(pod: Pod, victim: int) -> AbstractContextManager[None]:
    """Hold another worker up in its start-up files, so that all others wait at the barrier."""
    return held_up(pod, (victim + 1) % len(pod.workers))


def slow_to_start(worker: OpensshWorker) -> AbstractContextManager[None]:
    text = f'#!/bin/sh\n[ "$2" = true ] || {{ {WAITING.strip()}; }}\nexec /usr/bin/env "$@"\n'
    return replaced(worker.root / "bin" / "env", text, 0o755)


def stuck_in_start(pod: Pod, victim: int) -> AbstractContextManager[None]:
    return slow_to_start(pod.workers[victim])


def next_stuck_in_start(pod: Pod, victim: int) -> AbstractContextManager[None]:
    return slow_to_start(pod.workers[(victim + 1) % len(pod.workers)])


def a_file_for_the_code(pod: Pod, victim: int) -> AbstractContextManager[None]:
    root = pod.workers[victim].home / ".tpu-tui"
    root.mkdir(exist_ok=True)
    return replaced(root / "code", "")


# -- what is done during the launch ---------------------------------------------------------------------------------


def cut_when(phase: str, status: str) -> Strike:
    """Return a strike that kills the worker's connections when it reports this status of a phase."""

    def strike(pod: Pod, victim: int, directory: RunDirectory) -> None:
        wait_until(lambda: phase_seen(directory, phase, status, victim), seconds=60)
        wait_until(lambda: pod.remote(directory, victim).exists(), seconds=60)
        pod.workers[victim].cut()

    return strike


def cut_when_going(pod: Pod, victim: int, directory: RunDirectory) -> None:
    wait_until((pod.remote(directory, victim) / "going").exists, seconds=60)
    pod.workers[victim].cut()


def vanish_when_armed(pod: Pod, victim: int, directory: RunDirectory) -> None:
    """Remove setsid between the checks of a worker and its start, so that the job cannot begin."""
    wait_until(lambda: phase_seen(directory, "prepare", "done", victim), seconds=60)
    program = pod.workers[victim].root / "bin" / "setsid"
    with replaced(program, None):
        (pod.workers[(victim + 1) % len(pod.workers)].home / "on").touch()
        wait_until((pod.remote(directory, victim) / "code").exists, seconds=60)


FAILURES = (
    Failure("refused", "connect", "refused", down),
    Failure("denied", "connect", "ermission denied", no_key),
    Failure("another host key", "connect", "host key", another_host),
    Failure(
        "mute",
        "connect",
        f"connect took longer than {LATE:.0f} s",
        mute,
        spec={"timeouts": PhaseTimeouts(connect=LATE)},
    ),
    Failure("no directory", "prepare", "cannot make the run's directory", a_file_for_a_root),
    Failure("busy", "prepare", "another run is alive here", occupied),
    Failure("device held", "prepare", "held by another process", device_held),
    Failure("no command", "prepare", "command not found: rare", program_elsewhere_only, argv=("rare",)),
    Failure("no workdir", "prepare", "work", directory_elsewhere_only, run={"workdir": "~/work"}),
    Failure("disk full", "prepare", "no room for the log", small_disk(".tpu-tui", "1m")),
    Failure("no prlimit", "prepare", "prlimit", without("prlimit")),
    Failure("no setsid", "prepare", "setsid", without("setsid")),
    Failure("cut", "prepare", "worker", held_up, cut_when("prepare", "started")),
    Failure(
        "late",
        "prepare",
        f"prepare took longer than {LATE:.0f} s",
        held_up,
        spec={"timeouts": PhaseTimeouts(prepare=LATE)},
    ),
    Failure("no place for code", "sync", "worker", a_file_for_the_code, sync=True),
    Failure("no room for code", "sync", "worker", small_disk(".tpu-tui/code", "64k"), sync=True),
    Failure("cut at the barrier", "barrier", "connection broke", next_held_up, cut_when("prepare", "done")),
    Failure("cut in the start", "start", "worker", stuck_in_start, cut_when_going),
    Failure("nothing to start with", "start", "start took longer", next_held_up, vanish_when_armed),
    Failure("cut before it is confirmed", "confirm", "worker", next_stuck_in_start, cut_when("start", "done")),
)


def make_tree(root: Path) -> Path:
    """Make a small working tree to copy: 200 kB, more than the small disk holds."""
    root.mkdir()
    (root / "weights").write_bytes(bytes(200_000))
    return root
