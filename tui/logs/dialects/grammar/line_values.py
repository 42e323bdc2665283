"""Cut a line into numbers and the words before each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from tui.logs.dialects.catalogue_files import read_catalogue

_NO_FIGURES = re.compile(
    rb"^[IWEF]\d{4} {1,2}\d\d:\d\d:\d\d\.\d{1,9} {1,9}\d{1,20} [\w.]{1,80}:\d{1,6}\]"  # what glog begins lines with
    rb"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}(?!\d)"
    rb"|(?=\d)(?:\d{4}[-/.]\d\d[-/.]\d\d(?:[T_ ](?=\d))?|\d{1,4}/\d\d?/\d\d(?:\d\d)?(?![\d/])"  # dates
    rb"|(?<![\d:])\d{1,3}(?::\d\d){1,2}(?:[.,]\d{1,9})?(?:Z(?!\w))?(?![\d:])"  # clocks and spans
    rb"|\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?"  # addresses
    rb"|\d{1,3}(?:\.\d{1,4})?\s?%(?:\|[# \d\x80-\xff]{1,400}(?=\|))?)"  # shares, with a bar of them
    rb"|(?<![\w./-])[\w./-]{1,200}\.(?:py|cc|cpp|h5|pth?|ckpt|bin|tar|npz)(?::\d{1,6})?"  # files
)
_GLUED = b"|".join(
    rb"(?<=(?<![\w./-])(?i:%b))" % (word + line)
    for word in (b"epoch", b"ep", b"e", b"step", b"iter", b"iteration", b"batch")
    for line in (b"", b"_")
)
_SUFFIX = re.compile(rb"(?:st|nd|rd|th|m?s|[KMGT]i?B?)\b")
"""What may follow a number directly: the ending of an ordinal, or a unit of time or memory."""
_NUMBER = re.compile(
    rb"(?=[-+\dnNiI])(?:(?<![\w.])|(?<=loss)(?!\d{1,2}[ :=])|"  # most characters are none of these
    + _GLUED
    + rb")(?:(?<![a-z])[-+])?(?:\d{1,3}(?:,\d{3}){1,4}(?![\d,])(?:\.\d{1,20})?"
    rb"|\d{1,20}(?:\.\d{1,20}|(?!,\d))(?:[eE][-+]?\d{1,3}|[kKM])?|[nN]a[nN]|NAN|[iI]nf(?:inity)?)"
    rb"(?!(?!" + _SUFFIX.pattern + rb")\w|\.\d)"
)
_NAME = re.compile(
    rb"[A-Za-z_][\w/.@-]{0,60}(?: (?:[A-Za-z_][\w/.@-]{0,60}|\([A-Za-z_][\w ]{0,30}\))){0,7}"
    rb"(?=(?:[^\w,;\x80-\xff]|\xef\xbc\x9a|\xe2\x86\x92){0,40}$)"
)
_LISTED_NAME = re.compile(rb"(?:^|, )([A-Za-z_][\w/.@-]{0,60}), {0,4}$")
"""A name that a comma separates from its number: `loss_train, 0.658`."""
_EPOCH_BEFORE = re.compile(rb"(?<![A-Za-z])(?i:epoch|ep)[^\w\n]{0,4}$")
_STEP_BEHIND = (b"i",)
"""The name of a step that a dash separates from its epoch, `epoch 4-20`: the least-known one."""
_METRIC = re.compile(rb"(?<![A-Za-z_])(?:name|key|metric|tag) ?[:=] {0,4}([A-Za-z_][\w/.@-]{0,60})")
"""The name of a number that the line calls a value: `name=loss value=0.5`."""
_LONGEST_NAME = 160
"""Bytes before a number that are searched for its name."""
_WORD = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|(?<=[Ll]oss)_?\d{1,2}$")
_SENTENCE_END = re.compile(rb"(?<=[A-Za-z]{5})\. ")
_RATE_UNIT = re.compile(rb" ?[A-Za-z]{1,12}/(?:s|sec|second|step|it|iter|batch)\b(?= [A-Za-z_])")
"""A unit after a number and before the next name: `274.4 samples/s Epoch 3`."""
_OUT_OF = re.compile(rb"\s{0,4}(?:/|of|out of)\s{0,12}$")
_BRACKETED = re.compile(rb"\[(\s{0,12}\d{1,12})\|(\s{0,12}\d{1,12})\]")
"""A number and its total in brackets, with a bar right behind it: `[20|1000]`; `[3 | 20]` is an epoch and a step."""
_PLACE_LEAD = re.compile(rb"(?:^\s{0,60}|[\[(<|]|\xe2[\x94-\x97].|[:>\]-] |(?i:train(?:ing)?|trn)[ :]{1,2})\s{0,12}$")
COUNT = re.compile(
    rb"(?:\d{1,12}(?:,\d{3}){0,3}(?:\.0{1,6})?|\d(?:\.\d{1,9})?[eE]\+?\d{1,2}|\d{1,9}(?:\.\d{1,3})?[kKM])$"
)
_TAG = re.compile(rb"\w[\])]:?[\s\[\]()<]{1,60}$")
_COUNTED = re.compile(
    rb"(?:\s?/\s?\d{1,12})?(?:st|nd|rd|th)? {1,5}([A-Za-z]{2,12})(?![A-Za-z_/]| \d| tim|(?<!s)[ :=#\[(-]{1,3}\d)"
)
"""What a number counts, if that follows it: `120 steps`, `120/391 batches`, `3rd epoch`."""
_LOSS = (b"loss",)
_SEGMENT = re.compile(rb"(?:^|[,;|\t:]|\s-)\s{0,40}$")
"""What separates a number from the text before it, if its name follows: `0.5 loss, 0.001 lr`."""
_SEGMENT_END = re.compile(rb"\s{0,400}(?:$|[,;|\t]|- )")
_LOSS_OF = re.compile(rb"\s?[(\[@]\s?$")
"""What can stand between the name of a loss and its step: `loss (step 3): 0.5`."""
_ASIDE = re.compile(rb"((?i:loss) )?\(([^()\n]{0,40})\) ?")
_SIGN = re.compile(rb"(?:(?:\w[:=#.\[(]|[:=#]) {0,3}|[A-Za-z]_?)$")
_BRACKETS = re.compile(rb"[\s\[\](){}<>,|:.-]{1,40}$")
"""What can stand between an epoch and a step in it: `[3][120/391]`."""
_LOSS_ABOVE = re.compile(rb"(?i:loss(?:es)?)[^\w\n]{1,40}$")
"""The name of the losses of several kinds that follow: `Loss: Train 0.5`, `loss   --- train: 0.5`."""
_LISTED = re.compile(
    rb"(?!(?i:train|val|valid|eval|test|dev)/\w{0,20}loss)"
    rb"([A-Za-z_@]{1,20}(?:([/|])[A-Za-z_@]{1,20})(?:\2[A-Za-z_@]{1,20}){0,6})(?: ([Ll]oss|[Cc]ost))?"
    rb"\s?[\s:=\])][\s\[(]{0,4}([-+\d.eE]{1,24}(?:\s{0,4}\2\s{0,4}[-+\d.eE]{1,24}){1,7})"
)
_ALTERNATIVES = re.compile(rb"[A-Za-z_@][/|][A-Za-z_@]")
"""What every list of names holds."""
_MARKS = re.compile(rb"[\"'`(]")
_WITHOUT_QUOTES = bytes.maketrans(b"\"'`", b"   ")
_WRAPPING = re.compile(
    rb"\b(?:[\w.]{0,20}(?:[Tt]ensor|[Aa]rray|float\d\d))\((?:<[^<>\n]{1,60}> )?(?=\[?[-+\w])|(?<=\w)['\"], (?=[-+\d])"
)
"""What stands between a name and its number in Python's notations: `tensor(0.5)`, `('loss', 0.5)`."""


class Value(NamedTuple):
    """A number in a line: its position, and the words of its name."""

    start: int
    end: int
    words: tuple[bytes, ...]
    """The words of its name in lower case; none without a name."""
    is_place: bool = False
    """Whether a total follows: `120/1000`."""
    leads: bool = False
    """Whether it stands where a step without a name can stand: at the line's beginning or in brackets."""
    name_start: int = 0
    """Where its name begins."""
    is_tagged: bool = False
    """Whether its name is enclosed in brackets: `[base] 120/500`."""
    has_sign: bool = False
    """Whether a sign separates it from its name, or its name follows: `step: 5`, `5 steps`."""
    is_first: bool = False
    """Whether it is the first number of the line."""
    follows: bool = False
    """Whether only brackets and the like separate it from the number before."""


@cache
def words_meaning(*kinds: str) -> frozenset[bytes]:
    """Return the words of names that mean a `step`, a `loss` or something else in the catalogue's `[words]`."""
    return frozenset(word for kind in kinds for word in read_catalogue().orders[kind])


@cache
def _foreign() -> re.Pattern[bytes]:
    words = sorted(read_catalogue().translations, key=len, reverse=True)
    # Without a lookbehind in front, `re` skips to the first bytes of the words.
    return re.compile(b"(" + b"|".join(words) + rb")(?:[\xd0\xd1][\x80-\xbf]){0,12}(?![A-Za-z])")


def translate(text: bytes) -> bytes:
    """Return a line with its foreign words replaced by English ones, without changing its length in bytes."""
    return _foreign().sub(_in_english, text)


def _in_english(match: re.Match[bytes]) -> bytes:
    if match.string[max(0, match.start() - 1) : match.start()].isalpha():
        return match[0]
    english, size = read_catalogue().translations[match[1]], len(match[0])
    if english not in _COUNTING:
        return english.ljust(size, b"_")
    english = english if len(english) < size else _SHORTER.get(english, english)
    is_glued = size == _ONE_CHARACTER and match.string[match.start() - 1 : match.start()].isdigit()
    return english.rjust(size) if is_glued else english.ljust(size)


_ONE_CHARACTER = 3
"""Bytes of a Chinese character."""
_COUNTING = (b"step", b"epoch", b"th")
_SHORTER = {b"step": b"it", b"epoch": b"ep"}
"""English words that fit into the three bytes of a character."""


def without_figures(text: bytes) -> bytes:
    """Return a text with blanks instead of dates, clocks, addresses and files."""
    return _NO_FIGURES.sub(_blank, text)


def values_of(text: bytes) -> Iterator[Value]:
    """Yield the numbers of a line with their names, without those of dates, clocks, addresses and files."""
    plain = without_figures(text)
    if _MARKS.search(plain):
        plain = _WRAPPING.sub(_blank, plain).translate(_WITHOUT_QUOTES)
    if listed := list(_LISTED.finditer(plain)) if _ALTERNATIVES.search(plain) else ():
        yield from _listed_values(plain, listed)
        plain = _LISTED.sub(lambda match: b";" * len(match[0]), plain)
    yield from _single(_BRACKETED.sub(rb"[\1/\2]", plain))


def _single(plain: bytes) -> Iterator[Value]:
    """Yield the numbers that stand alone, each with its name."""
    numbers = list(_NUMBER.finditer(plain))
    totals = {
        number.start()
        for before, number in pairwise(numbers)
        if _OUT_OF.fullmatch(plain, before.end(), number.start()) and COUNT.match(before[0])
    }
    end, begin = 0, None
    last_loss: tuple[bytes, ...] = ()
    part: tuple[bytes, ...] = ()
    was_counted, is_sentence, unit_end = False, False, 0
    is_in_epoch = False
    for index, number in enumerate(numbers):
        after = numbers[index + 1] if index + 1 < len(numbers) else None
        begin = number.start() if begin is None else begin
        was_epoch, is_in_epoch = is_in_epoch, False
        if after is not None and plain[number.end() : after.start()] == b"-":
            is_in_epoch = _EPOCH_BEFORE.search(plain, end, begin) is not None
            if not is_in_epoch:
                continue  # a range has the name before its first number
        if number.start() not in totals:
            unit, unit_end = _unit_behind(plain, number.end())
            words, name_start, loss, is_sentence = _name_of(plain, end, begin, unit)
            has_sign = was_epoch or _SIGN.search(plain, end, begin) is not None
            words = _STEP_BEHIND if was_epoch else words
            words = (*part, *words) if part and plain[end:name_start] == b" " else words
            is_numbered = not has_sign and number[0].isdigit() and not words_meaning("partial").isdisjoint(words[-1:])
            part = words[-1:] if is_numbered else ()
            if words and words[-1] in words_meaning("step", "epoch"):
                last_loss = loss or last_loss
            else:
                if (has_sign or words == (b"is",)) and words_meaning("behind").issuperset(words):
                    words = last_loss
                last_loss = ()
            is_place = after is not None and after.start() in totals
            is_loss = unit == _LOSS and b"." in number[0] and _SEGMENT.search(plain, end, begin) is not None
            may_count = is_loss or (bool(unit) and unit != _LOSS and (index == 0 or is_place or was_counted))
            was_counted = may_count and words_meaning("so_far").issuperset(words)
            yield Value(
                number.start(),
                number.end(),
                unit if was_counted else words,
                is_place=is_place,
                leads=_PLACE_LEAD.search(plain, max(0, end - 1), begin) is not None,
                name_start=name_start,
                is_tagged=_TAG.search(plain, end, begin) is not None,
                has_sign=has_sign or was_counted,
                is_first=index == 0,
                follows=end > 0 and _BRACKETS.match(plain, end, begin) is not None,
            )
        suffix = _SUFFIX.match(plain, number.end())
        end, begin = number.end() if suffix is None else suffix.end(), None
        if was_counted or (is_sentence and last_loss):
            end = max(end, unit_end)


def _name_of(
    plain: bytes, end: int, begin: int, unit: tuple[bytes, ...]
) -> tuple[tuple[bytes, ...], int, tuple[bytes, ...], bool]:
    """Return the name of the number at `begin`; the number before ends at `end`.

    The name is its words, where it begins, the words of a loss that it names too (`loss at step`), and whether the
    unit behind the number completes it (`loss after 100 steps`).
    """
    lead = max(end, begin - _LONGEST_NAME)
    name, start = _name_before(plain, lead, begin)
    last = name.rpartition(b" ")[2]
    is_sentence = bool(unit) and last in words_meaning("so_far")
    if last == b"value" and (metric := _METRIC.search(plain)):
        name = metric[1]
    elif is_sentence:
        name = b" ".join((name, *unit))
    loss, words = _words_of(name)
    if words and words_meaning("loss_kind").issuperset(words) and _LOSS_ABOVE.search(plain, end, start):
        words = (*words, b"loss")
    elif words and words[-1] in words_meaning("step", "epoch") and _LOSS_OF.search(plain, lead, start):
        loss = _words_of(_name_before(plain, lead, start)[0])[1]
    return words, start, loss, is_sentence


def _name_before(plain: bytes, start: int, end: int) -> tuple[bytes, int]:
    """Return the name before a number, and where the name begins; without a name, an empty one at `end`."""
    if unit := _RATE_UNIT.match(plain, start):
        start = unit.end()
    between = plain[start:end]
    if name := _NAME.search(between):
        return _SENTENCE_END.split(name[0])[-1], start + name.start()
    if name := _LISTED_NAME.search(between):
        return name[1], start + name.start(1)
    return b"", end


def _unit_behind(plain: bytes, end: int) -> tuple[tuple[bytes, ...], int]:
    """Return the unit of a number and its end if it counts steps or epochs (`120/391 batches`) or is a loss.

    Otherwise there are no words.
    """
    counted = _COUNTED.match(plain, end)
    if counted is None:
        return (), end
    unit = counted[1].lower()
    if unit == b"loss":
        return (_LOSS, counted.end()) if _SEGMENT_END.match(plain, counted.end()) else ((), end)
    unit = unit[:-2] if unit.endswith(b"ches") else unit.removesuffix(b"s")
    is_count = unit in words_meaning("step", "epoch")
    return ((unit,), counted.end()) if is_count else ((), end)


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


def _listed_values(plain: bytes, listed: Iterable[re.Match[bytes]]) -> Iterator[Value]:
    """Yield the numbers of `loss min|avg|max: 0.7|0.9|3.5`, each with its name."""
    for match in listed:
        names = match[1].split(match[2])
        spans = [(number.start(), number.end()) for number in _NUMBER.finditer(plain, match.start(4), match.end(4))]
        outer = _NAME.search(plain[max(0, match.start() - 60) : match.start()])
        words = () if outer is None else _split(outer[0])[-2:]
        words = (b"loss",) if match[3] else words
        is_loss = any(b"loss" in name.lower() for name in names) or b"loss" in words
        own = [_split(name) for name in names]
        if not is_loss:
            words = ()
            counts = words_meaning("step", "epoch", "total")
        if len(names) == len(spans) and (is_loss or all(map(counts.issuperset, own))):
            for name, (start, end) in zip(own, spans, strict=True):
                yield Value(start, end, (*name, *words), name_start=match.start())


@lru_cache(maxsize=1024)
def _words_of(name: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the words of the loss that a name refers to (`loss at step`), if any, and the words of the name.

    Both are empty for a sentence with a loss in it, which is no name: `loss improved from`.
    """
    parts = [_split(part) for part in _ASIDE.sub(_without_aside, name.replace(b"num_updates", b"update")).split(b" ")]
    words = tuple(word for part in parts for word in part)
    indices = [index for index, part in enumerate(parts) if not words_meaning("loss").isdisjoint(part)]
    if not indices:
        return (), words
    known_words = words_meaning("neutral", "mean", "total")
    behind = tuple(word for part in parts[indices[-1] + 1 :] for word in part)
    if (
        len(indices) > _MOST_QUALIFIERS
        or not words_meaning("neutral", "mean", "total", "no_loss").issuperset(behind)
        or len([part for part in parts[: indices[-1]] if not known_words.issuperset(part)]) > _MOST_QUALIFIERS
    ):
        return (), ()
    counts = words_meaning("step", "epoch")
    if counts.isdisjoint(behind):
        return (), words
    loss = words[: -len(behind)]
    is_whole = (known_words | {b"cost"}).issuperset(loss) and not (b"cost" in loss and b"of" in behind)
    is_loss = is_whole and words_meaning("no_loss").isdisjoint(behind)
    return (loss, behind) if is_loss and behind[-1] in counts else ((), ())


def _without_aside(match: re.Match[bytes]) -> bytes:
    """Return what is left of a name without its text in brackets, but with an evaluation's: `loss (val)`."""
    is_evaluated = match[1] and not words_meaning("evaluated").isdisjoint(_split(match[2]))
    return match[1] + match[2] + b" " if is_evaluated else match[1] or b""


_MOST_QUALIFIERS = 2
"""Most unknown words before `loss`; more of them are a sentence."""


@lru_cache(maxsize=1024)
def _split(name: bytes) -> tuple[bytes, ...]:
    """Return the words of a text without blanks: `valLoss`, `val_loss` and `val/loss` have the same words."""
    words: list[bytes] = []
    for word in (word.lower() for word in _WORD.findall(name)):
        if word.endswith(b"loss") and word != b"loss" and len(word) < 20:
            words += (word[:-4], b"loss")
        else:
            words.append(word)
    return tuple(words)
