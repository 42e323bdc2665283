"""The dialects of the catalogue, and trials of dialects on the lines of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tui.logs.attribution.launcher_prefixes import read_launcher_prefix
from tui.logs.attribution.xla_dist_prefix import read_prefix
from tui.logs.dialects.catalogue_files import join_pattern, read_catalogue
from tui.logs.dialects.dialect import LOOSE_REACH, Dialect, Kind, Role
from tui.logs.dialects.match_cache import DialectReader
from tui.logs.dialects.multiline import OpenHeaders
from tui.logs.dialects.printed_totals import PRINTED_TOTALS
from tui.logs.dialects.rates import GROUPS as PACE_GROUPS
from tui.logs.dialects.rates import rate_of
from tui.logs.files.lines import segments_of, without_escapes
from tui.logs.state.rate_kinds import RateKind

_MOST_EXAMPLES = 5
"""Example lines in a trial."""

_VALUES = ("moment", "ignored_loss", "reach", "last_only", "hints_end", "grammar")


def make_dialect(name: str, entry: Mapping[str, Any], **more: Any) -> Dialect:
    """Return the dialect that a table of the catalogue or of a profile describes."""
    named = read_catalogue().texts
    contains = entry.get("contains", ())
    texts = (contains,) if isinstance(contains, str) else contains
    return Dialect(
        name,
        Kind(entry.get("kind", Kind.SAMPLE.value)),
        tuple(hint.encode() for text in texts for hint in named.get(text, (text,))),
        join_pattern(entry.get("pattern", "")),
        role=Role(entry.get("role", Role.SAMPLE.value)),
        rate=RateKind[entry.get("rate", RateKind.UNKNOWN.name).upper()],
        **{"reach": LOOSE_REACH} | {field: entry[field] for field in _VALUES if field in entry} | more,
    )


BUILT_IN: tuple[Dialect, ...] = tuple(make_dialect(entry["name"], entry) for entry in read_catalogue().entries)
"""The dialects of the catalogue, PyTorch/XLA's first."""

TRAINING = BUILT_IN[0]
"""The line of `torch_xla.test.test_utils.print_training_update`, which the trainer prints, too."""


class Trial(NamedTuple):
    """The number of lines of a file that a dialect matched, and the first of them with their values."""

    name: str
    matched: int
    examples: tuple[tuple[str, Mapping[str, str]], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the trial as `dialect test --json` prints it."""
        examples = [{"line": line, "columns": dict(columns)} for line, columns in self.examples]
        return {"dialect": self.name, "matched": self.matched, "examples": examples}


def try_dialects(lines: Iterable[bytes], dialects: Sequence[Dialect]) -> tuple[int, list[Trial]]:
    """Return the number of lines, and a trial for each name of a dialect, in the order of the dialects.

    Each of a profile's dialects is tried alone. Of the built-in ones, the first match counts, and only in lines that
    no dialect of the profile matches, as when a log is read.
    """
    counts: dict[str, int] = {dialect.name: 0 for dialect in dialects}
    examples: dict[str, list[tuple[str, Mapping[str, str]]]] = {name: [] for name in counts}
    total = 0
    headers = OpenHeaders()
    own = [DialectReader([dialect]) for dialect in dialects if dialect.is_own]
    built_in = DialectReader([dialect for dialect in dialects if not dialect.is_own])
    for line in lines:
        total += 1
        for text in segments_of(without_escapes(line)):
            for name, values in _match_line(text, own, built_in, headers):
                counts[name] += 1
                if len(examples[name]) < _MOST_EXAMPLES:
                    examples[name].append((text.decode("utf-8", "replace"), _by_column(values)))
    return total, [Trial(name, counts[name], tuple(examples[name])) for name in counts]


def _match_line(
    line: bytes, own: Sequence[DialectReader], built_in: DialectReader, headers: OpenHeaders
) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Yield the values of each dialect that matches a line; if none does, those of the line below a header."""
    own_text = _own_text(line)
    found = [pair for reader in own for pair in reader.read(line, own_text).found]
    if not found and (rows := headers.take_value(0, own_text)) is not None:
        yield from ((dialect.name, row) for dialect, row in rows)
        return
    names: set[str] = set()
    for dialect, matches in found or built_in.read(line, own_text).found:
        if dialect.name in names:
            continue
        names.add(dialect.name)
        values = {
            name: value for name, value in matches[-1].values(line if dialect.is_own else own_text).items() if value
        }
        if dialect.kind is Kind.HEADER:
            headers.begin(0, dialect, values, own_text)
        yield dialect.name, values
    if headers.has_any and names <= _BENEATH:
        for dialect, row in headers.take(0, own_text) or ():
            yield dialect.name, row


_BENEATH = {dialect.name for dialect in BUILT_IN if dialect.role.is_summary and dialect.role.has_epoch_above}
"""Dialects that match a loss alone on its line, unless a header above gives it a step."""


def _by_column(values: Mapping[str, bytes]) -> dict[str, str]:
    """Return the values of a line by their columns."""
    columns = {
        name: value.decode("utf-8", "replace") for name, value in values.items() if name not in _HELPING_GROUPS
    }
    rate = rate_of(values)
    return columns if rate is None or "rate" in columns else {**columns, "rate": f"{rate:g}"}


def _own_text(line: bytes) -> bytes:
    """Return a line without the prefix of xla_dist or another launcher."""
    prefix = read_prefix(line, xla_dist=False)
    if prefix is not None:
        return line[prefix.length :]
    launcher = read_launcher_prefix(line)
    if launcher is None:
        return line
    return line[launcher.length :] if launcher.message is None else without_escapes(launcher.message)


_HELPING_GROUPS = ("q", "v", "total", "led", *PACE_GROUPS, *PRINTED_TOTALS.values())
"""Groups that are not columns: quotes, the total of a bar, the name of a rate."""
