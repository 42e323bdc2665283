"""Run every fault for a while on real OpenSSH servers, and print the figures.

python -m tests.chaos --workers 8 --rounds 200 --minutes 20 [--seed N] [kills aimed frozen storm]
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.chaos.launches import Tally, freeze_before, kill_a_keeper
from tests.chaos.mirrors import ProxiedPod, storm
from tests.chaos.proxy import proxies
from tests.runs.ssh_pod import Pod
from tests.sshd import MISSING, OpensshWorker, bare_path, openssh_worker

STORM_SECONDS = 45.0
STORM_LINES = 200_000
PARTS = ("kills", "aimed", "frozen", "storm")


@contextlib.contextmanager
def workers(root: Path, count: int) -> Iterator[list[OpensshWorker]]:
    """That many servers."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(openssh_worker(root, index=index, bare=True)) for index in range(count)]


def kills(pod: Pod, rng: random.Random, rounds: int, until: float, *, aimed: bool) -> str:
    """Keepers killed while they launch."""
    tally = Tally()
    for _ in range(rounds):
        if time.monotonic() > until:
            break
        kill_a_keeper(pod, rng, tally, aimed=aimed, span=1.2)
    return str(tally)


def frozen(pod: Pod, until: float) -> str:
    """Every worker frozen before `go`, then before `ok`."""
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
    return f"{len(took)} workers frozen, nothing left after at most {max(took, default=0):.1f} s (lease 3 s)"


def storms(servers: list[OpensshWorker], home: Path, rng: random.Random, rounds: int, until: float) -> str:
    """Runs followed under faults, as many as the time allows, `rounds` faults in all at most."""
    struck: Counter[str] = Counter()
    runs = 0
    with proxies([worker.port for worker in servers]) as made:
        pod = ProxiedPod(servers, home, made)
        while struck.total() < rounds and time.monotonic() < until:
            struck += storm(pod, rng, lines=STORM_LINES, seconds=STORM_SECONDS, pause=0.5)
            runs += 1
        pod.end_runs()
    faults = ", ".join(f"{count} {kind}" for kind, count in struck.items())
    written = runs * len(servers) * STORM_LINES
    return f"{struck.total()} faults ({faults}) in {runs} runs, {written} lines: every mirror equal by sha256"


def main() -> None:
    """Parse the arguments and run the parts one after the other, each with its share of the minutes."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=200, help="kills and faults of each kind at most")
    parser.add_argument("--minutes", type=float, default=20.0, help="in all; a round that began is finished")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    if MISSING:
        raise SystemExit(MISSING)
    parts = options.parts or list(PARTS)
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    rng = random.Random(seed)
    print(f"{options.workers} workers, seed {seed}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        with workers(root, options.workers) as servers:
            pod = Pod(servers, root / "home")
            acts: dict[str, Callable[[float], str]] = {
                "kills": lambda end: kills(pod, rng, options.rounds, end, aimed=False),
                "aimed": lambda end: kills(pod, rng, options.rounds, end, aimed=True),
                "frozen": lambda end: frozen(pod, end),
                "storm": lambda end: storms(servers, root / "home", rng, options.rounds, end),
            }
            share = options.minutes * 60 / len(parts)
            try:
                for part in parts:
                    began = time.monotonic()
                    told = acts[part](began + share)
                    print(f"{part}: {told} [{time.monotonic() - began:.0f} s]", flush=True)
            finally:
                pod.end_runs()
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
