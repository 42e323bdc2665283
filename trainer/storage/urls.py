"""Places as people write them: `~/set`, `file:///set`, `gs://bucket/set`; and those that nothing here can reach."""

from __future__ import annotations

import re
from pathlib import Path

FILE_URL = re.compile(r"^file:(//(localhost)?(?=/))?")  # RFC 8089, and `file:set` as webdataset has it
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def normalise(path: str) -> str:
    """A file's URL as its path, and `~` as the home directory: shells leave it as it is in `--data=~/set`."""
    path = FILE_URL.sub("", path)
    return str(Path(path).expanduser()) if path.startswith("~/") else path


def unsupported_scheme(path: str) -> str:
    """The scheme of a URL that is neither a file's nor Cloud Storage's: `https`, `s3`; empty for all others."""
    scheme = SCHEME.match(path)
    return scheme[1] if scheme and scheme[1] != "gs" else ""
