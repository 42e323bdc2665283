"""Workers of a training, forked from a process that has imported PyTorch/XLA, which saves seconds of CPU for each.

They run what `python -m trainer.train` runs, each with its own session, environment, arguments and outputs.
`call` runs a single function in such a process.
"""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TypeVar

from trainer.config import TrainConfig
from trainer.options import prepare_environment, read_command_line

T = TypeVar("T")

CONTEXT = multiprocessing.get_context("forkserver")
SERVER_TIMEOUT_S = 600.0


@functools.cache
def await_server() -> None:
    """Start the server that forks workers, and the loaders of tests in this process: PyTorch is loaded once.

    Wait until it has loaded it, which takes minutes on a busy machine.
    """
    prepare_environment(os.environ)
    CONTEXT.set_forkserver_preload(["tests.trainer.preloaded"])
    first = threading.Thread(target=_fork_once, daemon=True)
    first.start()
    first.join(SERVER_TIMEOUT_S)


def _fork_once() -> None:
    process = CONTEXT.Process()
    process.start()
    process.join()


def call(function: Callable[..., T], *arguments: object, err: Path) -> T:
    """Return what a function returns in a new process, whose loader processes come from a server of their own.

    They get this process's present environment, and write to `err` instead of standard error.
    """
    receiving, sending = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_call, args=(sending, dict(os.environ), err, function, arguments))
    process.start()
    sending.close()
    try:
        result: T = receiving.recv()
    except EOFError:
        raise AssertionError(err.read_text()) from None
    except BaseException:
        process.kill()
        raise
    finally:
        receiving.close()
        process.join()
    return result


def _call(
    answer: Connection,
    environ: dict[str, str],
    err: Path,
    function: Callable[..., object],
    arguments: Sequence[object],
) -> None:
    _write_to(2, err)
    os.environ.update(environ)
    answer.send(function(*arguments))


DEFAULT_ACTION = 0
"""SIG_DFL as signal(2) takes it."""

EntryPoint = Callable[[TrainConfig], int]
"""A function that a worker runs with its configuration instead of the command's own; returns the exit code."""


def start(
    arguments: Sequence[str], environ: Mapping[str, str], out: Path, err: Path, entry_point: EntryPoint | None = None
) -> ForkServerProcess:
    """Start one worker, with `environ` added to this process's environment."""
    process = CONTEXT.Process(target=_worker, args=(list(arguments), dict(environ), out, err, entry_point))
    process.start()
    return process


def _worker(
    arguments: list[str], environ: dict[str, str], out: Path, err: Path, entry_point: EntryPoint | None
) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP):  # the process that started the tests may ignore them
        signal.signal(number, signal.SIG_DFL)
    _write_to(1, out)
    _write_to(2, err)
    os.environ.update(environ)
    sys.argv = ["trainer.train", *arguments]
    sys.exit((entry_point or _command)(read_command_line()))


def _write_to(descriptor: int, path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(file, descriptor)
    os.close(file)


def _command(config: TrainConfig) -> int:
    from trainer.distributed.launcher import launch
    from trainer.train.loop import train

    return launch(train, config)


def as_on_tpu(config: TrainConfig) -> int:
    """Train as on TPU: torch_xla starts the one replica, here, and replaces the trainer's signal handlers."""
    from trainer.distributed.launcher import TpuLauncher
    from trainer.distributed.replicas import Replicas
    from trainer.distributed.signals import StopSignal
    from trainer.train.loop import train

    def train_without_handlers(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
        for number in (signal.SIGTERM, signal.SIGHUP):
            ctypes.CDLL(None).signal(number, DEFAULT_ACTION)
        return train(replicas, config, stopping)

    return TpuLauncher(train_without_handlers, config).run()


def wait_for_tpu(config: TrainConfig) -> int:
    """Start a rank as on a TPU that another process holds: it never begins."""
    from trainer.distributed.launcher import TpuLauncher
    from trainer.train.loop import train

    class BusyTpuLauncher(TpuLauncher):
        def rank(self) -> None:
            print("Waiting.", flush=True)
            threading.Event().wait()

    return BusyTpuLauncher(train, config).run()


def outlive_worker_0(config: TrainConfig) -> int:
    """Train; after SIGTERM, the ranks of all workers but worker 0 lose worker 0's before they end by themselves."""
    from trainer.distributed import signals

    if config.replicas.worker:
        signals.START_UP_GRACE_S = 60.0
    return _command(config)


def into_head(config: TrainConfig) -> int:
    """Train with standard output piped into `head -n 20`, which ends before the training does."""
    with subprocess.Popen(["head", "-n", "20"], stdin=subprocess.PIPE) as head:
        assert head.stdin is not None
        os.dup2(head.stdin.fileno(), 1)
        head.stdin.close()
        return _command(config)


def ignore_stop(_: TrainConfig) -> int:
    """Run a rank that never checks for SIGTERM, without a parent process that would kill it."""
    from trainer.distributed import signals

    signals.OVERDUE_S = 1.0
    stop = signals.StopSignal(CONTEXT.Lock())
    signals.await_signals(lambda _: stop.receive(0.0))
    print("Ready.", flush=True)
    threading.Event().wait()
    return 0


def save_in_mid_epoch(config: TrainConfig) -> int:
    """Train three steps, save each replica's batch statistics in a file, then one checkpoint of all."""
    from trainer.distributed.launcher import launch
    from trainer.distributed.replicas import Replicas
    from trainer.distributed.signals import StopSignal
    from trainer.train.loop import train_epoch
    from trainer.train.setup import start

    def train(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
        import torch

        run = start(replicas, config, stopping)
        train_epoch(run, 1)
        own = {name: value.cpu() for name, value in run.model.named_buffers() if "running" in name}
        torch.save(own, f"{config.checkpoint.directory}.rank{replicas.rank}")
        run.resumption.save(1, 3)
        return 0

    return launch(train, config)
