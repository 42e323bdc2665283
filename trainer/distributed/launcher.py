"""Start this worker's replicas, watch over them, and end them together."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Lock

import torch
import torch_xla

from trainer.config import COMPILATION_CACHE, TrainConfig
from trainer.data import loader_processes
from trainer.distributed.child_cleanup import die_with_parent
from trainer.distributed.failures import FailureRecord, format_ranks, print_once, report
from trainer.distributed.rendezvous import join_ranks, listen
from trainer.distributed.replicas import GlooReplicas, Replicas, XlaReplicas
from trainer.distributed.signals import StopSignal, await_signals, block_signals
from trainer.errors import (
    BELOW_TARGET,
    PARTNER_LOST,
    REFUSED,
    STOPPED,
    PartnerLostError,
    StoppedError,
    TrainerError,
)
from trainer.model.xla_compilation import use_compilation_cache
from trainer.progress import write_error

Train = Callable[[Replicas, TrainConfig, StopSignal], int]  # returns the exit code

GRACE_S = 20.0  # from SIGTERM to SIGKILL; longer than a compilation, which no signal interrupts
SAVING_GRACE_S = 300.0  # the same if a checkpoint is written first; the sender of the signal may be less patient
CULPRIT_HEAD_START_S = 2.0  # before a rank reports the loss of another, so that the cause is reported first
OUT_OF_MEMORY = (
    "ut of memory",
    "RESOURCE_EXHAUSTED",
    "can't allocate memory",
)  # in the words of XLA, TPUs and PyTorch
LESS_MEMORY = "Give a smaller --batch-size or --model, or --bf16; on CPU devices, fewer --num-cores may do"


def launch(train: Train, config: TrainConfig) -> int:
    """Run `train` on every core of this worker; returns the exit code."""
    try:
        if config.replicas.device == "TPU":
            _require_libtpu()
        if config.loader_workers and not config.data.fake:
            loader_processes.start_forkserver(bucket=config.data.is_in_bucket)
        return (TpuLauncher if config.replicas.device == "TPU" else _CpuLauncher)(train, config).run()
    except TrainerError as error:
        return report(error, debug=config.debug, write=partial(print_once, environ=os.environ))


# --- TPU ----------------------------------------------------------------------------------------------------------


def _require_libtpu() -> None:
    if not {"TPU_LIBRARY_PATH", "PTXLA_TPU_LIBRARY_PATH"} & os.environ.keys():  # torch_xla sets the latter itself
        raise TrainerError(
            "There is a TPU, but no libtpu to drive it", remedy="Install it with: pip install 'tpu-tui[tpu]'"
        )


class TpuLauncher:
    """Starts the ranks through torch_xla: one process per chip and in it, on TPU v2 and v3, two threads.

    A process receives signals for all of its ranks, even before they begin.
    """

    _current: TpuLauncher  # found by the forked processes; only names travel through torch_xla's queue

    def __init__(self, train: Train, config: TrainConfig) -> None:
        self._train, self._config = train, config
        self._begun = False
        self._launcher = os.getpid()
        context = multiprocessing.get_context("fork")
        self._code = context.Value("i", 0)  # of the first rank that failed
        self._report_lock = context.Lock()
        self._stopping = StopSignal(self._report_lock)
        TpuLauncher._current = self

    def run(self) -> int:
        """Start the ranks and wait for them; returns the exit code."""
        os.register_at_fork(after_in_child=self._await_signals_as_rank)
        await_signals(self._on_signal)
        sys.stdout.flush()
        try:
            torch_xla.launch(_run_tpu_rank, start_method="fork")
        except BrokenProcessPool:
            if not self._code.value and not self._stopping.requested:
                self._code.value = 128 + signal.SIGKILL
                name = f"A rank of worker {self._config.replicas.worker}"
                write_error(f"{name} {_cause(-signal.SIGKILL)}.")
            return self._code.value or STOPPED
        return 0

    def rank(self) -> None:
        """Run one rank. An error ends the process at once: others of this worker may wait for it in a collective.

        torch_xla's pool then sends the others a signal, on which `_on_signal_as_rank` ends them.
        """
        self._begun = True
        code = 1
        try:
            if self._config.replicas.device == "TPU" and self._config.compilation_cache != "no":
                use_compilation_cache(self._config.compilation_cache or COMPILATION_CACHE)
            join = partial(XlaReplicas, self._config.log_steps)
            code = _run_rank(self._train, self._config, self._stopping, join, self._report_lock)
        except BaseException:
            traceback.print_exc()
        if code:
            with self._code.get_lock():
                self._code.value = self._code.value or code
            sys.stdout.flush()
            os._exit(code)

    def _on_signal(self, number: signal.Signals) -> None:
        """Make the ranks stop at a step they agree on, save and end, in bounded time."""
        at_once = number == signal.SIGINT and _announce_ctrl_c(self._config, again=self._stopping.received)
        self._stopping.received = True
        for rank in multiprocessing.active_children():
            if rank.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.pid, signal.SIGKILL if at_once else signal.SIGTERM)

    def _await_signals_as_rank(self) -> None:
        if os.getppid() == self._launcher:
            await_signals(self._on_signal_as_rank)

    def _on_signal_as_rank(self, _: signal.Signals) -> None:
        if self._code.value:
            os._exit(PARTNER_LOST)
        if not self._begun:  # it waits for the TPU, perhaps forever, and has nothing to save
            self._stopping.report_early_end()
            os._exit(STOPPED)
        self._stopping.receive(_grace_period(self._config))


def _run_tpu_rank(_: int) -> None:
    TpuLauncher._current.rank()


# --- CPU ----------------------------------------------------------------------------------------------------------


class _CpuLauncher:
    """Forks one process per core, and waits for them.

    The ranks are forked after the import of torch, so that they share its pages and its start-up. Forking is safe
    only because nothing here has touched an XLA device, whose runtime starts threads.
    """

    def __init__(self, train: Train, config: TrainConfig) -> None:
        self._config = config
        replica_config = config.replicas
        address = replica_config.coordinator or ("127.0.0.1", 0)
        listener = listen(address) if replica_config.worker == 0 else None
        if listener is not None:
            address = (address[0], listener.getsockname()[1])
        context = multiprocessing.get_context("fork")
        report_lock = context.Lock()
        self._ranks = [
            context.Process(
                target=_run_cpu_rank,
                args=(train, config, core, address, listener, os.getpid(), report_lock),
            )
            for core in range(replica_config.cores)
        ]
        self._listener = listener
        self._kill_at: float | None = None
        self._stopped = False
        self._code = 0

    def run(self) -> int:
        gc.collect()
        gc.freeze()  # otherwise the collector would write to shared pages and so copy them
        sys.stdout.flush()
        block_signals()
        for rank in self._ranks:
            rank.start()
        if self._listener is not None:
            self._listener.close()
        await_signals(self._stop)
        alive = list(self._ranks)
        while alive:
            wait([rank.sentinel for rank in alive], timeout=0.5)
            ended = [rank for rank in alive if not rank.is_alive()]
            alive = [rank for rank in alive if rank not in ended]
            # Ranks that ended because of another one come last: the cause may have ended at the same moment.
            for rank in sorted(ended, key=lambda process: process.exitcode == PARTNER_LOST):
                self._judge(rank)
            if self._kill_at is not None and time.monotonic() > self._kill_at:
                for rank in alive:
                    rank.kill()
        return STOPPED if self._stopped and self._code == 0 else self._code

    def _stop(self, number: signal.Signals) -> None:
        at_once = number == signal.SIGINT and _announce_ctrl_c(self._config, again=self._stopped)
        self._stopped = True
        self._end()
        if at_once:
            self._kill_at = 0.0

    def _end(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + (_grace_period(self._config) if self._stopped else GRACE_S)
        for rank in self._ranks:
            with contextlib.suppress(ProcessLookupError):
                rank.terminate()

    def _judge(self, rank: ForkProcess) -> None:
        code = rank.exitcode
        assert code is not None
        if code == 0 or (self._stopped and code in (STOPPED, -signal.SIGTERM, -signal.SIGKILL)):
            return
        if self._code:
            return  # the first failure is the one that counts
        self._code = code if code > 0 else 128 - code
        others = "; ending this worker's others" if self._kill_at is None and len(self._ranks) > 1 else ""
        if code not in (REFUSED, PARTNER_LOST, BELOW_TARGET, STOPPED):
            replica_config = self._config.replicas
            who = format_ranks((replica_config.rank(self._ranks.index(rank)),), replica_config.cores)
            write_error(f"{who} {_cause(code)}{others}.")
        self._end()


def _announce_ctrl_c(config: TrainConfig, *, again: bool) -> bool:
    """Print what Ctrl-C does; return whether to end at once, as on the second Ctrl-C."""
    first = "at the next step" if config.checkpoint.directory is None else "at the next step, saving first"
    notice = "Ending at once" if again else f"Stopping {first}; Ctrl-C again ends at once"
    write_error(f"{notice}.")
    return again


def _grace_period(config: TrainConfig) -> float:
    return GRACE_S if config.checkpoint.directory is None else SAVING_GRACE_S


def _cause(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was killed by SIGKILL (by the kernel, if memory ran out)"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _run_cpu_rank(
    train: Train,
    config: TrainConfig,
    core: int,
    address: tuple[str, int],
    listener: socket.socket | None,
    parent: int,
    report_lock: Lock,
) -> None:
    die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(STOPPED)
    stopping = StopSignal(report_lock)

    def on_signal(number: signal.Signals) -> None:
        if number != signal.SIGINT:  # Ctrl-C is left to the process that started the ranks
            stopping.receive(_grace_period(config))

    await_signals(on_signal)
    replica_config = config.replicas
    torch.set_num_threads(1)  # each core has its own replica

    def join() -> Replicas:
        store = join_ranks(replica_config, core, address, listener if core == 0 else None, lambda: stopping.requested)
        return GlooReplicas(replica_config, core, store)

    who = f"{format_ranks((replica_config.rank(core),), replica_config.cores)}: "
    code = _run_rank(train, config, stopping, join, report_lock, who)
    if code:
        sys.exit(code)


def _run_rank(
    train: Train,
    config: TrainConfig,
    stopping: StopSignal,
    join: Callable[[], Replicas],
    report_lock: Lock,
    who: str = "",
) -> int:
    """Run one rank to its end; return its exit code, and report why it is not 0.

    One rank reports an error that several meet at once, e.g. a lost permission to read a bucket: `report_lock`
    selects the rank within a worker, and the record of the first failure the worker.
    """
    failures: FailureRecord | None = None

    def is_first_here() -> bool:
        return report_lock.acquire(block=False)

    def is_first() -> bool:
        return is_first_here() and (failures is None or failures.report_error())

    try:
        replicas = join()
        failures = replicas.failures
        try:
            code = train(replicas, config, stopping)
        except StoppedError:
            code = STOPPED
        replicas.close()
        return STOPPED if stopping.received else code
    except PartnerLostError as error:
        deadline = time.monotonic() + CULPRIT_HEAD_START_S
        if failures is not None:
            error = failures.explain(error, lambda: stopping.requested)
        while time.monotonic() < deadline and not stopping.requested:
            time.sleep(0.05)
        code = STOPPED
        if stopping.is_early:
            stopping.report_early_end()
        elif not stopping.requested:
            code = report(error, debug=config.debug, who=who, may_report=is_first_here)
    except TrainerError as error:
        code = report(error, debug=config.debug, may_report=is_first)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(phrase in str(error) for phrase in OUT_OF_MEMORY):
            raise
        no_memory = TrainerError("Out of memory", why=str(error).splitlines()[0], remedy=LESS_MEMORY)
        no_memory.__cause__ = error
        code = report(no_memory, debug=config.debug, who=who, may_report=is_first)
    if failures is not None:
        failures.shutdown()
    return code
