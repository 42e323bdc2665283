"""Scale batch size, steps, epochs and learning rate from one slice type to another.

The batch per core and the number of training examples stay the same, so steps shrink as the global batch grows (Cloud
TPU documentation, "Training on TPU Pods"). The learning rate follows the linear rule with a gradual warm-up (Goyal et
al. 2017, "Accurate, Large Minibatch SGD"), which is a starting point.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from tui.errors import UsageError
from tui.pod.accelerator import Accelerator, parse
from tui.text.printable import format_count

WARM_UP_EPOCHS = 5
"""Length of the warm-up of Goyal et al."""
_WARM_UP_SHARE = 3
"""A short training spends at most one in this many of its epochs on the warm-up."""
LINEAR_RULE_HOLDS_TO = 8192
"""The largest global batch at which Goyal et al. saw no loss of accuracy (ResNet-50, ImageNet)."""
_CORES_A_VM = 8
_SINGLE_VM_CHIPS = (1, 4, 8)
_ALSO_CALLED = {"v5e": "v5litepod", "v5lite": "v5litepod", "v7x": "tpu7x"}


@dataclass(frozen=True)
class Plan:
    """What to set on the new slice; `steps`, `epochs` and `lr` are None where they were not given.

    `batch_per_core` counts examples per core (XLA device) and step. `warm_up_epochs` is None where no warm-up is
    needed. `warnings` name what cannot be kept exactly, `notes` the assumptions.
    """

    source: str
    target: str
    batch_per_core: int
    global_batch: int
    steps: int | None = None
    epochs: float | None = None
    lr: float | None = None
    warm_up_epochs: float | None = None
    warm_up_steps: int | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document that `plan --json` prints (names are stable)."""
        values = asdict(self)
        return {"from": values.pop("source"), "to": values.pop("target"), **values}


def make_plan(
    source: str,
    target: str,
    *,
    batch_size: int,
    steps: int | None = None,
    lr: float | None = None,
    epochs: float | None = None,
    keep_global_batch: bool = False,
) -> Plan:
    """Scale a training with this global batch size from `source` to `target`.

    `steps` counts the batches of the whole training. With `keep_global_batch` the batch is divided among the new
    cores; steps and learning rate stay as they are. Raises UsageError for an unknown accelerator type and for numbers
    that are not positive.
    """
    old, new = known_type(source), known_type(target)
    _require_positive({"batch size": batch_size, "steps": steps, "learning rate": lr, "epochs": epochs})
    per_core, warnings = _batch_per_core(batch_size, new if keep_global_batch else old)
    global_batch = per_core * new.devices
    scaled_steps, uneven = _scaled_steps(batch_size, steps, global_batch)
    try:
        scaled_lr = None if lr is None else float(Fraction(str(lr)) * global_batch / batch_size)
    except OverflowError:
        raise UsageError("the learning rate is too large") from None
    warm_up = _warm_up(batch_size, global_batch, lr, epochs)
    warm_up_steps = None
    if warm_up is not None and scaled_steps is not None and epochs is not None:
        warm_up_steps = math.ceil(scaled_steps * Fraction(str(warm_up)) / Fraction(str(epochs)))
    notes = _notes(old, new, lr, scaled_lr, warm_up)
    if keep_global_batch:
        before = batch_size / old.devices
        notes.append(
            f"the global batch is kept: {per_core:,} per core instead of {before:,g}, so cores may be used less"
        )
    return Plan(
        source=old.name,
        target=new.name,
        batch_per_core=per_core,
        global_batch=global_batch,
        steps=scaled_steps,
        epochs=epochs,
        lr=scaled_lr,
        warm_up_epochs=warm_up,
        warm_up_steps=warm_up_steps,
        warnings=(*warnings, *uneven, *_generation_warnings(old, new), *_batch_warnings(global_batch, lr)),
        notes=tuple(notes),
    )


def known_type(name: str) -> Accelerator:
    """Parse an accelerator type or its common name (`v5e-16`). Raises UsageError, also for a fraction of a VM."""
    generation, dash, number_text = name.strip().lower().partition("-")
    accelerator = parse(_ALSO_CALLED.get(generation, generation) + dash + number_text)
    if accelerator is None:
        raise UsageError(
            f"unknown accelerator type {name!r}",
            remedy="use e.g. v2-8, v3-32, v4-16, v5litepod-16, v5p-8, v6e-8 or tpu7x-8",
        )
    number = int(accelerator.name.rpartition("-")[2])
    counts_chips = accelerator.chips == number
    if number % _CORES_A_VM and not (counts_chips and number in _SINGLE_VM_CHIPS):
        unit = "chips" if counts_chips else "cores"
        raise UsageError(
            f"{name} does not exist",
            why=f"{number} {unit} do not fill whole VMs",
            remedy="list the types with gcloud compute tpus accelerator-types list",
        )
    return accelerator


def _require_positive(numbers: dict[str, int | float | None]) -> None:
    for name, number in numbers.items():
        if number is not None and not (number > 0 and math.isfinite(number)):
            raise UsageError(f"the {name} must be more than 0, not {number:g}")


def _batch_per_core(batch_size: int, kind: Accelerator) -> tuple[int, list[str]]:
    """Return the examples per core, and a warning where they are not a whole number."""
    per_core, remainder = divmod(batch_size, kind.devices)
    if not remainder:
        return per_core, []
    per_core = max(1, per_core)
    text = f"a batch of {batch_size:,} does not divide by the {kind.devices} cores of {kind.name}"
    return per_core, [f"{text}: planned with {per_core:,} per core"]


def _scaled_steps(batch_size: int, steps: int | None, global_batch: int) -> tuple[int | None, list[str]]:
    """Return the steps for the same number of examples, rounded up, and a warning where that is more."""
    if steps is None:
        return None, []
    samples = batch_size * steps
    scaled = -(-samples // global_batch)
    surplus = scaled * global_batch - samples
    if not surplus:
        return scaled, []
    return scaled, [
        f"{batch_size:,} × {steps:,} = {samples:,} examples do not divide by {global_batch:,}: "
        f"{format_count(scaled, 'step')} show{'s' if scaled == 1 else ''} {surplus:,} more"
    ]


def _warm_up(batch_size: int, global_batch: int, lr: float | None, epochs: float | None) -> float | None:
    if lr is None or global_batch <= batch_size:
        return None
    if epochs is None or epochs >= WARM_UP_EPOCHS * _WARM_UP_SHARE:
        return float(WARM_UP_EPOCHS)
    return epochs / _WARM_UP_SHARE


def _generation_warnings(old: Accelerator, new: Accelerator) -> list[str]:
    if old.generation == new.generation:
        return []
    sizes = [f"{_core(new)} instead of {_core(old)}"] if _core(new) != _core(old) else []
    if new.hbm_gib != old.hbm_gib:
        sizes.append(f"{new.hbm_gib} GiB instead of {old.hbm_gib}")
    differences = f" ({', '.join(sizes)})" if sizes else ""
    advice = (
        "the batch per core may not fit any more: measure, and lower it if memory runs out"
        if new.hbm_gib < old.hbm_gib
        else "measure, then raise the batch per core until memory is full"
    )
    return [f"{old.generation} and {new.generation} cores differ{differences}: {advice}"]


def _core(kind: Accelerator) -> str:
    return "half a chip" if kind.devices > kind.chips else "a whole chip"


def _batch_warnings(global_batch: int, lr: float | None) -> list[str]:
    if lr is None or global_batch <= LINEAR_RULE_HOLDS_TO:
        return []
    return [
        f"above a global batch of {LINEAR_RULE_HOLDS_TO:,} the linear rule was found to lose accuracy "
        "(ResNet-50 on ImageNet): watch validation, consider LARS or LAMB"
    ]


def _notes(
    old: Accelerator, new: Accelerator, lr: float | None, scaled_lr: float | None, warm_up: float | None
) -> list[str]:
    notes = [f"{old.name}: {_shape(old)}; {new.name}: {_shape(new)}", "the number of epochs stays the same"]
    if lr is not None and scaled_lr is not None:
        notes.append("the learning rate by the linear rule is a starting point, not a result")
        if warm_up is not None:
            over = "the first epoch" if warm_up == 1 else f"the first {warm_up:g} epochs"
            notes.append(f"warm up from {lr:g} to {scaled_lr:g} over {over}")
    return notes


def _shape(kind: Accelerator) -> str:
    workers, cores = format_count(kind.workers, "worker"), format_count(kind.devices, "core")
    return f"{workers}, {cores} ({format_count(kind.chips, 'chip')})"
