"""What a user's regular expression could do: whether it can backtrack without end, and what it always holds."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as ops
    from re import _parser as parser
else:
    import sre_constants as ops
    import sre_parse as parser

MANY = 32
"""A repeat that may go on for longer counts as one without end."""

LONGEST_TRIAL = 0.05
"""CPU seconds that a search in one line may take: at ten lines a second more would be felt."""

LONGEST_CHECK = 1.0
"""CPU seconds that all trials of one pattern may take; a search that does not end is broken off then."""

_POSSESSIVE = getattr(ops, "POSSESSIVE_REPEAT", None)
_ATOMIC = getattr(ops, "ATOMIC_GROUP", None)
"""Of Python 3.11 and newer."""

_REPEATS = tuple(op for op in (ops.MAX_REPEAT, ops.MIN_REPEAT, _POSSESSIVE) if op is not None)
_DIGITS = b"0123456789"
_FAILING = b"\x00\x01"
_CANDIDATES = b"a0 =,.:-/_AzZ9\t" + bytes(range(256))


def runs_away(source: bytes, reach: int) -> str | None:
    """Why searching `reach` bytes for the pattern could take too long; None when it does not.

    Endless repeats within repeats are refused as they stand; every other repeat is tried on lines that begin as it
    wants them, go on with what it repeats, and then fail. Outside the main thread nothing can break off a search.
    """
    tree = parsed(source)
    if _nested(tree, False):
        return "a repeat within a repeat, or alternatives within one, can backtrack without end"
    pattern = re.compile(source)
    pump = b""
    try:
        with _broken_off_after(LONGEST_CHECK):
            for lead, pump in pumped(tree, b""):
                if _is_slow(pattern, lead, pump, reach):
                    raise _TooLongError
    except _TooLongError:
        return f"on a line with {pump[:20].decode('latin-1')!r} again and again it takes too long"
    return None


class _TooLongError(Exception):
    """A trial took too long."""


@contextmanager
def _broken_off_after(seconds: float) -> Iterator[None]:
    """Raise _TooLongError in the block after so many seconds of CPU: Python's matcher looks at signals as it goes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: Any) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _is_slow(pattern: re.Pattern[bytes], lead: bytes, pump: bytes, reach: int) -> bool:
    length = 8
    while length <= reach:
        line = (lead + pump * (length // max(1, len(pump))))[-reach:] + _FAILING
        began = time.thread_time()
        for _ in pattern.finditer(line):
            pass
        if time.thread_time() - began > LONGEST_TRIAL:
            return True
        length = length + length // 4 + 1
    return False


def required_text(source: bytes) -> bytes | None:
    """The longest text that every match holds; None when there is none worth looking for."""
    tree = parsed(source)
    if tree.state.flags & re.IGNORECASE:
        return None
    longest = max(_texts(tree), key=len, default=b"")
    return longest if len(longest) > 1 and b"\n" not in longest else None


def is_digit_blind(source: bytes) -> bool:
    """Whether the pattern takes every digit for any other: lines that differ in digits only then match alike."""
    tree = parsed(source)
    return not any(_tells_digits(op, argument, tree) for op, argument in _parts(tree))


def _parts(tree: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for op, argument in tree:
        yield op, argument
        for child in children(op, argument):
            yield from _parts(child)


def _tells_digits(op: Any, argument: Any, tree: Any) -> bool:
    if op is ops.GROUPREF:
        group = next(child[3] for part, child in _parts(tree) if part is ops.SUBPATTERN and child[0] == argument)
        return any(_digits_taken(part, child) for part, child in _parts(group))
    return 0 < _digits_taken(op, argument) < len(_DIGITS)


def _digits_taken(op: Any, argument: Any) -> int:
    """How many of the ten digits one character of a pattern can be."""
    if op is ops.LITERAL:
        return int(argument in _DIGITS)
    if op is ops.NOT_LITERAL:
        return len(_DIGITS) - (argument in _DIGITS)
    if op is ops.IN:
        return sum(_is_in(argument, digit) for digit in _DIGITS)
    return len(_DIGITS) if op in (ops.ANY, ops.GROUPREF) else 0


def parsed(source: bytes) -> Any:
    """The tree that Python's own parser makes of the pattern."""
    return parser.parse(source)  # type: ignore[arg-type]


def _texts(tree: Sequence[Any]) -> Iterator[bytes]:
    run = b""
    for op, argument in tree:
        if op is ops.LITERAL and argument < 256:
            run += bytes([argument])
            continue
        yield run
        run = b""
        if op is ops.SUBPATTERN and not argument[1]:
            yield from _texts(argument[3])
    yield run


def children(op: Any, argument: Any) -> list[Any]:
    """The trees within a part of a tree."""
    if op is ops.SUBPATTERN:
        return [argument[3]]
    if op is ops.BRANCH:
        return list(argument[1])
    if op in _REPEATS:
        return [argument[2]]
    if op is _ATOMIC and op is not None:
        return [argument]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [argument[1]]
    if op is ops.GROUPREF_EXISTS:
        return [part for part in argument[1:] if part is not None]
    return []


def _is_endless(op: Any, argument: Any) -> bool:
    return op in _REPEATS and argument[1] > MANY


def _nested(tree: Sequence[Any], within: bool) -> bool:
    """Whether an endless repeat holds a repeat of any length, or alternatives."""
    for op, argument in tree:
        if within and (op is ops.BRANCH or (op in _REPEATS and argument[0] != argument[1])):
            return True
        if any(_nested(child, within or _is_endless(op, argument)) for child in children(op, argument)):
            return True
    return False


def pumped(tree: Sequence[Any], lead: bytes) -> Iterator[tuple[bytes, bytes]]:
    """For each repeat: text that leads to it, and what it repeats."""
    for op, argument in tree:
        if op in _REPEATS and (_is_endless(op, argument) or (argument[1] > 1 and _varies(argument[2]))):
            pumps = {_example(argument[2]), b"".join(_alternatives(argument[2]))}
            for pump in sorted(pumps - {b""}):
                yield lead, pump
                if lead:
                    yield b"", lead + pump
        for child in children(op, argument):
            yield from pumped(child, lead)
        lead += _example([(op, argument)])


def _varies(tree: Sequence[Any]) -> bool:
    """Whether different texts, or one text in different ways, can match."""
    return any(
        op is ops.BRANCH
        or (op in _REPEATS and argument[0] != argument[1])
        or any(_varies(child) for child in children(op, argument))
        for op, argument in tree
    )


def _alternatives(tree: Sequence[Any]) -> Iterator[bytes]:
    """An example of each of the alternatives that a repeat chooses from."""
    for op, argument in tree:
        if op is ops.BRANCH:
            yield from (_example(branch) for branch in argument[1])
        else:
            for child in children(op, argument):
                yield from _alternatives(child)


def _example(tree: Sequence[Any]) -> bytes:
    """Some text that matches, as far as that is easily made."""
    text = b""
    for op, argument in tree:
        if op is ops.LITERAL:
            text += bytes([argument]) if argument < 256 else b"?"
        elif op in (ops.ANY, ops.NOT_LITERAL):
            text += b"b" if op is ops.NOT_LITERAL and argument == ord("a") else b"a"
        elif op is ops.IN:
            text += next((bytes([octet]) for octet in _CANDIDATES if _is_in(argument, octet)), b"a")
        elif op in _REPEATS:
            text += _example(argument[2]) * min(max(1, argument[0]), 64)
        elif op in (ops.SUBPATTERN, ops.BRANCH, _ATOMIC):
            text += _example(children(op, argument)[0])
    return text


_CATEGORIES = {
    ops.CATEGORY_DIGIT: rb"\d", ops.CATEGORY_NOT_DIGIT: rb"\D", ops.CATEGORY_SPACE: rb"\s",
    ops.CATEGORY_NOT_SPACE: rb"\S", ops.CATEGORY_WORD: rb"\w", ops.CATEGORY_NOT_WORD: rb"\W",
}  # fmt: skip


def _is_in(members: Sequence[Any], octet: int) -> bool:
    found = negated = False
    for op, argument in members:
        if op is ops.NEGATE:
            negated = True
        elif op is ops.LITERAL:
            found |= argument == octet
        elif op is ops.RANGE:
            found |= argument[0] <= octet <= argument[1]
        elif op is ops.CATEGORY and argument in _CATEGORIES:
            found |= re.match(_CATEGORIES[argument], bytes([octet])) is not None
    return found != negated
