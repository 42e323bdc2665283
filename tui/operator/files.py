"""Files of workers: copy them to this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from tui.errors import TpuTuiError
from tui.operator.connections import Connections
from tui.pod.slice import Slice
from tui.ssh.fetch.fetch_files import FetchedFile, OnReceived, fetch_files


class Files:
    """Files on the workers of slices."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def fetch(
        self,
        slice_: Slice,
        remotes: Sequence[str],
        directory: Path,
        ranks: Sequence[int],
        on_received: OnReceived | None = None,
    ) -> AsyncGenerator[FetchedFile | TpuTuiError, None]:
        """Copy files, directories or globs of workers below a directory; yield a file or an error as it is known.

        Raises UsageError for a remote name or a directory that cannot be used.
        """
        fleet = await self._connections.fleet(slice_)
        async for row in fetch_files(fleet, ranks, remotes, directory, on_received):
            yield row
