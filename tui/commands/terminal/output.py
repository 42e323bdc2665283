"""What commands print: one JSON document or aligned text on stdout, everything else on stderr."""

from __future__ import annotations

import codecs
import json
import math
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tui.commands.terminal import stdio
from tui.errors import TpuTuiError
from tui.text.printable import figure, one_line, printable
from tui.text.ranks import format_ranks

ANSWER_IS_NO = 1
"""Exit code of a command that answered, and the answer is no."""


def finite(value: Any) -> Any:
    """The value with non-finite floats as the strings "nan", "inf", "-inf", which JSON has no numbers for."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def in_json(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON; every character escaped that stdout's encoding might not have, so that none is lost."""
    return json.dumps(finite(value), ensure_ascii=not stdio.holds_everything(sys.stdout), indent=indent)


PIECE_BYTES = 1024 * 1024
"""Bytes of a worker's output that are decoded and printed at once."""


class Output:
    """Where a command's answer goes; `as_json` makes stdout machine-readable and nothing else."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def document(self, value: Any) -> None:
        """Print the one JSON document that answers."""
        _print(in_json(value, indent=2 if sys.stdout.isatty() else None))

    def line(self, value: Any) -> None:
        """Print one JSON line of a stream, at once."""
        _print(in_json(value), flush=True)

    def text(self, value: str = "") -> None:
        """Print text that may hold remote words; control characters become visible."""
        _print(printable(value), flush=True)

    def rows(self, rows: Iterable[Any]) -> None:
        """Print one JSON document, a list whose rows are made one after the other: each may be large."""
        if sys.stdout.isatty():
            self.document(list(rows))
            return
        for place, row in enumerate(rows):
            _print((", " if place else "[") + in_json(row), end="")
        _print("]")

    def remote_text(self, data: bytes, *, on_stderr: bool = False) -> None:
        """Print what a worker wrote, piece by piece, with a newline at its end."""
        for piece in _printable_pieces(data):
            if on_stderr:
                self.note(piece, end="")
            else:
                _print(piece, end="")
        if not data.endswith(b"\n"):
            self.note("") if on_stderr else _print("")
        sys.stdout.flush()

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
        """Print aligned columns, never cut; what is piped has a line a row. Columns in `right` are right-aligned."""
        lines = [[name.upper() for name in columns], *([_cell(value) for value in row] for row in rows)]
        self._aligned(lines, frozenset(columns.index(name) for name in right))

    def facts(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Print names and values, a line each."""
        self._aligned([[name, _cell(value)] for name, value in rows])

    @staticmethod
    def _aligned(lines: list[list[str]], right: frozenset[int] = frozenset()) -> None:
        from tui.commands.terminal.tables import aligned, fitted

        if sys.stdout.isatty():
            shown = fitted(lines, right, shutil.get_terminal_size().columns)
        else:
            shown = aligned(lines, right)
        if text := "\n".join(shown):
            _print(text)

    def note(self, text: str, *, end: str = "\n") -> None:
        """Tell the person something that is no part of the answer, which does not fail for a stderr that is full."""
        try:
            print(printable(text), file=sys.stderr, end=end, flush=True)
        except BrokenPipeError:
            raise
        except OSError:
            stdio.discard(sys.stderr)

    def problem(self, error: TpuTuiError, *, with_remedy: bool = True) -> None:
        """Tell an error: what, where, why and what to do."""
        self.note(f"tpu-tui: {error if with_remedy else error.sentence}")

    def problems(self, errors: Sequence[TpuTuiError]) -> None:
        """Tell several, workers with the same one together; what to do about it once, behind all who ask for that."""
        alike: dict[tuple[str, str, str, int], list[TpuTuiError]] = {}
        for place, error in enumerate(errors):
            alone = -1 if isinstance(error.worker, int) else place
            alike.setdefault((error.what, error.why, error.remedy, alone), []).append(error)
        groups = list(alike.values())
        for place, group in enumerate(groups, 1):
            is_repeated = place < len(groups) and groups[place][0].remedy == group[0].remedy
            self.problem(_of_all(group), with_remedy=not is_repeated)


def _of_all(errors: Sequence[TpuTuiError]) -> TpuTuiError:
    """The error of several workers, named as a range."""
    if len(errors) == 1:
        return errors[0]
    ranks = format_ranks(int(error.worker or 0) for error in errors)
    first = errors[0]
    return TpuTuiError(f"workers {ranks}: {first.what}", why=first.why, remedy=first.remedy)


def _print(text: str, *, flush: bool = False, end: str = "\n") -> None:
    with stdio.stdout_named():
        print(text, flush=flush, end=end)


def _printable_pieces(data: bytes) -> Iterator[str]:
    """Yield output fit for a terminal in pieces: as one text it would take several times its size."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for start in range(0, len(data), PIECE_BYTES):
        last = start + PIECE_BYTES >= len(data)
        yield printable(decoder.decode(data[start : start + PIECE_BYTES], last))


def format_moment(moment: float) -> str:
    """Return a Unix time in UTC, as `to_the_second` shows one."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(moment))


def to_the_second(moment: str | None) -> str | None:
    """RFC 3339 in UTC without what nobody reads in a table."""
    return None if moment is None else f"{moment[:19].replace('T', ' ')}Z"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return figure(value)
    return one_line(str(value))
