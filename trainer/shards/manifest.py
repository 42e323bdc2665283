"""Read and write `manifest.json`, which lists a set of shards so that ranks can share it without reading it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from trainer.config import LARGEST_SIDE
from trainer.errors import TrainerError, check_schema

MANIFEST = "manifest.json"
UNFINISHED = "manifest.unfinished.json"  # present while shards are being made, and after an interruption
SCHEMA = 1
BLOCK_BYTES = 512  # bytes of a tar file's block, and the least that a sample takes
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)  # of other JSON


@dataclass(frozen=True)
class Shard:
    """One tar file: its name within the set, how many samples, how large, and its checksum."""

    name: str
    samples: int
    size: int  # bytes
    sha256: str

    def __post_init__(self) -> None:
        if not {"", ".", ".."}.isdisjoint(self.name.split("/")):
            raise ValueError(f"{self.name!r} is not below its directory")
        if min(self.samples, self.size) < 0 or self.samples > self.size // BLOCK_BYTES:
            raise ValueError(f"{self.name} cannot hold {self.samples} samples in {self.size} bytes")


@dataclass(frozen=True)
class Manifest:
    """A data set as shards; `image_size` in pixels per side where all images share it."""

    name: str
    classes: tuple[str, ...]
    image_size: int | None
    seed: int
    splits: dict[str, tuple[Shard, ...]]

    def __post_init__(self) -> None:
        if self.image_size is not None and not 1 <= self.image_size <= LARGEST_SIDE:
            raise ValueError(f"its image_size is {self.image_size}, not between 1 and {LARGEST_SIDE} pixels")

    def to_json(self) -> str:
        """Return the content of the file."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"

    @staticmethod
    def is_foreign(text: str | bytes) -> bool:
        """Return whether it is JSON of another program, which uses the same name for something else."""
        with contextlib.suppress(ValueError, RecursionError):
            loaded = json.loads(text)
            return not isinstance(loaded, dict) or loaded.keys().isdisjoint(("schema", "splits"))
        return False

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> Manifest:
        """Read it back; raises TrainerError naming `where`."""
        try:
            loaded: dict[str, Any] = json.loads(text)
            check_schema(where, loaded["schema"], SCHEMA, "make the shards again with the one here")
            return cls(
                name=str(loaded["name"]),
                classes=tuple(str(name) for name in loaded["classes"]),
                image_size=None if loaded["image_size"] is None else int(loaded["image_size"]),
                seed=int(loaded["seed"]),
                splits={
                    split: tuple(
                        Shard(str(shard["name"]), int(shard["samples"]), int(shard["size"]), str(shard["sha256"]))
                        for shard in shards
                    )
                    for split, shards in loaded["splits"].items()
                },
            )
        except MALFORMED as error:
            raise TrainerError(
                f"{where} is not a manifest of shards",
                why=str(error),
                remedy="Make the shards again with python -m trainer.shards",
            ) from error
