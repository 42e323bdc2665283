"""Reports as files: every format by its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tui.errors import UsageError
from tui.reports.data import write_csv, write_json
from tui.reports.html import write_html
from tui.reports.markdown import write_markdown
from tui.reports.summary import Summary
from tui.reports.text import write_text

WRITERS: dict[str, Callable[[Summary], str]] = {
    "html": write_html,
    "md": write_markdown,
    "json": write_json,
    "csv": write_csv,
    "txt": write_text,
}
"""What `report --format` takes."""


def write_report(summary: Summary, formats: Iterable[str], directory: Path) -> list[Path]:
    """Write `report.<format>` into a directory, each replaced whole; the files, in the order asked for.

    Raises UsageError for an unknown format and where nothing can be written.
    """
    paths = []
    for name in dict.fromkeys(formats):
        if name not in WRITERS:
            raise UsageError(f"no such report format: {name}", remedy=f"formats are {', '.join(WRITERS)}")
        path = directory / f"report.{name}"
        temporary = directory / f".report.{name}.{os.getpid()}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.write(WRITERS[name](summary))
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            no_directory = directory.exists() and not directory.is_dir()
            why = f"{directory} is no directory" if no_directory else error.strerror or str(error)
            remedy = "write it elsewhere: tpu-tui report … --out DIR"
            raise UsageError(f"cannot write {path}", why=why, remedy=remedy) from error
        paths.append(path)
    return paths
