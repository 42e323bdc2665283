"""Write reports to files without replacing those of other runs."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tui.errors import UsageError
from tui.reports.html import write_html
from tui.reports.json_csv import write_csv, write_curves, write_json
from tui.reports.layout import REPORT_OF, report_of
from tui.reports.markdown import write_markdown
from tui.reports.summary import Summary
from tui.reports.text import write_text
from tui.settings.home import replace_file

Writer = Callable[[Summary], str]

WRITERS: dict[str, Writer] = {
    "html": write_html,
    "md": write_markdown,
    "json": write_json,
    "csv": write_csv,
    "txt": write_text,
}
"""The writer of each `--format`."""

_TABLES: dict[str, Writer] = {"cores.csv": write_csv, "curves.csv": write_curves}
"""The files of the CSV format."""

OWN = ""
"""The stem for the run's own directory, where files are called `report.md`, `cores.csv` and so on."""

_MARK = re.compile(rf'{REPORT_OF}"?(?:: "?| content=")(?P<source>[A-Za-z0-9._:-]+)')
_LOOKED_AT_BYTES = 4096
"""Bytes at the beginning and end of a report that are searched for its source."""


def uploaded_name(name: str, stem: str) -> str:
    """Return the name in a bucket of a report's file, which in the run's own directory has no stem."""
    return name if name.startswith(f"{stem}.") else f"{stem}.{name.removeprefix('report.')}"


def _files(formats: Iterable[str], stem: str) -> Iterator[tuple[str, Writer]]:
    for name in dict.fromkeys(formats):
        if name not in WRITERS:
            raise UsageError(f"no such report format: {name}", remedy=f"formats are {', '.join(WRITERS)}")
        if name == "csv":
            yield from ((f"{stem}.{table}" if stem else table, write) for table, write in _TABLES.items())
        else:
            yield f"{stem or 'report'}.{name}", WRITERS[name]


def stem_of(title: str) -> str:
    """Return a run's ID or a log's name, made fit for a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", title)[-100:].lstrip(".-") or "report"


def write_report(
    summary: Summary, formats: Iterable[str], directory: Path, *, stem: str = OWN, force: bool = False
) -> list[Path]:
    """Write a report's files into a directory, each atomically; return their paths in order.

    With a stem the directory is not the run's own: a file there that is not a report of the same source is replaced
    with `force` only. Raises UsageError for such a file, for an unknown format and where writing fails.
    """
    files = [(directory / name, write) for name, write in _files(formats, stem)]
    owner = None if force or not stem else report_of(summary)
    for path, _ in files if owner else ():
        with explain_write_errors(path):
            _require_own(path, owner)
    for path, write in files:
        with explain_write_errors(path):
            _write(path, write(summary), owner)
    return [path for path, _ in files]


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Convert an OSError to a UsageError that says which file cannot be written, and why."""
    try:
        yield
    except OSError as error:
        no_directory = path.parent.exists() and not path.parent.is_dir()
        why = f"{path.parent} is not a directory" if no_directory else error.strerror or str(error)
        remedy = "write elsewhere with tpu-tui report … --out DIR"
        raise UsageError(f"cannot write {path}", why=why, remedy=remedy) from error


def _write(path: Path, text: str, owner: str | None) -> None:
    """Write a file atomically; with an owner, replace only that owner's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as file:
        file.write(text.encode("utf-8", "replace"))
        if owner:
            # Another report may have been written here since the check above.
            _require_own(path, owner)


def _require_own(path: Path, source: str | None) -> None:
    """Raise UsageError for an existing file that is not a report of this source."""
    existing = source_of_file(path) if path.is_file() else None
    if existing is None or existing == source:
        return
    raise UsageError(
        f"refusing to replace {path}",
        why=f"it is a report of {existing}" if existing else "it is not a report of this run or log",
        remedy="replace it with --force, or write elsewhere with --out DIR",
    )


def source_of_file(path: Path) -> str | None:
    """Return the source that a report's file states; empty where it states none, None for an empty file."""
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT_BYTES).decode("utf-8", "replace")
        file.seek(max(0, path.stat().st_size - _LOOKED_AT_BYTES))
        tail = file.read().decode("utf-8", "replace")
    if not head:
        return None
    if path.suffix == ".csv":
        return _source_of_table(head)
    last = tail.rstrip("\n").rpartition("\n")[2]
    match = _MARK.match(last) if path.suffix == ".txt" else _MARK.search(head)
    return match["source"] if match else ""


def _source_of_table(text: str) -> str | None:
    """Return the source in the first row of a table; None where it has no rows."""
    table = csv.DictReader(text.replace("\0", "").splitlines())  # Python 3.10 reads no NUL
    if REPORT_OF not in (table.fieldnames or ()):
        return ""
    first = next(table, None)
    return None if first is None else first[REPORT_OF] or ""
