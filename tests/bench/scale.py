"""Cost of a run by its number of workers: with real SSH servers up to 64, with files alone up to 2,048.

Every worker has 8 cores, each of which prints a line a second. Over real SSH, keepers follow runs of several sizes at
the same time, the workers of each being addresses of one server; for more workers the mirrors are written here, and a
reader as the console has it reads them. A line is fitted through the sizes: its slope is the cost of one more worker,
and R² near 1 shows that the cost is linear.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import correlation, linear_regression

from tests.bench.figures import Figure, at_least
from tests.logs.shapes import training
from tests.runs.ssh_pod import Pod, unattended
from tests.sshd import MISSING, openssh_worker
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.health.stall_detector import LOAD_DELAY_S
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.run_directory import RunDirectory

CORES = 8
LIVE = (4, 16, 32, 64)
"""Workers reached by real SSH; their jobs and servers share this machine with the keepers."""
LIVE_SECONDS = 30
SETTLING_SECONDS = LOAD_DELAY_S + 2
"""Between the last run's launch and the measurement; each keeper loads what watches the cores in this time."""
SIMULATED = (64, 256, 512, 1024, 2048)
"""Workers of which only the files exist."""
SIMULATED_SECONDS = 20
ROUNDS = 3
LEAST_R2 = 0.95
_SCHEDULERS_CLOCK = 2

JOB = """i=0
while [ $i -lt 3600 ]; do
  core=$((TPU_TUI_WORKER * 8)); last=$((core + 8))
  while [ $core -lt $last ]; do
    printf '| Training Device=xla:0/%d Epoch=1 Step=%d Loss=2.50000 Rate=10.00 ' $core $i
    printf 'GlobalRate=9.00 Time=10:00:00\\n'
    core=$((core + 1))
  done
  i=$((i + 1)); sleep 1
done"""


@dataclass(frozen=True)
class Spent:
    """Cost of one size: share of a core in per cent, peak memory in MB (10⁶ bytes)."""

    workers: int
    cpu: float
    memory: float
    cores: int
    """Cores that the reader found."""


def figures() -> Iterator[Figure]:
    """Yield CPU and memory of every size, and the line through them."""
    if MISSING:
        yield Figure("live workers over SSH", MISSING)
    else:
        yield from _size_figures("keeper, real SSH servers", live())
    yield from _size_figures("reader, bytes alone", _simulated())


def _size_figures(what: str, sizes: Sequence[Spent]) -> Iterator[Figure]:
    for size in sizes:
        yield Figure(
            f"{what}: {size.workers:,} workers × {CORES} cores, a line a second each",
            f"{size.cpu:.1f} % of a core, {size.memory:.0f} MB",
            f"{size.workers * CORES:,} cores read",
            size.cores == size.workers * CORES,
        )
    workers = [float(size.workers) for size in sizes]
    cpu, memory = [size.cpu for size in sizes], [size.memory for size in sizes]
    cpu_r2, memory_r2 = correlation(workers, cpu) ** 2, correlation(workers, memory) ** 2
    cpu_slope, cpu_intercept = linear_regression(workers, cpu)
    memory_slope, _ = linear_regression(workers, memory)
    yield Figure(f"{what}: CPU of one more worker", f"{cpu_slope:.4f} % of a core (R² {cpu_r2:.3f})")
    yield Figure(f"{what}: memory of one more worker", f"{memory_slope * 1000:.0f} KB (R² {memory_r2:.3f})")
    yield at_least(f"{what}: CPU is linear, R²", cpu_r2, LEAST_R2, "", 3)
    largest = cpu_slope * 2048 + cpu_intercept
    yield Figure(f"{what}: at 2,048 workers, by the line", f"{largest:.1f} % of a core")


def live() -> list[Spent]:
    """Measure real keepers, one for each size, at the same time, so that this machine's load affects all equally.

    The measurement starts once every run has been read for the first time, which loads what reads logs.
    """
    with tempfile.TemporaryDirectory(prefix="sc") as name, ExitStack() as ends:
        root = Path(name)
        os.environ["TPU_TUI_HOME"] = str(root / "home")
        pods = [_pod(root, workers, ends) for workers in LIVE]
        runs = [pod.running("sh", "-c", JOB, lease=60.0) for pod in pods]
        pids = [keeper_pid(run) for run in runs]
        time.sleep(SETTLING_SECONDS)
        before, began = [cpu_of(pid) for pid in pids], time.monotonic()
        time.sleep(LIVE_SECONDS)
        after, ended = [cpu_of(pid) for pid in pids], time.monotonic()
        memory, cores = [peak_of(pid) for pid in pids], [_cores_of(run) for run in runs]
        for pod, run in zip(pods, runs, strict=True):
            pod.stop(run, grace=0.2)
            unattended(run)
    shares = [100 * (late - early) / (ended - began) for early, late in zip(before, after, strict=True)]
    return [Spent(*one) for one in zip(LIVE, shares, memory, cores, strict=True)]


def _pod(root: Path, workers: int, ends: ExitStack) -> Pod:
    """Start workers that are addresses of one OpenSSH server."""
    extra = ("MaxStartups 1000:30:2000",)
    server = ends.enter_context(openssh_worker(root, index=workers, host="0.0.0.0", bare=True, extra=extra))
    pod = Pod([replace(server, index=n, host=f"127.0.{workers}.{n + 1}") for n in range(workers)], root / "home")
    ends.callback(pod.end_runs)
    return pod


def keeper_pid(directory: RunDirectory) -> int:
    """Return the process id of a run's keeper; raise RuntimeError if there is none."""
    pid = directory.keeper_status().pid
    if pid is None:
        raise RuntimeError(f"no keeper for {directory.id}")
    return pid


def _cores_of(directory: RunDirectory) -> int:
    reader = RunReader(directory)
    while reader.poll():
        pass
    return len(reader.snapshot())


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has used, exact to the nanosecond, from its clock_getcpuclockid(3)."""
    return time.clock_gettime(~pid << 3 | _SCHEDULERS_CLOCK)


def peak_of(pid: int) -> float:
    """Return a process's peak memory in MB (10⁶ bytes)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def _simulated() -> list[Spent]:
    """Return the median of each size; sizes alternate, so that a busy machine slows all equally."""
    rounds = [[simulated(workers) for workers in SIMULATED] for _ in range(ROUNDS)]
    return [sorted(seen, key=lambda one: one.cpu)[ROUNDS // 2] for seen in zip(*rounds, strict=True)]


def simulated(workers: int) -> Spent:
    """Measure a reader in a separate process, with mirrors that grow as a keeper's do."""
    command = [sys.executable, "-m", "tests.bench.scale", str(workers)]
    answer = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return Spent(workers, answer["cpu"], answer["memory"], answer["cores"])


def _simulate(workers: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        directory = simulated_run(Path(name), workers)
        reader = RunReader(directory)

        def lines_of(worker: int, second: int) -> list[str]:
            return [training(worker * CORES + core, second * 10, epoch=1) for core in range(CORES)]

        spent = polling_cost(directory, reader, lines_of, SIMULATED_SECONDS)
        cores = len(reader.snapshot())
    return {"cpu": 100 * spent / SIMULATED_SECONDS, "memory": peak_of(os.getpid()), "cores": cores}


def simulated_run(runs: Path, workers: int) -> RunDirectory:
    """Make the directory of a run whose workers do not exist."""
    made = tuple(Worker(index, internal_ip=f"10.0.{index >> 8}.{index & 255}") for index in range(workers))
    run = Run(id="bench-20260101-000000-abcd", slice="bench", job=JobOptions(("x",)), workers=made)
    return RunDirectory.create(runs, run)


def polling_cost(
    directory: RunDirectory,
    reader: RunReader,
    lines_of: Callable[[int, int], list[str]],
    seconds: int,
    batches_a_second: int = 1,
) -> float:
    """Append batches of lines, `lines_of(worker, batch)`, to the mirrors; return the CPU seconds of reading them."""
    spent, ends = 0.0, [0] * len(directory.run.workers)
    for batch in range(seconds * batches_a_second):
        now = batch / batches_a_second
        for worker in range(len(ends)):
            data = "".join(f"{line}\n" for line in lines_of(worker, batch)).encode()
            with directory.log_path(worker).open("ab") as file:
                file.write(data)
            ends[worker] += len(data)
            directory.append_arrival(worker, ends[worker], now)
        began = time.process_time()
        while reader.poll():
            pass
        reader.snapshot(now=now)
        spent += time.process_time() - began
    return spent


if __name__ == "__main__":
    json.dump(_simulate(int(sys.argv[1])), sys.stdout)
