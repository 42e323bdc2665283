"""Resume a run: gather its state from the replicas, save it, and give it back to all of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

from trainer.checkpoint import store
from trainer.checkpoint.store import Checkpoint, CheckpointStore, Identity, Pointer, Position, State
from trainer.config import RESUME_WORDS, TrainConfig
from trainer.data import pipeline
from trainer.data.dataset import Dataset
from trainer.distributed.replicas import Replicas
from trainer.errors import TrainerError
from trainer.progress import write_line

MODEL, MOMENTUM = "model.", "momentum."
UPLOAD_TIMEOUT_S = 120.0  # for retrying an upload; less if the waiting replicas would give up sooner
PLAN_CHANGED = "data, batch, cores or seed have changed"
DIVERGENCE_REMEDY = "Give a smaller --learning-rate, or more --warmup-epochs"


@dataclass(frozen=True)
class _Found:
    """The checkpoint that rank 0 loaded, without its tensors: small enough to broadcast as a pickle."""

    pointer: Pointer
    path: str
    integers: dict[str, int]
    random: list[Any]


class Resumption:
    """One replica's part in saving and restoring. Every rank must make each call."""

    def __init__(
        self, replicas: Replicas, config: TrainConfig, data: Dataset, model: nn.Module, optimizer: torch.optim.SGD
    ) -> None:
        self._replicas, self._config, self._model, self._optimizer = replicas, config, model, optimizer
        plan = pipeline.plan_digest(config, data, replicas.world)
        self._identity = Identity(config.model, data.classes, plan, pipeline.ORDER)
        self._store: CheckpointStore | None = None
        self._saved: Position | None = None
        self.steps = pipeline.steps_an_epoch(config, data, replicas.world)
        self.best: float | None = None

    def resume(self) -> Position:
        """Restore the checkpoint that `--resume` names, and return where to continue; raise TrainerError."""
        state: State | None = None

        def find() -> _Found | None:
            nonlocal state
            loaded = self._load()
            if loaded is None:
                return None
            state = loaded.state
            return _Found(loaded.pointer, loaded.path, state.integers, state.random)

        beat = self._config.replicas.timeout / 3
        found = self._replicas.broadcast_slow_result(find, beat)
        position = Position()
        if found is not None:
            self._restore(found, state)
            position = self._saved = self._choose_position(found)
        self.best = position.best
        directory = self._config.checkpoint.directory

        def open_store() -> None:
            assert directory is not None
            pointer = None if found is None else found.pointer
            patience = min(UPLOAD_TIMEOUT_S, beat)
            self._store = CheckpointStore(directory, self._identity, pointer, patience)

        if directory is not None:
            self._replicas.broadcast_slow_result(open_store, beat)
        return position

    def _load(self) -> Checkpoint | None:
        """Load the checkpoint that `--resume` names, if there is one; raise TrainerError."""
        keep = self._config.checkpoint
        if keep.resume not in RESUME_WORDS:
            return store.load_named(keep.resume, self._identity)
        if keep.resume == "no" or keep.directory is None:
            return None
        return store.find_newest(keep.directory, self._identity)

    @property
    def is_saving(self) -> bool:
        """Return whether checkpoints are saved."""
        return self._config.checkpoint.directory is not None

    def is_due(self, step: int) -> bool:
        """Return whether `--checkpoint-steps` requires a checkpoint after this step of the whole run."""
        interval = self._config.checkpoint.steps
        return interval is not None and step % interval == 0

    def save(self, epoch: int, step: int, *, best: bool = False) -> None:
        """Save the run as it is after `step` steps of an epoch, unless that is saved already; raise TrainerError."""
        position = Position(epoch, step, self.best)
        if not self.is_saving or (self._saved is not None and (epoch, step) <= (self._saved.epoch, self._saved.step)):
            return  # saved already, perhaps by a run of more epochs
        self._saved = position
        average_statistics(self._model, self._replicas)  # so that any replica's may be saved
        random = self._replicas.gather((torch.get_rng_state(), int(xm.get_rng_state())))

        def write() -> None:
            assert self._store is not None
            state = self._state(random)
            if state.has_diverged:
                raise TrainerError(
                    "The training diverged",
                    why=f"epoch {epoch} after step {step} is not saved",
                    remedy=DIVERGENCE_REMEDY,
                )
            path = self._store.save(state, position, best=best)
            write_line(f"Saved Model Checkpoint file {path} at epoch {epoch} after step {step}.")

        self._replicas.broadcast_result(write)

    def _state(self, random: list[Any]) -> State:
        values = {name: value.detach().cpu() for name, value in self._model.state_dict().items()}
        floats = {MODEL + name: value for name, value in values.items() if value.is_floating_point()}
        integers = {name: int(value) for name, value in values.items() if not value.is_floating_point()}
        momentum = {MOMENTUM + name: buffer.detach().cpu() for name, buffer in self._momentum().items()}
        return State({**floats, **momentum}, integers, random)

    def _momentum(self) -> dict[str, torch.Tensor]:
        buffers = {
            name: self._optimizer.state[p].get("momentum_buffer") for name, p in self._model.named_parameters()
        }
        return {name: buffer for name, buffer in buffers.items() if buffer is not None}

    @torch.no_grad()
    def _restore(self, checkpoint: _Found, state: State | None) -> None:
        """Send rank 0's tensors to all replicas, which may not have access to the checkpoint's directory."""
        own_state = self._model.state_dict()
        targets = {MODEL + name: value for name, value in own_state.items() if value.is_floating_point()}
        counters = {name for name, value in own_state.items() if not value.is_floating_point()}
        targets.update({MOMENTUM + name: buffer for name, buffer in self._momentum().items()})
        saved = {} if state is None else state.floats
        sizes = [target.numel() for target in targets.values()]
        flat = torch.zeros(sum(sizes))

        def fill() -> None:
            problems = [
                *(f"it lacks {name}" for name in targets if name not in saved and name.startswith(MODEL)),
                *(f"the model does not count {name}" for name in checkpoint.integers if name not in counters),
                *("its shapes differ" for name in targets.keys() & saved if saved[name].shape != targets[name].shape),
            ]
            if problems:
                remedy = "Give another --resume, or --resume no"
                what = f"Checkpoint {checkpoint.path} does not fit the model"
                raise TrainerError(what, why=problems[0], remedy=remedy)
            for name, part in zip(targets, torch.split(flat, sizes), strict=True):
                if name in saved:
                    part.copy_(saved[name].reshape(-1))

        self._replicas.broadcast_result(fill)
        flat = self._replicas.total(flat)  # the other replicas add zeros
        for target, part in zip(targets.values(), torch.split(flat, sizes), strict=True):
            target.copy_(part.view_as(target).to(target.device))
        for name, number in checkpoint.integers.items():
            own_state[name].fill_(number)
        torch_xla.sync()
        if len(checkpoint.random) == self._replicas.world:
            host, device = checkpoint.random[self._replicas.rank]
            torch.set_rng_state(host)
            xm.set_rng_state(device)

    def _choose_position(self, checkpoint: _Found) -> Position:
        """Return where to continue: at the epoch's beginning if its samples now come in another order."""
        position, note = checkpoint.pointer.position, ""
        why = self._other_order(checkpoint.pointer.identity, position)
        if position.step and why:
            steps = "step done in it is" if position.step == 1 else f"{position.step} steps done in it are"
            note = f", from the epoch's beginning: the {steps} repeated, because {why}"
            position = Position(position.epoch, 0, position.best)
        elif checkpoint.pointer.identity.plan != self._identity.plan:
            note = f"; {PLAN_CHANGED}"
        if self._replicas.rank == 0:
            progress = f"epoch {position.epoch} after step {position.step}"
            ending = "; nothing is left to train" if position.epoch > self._config.optimizer.epochs else ""
            write_line(f"Resumed from {checkpoint.path} at {progress}{note}{ending}")
        return position

    def _other_order(self, saved: Identity, position: Position) -> str:
        """Return why an epoch cannot continue in the middle; empty where it can."""
        if saved.plan != self._identity.plan:
            return PLAN_CHANGED
        if position.step > self.steps:
            return f"an epoch has {self.steps} steps"
        if saved.order != pipeline.ORDER and position.step < self.steps:  # otherwise only the evaluation is due
            orders = f"order {saved.order}, here {pipeline.ORDER}"
            return f"it was saved by a trainer that orders samples differently ({orders})"
        return ""


@torch.no_grad()
def average_statistics(model: nn.Module, replicas: Replicas) -> None:
    """Replace batch norm's running statistics, which differ between replicas, by their mean over all replicas."""
    buffers = [value for name, value in model.named_buffers() if name.endswith(("running_mean", "running_var"))]
    if not buffers:
        return
    flat = torch.cat([buffer.cpu().reshape(-1) for buffer in buffers])
    mean = replicas.total(flat) / replicas.world
    for buffer, part in zip(buffers, torch.split(mean, [buffer.numel() for buffer in buffers]), strict=True):
        buffer.copy_(part.view_as(buffer).to(buffer.device))
    torch_xla.sync()


def verify_in_step(model: nn.Module, replicas: Replicas) -> None:
    """Compare the parameters of all replicas, and print their hash.

    Raises TrainerError where one differs, or where all have diverged.
    """
    average_statistics(model, replicas)
    prints = replicas.gather(fingerprint(model))

    def compare() -> None:
        odd = [rank for rank, digest in enumerate(prints) if digest != prints[0]]
        if odd:
            what = f"The parameters of ranks {odd} differ from rank 0's"
            remedy = "Resume from an earlier checkpoint with --resume; if it happens again, replace those machines"
            raise TrainerError(what, why="the replicas fell out of step", remedy=remedy)
        if not all(bool(value.cpu().isfinite().all()) for value in model.state_dict().values()):
            raise TrainerError("The training diverged", why="not all parameters are finite", remedy=DIVERGENCE_REMEDY)
        subject = f"All {replicas.world} replicas hold the same" if replicas.world > 1 else "The replica's"
        write_line(f"{subject} parameters: sha256 {prints[0][:16]}")

    replicas.broadcast_result(compare)


def fingerprint(model: nn.Module) -> str:
    """Return a hash of parameters and running statistics, the same on replicas that are in step."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
