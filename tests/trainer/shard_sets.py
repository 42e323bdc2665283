"""Helpers that make shards and read them back as webdataset does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import webdataset
from webdataset.tariterators import group_by_keys, tar_file_expander

from trainer.shards import command, sources
from trainer.shards.manifest import Manifest


def samples_of(directory: Path, manifest: Manifest, split: str) -> list[dict[str, object]]:
    samples: list[dict[str, object]] = []
    for shard in manifest.splits[split]:
        with (directory / shard.name).open("rb") as stream:
            members = tar_file_expander([{"url": shard.name, "stream": stream}])
            samples += webdataset.filters.decode("rgb8")(group_by_keys(members))
    return samples


def make(
    source: sources.ImageSource, out: Path | str, per_shard: int = 4, seed: int = 3, *, train: int = 1, **options: Any
) -> Manifest:
    """Make shards with default arguments; `train` is how many times each training sample is repeated."""
    given = {"repeat": {"train": train}, **options}
    return command.make(source, str(out), samples_per_shard=per_shard, seed=seed, **given)
