"""Print answers: one JSON document or aligned text on stdout, everything else on stderr."""

from __future__ import annotations

import codecs
import json
import math
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from tui.commands.terminal import stdio
from tui.errors import TpuTuiError
from tui.text.numbers import format_figure
from tui.text.printable import escape_controls, one_line, printable
from tui.text.ranks import name_ranks

ANSWER_IS_NO = 1
"""Exit code of a command that worked and whose answer is no."""


def replace_non_finite(value: Any) -> Any:
    """Replace non-finite floats, which JSON lacks, by the strings "nan", "inf" and "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_non_finite(item) for item in value]
    return value


def to_json_text(value: Any, *, indent: int | None = None) -> str:
    """Return the value as JSON, with characters escaped that a terminal obeys, or that stdout's encoding may lack."""
    only_ascii = not stdio.holds_everything(sys.stdout)
    return escape_controls(json.dumps(replace_non_finite(value), ensure_ascii=only_ascii, indent=indent))


PIECE_BYTES = 1024 * 1024
"""Bytes of a worker's output that are decoded and printed in one piece."""


class Output:
    """Prints a command's answer; with `as_json`, stdout carries JSON only."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def document(self, value: Any) -> None:
        """Print the one JSON document of the answer."""
        _print(to_json_text(value, indent=2 if sys.stdout.isatty() else None))

    def line(self, value: Any) -> None:
        """Print one JSON line of a stream and flush."""
        _print(to_json_text(value), flush=True)

    def text(self, value: str = "") -> None:
        """Print text that may be remote; control characters become visible."""
        _print(printable(value), flush=True)

    def rows(self, rows: Iterable[Any]) -> None:
        """Print a JSON list whose rows are made one at a time, because each may be large."""
        if sys.stdout.isatty():
            self.document(list(rows))
            return
        before = "["
        for row in rows:
            _print(before + to_json_text(row), end="")
            before = ", "
        _print("[]" if before == "[" else "]")

    def remote_text(self, blocks: Iterable[bytes], *, on_stderr: bool = False) -> bool:
        """Print what a worker wrote, piece by piece, ending with a newline; return whether it wrote anything."""
        write = partial(self.note if on_stderr else _print, end="")
        last_character = ""
        try:
            for piece in _printable_pieces(blocks):
                write(piece)
                last_character = piece[-1:] or last_character
        finally:
            if last_character not in ("", "\n"):
                write("\n")
        sys.stdout.flush()
        return bool(last_character)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
        """Print aligned columns, nothing cut; in a pipe one line per row. Columns in `right` are right-aligned."""
        lines = [[name.upper() for name in columns], *([_cell(value) for value in row] for row in rows)]
        self._aligned(lines, frozenset(columns.index(name) for name in right))

    def facts(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Print names and values, one pair per line."""
        self._aligned([[name, _cell(value)] for name, value in rows])

    @staticmethod
    def _aligned(lines: list[list[str]], right: frozenset[int] = frozenset()) -> None:
        from tui.commands.terminal.tables import fit_columns
        from tui.text.columns import align_columns

        if sys.stdout.isatty():
            aligned = fit_columns(lines, right, shutil.get_terminal_size().columns)
        else:
            aligned = align_columns(lines, right)
        if text := "\n".join(aligned):
            _print(text)

    def note(self, text: str, *, end: str = "\n") -> None:
        """Print a notice on stderr; a full disk behind stderr is not an error."""
        try:
            print(printable(text), file=sys.stderr, end=end, flush=True)
        except BrokenPipeError:
            raise
        except OSError:
            stdio.discard(sys.stderr)

    def problem(self, error: TpuTuiError, *, with_remedy: bool = True) -> None:
        """Print an error: what failed, where, why and what to do."""
        self.note(f"tpu-tui: {error if with_remedy else error.sentence}")

    def problems(self, errors: Sequence[TpuTuiError]) -> int:
        """Print several errors and return the exit code: 0 without errors, the highest of theirs otherwise.

        Equal errors of several workers are printed as one, and a remedy that they share once, after the last.
        """
        alike: dict[tuple[str, str, str, int], list[TpuTuiError]] = {}
        for index, error in enumerate(errors):
            alone = -1 if isinstance(error.worker, int) else index
            alike.setdefault((error.what, error.why, error.remedy, alone), []).append(error)
        groups = list(alike.values())
        for next_index, group in enumerate(groups, 1):
            is_repeated = next_index < len(groups) and groups[next_index][0].remedy == group[0].remedy
            self.problem(_of_all(group), with_remedy=not is_repeated)
        return max((error.exit_code for error in errors), default=0)


def _of_all(errors: Sequence[TpuTuiError]) -> TpuTuiError:
    """Return one error that names several workers as a range."""
    if len(errors) == 1:
        return errors[0]
    workers = name_ranks("worker", (int(error.worker or 0) for error in errors))
    first = errors[0]
    return TpuTuiError(f"{workers}: {first.what}", why=first.why, remedy=first.remedy)


def _print(text: str, *, flush: bool = False, end: str = "\n") -> None:
    with stdio.stdout_named():
        print(text, flush=flush, end=end)


def _printable_pieces(blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield output as printable text, in pieces to limit memory; a block may end within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for block in blocks:
        for start in range(0, len(block), PIECE_BYTES):
            yield printable(decoder.decode(block[start : start + PIECE_BYTES]))
    yield printable(decoder.decode(b"", True))


def format_moment(moment: float) -> str:
    """Format a Unix time like `format_utc`."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(moment))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format_figure(value)
    return one_line(str(value))
