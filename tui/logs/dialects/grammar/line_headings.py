"""Find the epoch in a line without a loss: a heading of the lines below, or a note that the epoch is over."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui.logs.dialects.grammar.line_values import COUNT, Value, without_figures, words_meaning

_RESULT = re.compile(
    rb"(?<![A-Za-z])(?i:map|f\d)(?![A-Za-z])|(?i:loss|acc|cost|err|scor|reward|return|bleu|rouge"
    rb"|ppl|perplex|auc|iou|psnr|ssim|dice|precis|recall|speed|sav|load|resum|skip)|/s|%|\d ?/ ?\d"
)
"""What is printed after an epoch, in the text behind its name."""
_OVER = re.compile(
    rb"(?i:(?<![A-Za-z])(?:end(?:ed)?|over|took|time)(?![A-Za-z])|finish|done|complet|duration|elapsed)|\d{3}%[| ]"
)
"""A word or a full bar that says that an epoch is over."""
_TOTAL = re.compile(rb"[\])]?(?:\s?/\s?|(?: out)? of )[\[(]?\s{0,12}\d{1,9}")
_SOURCE = re.compile(rb" {2,200}[\w.]{1,60}\.py:\d{1,6}$")
"""The place in the program that Rich's logger prints at the right edge."""
_WORD = re.compile(rb"[a-z]{2,}")
_MOST_OTHERS = 4
"""Most unknown words before an epoch: `Task 2 of the model, epoch 3`."""


def choose_heading(text: bytes, values: Sequence[Value]) -> tuple[str, Value] | None:
    """Return the epoch that a line names, and its role: `heading`, or `over` after its end; None if it has none.

    A heading has no figures but settings, such as the learning rate.
    """
    epochs = [value for value in values if _is_named(text, value)]
    if len(epochs) != 1:
        return None
    (epoch,) = epochs
    total = _TOTAL.match(text, epoch.end) if epoch.is_place or text[epoch.end : epoch.end + 1] in b"])" else None
    tail = _SOURCE.sub(b"", text[epoch.end if total is None else total.end() :])
    if _OVER.search(text, epoch.name_start):
        return "over", epoch
    if _RESULT.search(text, epoch.name_start, epoch.start) or _RESULT.search(tail):
        return None
    others = [value for value in values if value is not epoch]
    settings = [value for value in others if not words_meaning("setting").isdisjoint(value.words)]
    if any(not COUNT.match(text[value.start : value.end]) for value in others if value not in settings):
        return None
    begins = not words_meaning("begin", "train").isdisjoint(epoch.words)
    is_alone = words_meaning("beside").issuperset(_WORD.findall(without_figures(tail).lower()))
    return ("heading", epoch) if settings or begins or is_alone else None


def _is_named(text: bytes, value: Value) -> bool:
    """Return whether a number is named as the epoch that begins or is over, not as another one: `from epoch 3`."""
    name = _NAME.search(text, max(0, value.name_start - len(b"a(")), value.start)
    if name is None or not text[value.start : value.end].isdigit() or value.words[-1:] == (b"epochs",):
        return False
    if _COLUMN.search(text, 0, value.name_start):
        return False
    words = value.words
    while words[-1:] and words[-1] in words_meaning("behind"):
        words = words[:-1]
    others = {*words[:-1]}
    unknown = others - words_meaning("neutral", "counting", "begin")
    if others & (words_meaning("no_count", "no_heading") - words_meaning("begin")):
        return False
    if name["key"] is not None:
        return bool(others) and others <= words_meaning("train", "current")
    return len(unknown) <= (_MOST_OTHERS if others.isdisjoint(_PLACES) else 0)


_NAME = re.compile(rb"(?:(?<![A-Za-z])(?!(?<=\d )epoch =)|(?P<key>[A-Za-z][_.(]))(?i:ep(?:o?ch)?)(?![a-z])")
"""The name of an epoch, but not of its size (`1 epoch = 391 batches`).

The key of a setting has letters before it: `max_epoch`, `Namespace(epoch=3`.
"""
_COLUMN = re.compile(rb": {5,40}$")
"""Before a name in a table of results: `summary:       epoch 3`."""
_PLACES = (b"at", b"in", b"on", b"for")
"""Words between an epoch and what happens in it, which must be the training: `learning rate decays at epoch 30`."""
