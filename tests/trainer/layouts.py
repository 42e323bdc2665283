"""Workers of a training, forked from one process that has imported PyTorch/XLA already: seconds of CPU saved each.

They do what `python -m trainer.train` does, with their own session, environment, arguments and outputs.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from trainer.config import TrainConfig
from trainer.data import loader_processes
from trainer.options import prepare_environment, read_command_line

CONTEXT = multiprocessing.get_context("forkserver")


def start_server() -> None:
    """Start the server that workers, and loaders of tests in this process, are forked by: PyTorch is loaded once."""
    prepare_environment(os.environ)
    CONTEXT.set_forkserver_preload(["trainer.train.loop"])
    forkserver.ensure_running()


def stop_server() -> None:
    """Stop it; whoever wants a process next starts another."""
    loader_processes._context = None
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


END_THE_PROCESS = 0
"""SIG_DFL, to signal(2)."""

Way = Callable[[TrainConfig], int]
"""What a worker does with its configuration; by default what the command does. Returns the exit code."""


def start(
    arguments: Sequence[str], environ: Mapping[str, str], out: Path, err: Path, way: Way | None = None
) -> ForkServerProcess:
    """One worker; `environ` is set beside what this process has."""
    process = CONTEXT.Process(target=_worker, args=(list(arguments), dict(environ), out, err, way))
    process.start()
    return process


def _worker(arguments: list[str], environ: dict[str, str], out: Path, err: Path, way: Way | None) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP):  # which whoever started the tests may have had ignored
        signal.signal(number, signal.SIG_DFL)
    for descriptor, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.update(environ)
    sys.argv = ["trainer.train", *arguments]
    sys.exit((way or _command)(read_command_line()))


def _command(config: TrainConfig) -> int:
    from trainer.distributed.launcher import launch
    from trainer.train.loop import train

    return launch(train, config)


def as_on_tpu(config: TrainConfig) -> int:
    """torch_xla starts the replicas, as it does on TPU: one, on this device. It puts its own handlers over ours."""
    from trainer.distributed.launcher import TpuLauncher
    from trainer.distributed.replicas import Replicas
    from trainer.distributed.signals import StopSignal
    from trainer.train.loop import train

    def as_libtpu_does(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
        for number in (signal.SIGTERM, signal.SIGHUP):
            ctypes.CDLL(None).signal(number, END_THE_PROCESS)
        return train(replicas, config, stopping)

    return TpuLauncher(as_libtpu_does, config).run()


def into_head(config: TrainConfig) -> int:
    """What `| head -n 20` leaves of the log; it has gone before the training ends."""
    with subprocess.Popen(["head", "-n", "20"], stdin=subprocess.PIPE) as head:
        assert head.stdin is not None
        os.dup2(head.stdin.fileno(), 1)
        head.stdin.close()
        return _command(config)


def deaf(_: TrainConfig) -> int:
    """A rank that hears SIGTERM and never gets to look, with nobody to kill it."""
    from trainer.distributed import signals

    signals.OVERDUE_S = 1.0
    heard = signals.StopSignal()
    signals.await_signals(lambda _: heard.receive(0.0))
    print("Deaf.", flush=True)
    threading.Event().wait()
    return 0


def save_in_mid_epoch(config: TrainConfig) -> int:
    """Three steps, then each replica keeps its own batch statistics in a file of its own, then all save together."""
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
