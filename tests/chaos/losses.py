"""Faults of a run's files and connections, by jobs, disks and workers: state, exit codes and mirrors stay correct."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.failures import replaced
from tests.runs.disks import NoDiskError, mounted
from tests.runs.pipes import tagged
from tests.runs.ssh_pod import Pod, digest, over, unattended
from tests.runs.test_worker_disk import FILLING, written
from tests.runs.test_worker_removed import TAKEN
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

LEASE_S = 30.0
"""No fault here is one of a launch, which may take long on a machine under load."""
END_TIMEOUT_S = 120.0
"""Seconds allowed for an end that takes two or three on an idle machine."""
DISK_MEGABYTES = 90
LITTLE, MUCH = (1, 100), (50_000, 400_000)
"""Lines that a job writes once the disk is full: within a block or two, and megabytes."""
FROZEN_S = (0.3, 4.0)
LOG_FAULTS = ("removed", "renamed", "replaced by a directory", "replaced by a symlink", "replaced by a fifo")
DIRECTORY_FAULTS = ("directory removed", "directory renamed", "runs removed", "all removed", "every file removed")
WRITER = """
import os, subprocess, sys, time
victim, taken, code = sys.argv[1], sys.argv[2], int(sys.argv[3])
before, after, lines = float(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
home, worker = os.environ["HOME"], os.environ["TPU_TUI_WORKER"]
here = f"{home}/.tpu-tui/runs/{os.environ['TPU_TUI_RUN']}/{worker}"
def write(begin, seconds):
    for number in range(begin, begin + lines):
        os.write(1, b"%d of %d\\n" % (number, int(worker)))
        time.sleep(seconds / lines)
write(0, before)
if worker == victim:
    subprocess.run(["sh", "-c", taken], cwd=here, env={**os.environ, "HERE": here})
write(lines, after)
sys.exit(code if worker == victim else 0)
"""
"""A job that writes numbered lines, runs a script on one worker half way, and ends there with an exit code."""
GARBAGE = (
    "end exit=0 size={digits} time=now",
    "end exit={digits} size=-1",
    "short",
    "short {digits} x y",
    "status",
    "status x",
    "stopped",
    "unconfirmed",
    "room",
    "ending",
    "\\033]0;title\\007 \\033[31mred",
    "json {digits}",
    "json 5\\n[[[[[",
    "run x",
    "listed",
    "kept entitled deleted",
)
"""Answers of a hostile worker: none that could be true; a log may hold any bytes."""


def full_disk(lines: tuple[int, int]) -> Callable[[Pod, random.Random, Path], None]:
    """Return a round in which a worker's job fills its disk, writes so many lines more, and ends."""

    def strike(pod: Pod, rng: random.Random, root: Path) -> None:
        victim, code, count = rng.randrange(len(pod.workers)), rng.randrange(1, 100), rng.randint(*lines)
        with small_root(pod, victim, rng.choice(("ext4", "tmpfs")), root) as disk:
            script = f'[ "$TPU_TUI_WORKER" = {victim} ] || exec sleep 1000; exec "$@"'
            words = (sys.executable, "-c", FILLING, str(disk), str(count), "1", str(code))
            directory = pod.launch("sh", "-c", script, "sh", *words)
            status = over(directory, END_TIMEOUT_S)
            codes = [143] * len(pod.workers)
            codes[victim] = code
            assert (status.state, list(status.exit_codes)) == (RunState.FAILED, codes), status
            assert status.first_failure == victim, status
            assert directory.log_path(victim).read_bytes() == written(count)
            settled(pod, directory)

    return strike


@contextmanager
def small_root(pod: Pod, victim: int, kind: str, root: Path) -> Iterator[Path]:
    """Put one worker's run_root on a small disk."""
    place = root / "disks"
    link, aside = pod.workers[victim].home / ".tpu-tui", pod.workers[victim].home / "aside"
    try:
        with mounted(kind, place, DISK_MEGABYTES) as disk:
            (disk / "root").mkdir()
            with contextlib.suppress(FileNotFoundError):
                link.rename(aside)
            link.symlink_to(disk / "root")
            try:
                yield disk
            finally:
                (disk / "ballast").unlink(missing_ok=True)
                link.unlink()
                if aside.exists():
                    aside.rename(link)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def taken_away(faults: tuple[str, ...]) -> Callable[[Pod, random.Random, Path], None]:
    """Return a round in which a job takes its log or directory away, then ends by itself or is stopped."""

    def strike(pod: Pod, rng: random.Random, root: Path) -> None:
        victim, code, lines = rng.randrange(len(pod.workers)), rng.randrange(1, 100), rng.choice((5, 500))
        script = TAKEN[rng.choice(faults)]
        stops = rng.random() < 0.4
        after = 1000.0 if stops else rng.uniform(0.2, 1.5)
        words = (str(victim), script, str(code), str(rng.uniform(0, 1)), str(after), str(lines))
        directory = pod.running(sys.executable, "-c", WRITER, *words, lease=LEASE_S)
        tags = pod.tags(directory)
        if stops:
            time.sleep(rng.uniform(0.5, 2.5))
            answers = pod.stop(directory)
            assert all(answer.confirmed and answer.exit_code == 143 for answer in answers), answers
            assert not tagged(*tags)
        status = over(directory, END_TIMEOUT_S)
        if stops:
            assert (status.state, set(status.exit_codes)) == (RunState.STOPPED, {143}), status
        else:
            assert (status.state, status.exit_codes[victim]) == (RunState.FAILED, code), status
            assert status.first_failure == victim, status
            everything = b"".join(b"%d of %d\n" % (number, victim) for number in range(2 * lines))
            assert directory.log_path(victim).read_bytes() == everything
        settled(pod, directory)

    return strike


def stopped_keeper(pod: Pod, rng: random.Random, root: Path) -> None:
    """Stop the keeper with SIGSTOP for a while, in which the run may end or be stopped."""
    stops = rng.random() < 0.4
    after = 1000.0 if stops else rng.uniform(0.2, 2)
    words = ("-1", ":", "0", str(rng.uniform(0, 0.5)), str(after), str(rng.choice((5, 500))))
    directory = pod.running(sys.executable, "-c", WRITER, *words, lease=LEASE_S)
    keeper = directory.keeper_status().pid or 0
    time.sleep(rng.uniform(0, 0.5))
    os.kill(keeper, signal.SIGSTOP)
    try:
        if stops:
            answers = pod.stop(RunDirectory.open(directory.path))
            assert all(answer.confirmed and answer.exit_code == 143 for answer in answers), answers
        time.sleep(rng.uniform(*FROZEN_S))
    finally:
        os.kill(keeper, signal.SIGCONT)
    status = over(directory, END_TIMEOUT_S)
    wanted = (RunState.STOPPED, {143}) if stops else (RunState.SUCCEEDED, {0})
    assert (status.state, set(status.exit_codes)) == wanted, status
    settled(pod, directory)


def hostile_worker(pod: Pod, rng: random.Random, root: Path) -> None:
    """Let one worker answer garbage for a while; check that the others are followed, and that its true end counts."""
    victim, code = rng.randrange(len(pod.workers)), rng.choice((0, 0, 3))
    script = 'i=0; while [ ! -e "$HOME/end" ]; do i=$((i+1)); echo $i; sleep 0.05; done; '
    directory = pod.running("sh", "-c", f'{script} [ "$TPU_TUI_WORKER" != {victim} ] || exit {code}', lease=LEASE_S)
    keeper = directory.keeper_status().pid
    others = [directory.log_path(index) for index in range(len(pod.workers)) if index != victim]
    wait_until(lambda: all(log.exists() for log in others), seconds=END_TIMEOUT_S)
    with replaced(pod.workers[victim].root / "bin" / "sh", hostile(rng), 0o755):
        pod.workers[victim].cut()
        sizes = [log.stat().st_size for log in others]
        time.sleep(rng.uniform(0.5, 4))
        wait_until(
            lambda: all(log.stat().st_size > size for log, size in zip(others, sizes, strict=True)),
            seconds=END_TIMEOUT_S,
        )
        if rng.random() < 0.3:
            answers = {answer.worker: answer.confirmed for answer in pod.stop(directory)}
            assert answers == {index: index != victim for index in range(len(pod.workers))}
            wanted = None
        else:
            wanted = RunState.SUCCEEDED if code == 0 else RunState.FAILED
        assert status_of(directory).state in (RunState.RUNNING, RunState.STOPPING), status_of(directory)
    for worker in pod.workers:
        (worker.home / "end").touch()
    status = over(directory, END_TIMEOUT_S)
    for worker in pod.workers:
        (worker.home / "end").unlink()
    assert directory.keeper_status().pid == keeper or not directory.keeper_status().alive
    assert status.state in ((wanted,) if wanted else (RunState.STOPPED,)), status
    if wanted:
        codes = [0] * len(pod.workers)
        codes[victim] = code
        assert list(status.exit_codes) == codes, status
    settled(pod, directory)


def hostile(rng: random.Random) -> str:
    """Return a program in place of sh that takes a call's arguments and prints nonsense to both outputs."""
    chosen = rng.sample(GARBAGE, rng.randint(1, 5))
    lines = [f"@$7 {line}".format(digits="9" * rng.choice((30, 5000))) for line in chosen]
    noise = rng.randbytes(rng.choice((0, 10, 3000))).hex()
    printed = "".join(f'printf "{line}\\n"; printf "{line}\\n" >&2\n' for line in lines)
    return (
        f"#!/bin/bash\nprintf '{noise}'\n{printed}sleep {rng.uniform(0, 0.3):.2f}\nexit {rng.choice((0, 1, 255))}\n"
    )


def settled(pod: Pod, directory: RunDirectory) -> None:
    """Check that nothing of the run is left, every mirror is exact, and its keeper ended without a fault."""
    wait_until(lambda: not directory.keeper_status().alive, seconds=END_TIMEOUT_S)
    unattended(directory)
    assert not tagged(*pod.tags(directory))
    for index in range(len(pod.workers)):
        mirror, log = directory.log_path(index), pod.remote(directory, index) / "log"
        sizes = f"worker {index}: the mirror holds {mirror.stat().st_size} bytes"
        assert not log.exists() or digest(mirror) == digest(log), sizes
    keeper_log = directory.path / "keeper.log"
    assert not keeper_log.exists() or "Traceback" not in keeper_log.read_text(), keeper_log.read_text()


FAULTS: dict[str, Callable[[Pod, random.Random, Path], None]] = {
    "disk full, little written": full_disk(LITTLE),
    "disk full, much written": full_disk(MUCH),
    "log removed": taken_away(LOG_FAULTS),
    "run directory removed": taken_away(DIRECTORY_FAULTS),
    "keeper stopped": stopped_keeper,
    "hostile worker": hostile_worker,
}


def possible_faults(root: Path) -> list[str]:
    """Return the faults that can be injected here: full disks need root and file systems to mount."""
    try:
        for kind in ("ext4", "tmpfs"):
            with mounted(kind, root / f"probe-{kind}", DISK_MEGABYTES):
                pass
    except NoDiskError as error:
        print(f"no disks are filled: {error}", flush=True)
        return [name for name in FAULTS if not name.startswith("disk")]
    return list(FAULTS)
