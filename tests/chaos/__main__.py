"""Run every fault for a while on real OpenSSH servers, and print the figures.

python -m tests.chaos --workers 8 --rounds 200 --faults 1000 --minutes 60 [--seed N] [phases commands kills …]
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.chaos import drops
from tests.chaos.failures import FAILURES, fail, make_tree, servers_with_devices
from tests.chaos.launches import (
    AIM,
    FROZEN_LEASE_S,
    Tally,
    freeze_before,
    kill_a_command,
    kill_a_keeper,
    time_a_command,
    time_a_launch,
)
from tests.chaos.leftovers import LeftoverHunt
from tests.chaos.losses import FAULTS, possible_faults
from tests.chaos.mirrors import ProxiedPod, storm
from tests.chaos.proxy import proxies
from tests.chaos.races import race
from tests.pods import pod_process_in
from tests.runs.ssh_pod import Pod
from tests.sshd import MISSING, OpensshWorker, bare_path
from tui.runs.launch.launch_spec import Preflight

STORM_DURATION_S = 60.0
STORM_STRIKERS = 6
STORM_PAUSE_S = 0.5
STORM_LINES = 200_000
STORM_LOST_AFTER_S = 600.0
"""No fault of a storm lasts this long: a run that is given up as lost nevertheless is a defect."""
LOST_AFTER_S = 60.0
"""Seconds within which a new keeper reaches all workers on a loaded machine."""
PARTS = ("phases", "commands", "kills", "aimed", "frozen", "races", "losses", "leftovers", "groups", "storm")


def phases(pod: Pod, root: Path, until: float) -> str:
    """Make each worker fail a launch in every way; each way comes once before any comes to the next worker."""
    tree = make_tree(root / "tree")
    done: Counter[str] = Counter()
    for turn in range(len(pod.workers)):
        for place, failure in enumerate(FAILURES):
            if time.monotonic() > until:
                break
            fail(pod, failure, (turn + place) % len(pod.workers), tree)
            done[failure.name] += 1
    return f"{done.total()} launches failed on one worker, {len(done)} ways: each named, nothing left anywhere"


def commands(pod: Pod, rng: random.Random, rounds: int, until: float) -> str:
    """Kill `tpu-tui launch` while it launches."""
    tally = Tally()
    span = time_a_command(pod)
    while tally.total < rounds and time.monotonic() < until:
        kill_a_command(pod, rng, tally, span=span)
    return f"{tally}, over {span:.1f} s each"


def kills(pod: Pod, rng: random.Random, rounds: int, until: float, *, aimed: bool) -> str:
    """Kill keepers while they launch."""
    before, pod.timeouts = pod.timeouts, replace(pod.timeouts, lost_after=LOST_AFTER_S, gone_after=LOST_AFTER_S)
    tally = Tally()
    span = time_a_launch(pod)
    while tally.total < rounds and time.monotonic() < until:
        kill_a_keeper(pod, rng, tally, aimed=aimed, span=span)
    pod.timeouts = before
    return f"{tally}, over {AIM if aimed else span:.3f} s each"


def frozen(pod: Pod, until: float) -> str:
    """Freeze each worker before it receives `go`, then before it receives `ok`."""
    took: list[float] = []
    for word in ("go", "ok"):
        for victim in range(len(pod.workers)):
            if time.monotonic() > until:
                break
            took.append(freeze_before(pod, word, victim))
            for worker in pod.workers:
                (worker.home / ".profile").unlink(missing_ok=True)
                shutil.rmtree(worker.root / "bin")
                bare_path(worker.root)
    longest = f"{max(took, default=0):.1f} s (lease {FROZEN_LEASE_S:.0f} s)"
    return f"{len(took)} workers frozen, nothing left after at most {longest}"


def races(pod: Pod, root: Path, rng: random.Random, rounds: int, until: float) -> str:
    """Stop and follow runs, also from a second home, kill keepers and restart servers; check each run."""
    done: Counter[str] = Counter()
    runs = 0
    while runs < rounds and time.monotonic() < until:
        done += race(pod, rng, root)
        runs += 1
    acts = ", ".join(f"{count} {name}" for name, count in done.items())
    return f"{runs} runs ({acts}): nothing left, nothing untrue reported"


def losses(pod: Pod, root: Path, rng: random.Random, rounds: int, until: float) -> str:
    """Fill disks, take logs and directories away, stop keepers and make workers hostile, `rounds` of each at most."""
    done: Counter[str] = Counter()
    faults = possible_faults(root)
    before, pod.timeouts = pod.timeouts, replace(pod.timeouts, lost_after=LOST_AFTER_S, gone_after=LOST_AFTER_S)
    while min(done[name] for name in faults) < rounds and time.monotonic() < until:
        name = faults[done.total() % len(faults)]
        seed = rng.randrange(1 << 32)
        try:
            FAULTS[name](pod, random.Random(seed), root)
        except BaseException:
            print(f"{name}: failed with seed {seed}, after {dict(done)}", flush=True)
            raise
        done[name] += 1
    pod.timeouts = before
    struck = ", ".join(f"{count} × {name}" for name, count in done.items())
    return f"{done.total()} runs ({struck}): state, exit codes and mirrors true"


def leftovers(root: Path, rng: random.Random, rounds: int, until: float) -> str:
    """Kill commands that create, queue and clean up at random moments; check that their leftovers are listed."""
    home = root / "leftovers"
    with pod_process_in(home) as pod:
        hunt = LeftoverHunt(home, pod.announcement, rng)
        while hunt.killed.total() < rounds and time.monotonic() < until:
            hunt.round()
        hunt.clean()
        hunt.close()
    killed = ", ".join(f"{count} × {name}" for name, count in hunt.killed.items())
    return f"{hunt.killed.total()} commands killed ({killed}), {hunt.left} had changed something: all of it listed"


def groups(root: Path, rng: random.Random, rounds: int, until: float) -> str:
    """`groups delete` killed at random moments and repeated: nothing is left of group, template, policy and image."""
    home = root / "groups"
    with pod_process_in(home) as pod:
        hunt = LeftoverHunt(home, pod.announcement, rng)
        hunt.prepare_vm()
        while hunt.killed.total() < rounds and time.monotonic() < until:
            hunt.round_of_group()
        hunt.close()
    killed = ", ".join(f"{count} × {name}" for name, count in hunt.killed.items())
    return f"{hunt.killed.total()} deletions killed ({killed}), {hunt.left} half-way: repeated, each left nothing"


def storms(servers: list[OpensshWorker], home: Path, rng: random.Random, rounds: int, until: float) -> str:
    """Follow runs under faults, as many runs as the time allows, with at most `rounds` faults in all."""
    struck: Counter[str] = Counter()
    runs = 0
    with proxies([worker.port for worker in servers]) as made:
        pod = ProxiedPod(servers, home, made)
        pod.timeouts = replace(pod.timeouts, lost_after=STORM_LOST_AFTER_S, gone_after=STORM_LOST_AFTER_S)
        while struck.total() < rounds and time.monotonic() < until:
            struck += storm(
                pod, rng, lines=STORM_LINES, seconds=STORM_DURATION_S, pause=STORM_PAUSE_S, strikers=STORM_STRIKERS
            )
            runs += 1
        pod.end_runs()
    faults = ", ".join(f"{count} {kind}" for kind, count in struck.items())
    written = runs * len(servers) * STORM_LINES
    return f"{struck.total()} faults ({faults}) in {runs} runs, {written} lines: every mirror equal by sha256"


def main() -> None:
    """Parse the arguments and run the parts in turn, each with its share of the minutes."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=200, help="kills of each kind at most")
    parser.add_argument("--faults", type=int, default=1000, help="faults in storms at most")
    parser.add_argument("--minutes", type=float, default=20.0, help="in all; a round that began is finished")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    if MISSING:
        raise SystemExit(MISSING)
    drops.enter(sys.argv[1:])
    if drops.MISSING:
        print(f"no packets are dropped: {drops.MISSING}", flush=True)
    parts = options.parts or list(PARTS)
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    rng = random.Random(seed)
    print(f"{options.workers} workers, seed {seed}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        with servers_with_devices(root, options.workers) as servers:
            pod, checking = Pod(servers, root / "home"), Pod(servers, root / "home")
            checking.preflight = Preflight()  # as with the command; failures of `phases` come after the checks
            acts: dict[str, Callable[[float], str]] = {
                "phases": lambda end: phases(pod, root, end),
                "commands": lambda end: commands(pod, rng, options.rounds, end),
                "kills": lambda end: kills(checking, rng, options.rounds, end, aimed=False),
                "aimed": lambda end: kills(checking, rng, options.rounds, end, aimed=True),
                "frozen": lambda end: frozen(checking, end),
                "races": lambda end: races(pod, root, rng, options.rounds, end),
                "losses": lambda end: losses(pod, root, rng, options.rounds, end),
                "leftovers": lambda end: leftovers(root, rng, options.rounds, end),
                "groups": lambda end: groups(root, rng, options.rounds, end),
                "storm": lambda end: storms(servers, root / "home", rng, options.faults, end),
            }
            share = options.minutes * 60 / len(parts)
            try:
                for part in parts:
                    began = time.monotonic()
                    result = acts[part](began + share)
                    print(f"{part}: {result} [{time.monotonic() - began:.0f} s]", flush=True)
            finally:
                pod.end_runs()
                checking.end_runs()
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
