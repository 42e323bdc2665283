"""Headers that give meaning to the lines below: names over a table, a rule over `| name | value |`, a step."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from tui.logs.dialects.catalogue_files import expand_parts
from tui.logs.dialects.dialect import Dialect, Kind, Role
from tui.logs.dialects.grammar.names_and_values import read_line
from tui.logs.dialects.printed_totals import find_printed_totals

_TABLE, _VALUE_TABLE = "table", "table of values"
_ROW = Dialect(_TABLE, Kind.SAMPLE, (), b"")
_ROW_OF_EPOCH = Dialect(_TABLE, Kind.SAMPLE, (), b"", role=Role.EPOCH_SUMMARY)
_OF_VALUES = Dialect(_VALUE_TABLE, Kind.SAMPLE, (), b"")
_BENEATH = Dialect("step above its loss", Kind.SAMPLE, (), b"")

_SETTING = rb"^(?P<outer>[^\w\n]{0,60})(?&LOGGED)(?P<lead>[^\w\n]{0,60})[A-Za-z][\w /]{0,40}?\s?(?P<sign>[:=])"
_EVALUATES = rb"(?<![A-Za-z])(?&EVALUATION)"

_STEPS = ("global_step", "step", "iteration", "iter", "training_step", "train_step", "steps", "update", "batch", "#")
_COUNTS = {"step", "epoch"}
_EPOCHS = ("epoch", "epochs", "epoch_num", "e")
_LOSSES = (
    "train_loss", "training_loss", "loss_train", "train_loss_step", "trn_loss", "loss",
    "total_loss", "train_total_loss", "main_loss",
)  # fmt: skip
_A_WHOLE = re.compile(r"train_(?:total_\w+_|\w+_total_)loss$")
_A_PART = re.compile("loss_")
_RATES = ("samples_sec", "samples_per_sec", "samples_per_second", "tokens_sec", "tokens_per_sec", "tokens_per_second",
          "examples_sec", "throughput", "tok_s", "tokens_s", "samples_s", "examples_s", "img_s", "images_sec", "it_s",
          "steps_s", "steps_sec")  # fmt: skip
_SPLITS = ("train", "split", "phase", "mode", "stage")
_TRAINING = (b"true", b"yes")

_VALUE = rb"(?&NUMBER)(?=(?:s|/\d{1,9})?$)"
_BAR = rb":? {1,4}\d{1,3}%(?:\|[^|\n]{0,1000}\|)? ?(?&STEP)/\d{1,12} \[(?&BAR_RATE)"
"""The bar behind a row that is drawn again at every step."""
_FIGURE = rb"(?:(?&NUMBER)(?:[s%GM]|/\d{1,9})?|\d{1,3}(?::\d\d){1,2}(?:\.\d{1,6})?|None|#na#)$"
_CELL = re.compile(rb"\S+(?: \S+)*")
"""A cell of a table whose columns are two blanks apart."""
_MOST_SHIFTED = 3
"""Most bytes by which numbers that are wider than their columns shift a cell to the right."""
_NAMED_VALUE = re.compile(rb"[|] {0,40}([A-Za-z][\w./ -]{0,80}?) {0,80}[|] {0,80}([^| \n]{0,40}) {0,80}[|]\s{0,8}$")
_RULE = re.compile(rb"-{12,400}\s{0,8}$")
_VALUES_BY_COLUMN = {
    "step": (*_STEPS, "total_timesteps", "timesteps", "total_steps", "iterations", "n_updates", "nupdates"),
    "epoch": _EPOCHS,
    "loss": _LOSSES,
    "rate": ("fps", *_RATES),
}
"""The names in tables of values, the best first."""
_NAMES_OF_VALUES = {name for names in _VALUES_BY_COLUMN.values() for name in names}
_SECTIONS = ("", "time", "train")
"""Sections of a table of values that are about the training."""
_LOSS_ALONE = ("loss", "loss_of_epoch")
_MOST_BETWEEN = 2
"""Most lines between a step and its loss."""
_SECTION = 60
"""Most lines between a step that heads a section and its loss."""

_DRAWN_RULE = re.compile(rb"[=#*_-]{3}|(?:\xe2[\x94\x95][\x80-\xbf]){3}")
_LED = re.compile(rb"[^|\n]{0,80}\d\d:\d\d:\d\d[^|\n]{0,60}\|")
"""A logger's prefix before the lines of a table."""

_PASSED_OVER = re.compile(
    rb"(?:[\s+=-]|\xe2[\x94\x95][\x80-\xbf]){0,400}$"
    rb"|[ \t]{0,40}[{(]?['\"][\w./ -]{1,80}['\"]: ?[^{}\n]{1,80},\s{0,4}$"
    rb"|[ \t]{1,40}[A-Za-z][\w./ -]{0,80}[:=] {0,40}[-+\d.eE]{1,24}\s{0,4}$"
)
"""Lines that do not end a header: a table's rule, other entries of a dictionary, and indented names and values."""
_DRAWN = re.compile(rb"\xe2\x94[\x82\x83]")


Row = tuple[Dialect, Mapping[str, bytes]]
"""The dialect and the values of a line below a header."""


class OpenHeader(Protocol):
    """A header to which the lines below can belong."""

    patience: int
    """The number of consecutive other lines that do not end it."""

    def row(self, line: bytes) -> Row | None:
        """Return the values of a line that belongs to the header, else None."""
        ...

    def ends_with(self, line: bytes) -> bool:
        """Return whether this line and all after it do not belong to the header."""
        ...


class TableHeader:
    """A line of names above rows of numbers whose steps only increase."""

    def __init__(self, header: bytes) -> None:
        self._separator = _separator_of(header)
        self._is_led = _LED.match(header) is not None
        names = [_column_name(cell).replace("/", "_") for cell in self._cells(header)]
        self._size = len(names)
        self._starts = [match.start() for match in _CELL.finditer(header)] if self._separator == b"  " else []
        columns = {
            "step": _first(_STEPS, names),
            "epoch": _first(_EPOCHS, names),
            "loss": _loss_place(names),
            "rate": _first(_RATES, names),
        }
        self._places = {column: index for column, index in columns.items() if index is not None}
        self._is_counted = not self._places.keys().isdisjoint(_COUNTS)
        self._unit = {"unit": names[self._places["rate"]].encode()} if "rate" in self._places else {}
        self._split = _first(_SPLITS, names)
        self._dialect = _ROW if "step" in self._places else _ROW_OF_EPOCH
        self._last = -1.0
        self.patience = 0 if self._separator in (b",", b"\t") else 1000

    @property
    def is_training(self) -> bool:
        """Return whether the rows have a training loss, and a step or an epoch; between tabs, the loss suffices."""
        return "loss" in self._places and (self._is_counted or self._separator == b"\t")

    def _cells(self, line: bytes) -> list[bytes]:
        text = _DRAWN.sub(b"|", line[max(0, line.find(b"|")) if self._is_led else 0 :]).strip(b" \r")
        if self._separator == b"  ":
            return re.split(rb" {2,}", text)
        if self._separator == b"|":
            text = text.strip(b"|")
        return [cell.strip() for cell in text.split(self._separator)]

    def row(self, line: bytes) -> Row | None:
        """Return the values of a row by its columns, without values if it has no training loss; else None."""
        bar = _compile(_BAR).search(line) if self._separator == b"  " else None
        dialect = self._dialect
        if bar is not None:
            line, dialect = line[: bar.start()], _ROW
        cells = self._cells(line)
        if len(cells) < self._size:
            cells = self._beneath_names(line)
        if len(cells) != self._size or not all(map(self._fits, cells)):
            return None
        values: dict[str, bytes] = {}
        for name, index in self._places.items():
            cell = cells[index]
            if match := _compile(_VALUE).match(cell):
                totals = find_printed_totals(cell, [(name, *match.span())])
                values |= {name: match[0]} | {total: cell[start:end] for total, start, end in totals}
        values |= {} if bar is None else {name: value for name, value in bar.groupdict().items() if value is not None}
        if (self._is_counted and values.keys().isdisjoint(_COUNTS)) or "loss" not in values:
            return dialect, {}
        progress = max((float(values[name]) for name in _COUNTS if name in values), default=self._last)
        if progress < self._last or not self._trains(cells):
            return dialect, {}
        self._last = progress
        return dialect, values | self._unit if "rate" in values else values

    def _beneath_names(self, line: bytes) -> list[bytes]:
        """Return a cell for each name, empty if none begins below it; no cells if any begins elsewhere."""
        cells = [b""] * len(self._starts)
        for match in _CELL.finditer(line):
            index = bisect_right(self._starts, match.start()) - 1
            if index < 0 or cells[index] or match.start() > self._starts[index] + _MOST_SHIFTED:
                return []
            cells[index] = match[0]
        return cells

    def _trains(self, cells: Sequence[bytes]) -> bool:
        cell = b"train" if self._split is None else cells[self._split].lower()
        return cell.startswith(b"train") or cell in _TRAINING

    def _fits(self, cell: bytes) -> bool:
        return len(cell) < 60 if self._separator != b"  " else not cell or _compile(_FIGURE).match(cell) is not None

    def ends_with(self, line: bytes) -> bool:
        """Return whether a line is the rule of a Markdown table, which holds results, not steps."""
        return line.startswith((b"|-", b"|:", b"| -", b"| :"))


class ValueTable:
    """Rows `| name | value |` between two rules, as the loggers of OpenAI and Stable-Baselines print them."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._section = ""

    def row(self, line: bytes) -> Row | None:
        """Return the values of the table for the rule that ends it, no values for a row before; else None."""
        if _RULE.match(line):
            return _OF_VALUES, self._sample()
        match = _NAMED_VALUE.match(line)
        if match is None:
            return None
        name, value = _column_name(match[1]), match[2]
        if _column_name(value) in (*_STEPS, *_EPOCHS, *_LOSSES):
            return None  # names over columns
        section, _, last = name.rpartition("/")
        if not last:
            self._section = section
        elif last in _NAMES_OF_VALUES and (section or self._section) in _SECTIONS and _compile(_VALUE).match(value):
            self._values[last] = value
        return _OF_VALUES, {}

    def _sample(self) -> dict[str, bytes]:
        found = {
            column: next((name for name in names if name in self._values), None)
            for column, names in _VALUES_BY_COLUMN.items()
        }
        sample = {column: self._values[name] for column, name in found.items() if name is not None}
        if "loss" not in sample or sample.keys().isdisjoint(_COUNTS):
            return {}
        unit = found["rate"]
        return sample if unit is None else sample | {"unit": unit.encode()}


class StepHeader:
    """A step whose loss follows on a later line."""

    def __init__(self, values: Mapping[str, bytes], line: bytes) -> None:
        self._values = values
        self._name = line[: line.find(values["step"])].strip(b" \t:=#[(").lower()
        self._setting = _compile(_SETTING + rb"[ \t]{0,4}\d{1,12}\s{0,8}$").match(line)
        self.patience = _SECTION if _DRAWN_RULE.search(line) else _MOST_BETWEEN
        self.setting: int | None = None
        """The step if it and its loss are printed like the settings of a configuration."""

    def qualifies(self, above: StepHeader) -> bool:
        """Return whether it is another kind of step than the one above: `Optimizer Step: 3` below `Step 12`."""
        return self._name != above._name and self._name.endswith(above._name)

    def row(self, line: bytes) -> Row | None:
        """Return the step with its loss if the line has a loss and no step, else None."""
        reading = read_line(line)
        if reading is None or reading.role not in _LOSS_ALONE:
            return None
        loss = None if self._setting is None else _compile(_SETTING).match(line)
        if self._setting is not None and loss is not None and loss["sign"] == self._setting["sign"]:
            is_deeper = len(loss["outer"] + loss["lead"]) > len(self._setting["outer"] + self._setting["lead"])
            self.setting = None if is_deeper else int(self._values["step"])
        return _BENEATH, {**self._values, **{name: reading[name] for name in reading.spans}}

    def ends_with(self, line: bytes) -> bool:
        """Return whether an evaluation begins, which does not belong to the step."""
        return _compile(_EVALUATES).search(line) is not None and self.row(line) is None


class OpenHeaders:
    """The open headers of all workers."""

    def __init__(self) -> None:
        self._opened: dict[int, tuple[OpenHeader, int]] = {}
        self._value_tables: dict[int, ValueTable] = {}
        self._settings: dict[int, tuple[int, list[Row]]] = {}
        """By slot, the last step that was printed like a setting, and its row; -1 once steps have increased."""

    @property
    def has_any(self) -> bool:
        """Return whether the next line may belong to a header."""
        return bool(self._opened or self._value_tables)

    def begin(self, slot: int, header: Dialect, values: Mapping[str, bytes], line: bytes) -> None:
        """Open a header."""
        if header.name == _VALUE_TABLE:
            self._value_tables[slot] = ValueTable()
            return
        if header.name != _TABLE:
            step = StepHeader(values, line)
            above, _patience = self._opened.get(slot, (None, 0))
            if not isinstance(above, StepHeader) or not step.qualifies(above):
                self._opened[slot] = step, step.patience
            return
        table = TableHeader(line)
        if table.is_training:
            self._opened[slot] = table, table.patience

    def has_step(self, slot: int) -> bool:
        """Return whether a step is open whose loss has not come yet."""
        return isinstance(self._opened.get(slot, (None,))[0], StepHeader)

    def end_step(self, slot: int) -> None:
        """Note that a sample came, so that a step above it has no loss."""
        if self.has_step(slot):
            del self._opened[slot]

    def take_value(self, slot: int, line: bytes) -> list[Row] | None:
        """Return the samples that a line of a table of values completes; None if the line is in no such table."""
        table = self._value_tables.pop(slot, None)
        row = None if table is None else table.row(line)
        if table is None or row is None:
            return None
        # A rule may end this table, or begin the next one.
        self._value_tables[slot] = ValueTable() if _RULE.match(line) else table
        return [row] if row[1] else []

    def take(self, slot: int, line: bytes) -> list[Row] | None:
        """Return the samples that a line completes, which no dialect matches: held ones, and that of the line.

        None if the line does not belong to a header.
        """
        opened, patience = self._opened.get(slot, (None, 0))
        if opened is None:
            return None
        if opened.ends_with(line):
            del self._opened[slot]
            return None
        row = opened.row(line)
        if row is not None:
            if isinstance(opened, StepHeader):
                del self._opened[slot]
                return self._going_up(slot, opened.setting, row)
            self._opened[slot] = opened, opened.patience
            return [row] if row[1] else []
        if _PASSED_OVER.match(line):
            return None
        if patience > 0:
            self._opened[slot] = opened, patience - 1
        else:
            del self._opened[slot]
        return None

    def _going_up(self, slot: int, setting: int | None, row: Row) -> list[Row]:
        """Return rows whose steps increase: a configuration prints its step once, or again unchanged."""
        if setting is None:
            return [row]
        before, held = self._settings.get(slot, (setting, []))
        if setting <= before:
            self._settings[slot] = setting, [row]
            return []
        self._settings[slot] = -1, []
        return [*held, row]


@lru_cache(maxsize=8)
def _compile(source: bytes) -> re.Pattern[bytes]:
    """Return a pattern with its parts expanded, compiled for the first header: most logs have none."""
    return re.compile(expand_parts(source))


def _column_name(cell: bytes) -> str:
    return cell.decode("ascii", "replace").lower().replace(" ", "_").replace("-", "_")


def _separator_of(header: bytes) -> bytes:
    return next((separator for separator in (b"|", b"\t", b",") if separator in _DRAWN.sub(b"|", header)), b"  ")


def _loss_place(names: Sequence[str]) -> int | None:
    """Return the column of the whole loss, which spaCy names by a part of its pipeline; None if it is not certain."""
    index = _first(_LOSSES, names) if "#" not in names else None
    if index is None and "box" in names:
        return _first(("total",), names)  # YOLO's columns are box, obj, cls and total
    pattern = _A_PART if "#" in names else _A_WHOLE
    indices = [index for index, name in enumerate(names) if pattern.match(name)]
    return indices[0] if index is None and len(indices) == 1 else index


def _first(candidates: Sequence[str], names: Sequence[str]) -> int | None:
    return next((names.index(name) for name in candidates if name in names), None)
