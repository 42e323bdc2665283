"""The general grammar of names and values: what a homemade line says by the words before its numbers.

A line is cut into numbers and the words before each of them. The words of a name decide what its number is; which
words those are stands in the catalogue (`[words]` of grammar.toml).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from tui.logs.dialects.catalogue_files import expand_parts, read_catalogue
from tui.logs.dialects.line_values import COUNT, Value, translate, values_of, words_meaning

_BEST_TAG = re.compile(rb"[^\w\n]{0,8}(?i:new )?(?i:best)[\]*:! ]{1,4}(?=\w)")
"""A line's beginning that only praises the epoch."""
_NO_RECORD = re.compile(
    rb".*(?:train|eval)_runtime|.*rate ?[:=]\s{0,4}$|.{0,80}[a-z](?:Error|Exception|Warning):"
    rb"|[^:=]{0,80}\b(?i:nan|inf)\b.{0,20}\b(?:at|in|detected|found)\b|.*\{.*train_loss.*epoch.{1,4}\d{1,9}\."
    rb"|.*\| lm loss: \d{1,3}\.\d{0,9}$"
)
"""A line that was cut off behind a name, or in Megatron's `1.5E+00`; what an error or a check says; Transformers'
summary of the whole run."""
_EVALUATED_BEHIND = re.compile(rb"\s?\(?(?:on|for|in) (?:the )?(?:val|test|dev|eval|held)")
_NEUTRAL_UNIT = re.compile(rb"[ \t]{0,8}(?:$|[^\w%\s]|(?=[A-Za-z_\d+-])(?<=[ \t]))|(?=\s)")


@dataclass(frozen=True, slots=True)
class LineReading:
    """What a line says of a training step: a match of the grammar (see `LineMatch`)."""

    role: str
    """`step` or `epoch` with its loss; `doubtful`: a step with parts of its loss, or an evaluation's beside it.

    `loss`: one without step and epoch, `loss_of_epoch` if its name says that it is training's or a mean; `head`: a
    step whose loss may follow.
    """
    text: bytes
    spans: Mapping[str, tuple[int, int]]

    @property
    def re(self) -> LineReading:
        """Return what has the names of the groups."""
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
    rb"|(?:step|iter(?:ation)?|batch)[_ ]tim(?:e|ing)(?=[ _]?(?:in[ _]|[(\[])))"
    rb"(?:[ _]?(?:in[ _]|[(\[])(?P<in_milli>m)?s(?:ec(?:ond)?s?)?[)\]]?)?[^\w\n]{0,8}$"
)
"""How long a step takes, by its name, up to the number."""
_BEFORE_LOSS = re.compile(rb"[^\w\n=]{1,6}(?:(?i:train(?:ing)?)[^\w\n]{0,3})?")
_BAR_BEHIND = re.compile(rb"\] {0,4}\|")
_PADDED = 12
"""Bytes before a nameless step in which its bracket stands: `[    100]`."""
_DIGITS_OF_STEP = 3
"""From so many on, a nameless number in brackets is a step; a shorter one may be a process."""
_HEAD_END = re.compile(rb"\d(?:th)?(?:[^\w\n]{0,60}[A-Za-z]{1,20})?[^\w\n]{0,60}$")
"""The end of a line that says no more than its step, and other numbers by their names."""
_MILLI_BEHIND = re.compile(rb" ?ms(?!\w)")
_BAR_OF_EPOCHS = re.compile(rb"s/epoch|epochs?/s")
_PACES = ("rate", "pace", "named_pace")


class NamesAndValues:
    """A pattern that matches lines of one role by the grammar (see `LinePattern`)."""

    def __init__(self, role: str) -> None:
        self._role = role

    def finditer(self, text: bytes, start: int = 0, /) -> Iterable[LineReading]:
        """Return what the line says if that is of this role."""
        reading = read_line(text) if not start else None
        return (reading,) if reading is not None and reading.role == self._role else ()


@lru_cache(maxsize=16)
def read_line(text: bytes) -> LineReading | None:
    """Return what a line says of a training step; None if it says nothing, or does not say whose loss it prints."""
    line, text = text, translate(text)
    head = _head().match(text)
    if head is None or _NO_RECORD.match(text):
        return None
    lead = _logged().match(text)
    start = 0 if lead is None else lead.end()
    values = list(values_of(text))
    spans = {name: head.span(name) for name in head.re.groupindex if head[name] is not None}
    names_loss = any(_loss_kind(value.words) is not None for value in values)
    found = _read_loss(text, values, start) if names_loss else _read_head(text, values)
    if found is None:
        return None
    role, chosen = found
    for name, value in chosen.items():
        number = text[value.start : value.end]
        whole = number.partition(b".")[0] if name == "epoch" else number
        spans[name] = value.start, value.start + len(whole)
    if spans.keys().isdisjoint(_PACES):
        spans |= _named_pace(text, [value for value in values if value not in chosen.values()])
    if role == "step" and "doubt" in chosen:
        role = "doubtful" if spans.keys().isdisjoint(_PACES) else role
        del spans["doubt"]
    return LineReading(role, line, spans)


def _read_loss(text: bytes, values: Sequence[Value], start: int) -> tuple[str, dict[str, Value]] | None:
    """Return the role of a line that names a loss, and its values by what they are."""
    found = _choose_loss(text, values)
    if found is None:
        return None
    loss, has_evaluated, is_whole = found
    others = [value for value in values if value is not loss]
    epoch, step = _choose_count(text, others, "epoch", start), _choose_count(text, others, "step", start)
    if step is None:
        step, epoch = _choose_place(text, others, epoch, loss, start)
    elif epoch is None and _begins_with_places(others):
        epoch = others[0]
    chosen = {"loss": loss} if is_whole else {}
    chosen |= {name: value for name, value in (("step", step), ("epoch", epoch)) if value is not None}
    if step is None and epoch is None:
        if _loss_kind(loss.words) == "part" or text.startswith(b"|"):
            return None
        qualities = words_meaning("train") | words_meaning("mean") | words_meaning("total")
        is_of_epoch = any(_loss_kind(value.words) == "evaluation" for value in others) or not qualities.isdisjoint(
            loss.words
        )
        return "loss_of_epoch" if is_of_epoch else "loss", chosen
    if step is None:
        return ("epoch", chosen) if is_whole else None
    if not is_whole:
        return "doubtful", chosen
    return "step", chosen | ({"doubt": loss} if has_evaluated and step.words else {})


def _read_head(text: bytes, values: Sequence[Value]) -> tuple[str, dict[str, Value]] | None:
    """Return the step, and its epoch, of a line that begins with them and names no loss: that may follow below."""
    if not values or _evaluation().search(text) or not _HEAD_END.search(text):
        return None
    epoch = values[0] if _counts(values[0], "epoch", is_first=True) else None
    step = values[0] if epoch is None else values[min(1, len(values) - 1)]
    if step is epoch or not (_counts(step, "step", is_first=True) or (epoch and step.is_place and step.follows)):
        return None
    return "head", {"step": step} | ({"epoch": epoch} if epoch is not None else {})


def _named_pace(text: bytes, values: Sequence[Value]) -> dict[str, tuple[int, int]]:
    """Return how long a step takes, by its name: `time per step`, `sec/batch`, `step timing in s`."""
    for value in values:
        name = _PACE_NAME.search(text, value.name_start, value.start)
        if name is not None:
            place = value.start, value.end
            is_milli = name["milli"] or name["in_milli"] or _MILLI_BEHIND.match(text, value.end)
            return {"named_pace": place} | ({"named_milli": place} if is_milli else {})
    return {}


@cache
def _head() -> re.Pattern[bytes]:
    """Return the pattern of what the other dialects read, too: rates, ranks and workers."""
    rank = b"(?=(?:(?&ANY){0,60}?(?&NAMED_RANK))?)(?&BEGINS_WITH_WORKER)(?&RATED)"
    return re.compile(expand_parts(b"(?&LOG_LINE)" + rank))


@cache
def _logged() -> re.Pattern[bytes]:
    """Return the pattern of what a logger puts before a line."""
    return re.compile(expand_parts(b"(?&LOGGED)[^\\w\n]{0,16}"))


@cache
def _evaluation() -> re.Pattern[bytes]:
    return re.compile(expand_parts(b"(?<![A-Za-z])(?&EVALUATION)"))


def _counts(value: Value, kind: str, *, is_first: bool = False) -> bool:
    """Whether a number is a step or an epoch by its name; `is_first` if the name begins what the line says."""
    words = list(value.words)
    while len(words) > 1 and words[-1] in words_meaning("behind"):
        words.pop()
    if not words or words[-1] not in words_meaning(kind) or not words_meaning("loss").isdisjoint(words):
        return False
    is_plural = words[-1][-1:] == b"s" and words[-1][:-1] in words_meaning(kind)
    if is_plural and (len(words) > 1 or (kind == "epoch" and value.name_start > 0)):
        return False
    is_whole_name = is_first and len(words) == 1 < len(words[0])
    if len(words[-1]) <= _SHORT and not (value.has_sign or value.is_place or is_whole_name):
        return False
    others = set(words[:-1]) - words_meaning("neutral") - words_meaning("counting")
    foreign = words_meaning("no_count") | words_meaning("evaluated")
    return not others or (is_first and len(others) <= _MOST_OWN_WORDS and foreign.isdisjoint(others))


_MOST_OWN_WORDS = 4
"""Words that only this program knows before a step: `SimCLR SupCon Step 20`."""

_SHORT = 2
"""Letters of names that are also words: a sign must stand behind them (`it: 5`)."""


@lru_cache(maxsize=1024)
def _loss_kind(words: tuple[bytes, ...]) -> str | None:
    """Return what kind of loss a name means: `whole`, its `mean`, a `part`, one of an `evaluation`; None if none."""
    places = [
        place
        for place, word in enumerate(words)
        if word in words_meaning("loss") or (word == b"entropy" and words[place - 1 : place] == (b"cross",))
    ]
    if not places or any(word in words_meaning("no_loss") for word in words[places[-1] + 1 :]):
        return None
    qualities = {word for place, word in enumerate(words) if place not in places and word != b"cross"}
    if qualities & words_meaning("evaluated"):
        return "evaluation"
    if len(words) - 1 - places[-1] > _MOST_BEHIND:
        return None
    is_part = bool(qualities - words_meaning("neutral") - words_meaning("mean") - words_meaning("total"))
    if words[places[-1]] == b"cost" and (is_part or not qualities.isdisjoint(_PER_BATCH)):
        return None
    if is_part:
        return "part"
    if qualities & words_meaning("mean"):
        return "mean"
    return "total" if qualities & words_meaning("total") else "whole"


_PER_BATCH = (b"batch", b"step", b"iter", b"iteration", b"train")
"""Before `cost` they mean how long something takes."""

_MOST_BEHIND = 3
"""Words behind `loss` in its name: `loss of the batch`."""


def _choose_loss(text: bytes, values: Sequence[Value]) -> tuple[Value, bool, bool] | None:
    """Return the training loss, whether an evaluation's stands right behind it, and whether it is the whole.

    It is a part if several are printed and their sum is not. None if it is not certain.
    """
    found: dict[str, list[Value]] = {}
    kinds = [_loss_kind(value.words) for value in values]
    named = any(kind is not None and b"cost" not in value.words for kind, value in zip(kinds, values, strict=True))
    for kind, value in zip(kinds, values, strict=True):
        if kind is not None and _is_figure(text, value) and not (named and b"cost" in value.words):
            found.setdefault(kind, []).append(value)
    for kind in ("total", "whole", "mean", "part"):
        losses = found.get(kind, [])
        if losses:
            loss = _main(losses) if kind == "part" else losses[0]
            is_whole = loss is not None
            if loss is None and len({each.words for each in losses}) > 1:
                loss = losses[0]
            if loss is None or not _is_training(text, values, loss):
                return None
            behind = values.index(loss) + 1
            is_evaluated = "evaluation" in kinds[behind : behind + 1]
            return loss, is_evaluated and b"=" not in text[loss.start - 2 : loss.start], is_whole
    return None


def _main(parts: Sequence[Value]) -> Value | None:
    """Return the one of several losses that alone is a model's own; None if more could be."""
    if len({part.words for part in parts}) == 1:
        return parts[0] if words_meaning("partial").isdisjoint(parts[0].words) else None
    main = [part for part in parts if words_meaning("auxiliary").isdisjoint(part.words)]
    return main[0] if len({part.words for part in main}) == 1 else None


def _is_figure(text: bytes, value: Value) -> bool:
    """Whether a number can be a loss: no place, no percentage, nothing with a unit behind it."""
    return not value.is_place and _NEUTRAL_UNIT.match(text, value.end) is not None


def _is_training(text: bytes, values: Sequence[Value], loss: Value) -> bool:
    """Whether nothing before a loss, or right behind it, says that it is an evaluation's."""
    if _EVALUATED_BEHIND.match(text, loss.end):
        return False
    start = 0
    if not words_meaning("train").isdisjoint(loss.words):
        if tag := _BEST_TAG.match(text):
            start = tag.end()
        for value in values:
            if value.end < loss.start and not words_meaning("evaluated").isdisjoint(value.words):
                text = text[: value.name_start].ljust(value.end) + text[value.end :]
    return _evaluation().search(text, start, max(start, loss.name_start)) is None


def _choose_count(text: bytes, values: Sequence[Value], kind: str, start: int) -> Value | None:
    """Return the number of the step or the epoch by its name, the best-known first.

    `start` is where the line's own words begin.
    """
    order = read_catalogue().orders[kind]
    named = [
        value
        for value in values
        if _counts(value, kind, is_first=value.is_first or value.name_start <= start)
        and (
            COUNT.match(text[value.start : value.end])
            or (kind == "epoch" and b"-" not in text[value.start : value.end])
        )
    ]
    return min(named, key=lambda value: _rank(value, order), default=None)


def _rank(value: Value, order: Sequence[bytes]) -> tuple[bool, int]:
    places = (place for place, word in enumerate(order) if word in value.words)
    return b"global" not in value.words, next(places, len(order))


def _choose_place(
    text: bytes, values: Sequence[Value], epoch: Value | None, loss: Value, start: int
) -> tuple[Value | None, Value | None]:
    """Return step and epoch of a line that does not name its step: the last two places before the loss.

    A place right before the epoch's name only repeats the epoch, unless that stands in brackets.
    """
    for place, value in reversed(list(enumerate(values))):
        if value.end > loss.start or not value.is_place or value is epoch or _counts(value, "epoch"):
            continue
        before = values[place - 1] if place and value.follows else None
        if not (value.leads or (before is not None and (before is epoch or before.leads))):
            continue
        if not (value.is_tagged or words_meaning("neutral").issuperset(value.words)):
            continue
        if _BAR_OF_EPOCHS.search(text):
            return None, value
        after = values[place + 1] if place + 1 < len(values) else None
        if after is not None and after is epoch and not after.is_place:
            if text[after.name_start - 1 : after.name_start] not in (b"(", b"["):
                return None, epoch
            before = None
        is_epoch = epoch is None and before is not None and (before.is_place or before.leads)
        return value, before if is_epoch else epoch
    return (None, epoch) if epoch is not None else _choose_nameless(text, values, loss, start)


def _begins_with_places(values: Sequence[Value]) -> bool:
    """Whether two places stand first, the epoch's and the one in it: `[3/10][20/391]`."""
    return (
        len(values) > 1
        and all(value.is_place and words_meaning("neutral").issuperset(value.words) for value in values[:2])
        and values[0].leads
        and values[1].follows
    )


def _choose_nameless(
    text: bytes, values: Sequence[Value], loss: Value, start: int
) -> tuple[Value | None, Value | None]:
    """Return step and epoch of a line that begins with one or two numbers that nothing names.

    One alone must stand in brackets, or right before the loss; two must do both or the latter.
    """
    first, second = (*values, None, None)[:2]
    if first is None or not first.leads or first.end > loss.start:
        return None, None
    if first.name_start >= start and not words_meaning("neutral").issuperset(first.words):
        return None, None
    gap = text[first.end : loss.name_start]
    if first.words == (b"train",) and gap.startswith((b",", b":", b";", b"|")):
        return None, first
    if second is not None and second.follows and not second.words and second.end < loss.start:
        return (second, first) if _BEFORE_LOSS.fullmatch(text, second.end, loss.name_start) else (None, None)
    lead = text[max(0, first.start - _PADDED) : first.start]
    is_padded = b"[ " in lead or first.end - first.start >= _DIGITS_OF_STEP
    is_step = (b"[" in lead and gap.startswith(b"]") and (is_padded or _BAR_BEHIND.match(gap))) or (
        text[loss.start - 1 : loss.start] != b"=" and _BEFORE_LOSS.fullmatch(gap)
    )
    if (
        is_step
        and b"train" in text[first.end : loss.start].lower()
        and b"/" not in text[loss.name_start : loss.start]
    ):
        return None, first
    return (first, None) if is_step else (None, None)
