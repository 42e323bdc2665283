"""Cut a line into numbers and the words before each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from tui.logs.dialects.catalogue_files import read_catalogue

_NO_FIGURES = re.compile(
    rb"^[IWEF]\d{4} {1,2}\d\d:\d\d:\d\d\.\d{1,9} {1,9}\d{1,20} [\w.]{1,80}:\d{1,6}\]"  # what glog begins lines with
    rb"|\d{4}[-/.]\d\d[-/.]\d\d(?:[T_ ](?=\d))?|\d{1,4}/\d\d?/\d\d(?:\d\d)?(?![\d/])"  # dates
    rb"|(?<![\d:])\d{1,3}(?::\d\d){1,2}(?:[.,]\d{1,9})?(?![\d:])"  # clocks and spans
    rb"|\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?"  # addresses
    rb"|\d{1,3}(?:\.\d{1,4})?\s?%"  # shares
    rb"|[\w./-]{1,80}\.(?:py|cc|cpp|h5|pth?|ckpt|bin|tar|npz)(?::\d{1,6})?"  # files
)
_GLUED = b"|".join(
    rb"(?<=(?<![\w./-])(?i:%b))" % (word + line)
    for word in (b"epoch", b"ep", b"step", b"iter", b"batch")
    for line in (b"", b"_")
)
_NUMBER = re.compile(
    rb"(?:(?<![\w.])|(?<=loss)|" + _GLUED + rb")[-+]?(?:\d{1,3}(?:,\d{3}){1,4}(?![\d,])(?:\.\d{1,20})?"
    rb"|\d{1,20}(?:\.\d{1,20}|(?!,\d))(?:[eE][-+]?\d{1,3}|[kKM])?|[nN]a[nN]|NAN|[iI]nf(?:inity)?)(?!\w|\.\d)"
)
_NAME = re.compile(
    rb"[A-Za-z_][\w/.@-]{0,60}(?: (?:[A-Za-z_][\w/.@-]{0,60}|\([A-Za-z_]\w{0,20}\))){0,7}"
    rb"(?=(?:[^\w,;\x80-\xff]|\xef\xbc\x9a|\xe2\x86\x92){0,40}$)"
)
_LONGEST_NAME = 160
"""Bytes before a number in which its name is looked for."""
_WORD = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SENTENCE_END = re.compile(rb"(?<=[A-Za-z]{5})\. ")
_OUT_OF = re.compile(rb"\s{0,4}(?:/|of|out of)\s{0,12}$")
_PLACE_LEAD = re.compile(rb"(?:^|[\[(<|]|\xe2[\x94-\x97].|[:>\]-] |rain(?:ing)?[ :]{1,2})\s{0,12}$")
COUNT = re.compile(
    rb"(?:\d{1,12}(?:,\d{3}){0,3}(?:\.0{1,6})?|\d(?:\.\d{1,9})?[eE]\+?\d{1,2}|\d{1,9}(?:\.\d{1,3})?[kKM])$"
)
_TAG = re.compile(rb"\w[\])][\s\[(]{1,16}$")
_COUNTED_STEPS = re.compile(rb" (?:steps|iterations|iters|batches|updates)(?![A-Za-z])")
_SIGN = re.compile(rb"(?:\w[:=#.\[(]|[:=#]) {0,3}$")
_BRACKETS = re.compile(rb"[\s\[\](){}<>,|:.-]{1,40}$")
"""What stands between an epoch and a place in it: `[3][120/391]`."""
_LOSS_ABOVE = re.compile(rb"(?i:loss(?:es)?)[^\w\n]{1,4}$")
"""What names the losses of training and of an evaluation behind it: `Loss: Train 0.5`."""
_LISTED = re.compile(
    rb"([A-Za-z_@]{1,20}(?:([/|])[A-Za-z_@]{1,20})(?:\2[A-Za-z_@]{1,20}){0,6})(?: ([Ll]oss))?\s?[:=]\s{0,4}"
    rb"([-+\d.eE]{1,24}(?:\s{0,4}\2\s{0,4}[-+\d.eE]{1,24}){1,7})"
)
_WITHOUT_QUOTES = bytes.maketrans(b"\"'`", b"   ")
_WRAPPING = re.compile(
    rb"\b(?:[\w.]{0,20}(?:[Tt]ensor|[Aa]rray|float\d\d))\((?:<[^<>\n]{1,60}> )?(?=\[?[-+\w])|(?<=\w)['\"], (?=[-+\d])"
)
"""What stands between a name and its number in Python's own notations: `tensor(0.5)`, `('loss', 0.5)`."""


class Value(NamedTuple):
    """A number in a line: where it stands, and the words before it."""

    start: int
    end: int
    words: tuple[bytes, ...]
    """Of its name, in small letters; none if nothing names it."""
    is_place: bool = False
    """Whether a total follows: `120/1000`."""
    leads: bool = False
    """Whether it stands where a place stands that nothing names: at the line's beginning or in brackets."""
    name_start: int = 0
    """Where its name begins."""
    is_tagged: bool = False
    """Whether what names it is closed in brackets: `[base] 120/500`."""
    has_sign: bool = False
    """Whether a sign parts it from its name: `step: 5`."""
    is_counted: bool = False
    """Whether the word behind says that it counts steps: `120 steps`."""
    follows: bool = False
    """Whether only brackets and the like part it from the number before."""


@cache
def words_meaning(kind: str) -> frozenset[bytes]:
    """Return the words of names that mean something: a `step`, a `loss`, what qualifies one."""
    return read_catalogue().words[kind]


def values_of(text: bytes) -> Iterator[Value]:
    """Yield the numbers of a line with their names, but those of dates, clocks, addresses and files."""
    plain = _NO_FIGURES.sub(_blank, text)
    plain = _WRAPPING.sub(_blank, plain).translate(_WITHOUT_QUOTES)
    yield from _listed(plain)
    plain = _LISTED.sub(lambda match: b";" * len(match[0]), plain)
    numbers = list(_NUMBER.finditer(plain))
    totals = {
        number.start()
        for before, number in pairwise(numbers)
        if _OUT_OF.fullmatch(plain, before.end(), number.start()) and COUNT.match(before[0])
    }
    end, begin = 0, None
    for place, number in enumerate(numbers):
        after = numbers[place + 1] if place + 1 < len(numbers) else None
        begin = number.start() if begin is None else begin
        if after is not None and plain[number.end() : after.start()] == b"-":
            continue
        if number.start() not in totals:
            lead = max(end, begin - _LONGEST_NAME)
            name = _NAME.search(plain[lead:begin])
            words = () if name is None else _words_of(_SENTENCE_END.split(name[0])[-1])
            if (
                name is not None
                and words_meaning("train").issuperset(words)
                and _LOSS_ABOVE.search(plain, end, lead + name.start())
            ):
                words = (*words, b"loss")
            yield Value(
                number.start(),
                number.end(),
                words,
                is_place=after is not None and after.start() in totals,
                leads=_PLACE_LEAD.search(plain, max(0, end - 1), begin) is not None,
                name_start=begin if name is None else lead + name.start(),
                is_tagged=_TAG.search(plain, end, begin) is not None,
                has_sign=_SIGN.search(plain, end, begin) is not None,
                is_counted=_COUNTED_STEPS.match(plain, number.end()) is not None,
                follows=end > 0 and _BRACKETS.match(plain, end, begin) is not None,
            )
        end, begin = number.end(), None


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


def _listed(plain: bytes) -> Iterator[Value]:
    """Yield the numbers of `loss min|avg|max: 0.7|0.9|3.5`, each with its own name."""
    for match in _LISTED.finditer(plain):
        names = match[1].split(match[2])
        places = [(each.start(), each.end()) for each in _NUMBER.finditer(plain, match.start(4), match.end(4))]
        outer = _NAME.search(plain[max(0, match.start() - 60) : match.start()])
        words = () if outer is None else _split(outer[0])[-2:]
        words = (b"loss",) if match[3] else words
        is_loss = any(b"loss" in name.lower() for name in names) or b"loss" in words
        if is_loss and len(names) == len(places):
            for name, (start, end) in zip(names, places, strict=True):
                yield Value(start, end, (*_split(name), *words), name_start=match.start())


@lru_cache(maxsize=1024)
def _words_of(name: bytes) -> tuple[bytes, ...]:
    """Return the words of a name; none of a sentence with a loss in it that is no name: `loss improved from`."""
    parts = [_split(part) for part in name.replace(b"num_updates", b"update").split(b" ")]
    place = next(
        (place for place in reversed(range(len(parts))) if not words_meaning("loss").isdisjoint(parts[place])), None
    )
    if place is not None:
        known = words_meaning("neutral") | words_meaning("mean") | words_meaning("total")
        behind = {word for part in parts[place + 1 :] for word in part}
        before = [part for part in parts[:place] if not known.issuperset(part)]
        if (
            behind & (words_meaning("step") | words_meaning("epoch"))
            or behind - known - words_meaning("no_loss")
            or len(before) > 2
        ):
            return ()
    return tuple(word for part in parts for word in part)


_MOST_QUALIFIERS = 2
"""Words before `loss` that only this program knows; more of them are a sentence."""


@lru_cache(maxsize=1024)
def _split(name: bytes) -> tuple[bytes, ...]:
    """Return the words in what no blank parts: `valLoss`, `val_loss` and `val/loss` have the same."""
    words: list[bytes] = []
    for word in (each.lower() for each in _WORD.findall(name)):
        if word.endswith(b"loss") and word != b"loss" and len(word) < 20:
            words += (word[:-4], b"loss")
        else:
            words.append(word)
    return tuple(words)
