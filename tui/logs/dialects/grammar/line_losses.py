"""Find the training loss of a line, by the name of each number and the text beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from tui.logs.dialects.catalogue_files import expand_parts
from tui.logs.dialects.grammar.line_values import Value, words_meaning

_BEST_TAG = re.compile(rb"[^\w\n]{0,8}(?i:new )?(?i:best)[\]*:! ]{1,4}(?=\w)")
"""A line's beginning that only marks the epoch as the best."""
_EVALUATED_BEHIND = re.compile(
    rb"\s?\(?(?:on|for|in) (?:the )?(?:val|test|dev|eval|held)"
    rb"|.*[(\[](?i:val(?:id(?:at(?:ion|ing|e))?)?|eval(?:uat(?:ion|ing|e))?|test(?:ing)?|dev)(?: set)?[)\]]\W{0,8}$"
)
"""Text after a loss that says that it is an evaluation's."""
_COST_OF_TIME = re.compile(rb" ?(?:m?s|sec(?:ond)?s?|min(?:ute)?s?|h(?:ou)?rs?)(?![A-Za-z])")
"""The unit of a cost that is a duration: `Cost=226 sec`."""
_NEUTRAL_UNIT = re.compile(rb"[ \t]{0,8}(?:$|[^\w%\s]|(?=[A-Za-z_\d+-])(?<=[ \t]))|(?=\s)")


@dataclass(frozen=True, slots=True)
class TrainingLoss:
    """The training loss of a line.

    `is_whole` is False if several parts are printed, but not their sum. `is_before_evaluation` says whether an
    evaluation's loss comes right after it.
    """

    value: Value
    is_whole: bool
    is_before_evaluation: bool


@cache
def evaluation_pattern() -> re.Pattern[bytes]:
    """Return the pattern of words that mean an evaluation, but not in a module's name: `[INFO][test_dist:232]`."""
    return re.compile(expand_parts(rb"(?<![A-Za-z])(?!(?<=\[INFO\]\[)[\w.]{1,60}:\d{1,6}\])(?&EVALUATION)"))


@lru_cache(maxsize=1024)
def loss_kind(words: tuple[bytes, ...]) -> str | None:
    """Return the kind of loss that a name means: `whole`, `total`, `mean`, `part` or `evaluation`; None if none."""
    indices = [
        index
        for index, word in enumerate(words)
        if word in words_meaning("loss") or (word == b"entropy" and words[index - 1 : index] == (b"cross",))
    ]
    if not indices or any(word in words_meaning("no_loss") for word in words[indices[-1] + 1 :]):
        return None
    qualities = {word for index, word in enumerate(words) if index not in indices and word != b"cross"}
    if qualities & words_meaning("evaluated"):
        return "evaluation"
    if len(words) - 1 - indices[-1] > _MOST_BEHIND:
        return None
    is_part = bool(qualities - words_meaning("neutral", "mean", "total"))
    if words[indices[-1]] == b"cost" and (is_part or not qualities.isdisjoint(_PER_BATCH)):
        return None
    if is_part:
        return "part"
    if qualities & words_meaning("mean"):
        return "mean"
    return "total" if qualities & words_meaning("total") else "whole"


_PER_BATCH = (b"batch", b"step", b"iter", b"iteration")
"""Words before `cost` that make it a duration."""

_MOST_BEHIND = 3
"""Most words after `loss` in its name: `loss of the batch`."""


def choose_loss(text: bytes, values: Sequence[Value]) -> TrainingLoss | None:
    """Return the training loss; None if it is not certain."""
    by_kind: dict[str, list[Value]] = {}
    kinds = [loss_kind(value.words) for value in values]
    named = any(kind is not None and b"cost" not in value.words for kind, value in zip(kinds, values, strict=True))
    for kind, value in zip(kinds, values, strict=True):
        if kind is not None and _is_figure(text, value) and not (named and b"cost" in value.words):
            by_kind.setdefault(kind, []).append(value)
    for kind in ("total", "whole", "mean", "part"):
        losses = by_kind.get(kind, [])
        if losses:
            loss = _main(losses) if kind == "part" else losses[0]
            is_whole = loss is not None
            if loss is None and len({candidate.words for candidate in losses}) > 1:
                loss = losses[0]
            if loss is None or not _is_training(text, values, loss):
                return None
            behind = values.index(loss) + 1
            is_evaluated = "evaluation" in kinds[behind : behind + 1]
            return TrainingLoss(loss, is_whole, is_evaluated and b"=" not in text[loss.start - 2 : loss.start])
    return None


def _main(parts: Sequence[Value]) -> Value | None:
    """Return the only one of several losses that can be the model's; None if several can."""
    if len({part.words for part in parts}) == 1:
        return parts[0] if words_meaning("partial").isdisjoint(parts[0].words) else None
    main = [part for part in parts if words_meaning("auxiliary").isdisjoint(part.words)]
    return main[0] if len({part.words for part in main}) == 1 else None


def _is_figure(text: bytes, value: Value) -> bool:
    """Return whether a number can be a loss: it has no total, no per cent sign and no unit."""
    if b"cost" in value.words and _COST_OF_TIME.match(text, value.end):
        return False
    return not value.is_place and _NEUTRAL_UNIT.match(text, value.end) is not None


def _is_training(text: bytes, values: Sequence[Value], loss: Value) -> bool:
    """Return whether no text before a loss or right after it says that it is an evaluation's."""
    if _EVALUATED_BEHIND.match(text, loss.end):
        return False
    start = 0
    if not words_meaning("train").isdisjoint(loss.words):
        if tag := _BEST_TAG.match(text):
            start = tag.end()
        for value in values:
            if value.end < loss.start and not words_meaning("evaluated").isdisjoint(value.words):
                text = text[: value.name_start].ljust(value.end) + text[value.end :]
    return evaluation_pattern().search(text, start, max(start, loss.name_start)) is None
