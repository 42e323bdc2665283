"""What replicas are asked to do together, each way run by a worker's process that `layouts` starts."""

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
"""What each rank of `together` says at its end."""


def alone(config: TrainConfig) -> int:
    """XLA's own collectives, over the one replica that a CPU device allows."""
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
    for thing in ("", "longer" * 100):
        assert replicas.gather(thing) == [thing]
    assert count_compilations() == known, "no graph may depend on how long a thing is"
    for thing in ({"a": 1}, "longer" * 1000):
        assert replicas.broadcast(thing) == thing
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
    """Three averages of gradients over all replicas, with a vote each, a broadcast, and who may tell."""
    from trainer.distributed.launcher import launch
    from trainer.distributed.signals import StopSignal

    def rank(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
        import torch
        import torch_xla

        shapes = [(3,), (), (2, 5, 7), (1,), (17, 3)]  # none of which fills whole lines of memory
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
        _shared_at_length(replicas)
        assert sorted(replicas.gather(replicas.failures is not None and replicas.failures.report_error())) == [
            False,
            True,
        ]
        os.write(1, f"{AVERAGED} {replicas.rank}\n".encode())
        return 0

    return launch(rank, config)


def _shared_at_length(replicas: Replicas) -> None:
    """What rank 0 makes may take as long as it likes: the others hear of it meanwhile."""
    third = threading.Event()
    beats = []
    broadcast = replicas.broadcast

    def format_count(thing: Any) -> Any:
        beats.append(thing)
        if len(beats) == 3:
            third.set()
        return broadcast(thing)

    with patch.object(replicas, "broadcast", format_count):
        assert replicas.broadcast_slow_result(lambda: third.wait(60) and replicas.rank, beat=0.05) == 0
    assert beats[:3] == [False] * 3, beats


def cached(config: TrainConfig) -> int:
    """Two threads that keep what is compiled in the directory `--logdir`, and later one that would change it."""
    import torch
    import torch_xla

    from trainer.model.xla_compilation import CACHE_PATH, use_compilation_cache

    assert config.logdir is not None
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
    """All ranks find at once that a graph does not fit into their devices."""
    from trainer.distributed.launcher import launch
    from trainer.distributed.signals import StopSignal

    def rank(replicas: Replicas, config: TrainConfig, stopping: StopSignal) -> int:
        replicas.gather(None)  # so that all have joined: one that still does would meet the end of another first
        raise RuntimeError("Error preparing computation: Out of memory allocating 52848750852 bytes.\nmore")

    return launch(rank, config)
