"""Write each worker's log of a run or of a saved log to a separate text file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from itertools import chain
from pathlib import Path

from tui.errors import UsageError
from tui.logs.files.line_filter import Choice
from tui.logs.saved_log import SavedLog
from tui.reports.write import explain_write_errors
from tui.runs.record.run_directory import RunDirectory, iterate_log
from tui.settings.home import open_regular, replace_file

Blocks = Callable[[], Iterator[bytes]]
_BLOCK_BYTES = 1 << 20


def worker_logs(source: RunDirectory | SavedLog) -> dict[int, Blocks]:
    """Return what yields each worker's bytes: all attempts of a run, or the lines that `logs --worker N` prints.

    Raises UsageError where there are none.
    """
    logs = _logs_of_run(source) if isinstance(source, RunDirectory) else _logs_of_file(source)
    if not logs:
        name = source.id if isinstance(source, RunDirectory) else source.name
        raise UsageError(f"no log of a worker in {name}", remedy="omit --logs")
    return logs


def _logs_of_run(directory: RunDirectory) -> dict[int, Blocks]:
    earlier = directory.path / "attempts"
    attempts = sorted(int(path.name) for path in earlier.iterdir() if path.name.isdigit()) if earlier.is_dir() else []
    logs: dict[int, Blocks] = {}
    for worker in directory.run.workers:
        own = directory.log_path(worker.index)
        paths = [*(directory.attempt_path(attempt) / own.name for attempt in attempts), own]
        if files := [path for path in paths if _is_there(path)]:
            logs[worker.index] = lambda files=files: chain.from_iterable(map(iterate_log, files))  # type: ignore[misc]
    return logs


def _is_there(path: Path) -> bool:
    """Return whether there is such a file. Raises OSError for one that is not a regular file."""
    with suppress(FileNotFoundError):
        os.close(open_regular(path))
        return True
    return False


def _logs_of_file(log: SavedLog) -> dict[int, Blocks]:
    def lines(worker: int) -> Blocks:
        return lambda: (line.data for line in log.picked(Choice(worker=worker)))

    return {worker: lines(worker) for worker in log.workers()}


def write_worker_logs(
    source: RunDirectory | SavedLog, directory: Path, *, stem: str = "", force: bool = False
) -> list[Path]:
    """Write each worker's log as `<stem>.worker-000.txt`, atomically; return the paths by worker.

    A file there is replaced if it is an earlier copy of the same log, any other with `force` only.
    """
    written = []
    for worker, blocks in sorted(worker_logs(source).items()):
        path = directory / ".".join(filter(None, (stem, f"worker-{worker:03d}", "txt")))
        with explain_write_errors(path):
            _write(path, blocks(), force=force)
        written.append(path)
    return written


def _write(path: Path, blocks: Iterator[bytes], *, force: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as file:
        file.writelines(blocks)
        file.flush()
        if not force and path.exists() and not _begins_with(Path(file.name), path):
            raise UsageError(
                f"refusing to replace {path}",
                why="it is not an earlier copy of the same log",
                remedy="replace it with --force, or write elsewhere with --out DIR",
            )


def _begins_with(path: Path, earlier: Path) -> bool:
    with FileIO(open_regular(path)) as file, FileIO(open_regular(earlier)) as start:
        while block := start.read(_BLOCK_BYTES):
            if file.read(len(block)) != block:
                return False
    return True
