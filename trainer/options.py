"""Define the command line of a run, and check it before PyTorch is imported, which takes seconds."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from trainer.config import (
    BAD_SHARD_POLICIES,
    COMPILATION_CACHE,
    MODELS,
    CheckpointConfig,
    DataConfig,
    OptimizerConfig,
    ReplicaConfig,
    TrainConfig,
)
from trainer.distributed.failures import print_once
from trainer.errors import REFUSED, ConfigError
from trainer.storage.urls import normalise

SECTIONS = {
    "data": DataConfig,
    "optimizer": OptimizerConfig,
    "replicas": ReplicaConfig,
    "checkpoint": CheckpointConfig,
}
"""The parts of TrainConfig by their fields' names."""
PATH_OPTIONS = (
    "--data",
    "--train-shards",
    "--val-shards",
    "--checkpoint-dir",
    "--resume",
    "--logdir",
    "--compilation-cache",
)
MAY_VARY = {"debug", "metrics_debug", "profiler_port", "compilation_cache", "logdir", "data.cache_mib", "data.verify"}
"""Fields that may differ between workers, since no collective depends on them; so may those of ReplicaConfig."""
DEFAULT = "(default: %(default)s)"


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> TrainConfig:
    """Return the run that command line and environment describe; raise ConfigError, or SystemExit for `--help`."""
    parser, fields = _parser()
    values = vars(parser.parse_args(arguments))
    for option, field in fields.items():
        if values[field] == "":
            raise ConfigError(f"{option} is empty", remedy="Perhaps a variable is not set in your shell")
        if option in PATH_OPTIONS and values[field] is not None:
            values[field] = normalise(values[field])
    parts: dict[str, dict[str, Any]] = {section: {} for section in ("", *SECTIONS)}
    for field, value in values.items():
        section, _, name = field.rpartition(".")
        parts[section][name] = value
    return TrainConfig(
        data=DataConfig(**parts["data"]),
        optimizer=OptimizerConfig(**parts["optimizer"]),
        replicas=ReplicaConfig.from_environ(environ, **parts["replicas"]),
        checkpoint=CheckpointConfig(**parts["checkpoint"]),
        **parts[""],
    )


def list_settings(config: TrainConfig) -> dict[str, object]:
    """Return the settings that all workers share, by option, with `~` for the home directory, which may differ."""
    home = os.environ.get("HOME", "").rstrip("/")
    settings: dict[str, object] = {}
    for option, field in _parser()[1].items():
        if field not in MAY_VARY and not field.startswith("replicas."):
            value = attrgetter(field)(config)
            settings[option] = value.replace(f"{home}/", "~/") if home and isinstance(value, str) else value
    return settings


def read_command_line() -> TrainConfig:
    """Return the run that sys.argv describes; exit after `--help`, or after reporting what is wrong or missing."""
    prepare_environment(os.environ)
    try:
        config = parse(sys.argv[1:], os.environ)
        if config.replicas.device == "TPU":
            _require_tpu()
        return config
    except ConfigError as error:
        print_once(str(error), os.environ)
        sys.exit(REFUSED)


def prepare_environment(environ: MutableMapping[str, str]) -> None:
    """Set the variables that PyTorch/XLA reads on import: the device (TPU if there is one), and a quiet log."""
    if not environ.get("PJRT_DEVICE", "").strip():
        environ["PJRT_DEVICE"] = "TPU" if _is_there_a_tpu() else "CPU"
    environ.setdefault(
        "TORCH_CPP_LOG_LEVEL", "ERROR"
    )  # otherwise the end of another rank prints 40 lines of C++ frames


def _is_there_a_tpu() -> bool:
    return any(Path("/dev").glob("accel*")) or any(Path("/dev/vfio").glob("[0-9]*"))


def _require_tpu() -> None:
    if not _is_there_a_tpu():
        raise ConfigError(
            "There is no TPU on this machine, and PJRT_DEVICE is TPU",
            why="neither /dev/accel* nor /dev/vfio/* exists",
            remedy="Run on a TPU VM, or set PJRT_DEVICE=CPU",
        )


class _OptionParser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(message[:1].upper() + message[1:], remedy=f"See {self.prog} --help")


def _parser() -> tuple[argparse.ArgumentParser, dict[str, str]]:
    """Return the parser, and for each option the field of TrainConfig that it sets, e.g. `data.directory`."""
    about = "Train a ResNet on every core of a slice."
    parser = _OptionParser(prog="python -m trainer.train", description=about, allow_abbrev=False)
    fields: dict[str, str] = {}

    def add(
        group: Any, option: str, field: str, kind: Callable[[str], Any], metavar: str | None, about: str, **more: Any
    ) -> None:
        section, _, name = field.rpartition(".")
        default = getattr(SECTIONS.get(section, TrainConfig), name, None)
        group.add_argument(option, dest=field, type=kind, metavar=metavar, default=default, help=about, **more)
        fields[option] = field

    def add_flag(group: Any, option: str, field: str, about: str) -> None:
        group.add_argument(option, dest=field, action="store_true", help=about)
        fields[option] = field

    add(parser, "--model", "model", str, "MODEL", f"one of {', '.join(MODELS)} {DEFAULT}")
    data = partial(add, group := parser.add_argument_group("data"))
    data("--data", "data.directory", str, "DIR", "directory or gs://bucket/prefix made by trainer.shards")
    data("--train-shards", "data.train", str, "PATTERN", "gs://b/train-{000000..000639}.tar, paths, pipe:")
    data("--val-shards", "data.val", str, "PATTERN", "the same for validation; none: no validation")
    add_flag(group, "--fake-data", "data.fake", "train on one made-up batch, repeatedly")
    data("--image-size", "data.image_size", int, "N", "pixels per side (default: the manifest's, else 224)")
    data("--classes", "data.classes", int, "N", "number of classes (default: the manifest's)")
    data(
        "--shuffle-buffer",
        "data.shuffle_buffer",
        int,
        "SAMPLES",
        f"samples that each loader holds to draw from {DEFAULT}",
    )
    data("--loader-workers", "data.loader_workers", int, "N", "loader processes per core (default: CPU 0, TPU 4)")
    held = "samples held for later epochs, only without loader processes (default: %(default)s; 0: none)"
    data("--keep-samples", "data.cache_mib", int, "MIB", held)
    bad = "at a missing, truncated or damaged shard or sample: stop, or continue with others (default: stop)"
    data("--on-bad-shard", "data.on_bad_shard", str, None, bad, choices=BAD_SHARD_POLICIES)
    add_flag(group, "--verify-shards", "data.verify", "compare each shard with the manifest's sha256 first")

    step = partial(add, group := parser.add_argument_group("optimizer"))
    step("--batch-size", "optimizer.batch_size", int, "N", f"samples per core and step {DEFAULT}")
    step(
        "--learning-rate",
        "optimizer.learning_rate",
        float,
        "RATE",
        f"for 256 samples per step, scaled linearly {DEFAULT}",
    )
    step("--momentum", "optimizer.momentum", float, "X", f"of SGD {DEFAULT}")
    step("--weight-decay", "optimizer.weight_decay", float, "X", f"of all parameters {DEFAULT}")
    step("--label-smoothing", "optimizer.label_smoothing", float, "X", f"of the loss {DEFAULT}")
    add_flag(group, "--bf16", "bf16", "compute in bfloat16 where autocast allows")
    step("--epochs", "optimizer.epochs", int, "N", f"passes over all samples {DEFAULT}")
    step("--warmup-epochs", "optimizer.warmup_epochs", float, "X", f"epochs in which the rate rises {DEFAULT}")
    step("--steps-per-epoch", "steps_per_epoch", int, "N", "end each epoch after N steps")
    step("--seed", "seed", int, "SEED", f"of parameters and the order of samples {DEFAULT}")

    replicas = partial(add, group := parser.add_argument_group("replicas"))
    replicas(
        "--num-cores", "replicas.num_cores", int, "N", "replicas on this worker (CPU; default: TPU_TUI_CORES or 1)"
    )
    replicas("--timeout", "replicas.timeout", float, "S", "seconds to wait for other workers (CPU; default: 300)")
    add_flag(group, "--no-memory-check", "skip_memory_check", "start even if memory may not suffice (CPU)")

    keep = partial(add, parser.add_argument_group("checkpoints"))
    keep(
        "--checkpoint-dir", "checkpoint.directory", str, "DIR", "directory or gs://bucket/prefix of this run's state"
    )
    keep("--checkpoint-steps", "checkpoint.steps", int, "K", "also save every K steps")
    resume = "resume the newest checkpoint, none, or this one (default: auto)"
    keep("--resume", "checkpoint.resume", str, "auto|no|PATH", resume)

    run = partial(add, parser)
    run("--target-accuracy", "target_accuracy", float, "PERCENT", "exit with code 21 if the best accuracy is lower")
    add_flag(parser, "--metrics-debug", "metrics_debug", "print compilations and transfers each epoch")
    run("--profiler-port", "profiler_port", int, "PORT", "port of the profiler (TPU only)")
    cache = f"where compiled graphs are kept for the next run (TPU only; default: {COMPILATION_CACHE})"
    run("--compilation-cache", "compilation_cache", str, "DIR|no", cache)
    run("--logdir", "logdir", str, "DIR", "TensorBoard event files: a directory or gs://bucket/prefix")
    run("--log-steps", "log_steps", int, "K", f"print every K steps {DEFAULT}")
    add_flag(parser, "--debug", "debug", "print tracebacks instead of one-line errors")
    return parser, fields
