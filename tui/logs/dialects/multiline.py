"""Lines that say what the numbers beneath them are: names over a table, a step over its loss, `Validation:`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from tui.logs.dialects.dialect import ENDS, EPOCH, LOSS, NUMBER, OF, STEP, Dialect, Kind, dialect
from tui.logs.dialects.grammar import EVALUATION, LOGGED

_WORD = rb"[A-Za-z_(][\w./%()'-]{0,40}"
_NAME = _WORD + rb"(?: [A-Za-z(][\w./%()'-]{0,40}){0,3}"
_BAR = rb"(?:\||\xe2\x94[\x82\x83])"
"""What stands between a table's columns, drawn as boxes are or not."""

_TELLS = rb"(?=[^\n]{0,400}?[Ll]oss)(?=[^\n]{0,400}?(?:[Ee]poch|[Ss]tep|[Ii]teration|(?<![A-Za-z])[Ii]ter))"

TABLE = dialect(
    "table",
    Kind.HEADER,
    [
        b"oss,", b",loss", b"_loss", b"/loss", b"oss\t", b"\tloss", b"oss  ", b"  loss", b"  Loss", b"  LOSS ",
        b"oss |", b"| loss", b"oss \xe2\x94", b"\tTraining Loss",
    ],
    rb"^(?:[^|\n]{0,80}\d\d:\d\d:\d\d[^|\n]{0,60}(?=\|)|\s{0,8})(?:E {2,8}# {2,12}LOSS (?:[ \w.]{1,200})|" + _TELLS
    + rb"(?:" + _BAR + rb"? {0,40}" + _NAME + rb"(?: {0,40}" + _BAR + rb" {0,40}" + _NAME + rb"){1,40} {0,40}"
    + _BAR + rb"?"
    rb"|" + _NAME + rb"(?: {2,40}" + _NAME + rb"){1,40}|" + _NAME + rb"(?:\t" + _NAME + rb"){1,40}"
    rb"|" + _NAME + rb"(?:, ?" + _NAME + rb"){1,200}))\s{0,60}$",
)  # fmt: skip
"""The names over a table: fastai's, Turi Create's, spaCy's, that of a CSV file."""

STEP_ABOVE = dialect(
    "step above its loss",
    Kind.HEADER,
    [b"tep ", b"tep: ", b"teration ", b"teration: ", b"atch ", b"atch: ", b"tep=", b"iter ", b"iter: ", b"Iter ",
     b"poch: [", b"Epoch ["],
    rb"^" + LOGGED + rb"(?P<v>[^\w\n]{0,60})(?:[Ee]poch[:=]? {0,4}\[?" + EPOCH + rb"(?:" + OF
    + rb")?\]?(?:[ ,|]{1,4}|(?=\[)))?"
    rb"(?:(?:[Gg]lobal[ _]|[Tt]rain(?:ing)? )?(?:[Ss]tep|[Ii]ter(?:ation)?|[Bb]atch)"
    rb"(?: ?(?P<q>[:=])[ \t]{0,4}|[ \t]{1,4})"
    rb"|(?<=[\] ])\[ {0,6}(?=\d{1,12} ?/))" + STEP + rb"(?P<total>" + OF
    + rb")?(?: \(\d{1,3}(?:\.\d{1,4})?%\))?[^\w\n]{0,60}$",
    hints_end=True,
)  # fmt: skip
"""A step on a line of its own, of people's own printing; its loss stands right beneath it, or in its section."""

_EVALUATED = (
    rb"(?:[Vv]alidati(?:on|ng)|VALIDATION|[Ee]valuati(?:on|ng)|EVALUATION|[Tt]esting|TESTING"
    rb"|(?:[Vv]al(?:id)?|VAL|[Ee]val|EVAL|[Tt]est|TEST)(?=:))"
)

_HEADING_WORDS = (
    b"alidation", b"alidating", b"VALIDATION", b"valuation", b"valuating", b"EVALUATION", b"esting", b"TESTING",
    b"Val", b"VAL", b"Eval", b"EVAL", b"Test", b"TEST", b"raining", b"TRAINING", b"rain", b"TRAIN",
)  # fmt: skip

SECTION = dialect(
    "section",
    Kind.SECTION,
    [word + mark for word in _HEADING_WORDS for mark in (b":", b" *", b" =", b" -", b"...")],
    rb"^(?=[^\n]{0,200}$)(?:[^\n]{0,120}?(?:[\]>|-]|INFO:?|: ) {0,4})??[^\w\n]{0,60}"
    rb"(?:(?:[Rr]unning|[Ss]tart(?:ing)?|[Bb]egin(?:ning)?|[Pp]erforming|[Dd]oing) )?"
    rb"(?:[Ee]poch[ :#]{1,3}\d{1,9}(?:" + OF + rb")?[^\w\n]{1,4})?"
    rb"(?:(?P<training>[Tt]rain(?:ing)?|TRAIN(?:ING)?)|" + _EVALUATED + rb")"
    rb"(?: [#(\[]?\d{1,9}(?:" + OF + rb")?)?[^\w\n]{0,60}$",
    hints_end=True,
)  # fmt: skip
"""A heading over what is trained or evaluated: `***** Running Evaluation *****`."""

BARE_SECTION = dialect(
    "section",
    Kind.SECTION,
    [b"alidation", b"alidating", b"valuation", b"valuating", b"Testing"],
    rb"^" + LOGGED + rb"[^\w\n]{0,12}(?:(?:[Rr]unning|[Ss]tart(?:ing)?|[Bb]egin(?:ning)?|[Pp]erforming|[Dd]oing) )?"
    rb"(?:[Ee]poch[ :#]{1,3}\d{1,9}(?:" + OF + rb")?[^\w\n]{1,4})?"
    rb"(?:[Vv]alidati(?:on|ng)|[Ee]valuati(?:on|ng)|Testing)\s{0,8}$",
    hints_end=True,
)  # fmt: skip
"""The same without any mark: nothing else stands in the line."""

HEADERS: tuple[Dialect, ...] = (TABLE, STEP_ABOVE, SECTION, BARE_SECTION)

_ROW = dialect("table", Kind.SAMPLE, (), rb"")
_ROW_OF_EPOCH = dialect("table", Kind.SAMPLE, (), rb"", is_summary=True)
_BENEATH = dialect("step above its loss", Kind.SAMPLE, (), rb"")

_LOSS_LINE = re.compile(
    rb"^(?P<v>[^\w\n]{0,12})" + LOGGED + rb"(?:(?:(?:[Tt]rain(?:ing)?|[Tt]otal|[Aa]vg|[Aa]verage)[ _]){0,2}[Ll]oss"
    rb"(?: ?(?P<q>[:=])| is|(?= ))[ \t]{0,12}|\{(?=(?:[^{}\n]{0,400}?['\"](?P<unit>(?:[a-z]{1,12}/)?"
    rb"(?:[stf]ps|throughput|[a-z]{1,12}_per_s(?:ec(?:ond)?)?))['\"]: (?P<rate>" + NUMBER + rb")[,}])?)"
    rb"[^{}\n]{0,400}?['\"](?:train(?:ing)?[/_])?(?:total_)?loss['\"]: )" + LOSS + ENDS
)
_EVALUATES = re.compile(rb"(?<![A-Za-z])" + EVALUATION)

_STEPS = ("global_step", "step", "iteration", "iter", "training_step", "train_step", "steps", "update", "batch", "#")
_EPOCHS = ("epoch", "epochs", "e")
_LOSSES = (
    "train_loss", "training_loss", "loss_train", "train_loss_step", "loss",
    "total_loss", "train_total_loss", "main_loss",
)  # fmt: skip
_A_WHOLE = re.compile(r"train_(?:total_\w+_|\w+_total_)loss$")
_A_PART = re.compile("loss_")
_RATES = ("samples_sec", "samples_per_sec", "samples_per_second", "tokens_sec", "tokens_per_sec", "tokens_per_second",
          "examples_sec", "throughput", "tok_s", "tokens_s", "samples_s", "examples_s", "img_s", "images_sec", "it_s",
          "steps_s", "steps_sec")  # fmt: skip
_SPLITS = ("train", "split", "phase", "mode", "stage")
_TRAINING = (b"true", b"yes")

_VALUE = re.compile(NUMBER + rb"(?=s?$)")
_FIGURE = re.compile(rb"(?:" + NUMBER + rb"[s%]?|\d{1,3}(?::\d\d){1,2}(?:\.\d{1,6})?|None|#na#)$")
_SECTION = 60
"""Lines in which a loss may stand beneath a step that heads a section."""

_DRAWN_RULE = re.compile(rb"[=#*_-]{3}|(?:\xe2[\x94\x95][\x80-\xbf]){3}")
_LED = re.compile(rb"[^|\n]{0,80}\d\d:\d\d:\d\d[^|\n]{0,60}\|")
"""What a logger puts before a table's lines."""

_RULE = re.compile(rb"(?:[\s+=-]|\xe2[\x94\x95][\x80-\xbf]){0,400}$")
_DRAWN = re.compile(rb"\xe2\x94[\x82\x83]")


Row = tuple[Dialect, Mapping[str, bytes]]
"""What a line beneath a header tells."""


class Opened(Protocol):
    """What a header has begun."""

    patience: int
    """Lines that may come between without ending it."""

    def row(self, line: bytes) -> Row | None:
        """What a line tells, if it belongs beneath the header."""
        ...

    def ends_with(self, line: bytes) -> bool:
        """Whether nothing beneath a line belongs to the header any more."""
        ...


class Table:
    """Rows of numbers under a line of names. Their steps only go up."""

    def __init__(self, header: bytes) -> None:
        self._separator = _separator_of(header)
        self._is_led = _LED.match(header) is not None
        names = [re.sub("[ /]", "_", cell.decode("ascii").lower()) for cell in self._cells(header)]
        self._size = len(names)
        found = {
            "step": _first(_STEPS, names),
            "epoch": _first(_EPOCHS, names),
            "loss": _loss_place(names),
            "rate": _first(_RATES, names),
        }
        self._places = {column: place for column, place in found.items() if place is not None}
        self._unit = {"unit": names[self._places["rate"]].encode()} if "rate" in self._places else {}
        self._split = _first(_SPLITS, names)
        self._dialect = _ROW if "step" in self._places else _ROW_OF_EPOCH
        self._last = -1.0
        self.patience = 0 if self._separator in (b",", b"\t") else 1000

    @property
    def is_training(self) -> bool:
        """Whether its rows tell a training loss, and of which step or epoch."""
        return "loss" in self._places and len(self._places.keys() & {"step", "epoch"}) > 0

    def _cells(self, line: bytes) -> list[bytes]:
        text = _DRAWN.sub(b"|", line[max(0, line.find(b"|")) if self._is_led else 0 :]).strip(b" \r")
        if self._separator == b"  ":
            return re.split(rb" {2,}", text)
        if self._separator == b"|":
            text = text.strip(b"|")
        return [cell.strip() for cell in text.split(self._separator)]

    def row(self, line: bytes) -> Row | None:
        """What a line of numbers tells by its places; nothing where it has no training loss."""
        cells = self._cells(line)
        if len(cells) != self._size or not all(map(self._fits, cells)):
            return None
        told = {name: match[0] for name, place in self._places.items() if (match := _VALUE.match(cells[place]))}
        if not told.keys() & {"step", "epoch"} or "loss" not in told:
            return self._dialect, {}
        place = max(float(told[name]) for name in ("step", "epoch") if name in told)
        if place < self._last or not self._trains(cells):
            return self._dialect, {}
        self._last = place
        return self._dialect, told | self._unit if "rate" in told else told

    def _trains(self, cells: Sequence[bytes]) -> bool:
        cell = b"train" if self._split is None else cells[self._split].lower()
        return cell.startswith(b"train") or cell in _TRAINING

    def _fits(self, cell: bytes) -> bool:
        return len(cell) < 60 if self._separator != b"  " else _FIGURE.match(cell) is not None

    def ends_with(self, line: bytes) -> bool:
        """A document's table has a rule of its own: such tables are results, and nobody's steps."""
        return line.startswith((b"|-", b"|:", b"| -", b"| :"))


class StepAbove:
    """A step whose loss is still to come."""

    def __init__(self, told: Mapping[str, bytes]) -> None:
        self._told = told
        self._lead = told.get("v", b"")
        self.patience = _SECTION if _DRAWN_RULE.search(self._lead) else 2
        self.setting: int | None = None
        """The step, if it and its loss are told as a configuration tells its settings."""

    def row(self, line: bytes) -> Row | None:
        """The step with its loss, when a line tells that first."""
        match = _LOSS_LINE.match(line)
        if match is None:
            return None
        told = self._told
        is_setting = "q" in told and not told.keys() & {"epoch", "total"}
        if is_setting and match["q"] == told["q"] and len(match["v"]) <= len(self._lead):
            self.setting = int(told["step"])
        rate = {} if match["rate"] is None else {"rate": match["rate"], "unit": match["unit"]}
        return _BENEATH, {**told, **rate, "loss": match["loss"]}

    def ends_with(self, line: bytes) -> bool:
        """What is evaluated from here on is not the step's."""
        return _EVALUATES.search(line) is not None and _LOSS_LINE.match(line) is None


class Openings:
    """What headers have begun, of each worker."""

    def __init__(self) -> None:
        self._opened: dict[int, tuple[Opened, int]] = {}
        self._settings: dict[int, tuple[int, list[Row]]] = {}
        """Of each worker the last step told as a setting is, and its row; below zero once they have gone up."""

    @property
    def any(self) -> bool:
        """Whether the next line may stand beneath a header."""
        return bool(self._opened)

    def begin(self, slot: int, header: Dialect, told: Mapping[str, bytes], line: bytes) -> None:
        """A header has come."""
        if header.name != TABLE.name:
            step = StepAbove(told)
            self._opened[slot] = step, step.patience
            return
        table = Table(line)
        if table.is_training:
            self._opened[slot] = table, table.patience

    def take(self, slot: int, line: bytes) -> list[Row] | None:
        """What a worker's line tells that nothing else has read, after what only that makes sure of.

        None where it does not belong beneath a header.
        """
        opened, left = self._opened.get(slot, (None, 0))
        if opened is None:
            return None
        if opened.ends_with(line):
            del self._opened[slot]
            return None
        row = opened.row(line)
        if row is not None:
            if isinstance(opened, StepAbove):
                del self._opened[slot]
                return self._going_up(slot, opened.setting, row)
            self._opened[slot] = opened, opened.patience
            return [row] if row[1] else []
        if left > 0 or _RULE.match(line):
            self._opened[slot] = opened, left - 1
        else:
            del self._opened[slot]
        return None

    def _going_up(self, slot: int, setting: int | None, row: Row) -> list[Row]:
        """Rows that are none of a configuration's: those stand in it once, or again as they were."""
        if setting is None:
            return [row]
        before, held = self._settings.get(slot, (setting, []))
        goes_up = setting > before
        self._settings[slot] = (-1, []) if goes_up else (setting, [row])
        return [*held, row] if goes_up else []


def _separator_of(header: bytes) -> bytes:
    return next((each for each in (b"|", b"\t", b",") if each in _DRAWN.sub(b"|", header)), b"  ")


def _loss_place(names: Sequence[str]) -> int | None:
    """Where the whole loss stands; spaCy's is named after a part of its pipeline, of several none is the whole."""
    place = _first(_LOSSES, names) if "#" not in names else None
    named = _A_PART if "#" in names else _A_WHOLE
    found = [place for place, name in enumerate(names) if named.match(name)]
    return found[0] if place is None and len(found) == 1 else place


def _first(wanted: Sequence[str], names: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)
