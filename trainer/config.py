"""The settings of a run: frozen, nested dataclasses that check their values when they are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainer.errors import ConfigError
from trainer.storage.urls import BUCKET_PREFIX, PIPE_PREFIX, unsupported_scheme

MODELS = ("tiny", "tiny-batchnorm", "resnet10", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
LARGEST_STRIDE = 32  # a ResNet halves its input five times
LARGEST_SIDE = 4096  # pixels; a larger value is a typo, and would fill any memory
LARGEST_FACTOR = 1e9  # a larger factor, times the slice's batch, may exceed a float32
MOST_CORES = 512  # replicas forked on one machine; more would bring it down before an error is printed
LARGEST_BATCH = MOST_CLASSES = 1_000_000
MOST_LOADERS = 512  # per replica
SHORTEST_TIMEOUT_S, LONGEST_TIMEOUT_S = 1.0, 7 * 24 * 3600.0
SEEDS = 2**32
BAD_SHARD_POLICIES = ("stop", "skip")
RESUME_WORDS = ("auto", "no")
COMPILATION_CACHE = "~/.cache/tpu-tui/compiled"


def require_place(option: str, path: str | None) -> None:
    """Raise ConfigError unless a path, where there is one, is on this machine or in Cloud Storage."""
    path, remedy = path or "", "Name a directory, or gs://bucket/prefix"
    scheme = unsupported_scheme(path)
    _require(not path.startswith(PIPE_PREFIX), f"{option} {path} is a command", remedy)
    _require(not scheme, f"{option} {path}: {scheme}:// cannot be used here", remedy)


def _require_shards(option: str, pattern: str | None) -> None:
    scheme = unsupported_scheme(pattern or "")
    command = f"curl -sSfL {pattern}" if scheme in ("http", "https") else "COMMAND, which outputs one shard"
    remedy = f"Copy them to gs://, or give {PIPE_PREFIX}{command}"
    _require(not scheme, f"{option} {pattern}: {scheme}:// cannot be read here", remedy)


def _require(condition: bool, what: str, remedy: str = "") -> None:
    if not condition:
        raise ConfigError(what, remedy=remedy)


@dataclass(frozen=True)
class DataConfig:
    """Where the images come from: a directory with a manifest, two shard patterns, or made-up batches."""

    directory: str | None = None
    train: str | None = None
    val: str | None = None
    fake: bool = False
    image_size: int | None = None  # None: the manifest's, else 224
    classes: int | None = None  # None: the manifest's
    shuffle_buffer: int = 10_000  # samples held by each loader
    loader_workers: int | None = None  # None: 0 on CPU devices, 4 on TPU
    on_bad_shard: str = "stop"  # or "skip": lost samples are replaced by others of the loader, or of the batch
    cache_mib: int = 512  # of samples that each core holds for later epochs, if it has no loader processes
    verify: bool = False  # compare each shard with the manifest's sha256 before it is used

    def __post_init__(self) -> None:
        sources = [self.directory is not None, self.train is not None, self.fake]
        _require(any(sources), "No training data named", "Give --data DIR, --train-shards PATTERN or --fake-data")
        _require(sum(sources) == 1, "--data, --train-shards and --fake-data exclude one another", "Give one of them")
        require_place("--data", self.directory)
        _require_shards("--train-shards", self.train)
        _require_shards("--val-shards", self.val)
        _require(self.val is None or self.train is not None, "--val-shards needs --train-shards")
        size = self.image_size
        fits = size is None or LARGEST_STRIDE <= size <= LARGEST_SIDE
        _require(fits, f"--image-size must lie between {LARGEST_STRIDE} and {LARGEST_SIDE}")
        classes_fit = self.classes is None or 2 <= self.classes <= MOST_CLASSES
        _require(classes_fit, f"--classes must lie between 2 and {MOST_CLASSES}")
        _require(self.shuffle_buffer >= 1, "--shuffle-buffer must be at least 1")
        loaders_fit = self.loader_workers is None or 0 <= self.loader_workers <= MOST_LOADERS
        _require(loaders_fit, f"--loader-workers must lie between 0 and {MOST_LOADERS}")
        _require(self.cache_mib >= 0, "--keep-samples must not be negative")
        _require(self.on_bad_shard in BAD_SHARD_POLICIES, "--on-bad-shard must be stop or skip")

    @property
    def skips_bad_shards(self) -> bool:
        """Return whether a run continues without samples that cannot be read."""
        return self.on_bad_shard == "skip"

    @property
    def is_in_bucket(self) -> bool:
        """Return whether any of the data is read from Cloud Storage."""
        return any((place or "").startswith(BUCKET_PREFIX) for place in (self.directory, self.train, self.val))


@dataclass(frozen=True)
class OptimizerConfig:
    """SGD with momentum: batch per core, learning rate for 256 samples per step, warm-up and decay in epochs."""

    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    epochs: int = 18
    warmup_epochs: float = 1.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        _require(1 <= self.batch_size <= LARGEST_BATCH, f"--batch-size must lie between 1 and {LARGEST_BATCH}")
        rate, decay = self.learning_rate, self.weight_decay
        _require(0 < rate <= LARGEST_FACTOR, f"--learning-rate must be more than 0, and at most {LARGEST_FACTOR:g}")
        _require(0 <= self.momentum < 1, "--momentum must be at least 0 and less than 1")
        _require(0 <= decay <= LARGEST_FACTOR, f"--weight-decay must lie between 0 and {LARGEST_FACTOR:g}")
        _require(self.epochs >= 1, "--epochs must be at least 1")
        _require(0 <= self.warmup_epochs < math.inf, "--warmup-epochs must be finite and not negative")
        _require(0 <= self.label_smoothing < 1, "--label-smoothing must be at least 0 and less than 1")


@dataclass(frozen=True)
class CheckpointConfig:
    """Where a run's state is saved, how often, and whether an earlier run is resumed."""

    directory: str | None = None  # or gs://bucket/prefix; None: nothing is kept
    steps: int | None = None  # also every so many steps; None: at the best accuracy, on SIGTERM and at the end
    resume: str = "auto"  # "auto": the newest whole checkpoint in the directory; "no"; or a checkpoint's path

    def __post_init__(self) -> None:
        require_place("--checkpoint-dir", self.directory)
        require_place("--resume", self.resume)
        _require(self.steps is None or self.steps >= 1, "--checkpoint-steps must be at least 1")
        _require(
            self.steps is None or self.directory is not None,
            "--checkpoint-steps needs a place to save to",
            "Give --checkpoint-dir too",
        )


@dataclass(frozen=True)
class ReplicaConfig:
    """This worker's place in the slice, and how many replicas (one process per core) it runs.

    tpu-tui sets TPU_TUI_WORKER, TPU_TUI_WORKERS, TPU_TUI_CORES and TPU_TUI_COORDINATOR (worker 0's host:port) for
    every job; without them there is one worker. On TPU, torch_xla knows its own topology and only `worker` is used,
    to decide which worker prints.
    """

    device: str = "CPU"  # PJRT_DEVICE: CPU or TPU
    worker: int = 0
    workers: int = 1
    cores: int = 1
    coordinator: tuple[str, int] | None = None
    timeout: float = 300.0  # seconds, for a collective and for waiting for the other workers
    run: str = ""  # TPU_TUI_RUN: workers of another run are refused

    def __post_init__(self) -> None:
        _require(
            self.device in ("CPU", "TPU"),
            f"PJRT_DEVICE={self.device} is not supported here",
            "Use PJRT_DEVICE=TPU on a TPU VM, or PJRT_DEVICE=CPU",
        )
        _require(self.workers >= 1, f"TPU_TUI_WORKERS is {self.workers}, but must be at least 1")
        _require(
            0 <= self.worker < self.workers,
            f"TPU_TUI_WORKER is {self.worker}, but must lie between 0 and {self.workers - 1}",
        )
        _require(1 <= self.cores <= MOST_CORES, f"A worker has between 1 and {MOST_CORES} cores, not {self.cores}")
        bearable = SHORTEST_TIMEOUT_S <= self.timeout <= LONGEST_TIMEOUT_S
        _require(bearable, f"--timeout must lie between {SHORTEST_TIMEOUT_S:.0f} and {LONGEST_TIMEOUT_S:.0f} seconds")
        _require(
            self.workers == 1 or self.coordinator is not None or self.device == "TPU",
            f"{self.workers} workers on CPU devices need TPU_TUI_COORDINATOR",
            "Set it to worker 0's host:port on every worker; tpu-tui launch does",
        )

    @property
    def world(self) -> int:
        """Return the number of replicas in the whole slice (CPU devices)."""
        return self.workers * self.cores

    def rank(self, core: int) -> int:
        """Return the global rank of a core of this worker (CPU devices)."""
        return self.worker * self.cores + core

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], num_cores: int | None, timeout: float) -> ReplicaConfig:
        """Read the place in the slice; `num_cores` from the command line beats TPU_TUI_CORES."""
        device = environ.get("PJRT_DEVICE", "").strip().upper() or "CPU"
        _require(
            device != "TPU" or num_cores is None,
            "--num-cores works on CPU devices only",
            "Leave it out: on TPU, PyTorch/XLA starts a replica on every core of each worker",
        )
        return cls(
            device=device,
            worker=read_integer(environ, "TPU_TUI_WORKER", 0),
            workers=read_integer(environ, "TPU_TUI_WORKERS", 1),
            cores=num_cores if num_cores is not None else read_integer(environ, "TPU_TUI_CORES", 1),
            coordinator=read_coordinator(environ),
            timeout=timeout,
            run=environ.get("TPU_TUI_RUN", ""),
        )


@dataclass(frozen=True)
class TrainConfig:
    """All settings of one run."""

    model: str = "resnet50"
    data: DataConfig = field(default_factory=lambda: DataConfig(fake=True))
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    replicas: ReplicaConfig = field(default_factory=ReplicaConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    bf16: bool = False  # compute in bfloat16 where autocast allows; parameters stay float32
    target_accuracy: float | None = None  # percent; a run that stays below it ends with BELOW_TARGET
    metrics_debug: bool = False
    profiler_port: int | None = None
    compilation_cache: str | None = None  # of compiled graphs; None: COMPILATION_CACHE on TPU; "no": none
    logdir: str | None = None  # TensorBoard's event files: a directory or gs://bucket/prefix
    log_steps: int = 10
    steps_per_epoch: int | None = None  # None: the whole epoch; fake data: 50
    seed: int = 42
    skip_memory_check: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        require_place("--logdir", self.logdir)
        _require(self.model in MODELS, f"There is no model {self.model!r}", f"Choose one of {', '.join(MODELS)}")
        _require(self.log_steps >= 1, "--log-steps must be at least 1")
        _require(self.steps_per_epoch is None or self.steps_per_epoch >= 1, "--steps-per-epoch must be at least 1")
        _require(0 <= self.seed < SEEDS, f"--seed must lie between 0 and {SEEDS - 1}")
        target = self.target_accuracy
        _require(target is None or 0 <= target <= 100, "--target-accuracy must lie between 0 and 100 percent")
        evaluates = self.data.directory is not None or self.data.val is not None
        _require(target is None or evaluates, "--target-accuracy needs validation shards", "Give --val-shards too")
        _require(
            self.profiler_port is None or self.replicas.device == "TPU",
            "--profiler-port works on TPU only",
            f"PJRT_DEVICE is {self.replicas.device}",
        )
        _require(
            self.profiler_port is None or 0 < self.profiler_port < 65536,
            "--profiler-port must lie between 1 and 65535",
        )
        _require(
            self.compilation_cache in (None, "no") or self.replicas.device == "TPU",
            "--compilation-cache works on TPU only",
            "XLA's CPU device cannot read back what it compiled: leave it out",
        )

    @property
    def loader_workers(self) -> int:
        """Return the loader processes of each replica; on a CPU device the replicas need all cores."""
        if self.data.loader_workers is not None:
            return self.data.loader_workers
        return 0 if self.replicas.device == "CPU" else 4


def read_integer(environ: Mapping[str, str], name: str, default: int) -> int:
    """Return a variable's value, `default` if it is empty or not set; raise ConfigError."""
    text = environ.get(name, "").strip()
    try:
        return int(text) if text else default
    except ValueError:
        raise ConfigError(f"{name}={text} is not a whole number") from None


def read_coordinator(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Return worker 0's host and port, None if they are not set; raise ConfigError."""
    text = environ.get("TPU_TUI_COORDINATOR", "").strip()
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"TPU_TUI_COORDINATOR={text} is not host:port")
    return host.strip("[]"), int(port)
