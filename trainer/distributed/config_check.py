"""Check that all workers were started with the same settings: otherwise they would train differently, or hang."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from trainer.config import TrainConfig
from trainer.distributed.replicas import Replicas
from trainer.errors import TrainerError

PLACE = "replicas"  # the settings in which workers differ by design
OWN = {"debug", "metrics_debug", "profiler_port", "compilation_cache", "logdir", "data.keep", "data.verify"}
"""What each worker may have as it likes: nothing that is done together depends on it."""
OPTIONS = {
    "data.directory": "--data",
    "data.train": "--train-shards",
    "data.val": "--val-shards",
    "data.fake": "--fake-data",
    "checkpoint.directory": "--checkpoint-dir",
    "checkpoint.steps": "--checkpoint-steps",
    "memory_check": "the memory check",
}
"""Those that are not called as their fields are."""


def check_same_config(config: TrainConfig, replicas: Replicas) -> None:
    """Compare the configurations of all workers; raise TrainerError where one differs."""
    settings_by_worker = replicas.gather((replicas.worker, list_settings(config)))
    replicas.broadcast_result(lambda: compare(settings_by_worker))


def list_settings(config: TrainConfig) -> dict[str, object]:
    """Return settings by option. Workers may have different home directories for the same place."""
    home = os.environ.get("HOME", "") + "/"
    settings = {OPTIONS.get(name, _option(name)): value for name, value in _fields(asdict(config)) if name not in OWN}
    return {
        option: value.replace(home, "~/") if isinstance(value, str) else value for option, value in settings.items()
    }


def _fields(config: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in config.items():
        if not isinstance(value, dict):
            yield name, value
        elif name != PLACE:
            yield from ((f"{name}.{field}", each) for field, each in value.items())


def _option(field: str) -> str:
    return f"--{field.rpartition('.')[2].replace('_', '-')}"


def compare(settings_by_worker: Sequence[tuple[int, Mapping[str, object]]]) -> None:
    """Raise TrainerError for the first worker whose settings differ from those of the first in the list."""
    _, first = settings_by_worker[0]
    for worker, own in settings_by_worker:
        odd = [option for option in sorted({*own, *first}) if own.get(option) != first.get(option)]
        if odd:
            differences = [
                f"{each} is {_format_value(own.get(each))} instead of {_format_value(first.get(each))}"
                for each in odd
            ]
            raise TrainerError(
                f"Worker {worker} was started with different arguments than worker 0",
                why=", ".join(differences),
                remedy="Start all workers with the same arguments",
            )


def _format_value(value: object) -> str:
    return "none" if value is None else str(value)
