"""The replicas of a model, one per core: how they start, agree, average gradients and end together.

There are two kinds behind one interface. On TPU, torch_xla starts the processes and XLA's own all-reduce averages.
XLA's CPU device has no collective between processes: there the launcher forks the processes and gloo averages on the
host.
"""

from __future__ import annotations

import contextlib
import enum
import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
import torch_xla.utils.dlpack as dlpack
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trainer.config import ReplicaConfig, TrainConfig
from trainer.distributed.failures import FailureRecord, compare_settings
from trainer.errors import PartnerLostError, ReportedElsewhereError, TrainerError
from trainer.options import list_settings
from trainer.storage import background_io

T = TypeVar("T")

ALIGNED_FLOATS = 16  # floats, 64 bytes: XLA copies, or refuses, arrays that are not aligned to that
VOTE = torch.Size([1])
ABSENT = 2.0**16  # the vote of a replica without a batch, larger than the sum of all others
GLOO_SOURCE = re.compile(r"^\[\S+:\d+\] ")  # the place in gloo's source with which its messages begin
SMALLEST_BYTES = 4096  # bytes sent through the devices; compiled for each size, so sizes are powers of 2


class Verdict(enum.IntEnum):
    """The decision of all replicas by their vote in a step."""

    GO_ON = 0
    STOP = 1
    STOP_SKIPPING_STEP = 2  # no replica has taken this step, since one had no batch for it


class Replicas(ABC):
    """One replica's view of all replicas, and their collectives: every rank must make each call."""

    failures: FailureRecord | None = None  # there is none on TPU, where libtpu ends all replicas when one is lost

    def __init__(self, rank: int, world: int, core: int, worker: int) -> None:
        self.rank, self.world, self.core, self.worker = rank, world, core, worker
        self.device: torch.device = torch_xla.device()
        self.label = f"{self.device}/{rank}"  # the device in its process, and the core's ordinal in the slice

    @abstractmethod
    def step(self, optimizer: torch.optim.Optimizer, stop: bool) -> Verdict:
        """Average the gradients over all replicas and step; return whether any replica wants to stop.

        Gradients are gone afterwards. All replicas get the same answer at the same step.
        """

    @property
    def can_skip_step(self) -> bool:
        """Return whether a replica that has no batch can still take part in a step."""
        return self.world == 1

    @property
    def have_others_given_up(self) -> bool:
        """Return whether the others are known to have stopped waiting for this replica."""
        return self.failures is not None and self.failures.is_settled

    def skip_step(self, optimizer: torch.optim.Optimizer) -> None:  # noqa: B027
        """Take part in a step without a batch: all replicas leave it out and stop."""

    @abstractmethod
    def total(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum over all replicas of a tensor on the host."""

    @abstractmethod
    def gather(self, thing: T) -> list[T]:
        """Return each replica's `thing`, by rank."""

    @abstractmethod
    def broadcast(self, thing: T) -> T:
        """Return rank 0's `thing`. (Gathering would give every rank as many copies as there are ranks.)"""

    def broadcast_result(self, make: Callable[[], T]) -> T:
        """Call `make` on rank 0 and return its result on all; rank 0 raises its error, the others just end."""
        result: T | None = None
        error: TrainerError | None = None
        if self.rank == 0:
            try:
                result = make()
            except TrainerError as caught:
                error = caught
        result, failed = self.broadcast((result, error is not None))
        if error is not None:
            raise error
        if failed:
            raise ReportedElsewhereError("Rank 0 could not continue")
        return result  # type: ignore[return-value]

    def broadcast_slow_result(self, make: Callable[[], T], beat: float) -> T:
        """Do what `broadcast_result` does where `make` may take longer than a collective: rank 0 runs it in a thread.

        Every `beat` seconds, which must be less than the timeout of a collective, rank 0 shows that it is alive.
        """
        result = background_io.start_thread(make, "share") if self.rank == 0 else None
        while not self.broadcast(result is not None and bool(wait([result], beat).done)):
            pass
        return self.broadcast_result(result.result if result is not None else make)

    def on_rank_zero(self, make: Callable[[], T], *, otherwise: T) -> T:
        """Call `make` on rank 0 and return its result there, `otherwise` elsewhere; all end when it fails."""
        result: list[T] = []
        self.broadcast_result(lambda: result.append(make()))
        return result[0] if result else otherwise

    def check_same_config(self, config: TrainConfig) -> None:
        """Compare the configurations of all workers; rank 0 raises TrainerError where one differs, the others end."""
        settings_by_worker = self.gather((self.worker, list_settings(config)))
        self.broadcast_result(lambda: compare_settings(settings_by_worker))

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""


class GlooReplicas(Replicas):
    """Replicas on XLA CPU devices, one per process; gradients meet in one flat bucket, which gloo averages in place.

    The device's memory is the host's. Gradients are read where XLA left them, and the device reads their means in the
    bucket, both through DLPack. The one copy, into the bucket, takes a tenth of gloo's time. (A transfer each way
    would cost as much as gloo does, for dozens of MB of fresh memory in each step.)
    """

    failures: FailureRecord

    def __init__(self, place: ReplicaConfig, core: int, store: TCPStore) -> None:
        rank, timeout = place.rank(core), timedelta(seconds=place.timeout)
        self.failures = FailureRecord(store, rank, place.world, place.cores)
        with self._together():
            dist.init_process_group("gloo", store=store, rank=rank, world_size=place.world, timeout=timeout)
        super().__init__(rank, place.world, core, place.worker)
        self._bucket = torch.empty(0)
        self._shapes: Sequence[torch.Size] = ()
        self._views: list[torch.Tensor] = []

    def step(self, optimizer: torch.optim.Optimizer, stop: bool) -> Verdict:
        """Run two graphs, with gloo between them on the host: forward and backward, then the step. One if alone."""
        verdict = Verdict(stop)
        if self.world > 1:
            verdict = self.average(_parameters(optimizer), stop)
        if verdict is not Verdict.STOP_SKIPPING_STEP:
            optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        return verdict

    @property
    def can_skip_step(self) -> bool:
        """Return True: no replica has stepped before all have voted."""
        return True

    def skip_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Contribute no gradients, and a vote that exceeds the sum of all others."""
        if self.world > 1:
            *_, vote = self._places([p.shape for p in _parameters(optimizer)])
            self._bucket.zero_()
            vote.fill_(ABSENT)
            with self._together():
                dist.all_reduce(self._bucket)

    def average(self, parameters: Sequence[torch.Tensor], stop: bool = False) -> Verdict:
        """Replace each gradient by its mean over all replicas, in one collective that carries the vote too.

        The means lie in the bucket, and are valid until the next call.
        """
        parameters = [p for p in parameters if p.grad is not None]
        # Run forward and backward with all their results (loss, running statistics), and wait for them. Then the
        # bucket is free: the previous step, which may still have read it, has produced this step's parameters.
        torch_xla.sync(wait=True)
        *views, vote = self._places([p.shape for p in parameters])
        for gradient, view in zip([p.grad for p in parameters if p.grad is not None], views, strict=True):
            view.copy_(_on_host(gradient))
        vote.fill_(float(stop))
        with self._together():
            dist.all_reduce(self._bucket)
        votes = float(vote)
        self._bucket.div_(self.world)
        for p, mean in zip(parameters, views, strict=True):
            p.grad = dlpack.from_dlpack(mean)
        return Verdict.STOP_SKIPPING_STEP if votes >= ABSENT else Verdict(votes > 0)

    def _places(self, shapes: Sequence[torch.Size]) -> list[torch.Tensor]:
        """Return views of the bucket in these shapes and the vote's, aligned so that XLA need not copy them."""
        if shapes != self._shapes:
            sizes = [-(-shape.numel() // ALIGNED_FLOATS) * ALIGNED_FLOATS for shape in (*shapes, VOTE)]
            self._bucket, self._shapes = torch.zeros(sum(sizes)), shapes
            parts = zip(torch.split(self._bucket, sizes), (*shapes, VOTE), strict=True)
            self._views = [part[: shape.numel()].view(shape) for part, shape in parts]
        return self._views

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """Sum with gloo."""
        summed = values.clone()
        with self._together():
            dist.all_reduce(summed)
        return summed

    def gather(self, thing: T) -> list[T]:
        """Gather with gloo, pickled."""
        gathered: list[Any] = [None] * self.world
        with self._together():
            dist.all_gather_object(gathered, thing)
        return gathered

    def broadcast(self, thing: T) -> T:
        """Broadcast with gloo, pickled."""
        things = [thing]
        with self._together():
            dist.broadcast_object_list(things)
        return things[0]

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        """Turn the RuntimeError by which gloo reports a dead or silent partner into a PartnerLostError."""
        self.failures.entered += 1
        try:
            yield
        except RuntimeError as error:
            why = GLOO_SOURCE.sub("", str(error).splitlines()[0])
            raise PartnerLostError(
                "Another rank ended or froze", why=why, remedy="Look at the last lines of the other workers"
            ) from error

    def close(self) -> None:
        """Close gloo's connections; a rank that has not closed counts as lost to the others."""
        dist.destroy_process_group()


class XlaReplicas(Replicas):
    """TPU cores: XLA's all-reduce, compiled into the step's own graph."""

    def __init__(self, vote_every: int) -> None:
        """Join; `vote_every` is the steps between votes on stopping, each of which waits for the device."""
        super().__init__(xr.global_ordinal(), xr.world_size(), xr.local_ordinal(), xr.host_index())
        self._vote_every = vote_every
        self._steps = 0

    def step(self, optimizer: torch.optim.Optimizer, stop: bool) -> Verdict:
        """Run one graph, and vote in every `vote_every`th step only."""
        xm.optimizer_step(optimizer)
        optimizer.zero_grad()
        torch_xla.sync()  # hands the step's graph to the device, and returns immediately
        self._steps += 1
        if self._steps % self._vote_every:
            return Verdict.GO_ON
        return Verdict(self.total(torch.tensor([float(stop)])).item() > 0)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """Sum on the devices."""
        summed = xm.all_reduce(xm.REDUCE_SUM, values.to(self.device))
        assert isinstance(summed, torch.Tensor)
        return summed.cpu()

    def gather(self, thing: T) -> list[T]:
        """Gather through the devices: pickled, in rows of one length, since pickle marks its own end.

        (A rendezvous would be compiled again for each length, and fetch each replica's data separately.)
        """
        content = torch.frombuffer(bytearray(pickle.dumps(thing)), dtype=torch.uint8)
        length = torch.tensor([content.numel()], dtype=torch.int32, device=self.device)
        longest = xm.all_reduce(xm.REDUCE_MAX, length)
        assert isinstance(longest, torch.Tensor)
        row = torch.zeros(_pad_size(int(longest.item())), dtype=torch.uint8)
        row[: content.numel()] = content
        rows = xm.all_gather(row.to(self.device)).cpu().view(self.world, -1)
        return [pickle.loads(part.numpy().tobytes()) for part in rows]

    def broadcast(self, thing: T) -> T:
        """Broadcast through the devices: pickled, and summed with the zeros of all others."""
        content = np.frombuffer(pickle.dumps(thing), np.uint8) if self.rank == 0 else np.zeros(0, np.uint8)
        size = int(self.total(torch.tensor([content.size], dtype=torch.int32)).item())
        values = torch.zeros(_pad_size(size), dtype=torch.int32)
        values[: content.size] = torch.from_numpy(content.astype(np.int32))
        return pickle.loads(self.total(values)[:size].to(torch.uint8).numpy().tobytes())  # type: ignore[no-any-return]

    def close(self) -> None:
        """Wait for the others, so that the end of this replica interrupts none of them."""
        xm.rendezvous("close")


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _pad_size(size: int) -> int:
    return max(SMALLEST_BYTES, 1 << (size - 1).bit_length())


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return an array of XLA's CPU device as a host tensor in the same memory."""
    shared: torch.Tensor = torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(tensor))
    return shared
