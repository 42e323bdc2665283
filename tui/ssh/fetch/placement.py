"""The places of several workers' files below one directory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tui.ssh.fetch.remote_path import RemoteFile

Place = tuple[bytes, ...]
"""The components of a relative path."""
STAGING = b".tpu-tui-fetch"
"""The directory of incomplete files, below the destination."""
_RESERVED = re.compile(rb"worker-\d+|" + re.escape(STAGING), re.IGNORECASE)


def place_files(listings: Mapping[int, Sequence[RemoteFile]]) -> dict[tuple[int, bytes], Place]:
    """Return the place of each file, by worker and name on the worker; no two files have the same place.

    A file keeps its name. Names that collide, of two workers or as a file and a directory, go below `worker-N`; two
    files of one worker with the same name keep their whole path there.
    """
    claims = Counter(file.parts for files in listings.values() for file in files)
    folders = {parts[:depth] for parts in claims for depth in range(1, len(parts))}
    places: dict[tuple[int, bytes], Place] = {}
    for worker, files in listings.items():
        own = b"worker-%d" % worker
        names = Counter(file.parts for file in files)
        used: set[Place] = set()
        for file in files:
            parts = file.parts
            if names[parts] > 1:
                parts = tuple(part for part in file.source.split(b"/") if part not in (b"", b".", b".."))
            is_shared = claims[file.parts] > 1 or file.parts in folders
            if is_shared or not file.named or _RESERVED.fullmatch(parts[0]):
                parts = (own, *parts)
            if parts not in used:
                used.add(parts)
                places[worker, file.source] = parts
    return places
