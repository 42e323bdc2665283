"""Operations that all replicas do together, each an entry point of a worker's process that `layouts` starts."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from trainer.config import TrainConfig

if TYPE_CHECKING:
    from trainer.distributed.replicas import Replicas

AVERAGED = "averaged by rank"
"""The line that each rank of `together` prints at its end, followed by its number."""


def alone(config: TrainConfig) -> int:
    """Check XLA's own collectives with the one replica that a CPU device allows."""
    import torch

    from trainer.distributed.replicas import XlaReplicas
    from trainer.errors import TrainerError
    from trainer.model.xla_compilation import count_compilations

    replicas = XlaReplicas(vote_every=2)
    assert (replicas.rank, replicas.world, replicas.label) == (0, 1, "xla:0/0"), replicas.label
    model = torch.nn.Linear(3, 1, bias=False).to(replicas.device)
    before = model.weight.detach().cpu().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    answers = []
    for _ in range(2):
        model(torch.ones(1, 3, device=replicas.device)).sum().backward()
        answers.append(replicas.step(optimizer, stop=True))
    assert answers == [False, True], answers
    assert torch.allclose(model.weight.detach().cpu(), before - 1), "two steps of 0.5 along a gradient of ones"
    assert replicas.total(torch.tensor([2.0, 3.0])).tolist() == [2.0, 3.0]
    assert replicas.gather({"a": 1}) == [{"a": 1}]
    known = count_compilations()
    for text in ("", "longer" * 100):
        assert replicas.gather(text) == [text]
    assert count_compilations() == known, "the compiled graphs depend on the length of an object"
    for value in ({"a": 1}, "longer" * 1000):
        assert replicas.broadcast(value) == value
    assert replicas.broadcast_result(lambda: "made") == "made"

    def fail() -> None:
        raise TrainerError("cannot")

    reported = []
    for share in (replicas.broadcast_result, partial(replicas.broadcast_slow_result, beat=60.0)):
        try:
            share(fail)
        except TrainerError as error:  # noqa: PERF203
            reported.append(str(error))
    assert reported == ["cannot."] * 2
    replicas.close()
    print("done", flush=True)
    return 0


def together(config: TrainConfig) -> int:
    """Check averages of gradients with a stop vote each, a broadcast, and that one rank reports an error."""
    from trainer.distributed.launcher import launch
    from trainer.distributed.signals import StopSignal

    def rank(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
        import torch
        import torch_xla

        shapes = [(3,), (), (2, 5, 7), (1,), (17, 3)]  # none fills whole cache lines
        parameters = [torch.zeros(shape, device=replicas.device, requires_grad=True) for shape in shapes]
        unused = torch.zeros(4, device=replicas.device, requires_grad=True)
        for step in range(3):
            for parameter in parameters:
                gradient = torch.full(parameter.shape, step + 1.0 + replicas.rank)
                parameter.grad = 2 * gradient.to(replicas.device) / 2
            stops = replicas.average([*parameters, unused], stop=step == 1 and replicas.rank == 1)  # type: ignore[attr-defined]
            assert stops == (step == 1), (step, stops)
            after = [parameter.grad + 0 for parameter in parameters]
            torch_xla.sync()
            for found, shape in zip(after, shapes, strict=True):
                assert torch.equal(found.cpu(), torch.full(shape, step + 1.5)), (step, shape, found)
            assert unused.grad is None
        assert replicas.broadcast(("rank", replicas.rank)) == ("rank", 0)
        _broadcast_slowly(replicas)
        assert sorted(replicas.gather(replicas.failures is not None and replicas.failures.report_error())) == [
            False,
            True,
        ]
        os.write(1, f"{AVERAGED} {replicas.rank}\n".encode())
        return 0

    return launch(rank, config)


def _broadcast_slowly(replicas: Replicas) -> None:
    """Check that the other ranks receive a beat while rank 0 takes long to make its result."""
    third = threading.Event()
    beats = []
    broadcast = replicas.broadcast

    def count_beats(value: Any) -> Any:
        beats.append(value)
        if len(beats) == 3:
            third.set()
        return broadcast(value)

    with patch.object(replicas, "broadcast", count_beats):
        assert replicas.broadcast_slow_result(lambda: third.wait(60) and replicas.rank, beat=0.05) == 0
    assert beats[:3] == [False] * 3, beats


def cached(config: TrainConfig) -> int:
    """Enable the compilation cache in `--logdir` from two threads; a later call cannot move it.

    Before that, a directory in a home directory that does not exist is reported.
    """
    import torch
    import torch_xla

    from trainer.model.xla_compilation import CACHE_PATH, use_compilation_cache

    assert config.logdir is not None
    with patch.object(Path, "expanduser", side_effect=RuntimeError("Could not determine home directory.")):
        use_compilation_cache("~/compiled")
    assert CACHE_PATH not in os.environ
    threads = [threading.Thread(target=use_compilation_cache, args=(config.logdir,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(os.environ[CACHE_PATH])
    torch.ones(2, device=torch_xla.device()).sum().item()
    use_compilation_cache(str(Path(config.logdir).with_name("other")))
    print(os.environ[CACHE_PATH], flush=True)
    return 0


def out_of_memory(config: TrainConfig) -> int:
    """Run out of device memory on all ranks at once."""
    from trainer.distributed.launcher import launch
    from trainer.distributed.signals import StopSignal

    def rank(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
        replicas.gather(None)  # a rank that still joins would report a lost rank instead
        raise RuntimeError("Error preparing computation: Out of memory allocating 52848750852 bytes.\nmore")

    return launch(rank, config)
