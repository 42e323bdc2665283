"""Find the step and the epoch of a line, by their names or their positions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui.logs.dialects.catalogue_files import read_catalogue
from tui.logs.dialects.grammar.line_values import COUNT, Value, words_meaning

_BEFORE_LOSS = re.compile(rb"[^\w\n=]{1,6}(?:(?i:train(?:ing)?)[^\w\n]{0,3})?")
_BEHIND_LOSS = re.compile(rb"\s{0,4}[\[(]\s{0,12}\d{1,12} ?/ ?\s{0,12}\d{1,12} ?[\])]\s{0,8}$")
"""A step with its total in brackets behind the loss, at the end of the line: `loss: 0.5  [ 6400/60000]`."""
_BAR_BEHIND = re.compile(rb"\] {0,4}\|")
_PADDED = 12
"""Most bytes between a nameless step and its opening bracket: `[    100]`."""
_DIGITS_OF_EPOCH = 5
"""Most digits of a nameless epoch; a longer number may be a time."""
_DIGITS_OF_STEP = 3
"""Fewest digits of a nameless step in brackets; a shorter number may be a process, or an epoch."""
_BAR_OF_EPOCHS = re.compile(rb"s/epoch|epochs?/s")


def is_count(value: Value, kind: str, *, is_first: bool = False) -> bool:
    """Return whether a number is named as a step or an epoch; `is_first` if the name begins the line's text."""
    words = list(value.words)
    while len(words) > 1 and words[-1] in words_meaning("behind"):
        words.pop()
    if not words or words[-1] not in words_meaning(kind) or not words_meaning("loss").isdisjoint(words):
        return False
    is_plural = words[-1][-1:] == b"s" and words[-1][:-1] in words_meaning(kind)
    if is_plural and kind == "epoch" and (len(words) > 1 or value.name_start > 0):
        return False
    is_whole_name = len(words[-1]) > 1 and words_meaning("neutral").issuperset(value.words[:-1])
    if len(words[-1]) <= _SHORT and not (value.has_sign or value.is_place or is_whole_name):
        return False
    others = set(words[:-1]) - words_meaning("neutral", "counting")
    is_foreign = not words_meaning("no_count", "evaluated").isdisjoint(others)
    return not others or (is_first and len(others) <= _MOST_OWN_WORDS and not is_foreign)


def is_of_no_record(value: Value) -> bool:
    """Return whether a number is a step or epoch of another event: `early stopping at step 12`."""
    is_named = value.words != () and value.words[-1] in words_meaning("step", "epoch")
    return is_named and not words_meaning("no_count").isdisjoint(value.words)


_MOST_OWN_WORDS = 4
"""Most unknown words before a step: `SimCLR SupCon Step 20`."""

_SHORT = 2
"""Letters of names that are also English words: behind other words they need a sign (`make it: 5`)."""


def choose_count(text: bytes, values: Sequence[Value], kind: str, start: int) -> Value | None:
    """Return the step or the epoch of a line by its name, preferring the best-known name.

    The line's own text begins at `start`.
    """
    order = read_catalogue().orders[kind]
    named = [
        value
        for value in values
        if is_count(value, kind, is_first=value.is_first or value.name_start <= start)
        and (
            COUNT.match(text[value.start : value.end])
            or (kind == "epoch" and b"-" not in text[value.start : value.end])
        )
    ]
    return min(named, key=lambda value: _rank(value, order), default=None)


def _rank(value: Value, order: Sequence[bytes]) -> tuple[bool, int]:
    indices = (index for index, word in enumerate(order) if word in value.words)
    return b"global" not in value.words, next(indices, len(order))


def choose_place(
    text: bytes, values: Sequence[Value], epoch: Value | None, loss: Value, start: int
) -> tuple[Value | None, Value | None]:
    """Return step and epoch of a line that does not name its step: the last two numbers with a total before the loss.

    A place in brackets right behind the loss comes first.
    Such a number right before the name of the epoch only repeats the epoch if both have the same number of digits.
    """
    if _BEHIND_LOSS.match(text, loss.end):
        return next(value for value in values if value.start > loss.end), epoch
    for index, value in reversed(list(enumerate(values))):
        if value.end > loss.start or not value.is_place or value is epoch or is_count(value, "epoch"):
            continue
        before = (
            values[index - 1] if index and value.follows and _may_be_epoch(text, values[index - 1], epoch) else None
        )
        if not (value.leads or (before is not None and (before is epoch or before.leads))):
            continue
        if not (value.is_tagged or words_meaning("neutral").issuperset(value.words)):
            continue
        if _BAR_OF_EPOCHS.search(text):
            return None, value
        after = values[index + 1] if index + 1 < len(values) else None
        if after is not None and after is epoch and not after.is_place:
            is_bracketed = text[after.name_start - 1 : after.name_start] in (b"(", b"[")
            if not is_bracketed and value.end - value.start == epoch.end - epoch.start:
                return None, epoch
            before = None
        is_epoch = epoch is None and before is not None and (before.is_place or before.leads)
        return value, before if is_epoch else epoch
    return (None, epoch) if epoch is not None else _choose_nameless(text, values, loss, start)


def _may_be_epoch(text: bytes, value: Value, epoch: Value | None) -> bool:
    """Return whether a number before a place may be its epoch: it is named so, or small and without a name."""
    if value is epoch:
        return True
    is_named = value.has_sign and not words_meaning("neutral").issuperset(value.words)
    number = text[value.start : value.end]
    return number.isdigit() and len(number) <= _DIGITS_OF_EPOCH and not is_named


def begins_with_places(values: Sequence[Value]) -> bool:
    """Return whether a line begins with two numbers with totals, an epoch and a step in it: `[3/10][20/391]`."""
    return (
        len(values) > 1
        and all(value.is_place and words_meaning("neutral").issuperset(value.words) for value in values[:2])
        and values[0].leads
        and values[1].follows
    )


def _choose_nameless(
    text: bytes, values: Sequence[Value], loss: Value, start: int
) -> tuple[Value | None, Value | None]:
    """Return step and epoch of a line that begins with one or two numbers without names.

    A single number must be in brackets, or right before the loss; two must be right before the loss.
    """
    first, second = (*values, None, None)[:2]
    if first is None or not first.leads or first.end > loss.start:
        return None, None
    is_named = not (first.is_tagged or words_meaning("neutral").issuperset(first.words))
    if first.name_start >= start and is_named:
        return None, None
    gap = text[first.end : loss.name_start]
    if second is not None and second.follows and not second.words and second.end < loss.start:
        return (second, first) if _BEFORE_LOSS.fullmatch(text, second.end, loss.name_start) else (None, None)
    if first.words == (b"train",) and gap.startswith((b",", b":", b";", b"|")):
        return None, first
    lead = text[max(0, first.start - _PADDED) : first.start]
    is_padded = b"[ " in lead or first.end - first.start >= _DIGITS_OF_STEP
    is_step = (b"[" in lead and gap.startswith(b"]") and (is_padded or _BAR_BEHIND.match(gap))) or (
        (text[loss.start - 1 : loss.start] != b"=" or gap[:1] == b":") and _BEFORE_LOSS.fullmatch(gap)
    )
    if (
        is_step
        and first.end - first.start < _DIGITS_OF_STEP
        and b"train" in text[first.end : loss.start].lower()
        and b"/" not in text[loss.name_start : loss.start]
    ):
        return None, first
    return (first, None) if is_step else (None, None)
