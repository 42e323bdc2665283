"""Words that are not a command or an option: what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tui.commands.parser.commands import Parser

_NAMES_ELSEWHERE = {
    "kill": "stop",
    "ls": "slices",
    "list": "slices",
    "ps": "runs",
    "run": "launch",
    "ssh": "exec",
    "tail": "logs",
    "top": "cores",
    "version": "--version",
}
"""What other tools call it, and what it is called here."""
_SHORT_OPTION = re.compile("-[A-Za-z]")
"""How a short option begins; a number does not."""
_MIN_SIMILARITY = 0.7
"""As difflib counts; less brings up words that have nothing to do with each other."""


def suggest_command(word: str, commands: Collection[str]) -> str:
    """Return "did you mean" for a command, by its likeness or by what other tools call it; empty for neither."""
    usual = _NAMES_ELSEWHERE.get(word)
    return f"did you mean {usual}?" if usual else suggest(word, commands)


def suggest(word: str, choices: Collection[str]) -> str:
    """Return "did you mean" for the choice that looks like this word; empty where none does."""
    from tui.errors import near_matches

    near = near_matches(word, choices, 1, cutoff=_MIN_SIMILARITY)
    return f"did you mean {near[0]}?" if near else ""


def unknown_option(words: Sequence[str], *parsers: Parser) -> tuple[str, str] | None:
    """Return the first option that none of these parsers has, with a suggestion; an abbreviation is known.

    Global options cannot be abbreviated: they are read before it is known which others there are.
    """
    known = {
        option: parser.allow_abbrev
        for parser in parsers
        for argument in parser.arguments
        for option in argument.option_strings
    }
    for word in words:
        name = word.partition("=")[0]
        if _SHORT_OPTION.match(word) and word[:2] not in known:
            return word[:2], ""
        if name.startswith("--") and not any(
            option == name or (is_abbreviable and option.startswith(name)) for option, is_abbreviable in known.items()
        ):
            return name, suggest(name, known)
    return None


def find_parser(words: Sequence[str], whole: Parser) -> Parser | None:
    """Return the parser of the command that these words name, as far down as they do; None for an unknown one."""
    parser = whole
    for word in words:
        if not word.startswith("-") and parser.commands:
            if word not in parser.commands:
                return None if parser is whole else parser
            parser = parser.commands[word]
    return parser
