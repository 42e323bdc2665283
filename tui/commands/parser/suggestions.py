"""Suggestions for mistyped commands and options."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tui.commands.parser.commands import Parser
from tui.errors import near_matches

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
"""Names that other tools use, and the command here."""
_SHORT_OPTION = re.compile("-[A-Za-z]")
"""The beginning of a short option; negative numbers do not match."""
_MIN_SIMILARITY = 0.7
"""Ratio of difflib below which words count as unrelated."""


def suggest_command(word: str, commands: Collection[str]) -> str:
    """Return "did you mean X?" for a similar command or another tool's name of it; empty where there is none."""
    usual = _NAMES_ELSEWHERE.get(word)
    return f"did you mean {usual}?" if usual else suggest(word, commands)


def suggest(word: str, choices: Collection[str]) -> str:
    """Return "did you mean X?" for the most similar choice; empty where none is similar."""
    near = near_matches(word, choices, 1, cutoff=_MIN_SIMILARITY)
    return f"did you mean {near[0]}?" if near else ""


def unknown_option(words: Sequence[str], *parsers: Parser) -> tuple[str, str] | None:
    """Return the first option that none of these parsers has, with a suggestion; abbreviations count as known.

    Global options cannot be abbreviated, because they are parsed before the command's own options are known.
    """
    options = {
        option: parser.allow_abbrev
        for parser in parsers
        for argument in parser.arguments
        for option in argument.option_strings
    }
    for word in words:
        name = word.partition("=")[0]
        if _SHORT_OPTION.match(word) and word[:2] not in options:
            return word[:2], ""
        if name.startswith("--") and not any(
            option == name or (is_abbreviable and option.startswith(name))
            for option, is_abbreviable in options.items()
        ):
            return name, suggest(name, options)
    return None


def find_parser(words: Sequence[str], whole: Parser) -> Parser | None:
    """Return the parser of the command or action that these words name; None for an unknown command."""
    parser = whole
    for word in words:
        if not word.startswith("-") and parser.commands:
            if word not in parser.commands:
                return None if parser is whole else parser
            parser = parser.commands[word]
    return parser
