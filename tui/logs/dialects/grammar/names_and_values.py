"""The general grammar of names and values, which reads homemade lines by the words before their numbers.

A line is cut into numbers and the words before each of them (`line_values`). The words of a name decide whether its
number is a step or an epoch (`line_steps`), or a loss (`line_losses`); a line without a loss may head others
(`line_headings`). These words are listed in the catalogue (`[words]` in grammar.toml).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from tui.logs.dialects.catalogue_files import expand_parts
from tui.logs.dialects.grammar.line_headings import choose_heading
from tui.logs.dialects.grammar.line_losses import choose_loss, evaluation_pattern, loss_kind
from tui.logs.dialects.grammar.line_steps import (
    begins_with_places,
    choose_count,
    choose_place,
    is_count,
    is_of_no_record,
)
from tui.logs.dialects.grammar.line_values import COUNT, Value, translate, values_of, words_meaning

_NO_RECORD = re.compile(
    rb".*(?:train|eval)_runtime|.*rate ?[:=]\s{0,4}$|.{0,80}[a-z](?:Error|Exception|Warning):"
    rb"|[^:=]{0,80}\b(?i:nan|inf)\b.{0,20}\b(?:at|in|detected|found)\b|.*\{.*train_loss.*epoch.{1,4}\d{1,9}\."
    rb"|.*consumed samples: .*\| lm loss: \d{1,3}\.\d{0,9}$"
)
"""A line that was cut off after a name, or in Megatron's `1.5E+00`; the message of an error or a check; Transformers'
summary of the whole run."""


@dataclass(frozen=True, slots=True)
class LineReading:
    """What a line says about a training step, as a match of the grammar (see `LineMatch`)."""

    role: str
    """`step` or `epoch`: one with its loss; `doubtful`: a step with only parts of its loss, or an evaluation's loss.

    `loss`: one without step and epoch; `loss_of_epoch`: the same if its name says that it is training's or a mean, or
    beside an evaluation's, a learning rate or a gradient;
    `head`: a step whose loss may follow; `heading`, `over`: an epoch that begins or ends.
    """
    text: bytes
    spans: Mapping[str, tuple[int, int]]

    @property
    def re(self) -> LineReading:
        """Return the object with the names of the groups."""
        return self

    @property
    def groupindex(self) -> Iterable[str]:
        """Return the names of the groups."""
        return self.spans

    def __getitem__(self, group: str, /) -> bytes:
        """Return the text of a group."""
        start, end = self.spans[group]
        return self.text[start:end]

    def start(self) -> int:
        """Return where the line begins."""
        return 0

    def span(self, group: str, /) -> tuple[int, int]:
        """Return where a group begins and ends."""
        return self.spans[group]


_PACE_NAME = re.compile(
    rb"(?i)(?<![a-z])(?:(?:time|(?P<milli>m)?s(?:ec(?:ond)?s?)?)(?:/|[ _]per[ _])"
    rb"(?:step|it(?:er(?:ation)?)?|batch|update)"
    rb"|(?:step|iter(?:ation)?|batch)[_ ]tim(?:e|ing)(?:(?=[ _]?(?:in[ _]|[(\[])|_m?s)|(?P<bare>)))"
    rb"(?:(?:[ _]?(?:in[ _]|[(\[])|_)(?P<in_milli>m)?s(?:ec(?:ond)?s?)?[)\]]?)?[^\w\n]{0,8}$"
)
"""A name that means the time of a step, up to the number."""
_HEAD_END = re.compile(rb"\d(?:th)?(?:[^\w\n]{0,60}[A-Za-z]{1,20})?[^\w\n]{0,60}$")
"""The end of a line that holds only its step and other named numbers."""
_SECONDS_BEHIND = re.compile(rb" ?(?P<milli>m)?s(?:ec(?:ond)?s?)?(?!\w)")
_TRAINS = re.compile(rb"[^\w\n]{0,12}(?i:train(?:ing)?)(?![\w ])")
"""The beginning of a line that is training's: `TRAIN: Cost=0.5`."""
_OF_EPOCHS = ("heading", "over")
_PACES = ("rate", "pace", "named_pace")


class NamesAndValues:
    """A pattern that matches the lines to which the grammar gives one role (see `LinePattern`)."""

    def __init__(self, role: str) -> None:
        self._role = role

    def finditer(self, text: bytes, start: int = 0, /) -> Iterable[LineReading]:
        """Return the reading of the line if it has this role."""
        reading = read_line(text) if not start else None
        return (reading,) if reading is not None and reading.role == self._role else ()


@lru_cache(maxsize=16)
def read_line(text: bytes) -> LineReading | None:
    """Return what a line says about a training step; None if it says nothing, or its loss may be an evaluation's."""
    line, text = text, translate(text)
    head = _head().match(text)
    if head is None or _NO_RECORD.match(text):
        return None
    lead = _logged().match(text)
    start = 0 if lead is None else lead.end()
    values = [value for value in values_of(text) if value.start >= start]
    spans = {name: head.span(name) for name in head.re.groupindex if head[name] is not None}
    names_loss = any(loss_kind(value.words) is not None for value in values)
    record = _read_loss(text, values, start) if names_loss else _read_head(text, values)
    if record is None:
        return None
    role = record.role
    if role in _OF_EPOCHS:
        spans.clear()  # an epoch has no rate, and no core
    for name, value in record.chosen.items():
        number = text[value.start : value.end]
        whole = number.partition(b".")[0] if name == "epoch" else number
        spans[name] = value.start, value.start + len(whole)
    if role not in _OF_EPOCHS and spans.keys().isdisjoint(_PACES):
        spans |= _named_pace(text, [value for value in values if value not in record.chosen.values()])
    if record.needs_pace and spans.keys().isdisjoint(_PACES):
        role = "doubtful"
    return LineReading(role, line, spans)


@dataclass(frozen=True, slots=True)
class _Record:
    """The role of a line, and its values by their meaning."""

    role: str
    chosen: Mapping[str, Value]
    needs_pace: bool = False
    """Whether the step is certain to be training's only if the line also has a pace."""


def _read_loss(text: bytes, values: Sequence[Value], start: int) -> _Record | None:
    """Return the record in a line that names a loss; the line's own text begins at `start`."""
    training_loss = choose_loss(text, values)
    if training_loss is None:
        return None
    loss = training_loss.value
    others = [value for value in values if value is not loss]
    epoch, step = choose_count(text, others, "epoch", start), choose_count(text, others, "step", start)
    if step is None and (number := _value_behind(text, values, loss)):
        step, loss = loss, number
    elif step is None:
        step, epoch = choose_place(text, others, epoch, loss, start)
    elif epoch is None and begins_with_places(others):
        epoch = others[0]
    if epoch and step and training_loss.is_before_evaluation and step.words[-1:] == (b"steps",):
        step = None  # the number of steps in the epoch
    chosen = {"loss": loss} if training_loss.is_whole else {}
    chosen |= {name: value for name, value in (("step", step), ("epoch", epoch)) if value is not None}
    if step is not None:
        if not training_loss.is_whole:
            return _Record("doubtful", chosen)
        return _Record("step", chosen, needs_pace=training_loss.is_before_evaluation and bool(step.words))
    if epoch is not None:
        return _Record("epoch", chosen) if training_loss.is_whole else None
    if loss_kind(loss.words) == "part" or text.startswith(b"|") or any(map(is_of_no_record, others)):
        return None
    is_of_training = (
        not words_meaning("train", "mean", "total").isdisjoint(loss.words)
        or _TRAINS.match(text, start) is not None
        or any(
            loss_kind(value.words) == "evaluation" or not words_meaning("trained").isdisjoint(value.words)
            for value in others
        )
    )
    return _Record("loss_of_epoch" if is_of_training else "loss", chosen)


def _value_behind(text: bytes, values: Sequence[Value], loss: Value) -> Value | None:
    """Return the loss right behind a step between it and its name: `Train loss 100 0.5123`."""
    behind = values[values.index(loss) + 1 :][:1]
    if not behind or b"." not in text[behind[0].start : behind[0].end]:
        return None
    is_step = text[loss.start : loss.end].isdigit() and text[loss.start - 1 : loss.start].isspace()
    return behind[0] if is_step and text[loss.end : behind[0].start].isspace() else None


def _read_head(text: bytes, values: Sequence[Value]) -> _Record | None:
    """Return the step or the epoch of a line without a loss, which may follow on another line."""
    if not values or evaluation_pattern().search(text):
        return None
    return (_read_step(text, values) if _HEAD_END.search(text) else None) or _read_epoch(text, values)


def _read_epoch(text: bytes, values: Sequence[Value]) -> _Record | None:
    heading = choose_heading(text, values)
    return None if heading is None else _Record(heading[0], {"epoch": heading[1]})


def _read_step(text: bytes, values: Sequence[Value]) -> _Record | None:
    epoch = next((value for value in values[:2] if is_count(value, "epoch", is_first=True)), None)
    step = next((value for value in values[:2] if value is not epoch), None)
    if step is None or not COUNT.match(text[step.start : step.end]):
        return None
    if not (is_count(step, "step", is_first=True) or (epoch and step.is_place and step.follows)):
        return None
    return _Record("head", {"step": step} | ({"epoch": epoch} if epoch is not None else {}))


def _named_pace(text: bytes, values: Sequence[Value]) -> dict[str, tuple[int, int]]:
    """Return the span of the time of a step, found by its name: `time per step`, `sec/batch`, `Batch Time: 2s`."""
    for value in values:
        name = _PACE_NAME.search(text, value.name_start, value.start)
        behind = _SECONDS_BEHIND.match(text, value.end)
        if name is not None and (behind or name["bare"] is None):
            span = value.start, value.end
            is_milli = name["milli"] or name["in_milli"] or (behind and behind["milli"])
            return {"named_pace": span} | ({"named_milli": span} if is_milli else {})
    return {}


@cache
def _head() -> re.Pattern[bytes]:
    """Return the pattern of values that other dialects also read: rates, ranks and workers."""
    rank = b"(?=(?:(?&ANY){0,60}?(?&NAMED_RANK))?)(?&BEGINS_WITH_WORKER)(?&RATED)"
    return re.compile(expand_parts(b"(?&LOG_LINE)" + rank))


@cache
def _logged() -> re.Pattern[bytes]:
    """Return the pattern of what a logger puts before a line."""
    return re.compile(expand_parts(b"(?&LOGGED)[^\\w\n]{0,16}"))
