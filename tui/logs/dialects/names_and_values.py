"""The general grammar of names and values: what a homemade line says by the words before its numbers.

A line is cut into numbers and the words before each of them. The words of a name decide what its number is; which
words those are stands in the catalogue (`[words]` of grammar.toml).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from tui.logs.dialects.catalogue_files import expand_parts, read_catalogue

_NO_FIGURES = re.compile(
    rb"\d{4}[-/.]\d\d[-/.]\d\d(?:[T_ ](?=\d))?|\d{1,4}/\d\d?/\d\d(?:\d\d)?(?![\d/])"  # dates
    rb"|(?<![\d:])\d{1,3}(?::\d\d){1,2}(?:[.,]\d{1,9})?(?![\d:])"  # clocks and spans
    rb"|\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?"  # addresses
    rb"|[\w./-]{1,80}\.(?:py|cc|cpp|h5|pth?|ckpt|bin|tar|npz)(?::\d{1,6})?"  # files
)
_NUMBER = re.compile(
    rb"(?:(?<![\w.])|(?<=(?<!\d)[sS]))[-+]?(?:\d{1,3}(?:,\d{3}){1,4}(?![\d,])(?:\.\d{1,20})?|\d{1,20}(?:\.\d{0,20})?"
    rb"(?:[eE][-+]?\d{1,3})?|[nN]a[nN]|NAN|[iI]nf(?:inity)?)(?!\w|\.\d)"
)
_NAME = re.compile(rb"[A-Za-z_][\w/.@-]{0,60}(?: (?:[A-Za-z_][\w/.@-]{0,60}|\([A-Za-z_]\w{0,20}\))){0,7}(?=(?:[^\w,;\x80-\xff]|\xef\xbc\x9a|\xe2\x86\x92){0,40}$)")
_WORD = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SENTENCE_END = re.compile(rb"(?<=[A-Za-z]{5})\. ")
_OUT_OF = re.compile(rb"\s{0,4}(?:/|of|out of)\s{0,12}$")
_PLACE_LEAD = re.compile(rb"(?:^|[\[(<|]|[:>\]-] |\brain(?:ing)?[ :]{1,2})\s{0,12}$")
_COUNT = re.compile(rb"\d{1,12}(?:,\d{3}){0,3}(?:\.0{1,6})?$")
_MENTIONS_LOSS = re.compile(rb"(?!.*(?:train_|_)runtime)(?=.*(?i:loss|cost|xent|entropy))")
_BEST_TAG = re.compile(rb"[^\w\n]{0,8}(?i:new )?(?i:best)[\]*:! ]{1,4}(?=\w)")
"""A line's beginning that only praises the epoch."""
_LISTED = re.compile(
    rb"([A-Za-z_@]{1,20}(?:([/|])[A-Za-z_@]{1,20})(?:\2[A-Za-z_@]{1,20}){0,6})\s?[:=]\s{0,4}"
    rb"([-+\d.eE]{1,24}(?:\s{0,4}\2\s{0,4}[-+\d.eE]{1,24}){1,7})"
)
_NO_RECORD = re.compile(
    rb".*[\w)] ?[:=]\s{0,4}$|.*(?:Error|Exception|Warning)\b|.*\b(?i:nan|inf)\b.{0,20}\b(?:at|in|detected|found)\b"
    rb"|.*\{.*train_loss.*epoch.{1,4}\d{1,9}\."
)
"""A line that was cut off behind a name; what an error or a check says; Transformers' summary of the whole run."""
_EVALUATED_BEHIND = re.compile(rb"\s?\(?(?:on|for|in) (?:the )?(?:val|test|dev|eval|held)")
_NEUTRAL_UNIT = re.compile(rb"[ \t]{0,8}(?:$|[^\w%\s]|(?=[A-Za-z_\d+-])(?<=[ \t]))|(?=\s)")


@dataclass(frozen=True, slots=True)
class Value:
    """A number in a line: where it stands, and the words before it."""

    start: int
    end: int
    words: tuple[bytes, ...]
    """Of its name, in small letters; none if nothing names it."""
    is_place: bool = False
    """Whether a total follows: `120/1000`."""
    leads: bool = False
    """Whether it stands where a place stands that nothing names: at the line's beginning or in brackets."""


@dataclass(frozen=True, slots=True)
class LineReading:
    """What a line says of a training step: a match of the grammar (see `LineMatch`)."""

    role: str
    """`step`, `epoch`, or `both` for an evaluation's loss beside training's."""
    text: bytes
    spans: Mapping[str, tuple[int, int]]
    re: LineReading = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "re", self)

    @property
    def groupindex(self) -> Iterable[str]:
        """Return the names of the groups."""
        return self.spans

    def __getitem__(self, group: str) -> bytes:
        """Return the text of a group."""
        start, end = self.spans[group]
        return self.text[start:end]

    def start(self) -> int:
        """Return where the line begins."""
        return 0

    def span(self, group: str) -> tuple[int, int]:
        """Return where a group begins and ends."""
        return self.spans[group]


class NamesAndValues:
    """A pattern that matches lines of one role by the grammar (see `LinePattern`)."""

    def __init__(self, role: str) -> None:
        self._role = role

    def finditer(self, text: bytes, start: int = 0) -> Iterable[LineReading]:
        """Return what the line says if that is of this role."""
        reading = read_line(text) if not start else None
        return (reading,) if reading is not None and reading.role == self._role else ()


@lru_cache(maxsize=16)
def read_line(text: bytes) -> LineReading | None:
    """Return what a line says of a training step; None if it says nothing, or does not say whose loss it prints."""
    head = _head().match(text) if _MENTIONS_LOSS.match(text) else None
    if head is None or _NO_RECORD.match(text):
        return None
    values = list(_values(text))
    chosen = _choose_loss(text, values)
    if chosen is None:
        return None
    loss, has_evaluated = chosen
    before = [value for value in values if value is not loss]
    epoch = next((value for value in before if _counts(value, "epoch")), None)
    step = _choose_step(text, before, epoch, loss)
    if step is None and epoch is None:
        return None
    spans = {name: head.span(name) for name in head.re.groupindex if head[name] is not None}
    spans["loss"] = loss.start, loss.end
    for name, value in (("step", step), ("epoch", epoch)):
        if value is not None:
            whole = text[value.start : value.end].partition(b".")[0]
            spans[name] = value.start, value.start + len(whole)
    role = "epoch" if step is None else "both" if has_evaluated and "rate" not in spans else "step"
    return LineReading(role, text, spans)


@cache
def _head() -> re.Pattern[bytes]:
    """Return the pattern of what the other dialects read, too: rates, ranks and workers."""
    rank = b"(?=(?:(?&ANY){0,60}?(?&NAMED_RANK))?)(?&BEGINS_WITH_WORKER)(?&RATED)"
    return re.compile(expand_parts(b"(?&LOG_LINE)" + rank))


@cache
def _evaluation() -> re.Pattern[bytes]:
    return re.compile(expand_parts(b"(?<![A-Za-z])(?&EVALUATION)"))


@cache
def _words(kind: str) -> frozenset[bytes]:
    return read_catalogue().words[kind]


def _values(text: bytes) -> Iterator[Value]:
    """Yield the numbers of a line with their names, but those of dates, clocks, addresses and files."""
    plain = _NO_FIGURES.sub(lambda match: b" " * len(match[0]), text).translate(_WITHOUT_QUOTES)
    yield from _listed(plain)
    plain = _LISTED.sub(lambda match: b";" * len(match[0]), plain)
    end = 0
    matches = list(_NUMBER.finditer(plain))
    totals = {match.start() for before, match in zip(matches, matches[1:], strict=False) if _OUT_OF.fullmatch(
        plain, before.end(), match.start())}
    for place, match in enumerate(matches):
        start = match.start()
        if start not in totals:
            is_place = place + 1 < len(matches) and matches[place + 1].start() in totals
            leads = _PLACE_LEAD.search(plain, max(0, end - 1) if end else 0, start) is not None
            yield Value(start, match.end(), _name(plain[end:start]), is_place, leads)
        end = match.end()


_WITHOUT_QUOTES = bytes.maketrans(b"\"'`", b"   ")


def _listed(plain: bytes) -> Iterator[Value]:
    """Yield the numbers of `loss min|avg|max: 0.7|0.9|3.5`, each with its own name."""
    for match in _LISTED.finditer(plain):
        names = match[1].split(match[2])
        places = [(each.start(), each.end()) for each in _NUMBER.finditer(plain, match.start(3), match.end(3))]
        outer = _name(plain[max(0, match.start() - 60) : match.start()])[-2:]
        if len(names) == len(places):
            for name, (start, end) in zip(names, places, strict=True):
                yield Value(start, end, (*_split(name), *outer))


def _name(gap: bytes) -> tuple[bytes, ...]:
    """Return the words of the name at the end of what stands before a number."""
    match = _NAME.search(gap)
    return () if match is None else _words_of(_SENTENCE_END.split(match[0])[-1])


@lru_cache(maxsize=1024)
def _words_of(name: bytes) -> tuple[bytes, ...]:
    """Return the words of a name; none of a sentence with a loss in it that is no name: `loss improved from`."""
    parts = [_split(part) for part in name.split(b" ")]
    place = next((place for place in reversed(range(len(parts))) if not _words("loss").isdisjoint(parts[place])), None)
    if place is not None:
        known = _words("neutral") | _words("mean") | _words("total")
        behind = {word for part in parts[place + 1 :] for word in part}
        before = [part for part in parts[:place] if not known.issuperset(part)]
        if behind & (_words("step") | _words("epoch")) or behind - known - _words("no_loss") or len(before) > 2:
            return ()
    return tuple(word for part in parts for word in part)


@lru_cache(maxsize=1024)
def _split(name: bytes) -> tuple[bytes, ...]:
    """Return the words in what no blank parts: `valLoss`, `val_loss` and `val/loss` have the same."""
    words: list[bytes] = []
    for word in (each.lower() for each in _WORD.findall(name)):
        if word.endswith(b"loss") and b"loss" != word and len(word) < 20:
            words += (word[:-4], b"loss")
        else:
            words.append(word)
    return tuple(words)


def _counts(value: Value, kind: str) -> bool:
    """Whether a number is a step or an epoch by its name."""
    words = value.words
    if not words or words[-1] not in _words(kind) or (len(words) > 1 and words[-1].endswith(b"s")):
        return False
    return all(word in _words("neutral") or word in _words(kind) for word in words[:-1])


def _loss_kind(words: Sequence[bytes]) -> str | None:
    """Return what kind of loss a name means: `whole`, its `mean`, a `part`, one of an `evaluation`; None if none."""
    places = [place for place, word in enumerate(words) if word in _words("loss")]
    if not places or any(word in _words("no_loss") for word in words[places[-1] + 1 :]):
        return None
    qualities = {word for place, word in enumerate(words) if place not in places}
    if qualities & _words("evaluated"):
        return "evaluation"
    if len(words) - 1 - places[-1] > _MOST_BEHIND:
        return None
    is_part = bool(qualities - _words("neutral") - _words("mean") - _words("total"))
    if words[places[-1]] == b"cost" and (is_part or not qualities.isdisjoint(_PER_BATCH)):
        return None
    if is_part:
        return "part"
    if qualities & _words("total"):
        return "total"
    return "mean" if qualities & _words("mean") else "whole"


_PER_BATCH = (b"batch", b"step", b"iter", b"iteration", b"train")
"""Before `cost` they mean how long something takes."""

_MOST_BEHIND = 3
"""Words behind `loss` in its name: `loss of the batch`."""


def _choose_loss(text: bytes, values: Sequence[Value]) -> tuple[Value, bool] | None:
    """Return the training loss, and whether an evaluation's stands beside it; None if it is not certain."""
    found: dict[str, list[Value]] = {}
    for value in values:
        kind = _loss_kind(value.words)
        if kind is not None and _is_figure(text, value):
            found.setdefault(kind, []).append(value)
    for kind in ("total", "whole", "mean", "part"):
        losses = found.get(kind, [])
        if losses:
            loss = _main(losses) if kind == "part" else losses[0]
            if loss is None or not _is_training(text, loss):
                return None
            return loss, "evaluation" in found
    return None


def _main(parts: Sequence[Value]) -> Value | None:
    """Return the one of several losses that alone is a model's own; None if more could be."""
    if len({part.words for part in parts}) == 1:
        return parts[0] if _words("partial").isdisjoint(parts[0].words) else None
    main = [part for part in parts if _words("auxiliary").isdisjoint(part.words)]
    return main[0] if len({part.words for part in main}) == 1 else None


def _is_figure(text: bytes, value: Value) -> bool:
    """Whether a number can be a loss: no place, no percentage, nothing with a unit behind it."""
    return not value.is_place and _NEUTRAL_UNIT.match(text, value.end) is not None


def _is_training(text: bytes, loss: Value) -> bool:
    """Whether nothing before a loss, or right behind it, says that it is an evaluation's."""
    if _EVALUATED_BEHIND.match(text, loss.end):
        return False
    start = 0
    if not _words("train").isdisjoint(loss.words) and (tag := _BEST_TAG.match(text)):
        start = tag.end()
    return _evaluation().search(text, start, loss.start) is None


def _choose_step(text: bytes, values: Sequence[Value], epoch: Value | None, loss: Value) -> Value | None:
    """Return the number of the step: by its name, the best-known first, else a place that nothing names."""
    named = [value for value in values if _counts(value, "step") and _COUNT.match(text[value.start : value.end])]
    if named:
        order = read_catalogue().orders["step"]
        return min(named, key=lambda value: order.index(value.words[-1]))
    places = [value for value in values if value.is_place and value.leads and value is not epoch]
    before = [value for value in places if value.end <= loss.start and not _counts(value, "epoch")]
    return before[-1] if before else None
