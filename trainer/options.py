"""The command line of a run: its options, read and checked before the seconds of importing PyTorch."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from trainer.config import (
    BAD_SHARD_POLICIES,
    COMPILED,
    MODELS,
    CheckpointConfig,
    DataConfig,
    OptimizerConfig,
    ReplicaConfig,
    TrainConfig,
)
from trainer.distributed.startup_error import print_once
from trainer.errors import REFUSED, ConfigError
from trainer.storage.urls import normalise

PLACES = ("data", "train_shards", "val_shards", "checkpoint_dir", "resume", "logdir", "compilation_cache")


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> TrainConfig:
    """Return the run that command line and environment ask for; raise ConfigError, or SystemExit for `--help`."""
    options = _parser().parse_args(arguments)
    for name, value in vars(options).items():
        if value == "":
            raise ConfigError(
                f"--{name.replace('_', '-')} is empty", remedy="Perhaps a variable is not set in your shell"
            )
        if name in PLACES and value is not None:
            setattr(options, name, normalise(value))
    return TrainConfig(
        model=options.model,
        data=DataConfig(
            directory=options.data,
            train=options.train_shards,
            val=options.val_shards,
            fake=options.fake_data,
            image_size=options.image_size,
            classes=options.classes,
            shuffle_buffer=options.shuffle_buffer,
            loader_workers=options.loader_workers,
            on_bad_shard=options.on_bad_shard,
            keep=options.keep_samples,
            verify=options.verify_shards,
        ),
        optimizer=OptimizerConfig(
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            momentum=options.momentum,
            weight_decay=options.weight_decay,
            epochs=options.epochs,
            warmup_epochs=options.warmup_epochs,
            label_smoothing=options.label_smoothing,
        ),
        replicas=ReplicaConfig.from_environ(environ, options.num_cores, options.timeout),
        checkpoint=CheckpointConfig(options.checkpoint_dir, options.checkpoint_steps, options.resume),
        bf16=options.bf16,
        target_accuracy=options.target_accuracy,
        metrics_debug=options.metrics_debug,
        profiler_port=options.profiler_port,
        compilation_cache=options.compilation_cache,
        logdir=options.logdir,
        log_steps=options.log_steps,
        steps_per_epoch=options.steps_per_epoch,
        seed=options.seed,
        memory_check=not options.no_memory_check,
        debug=options.debug,
    )


def read_command_line() -> TrainConfig:
    """Return the run that sys.argv asks for; exit after `--help`, or after reporting a wrong argument."""
    choose_device(os.environ)
    try:
        return parse(sys.argv[1:], os.environ)
    except ConfigError as error:
        print_once(str(error), os.environ)
        sys.exit(REFUSED)


def choose_device(environ: MutableMapping[str, str]) -> None:
    """Set PJRT_DEVICE if it is not set: to TPU where there is one, else to CPU."""
    if not environ.get("PJRT_DEVICE", "").strip():
        there = any(Path("/dev").glob("accel*")) or any(Path("/dev/vfio").glob("[0-9]*"))
        environ["PJRT_DEVICE"] = "TPU" if there else "CPU"


class _OptionParser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(message[:1].upper() + message[1:], remedy=f"See {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    given = "(default: %(default)s)"
    about = "Train a ResNet on every core of a slice."
    parser = _OptionParser(prog="python -m trainer.train", description=about, allow_abbrev=False)
    parser.add_argument("--model", default="resnet50", help=f"one of {', '.join(MODELS)} {given}")
    source = parser.add_argument_group("data")
    source.add_argument("--data", metavar="DIR", help="directory or gs://bucket/prefix made by trainer.shards")
    source.add_argument("--train-shards", metavar="PATTERN", help="gs://b/train-{000000..000639}.tar, paths, pipe:")
    source.add_argument("--val-shards", metavar="PATTERN", help="the same for validation; none: no validation")
    source.add_argument("--fake-data", action="store_true", help="train on one made-up batch, repeatedly")
    source.add_argument(
        "--image-size", type=int, metavar="N", help="pixels per side (default: the manifest's, else 224)"
    )
    source.add_argument("--classes", type=int, metavar="N", help="number of classes (default: the manifest's)")
    source.add_argument(
        "--shuffle-buffer",
        type=int,
        default=10_000,
        metavar="SAMPLES",
        help=f"samples that each loader holds to draw from {given}",
    )
    source.add_argument(
        "--loader-workers", type=int, metavar="N", help="loader processes per core (default: CPU 0, TPU 4)"
    )
    source.add_argument(
        "--keep-samples",
        type=int,
        default=512,
        metavar="MIB",
        help="samples held for later epochs, only without loader processes (default: %(default)s; 0: none)",
    )
    source.add_argument(
        "--on-bad-shard",
        default="stop",
        choices=BAD_SHARD_POLICIES,
        help="at a missing, truncated or damaged shard or sample: stop, or continue with others (default: stop)",
    )
    source.add_argument(
        "--verify-shards", action="store_true", help="compare each shard with the manifest's sha256 first"
    )
    step = parser.add_argument_group("optimizer")
    step.add_argument("--batch-size", type=int, default=128, metavar="N", help=f"samples per core and step {given}")
    step.add_argument(
        "--learning-rate",
        type=float,
        default=0.1,
        metavar="RATE",
        help=f"for 256 samples per step, scaled linearly {given}",
    )
    step.add_argument("--momentum", type=float, default=0.9, metavar="X", help=f"of SGD {given}")
    step.add_argument("--weight-decay", type=float, default=1e-4, metavar="X", help=f"of all parameters {given}")
    step.add_argument("--label-smoothing", type=float, default=0.0, metavar="X", help=f"of the loss {given}")
    step.add_argument("--bf16", action="store_true", help="compute in bfloat16 where autocast allows")
    step.add_argument("--epochs", type=int, default=18, metavar="N", help=f"passes over all samples {given}")
    step.add_argument(
        "--warmup-epochs", type=float, default=1.0, metavar="X", help=f"epochs in which the rate rises {given}"
    )
    step.add_argument("--steps-per-epoch", type=int, metavar="N", help="end each epoch after N steps")
    step.add_argument("--seed", type=int, default=42, help=f"of parameters and the order of samples {given}")
    place = parser.add_argument_group("replicas")
    place.add_argument(
        "--num-cores", type=int, metavar="N", help="replicas on this worker (CPU; default: TPU_TUI_CORES or 1)"
    )
    place.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="S",
        help="seconds to wait for other workers (CPU; default: 300)",
    )
    place.add_argument("--no-memory-check", action="store_true", help="start even if memory may not suffice (CPU)")
    keep = parser.add_argument_group("checkpoints")
    keep.add_argument("--checkpoint-dir", metavar="DIR", help="directory or gs://bucket/prefix of this run's state")
    keep.add_argument("--checkpoint-steps", type=int, metavar="K", help="also save every K steps")
    keep.add_argument(
        "--resume",
        default="auto",
        metavar="auto|no|PATH",
        help="resume the newest checkpoint, none, or this one (default: auto)",
    )
    parser.add_argument(
        "--target-accuracy", type=float, metavar="PERCENT", help="exit with code 21 if the best accuracy is lower"
    )
    parser.add_argument("--metrics-debug", action="store_true", help="print compilations and transfers each epoch")
    parser.add_argument("--profiler-port", type=int, metavar="PORT", help="port of the profiler (TPU only)")
    parser.add_argument(
        "--compilation-cache",
        metavar="DIR|no",
        help=f"where compiled graphs are kept for the next run (TPU only; default: {COMPILED})",
    )
    parser.add_argument("--logdir", metavar="DIR", help="TensorBoard event files: a directory or gs://bucket/prefix")
    parser.add_argument("--log-steps", type=int, default=10, metavar="K", help=f"print every K steps {given}")
    parser.add_argument("--debug", action="store_true", help="print tracebacks instead of one-line errors")
    return parser
