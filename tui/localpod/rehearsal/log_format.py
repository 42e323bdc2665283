"""Log formats that the rehearsal prints: templates of `log_formats.toml`, and the made-up figures that fill them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BATCH = 128
"""Samples per core and step, which turn a rate into a step time."""
_EPSILON = 1e-9
_MAX_EXPONENT = 50
"""Keeps the perplexity of a large loss within the range of a float."""

Figures = Mapping[str, Any]
"""Values by the names that the templates use."""


@dataclass(frozen=True)
class LogFormat:
    """Templates of lines: for a step and, where the framework prints them, evaluations, epochs and the run."""

    step: tuple[str, ...]
    per_core: bool = False
    """Whether every core prints a step; otherwise one core prints it for its whole process."""
    test: tuple[str, ...] = ()
    opening: tuple[str, ...] = ()
    epoch_begin: tuple[str, ...] = ()
    epoch_end: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()


class ProgressBar(float):
    """A share from 0 to 1. Its format is the filled character, the empty one and the width: `{bar:=.30}`."""

    def __format__(self, spec: str) -> str:
        filled, empty, width = spec[0], spec[1], int(spec[2:])
        return (filled * int(self * width + _EPSILON)).ljust(width, empty)


def run_figures(*, epochs: int, steps: int, cores: int) -> dict[str, Any]:
    """Return the figures of a whole run with epochs of `steps` steps."""
    return {
        "epochs": epochs,
        "steps": steps,
        "all_steps": epochs * steps,
        "cores": cores,
        "batch": BATCH,
        "all_samples": steps * BATCH * cores,
    }


def step_figures(*, epoch: int, step: int, steps: int, total: int, loss: float, rate: float) -> dict[str, Any]:
    """Return a step's figures; `steps` is the epoch's length, `total` counts over all epochs, `rate` is samples/s."""
    share = (step + 1) / steps
    return {
        "epoch": epoch,
        "epoch_index": epoch - 1,
        "epochs_done": epoch - 1 + step / steps,
        "step": step,
        "steps_done": step + 1,
        "total": total,
        "consumed": total * BATCH,
        "percent": int(100 * share),
        "bar": ProgressBar(share),
        "loss": loss,
        "perplexity": math.exp(min(loss, _MAX_EXPONENT)),
        "rate": rate,
        "seconds": BATCH / rate,
        "milliseconds": 1000 * BATCH / rate,
    }


def accuracy_figures(epoch: int) -> dict[str, float]:
    """Return made-up accuracies after an epoch, in percent, each better than the epoch before."""
    former, accuracy = (100 * (1 - math.exp(-done / 4)) for done in (epoch - 1, epoch))
    return {
        "accuracy": accuracy,
        "accuracy_share": accuracy / 100,
        "replica_accuracy": accuracy - 0.7,
        "former_accuracy": former,
    }


def _load() -> dict[str, LogFormat]:
    tables = tomllib.loads(Path(__file__).with_name("log_formats.toml").read_text(encoding="utf-8"))
    formats: dict[str, LogFormat] = {}
    for name, table in tables.items():
        inherited = vars(formats[table.pop("like")]) if "like" in table else {}
        fields = {key: value if key == "per_core" else tuple(value) for key, value in table.items()}
        formats[name] = LogFormat(**{**inherited, **fields})
    return formats


LOG_FORMATS = _load()


def glued(first: str, second: str) -> list[str]:
    """Return two processes' lines as they look when their writes collide: the second's `|` precedes the first."""
    return ["|" + first, second.removeprefix("|")]


PREFIXES = {
    "none": "",
    "xla_dist": "{time:%Y-%m-%d %H:%M:%S} {address} [{worker}] ",
    "xla_dist-undated": "{address} [{worker}] ",
    "number": "[{worker}] ",
    "skypilot": "(worker{worker}, rank={worker}, pid=15406, ip={address}) ",
    "ray": "\x1b[36m(RayTrainWorker pid=122107, ip={address})\x1b[0m ",
    "srun": "{worker}: ",
    "mpirun": "[1,{worker}]<stdout>:",
    "pdsh": "{address}: ",
    "torchrun": "[rank{worker}]: ",
}
"""Launchers' prefixes of every line."""
