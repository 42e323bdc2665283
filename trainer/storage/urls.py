"""Normalise paths as people write them: `~/set`, `file:///set`, `gs://bucket/set`; find unsupported URLs."""

from __future__ import annotations

import re
from pathlib import Path

from trainer.errors import ConfigError

BUCKET_PREFIX = "gs://"
PIPE_PREFIX = "pipe:"  # of a shard that is a command's output
FILE_URL = re.compile(r"^file:(//(localhost)?(?=/))?")  # RFC 8089, and `file:set` as in webdataset
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def normalise(path: str) -> str:
    """Return a file URL as its path, and replace `~`, which shells leave as it is in `--data=~/set`.

    Raises ConfigError where the user has no home directory, as in some containers.
    """
    path = FILE_URL.sub("", path)
    try:
        return str(Path(path).expanduser()) if path.startswith("~/") else path
    except RuntimeError:
        raise ConfigError(
            f"There is no home directory for {path}", remedy="Set HOME, or give the full path"
        ) from None


def unsupported_scheme(path: str) -> str:
    """Return the scheme of a URL that cannot be read here, e.g. `https` or `s3`; empty for all others."""
    scheme = SCHEME.match(path)
    return scheme[1] if scheme and scheme[1] != "gs" else ""
