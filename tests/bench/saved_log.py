"""A saved log of a million lines: `cores FILE --json` against `sort` and `mawk`, and feeding the same bytes live."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure, at_least, at_most, cost_of, costs_in_turn
from tests.logs.shapes import training

LINES = 1_000_000
CORES = 512
WORKERS = 64
JUNK = 0.05
"""Share of lines that are no training lines."""

LIVE_BLOCK = 256 * 1024
LIVE_BYTES = 64 * 1024 * 1024
LIVE_ROUNDS = 5

LIVE_AGAINST_SORT = 1.38
"""Two million lines a CPU-second on a machine whose `sort` takes 0.69 s for a million, as a ratio for any machine."""

_SORT = ("sort", "-s", "-k3,3")

_LAST_LOSS = """
$6 == "Training" { split($7, device, "/"); last[device[2]] = substr($10, 6) }
$2 == "Training" { split($3, device, "/"); last[device[2]] = substr($6, 6) }
END { for (core in last) print core, last[core] }
"""
"""The last loss of each core, for awk; the second rule is for lines without a prefix."""

_WORKER = "17"
_NAME = " [17] "
"""What grep finds that worker's lines by."""

_NOISE = (
    "==> Preparing data..",
    "Traceback (most recent call last):",
    '  File "/usr/share/torch-xla/train.py", line 412, in _mp_fn',
    "  % Total    % Received % Xferd  Average Speed\r  0     0    0     0\r100    19  100    19",
    "2020-08-06 02:38:29.718250: W tensorflow/core/framework/allocator.cc:107] Allocation of 131072000 exceeds 10%",
    " 33%|███▎      | 509/1524 [2:02:21<3:44:26, 13.27s/it]",
    "",
)


def lines_of_a_run() -> Iterator[str]:
    """Yield the lines of a run as in xla_dist's log: cores out of order, noise with the prefix and without."""
    chance = random.Random(7)
    order = list(range(CORES))
    step = made = 0
    while made < LINES:
        chance.shuffle(order)
        clock = f"{2 + step // 3600:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
        for core in order:
            worker = core * WORKERS // CORES
            before = f"2020-08-06 {clock} 10.164.0.{worker + 40} [{worker}] "
            if chance.random() < JUNK:
                yield (before if chance.random() < 0.5 else "") + chance.choice(_NOISE)
                made += 1
            yield before + training(
                core,
                step * 10 % 620,
                f"{chance.uniform(0, 9):.5f}",
                epoch=1 + step * 10 // 620,
                rate=f"{chance.uniform(20, 300):.2f}",
                global_rate=f"{chance.uniform(20, 300):.2f}",
                clock=clock,
            )
            made += 1
        step += 1


def figures() -> Iterator[Figure]:
    """Yield CPU ratios against the peers, peak memory, the second opening, and lines a CPU-second when fed live."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = directory / "out.log"
        with path.open("w") as file:
            file.writelines(f"{line}\n" for line in lines_of_a_run())
        yield from _whole_processes(path, directory)
        yield from _live(path, directory)


def _whole_processes(path: Path, directory: Path) -> Iterator[Figure]:
    command = [sys.executable, "-m", "tui.cli", "cores", str(path), "--json"]
    logs = [sys.executable, "-m", "tui.cli", "logs", str(path)]
    fresh, kept = directory / "fresh", directory / "kept"

    def first_opening() -> list[str]:
        shutil.rmtree(fresh, ignore_errors=True)
        return command

    cost_of(command, home=kept)
    ways = {
        "first": lambda: cost_of(first_opening(), home=fresh),
        "second": lambda: cost_of(command, home=kept),
        "sort": lambda: cost_of([*_SORT, str(path)], home=kept),
    }
    if shutil.which("mawk"):
        ways["mawk"] = lambda: cost_of(["mawk", _LAST_LOSS, str(path)], home=kept)
    if shutil.which("lnav"):
        ways["lnav"] = lambda: cost_of(["lnav", "-n", str(path)], home=kept)
    ways["grep"] = lambda: cost_of(["grep", "-c", "-F", _NAME, str(path)], home=kept)
    ways["worker"] = lambda: cost_of([*logs, "--worker", _WORKER], home=kept)
    ways["tail"] = lambda: cost_of([*logs, "--worker", _WORKER, "--tail", "10"], home=kept)
    cost = costs_in_turn(ways)
    size = path.stat().st_size / 1e6
    ours, sort = cost["first"], cost["sort"]
    what = f"{LINES:,} lines, {size:.0f} MB, {CORES} cores, {JUNK:.0%} noise"
    yield Figure(what, f"ours {ours.cpu:.2f} s, sort {sort.cpu:.2f} s")
    yield at_most("cores FILE --json, CPU, against sort -s -k3,3", ours.cpu / sort.cpu, 1.0, "×")
    if "mawk" in cost:
        mawk = cost["mawk"].cpu
        yield at_most(f"the same against mawk's last loss a core ({mawk:.2f} s)", ours.cpu / mawk, 1.7, "×")
    if "lnav" in cost:
        lnav = cost["lnav"].cpu
        yield at_least(f"lnav -n FILE, CPU ({lnav:.2f} s), against ours", lnav / ours.cpu, 5.0, "×")
    yield at_most("peak memory", ours.memory, 200, "MB", 0)
    yield at_most(
        f"second opening, CPU ({cost['second'].cpu:.2f} s), against sort", cost["second"].cpu / sort.cpu, 0.2, "×"
    )
    value = f"{cost['worker'].cpu:.2f} s and {cost['tail'].cpu:.2f} s, grep -F {cost['grep'].cpu:.2f} s"
    yield Figure("then logs FILE --worker N, and the last 10 of them, CPU", value)


def _live(path: Path, directory: Path) -> Iterator[Figure]:
    """Feed the beginning of the log live, in turn with sorting the whole log."""
    with path.open("rb") as file:
        data = file.read(LIVE_BYTES)
    rates, sorts = [], []
    for _ in range(LIVE_ROUNDS):
        rates.append(_lines_a_second(data))
        sorts.append(LINES / cost_of([*_SORT, str(path)], home=directory).cpu)
    what = f"live in {LIVE_BLOCK // 1024} KiB blocks, {JUNK:.0%} noise, lines a CPU-second"
    yield at_least(what, max(rates) / 1e6, 2.0, "M")
    sort = max(sorts)
    what = f"the same on any machine: against the lines sort puts in order ({sort / 1e6:.2f} M a CPU-second)"
    yield at_least(what, max(rates) / sort, LIVE_AGAINST_SORT, "×")


def _lines_a_second(data: bytes) -> float:
    from tui.logs.demux import Demux

    demux = Demux()
    began = time.process_time()
    for start in range(0, len(data), LIVE_BLOCK):
        demux.feed(None, data[start : start + LIVE_BLOCK], now=1_600_000_000.0)
    lines = demux.snapshot().lines
    return lines / (time.process_time() - began)
