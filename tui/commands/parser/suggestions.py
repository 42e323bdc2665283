"""Words that are no command and no option: what was probably meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence

_ELSEWHERE = {
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


_SHORT = re.compile("-[A-Za-z]")
"""How a short option begins; a number does not."""
_LIKE_ENOUGH = 0.7
"""As difflib counts; less brings up words that have nothing to do with each other."""


def command_meant(word: str, commands: Collection[str]) -> str:
    """The command that was probably meant, by its like or by what other tools call it; empty where none was."""
    usual = _ELSEWHERE.get(word)
    return f"did you mean {usual}?" if usual else word_meant(word, commands)


def word_meant(word: str, choices: Collection[str]) -> str:
    """The choice that looks like this word, as a remedy; empty where none does."""
    from tui.errors import near_matches

    near = near_matches(word, choices, 1, cutoff=_LIKE_ENOUGH)
    return f"did you mean {near[0]}?" if near else ""


def unknown_option(words: Sequence[str], *parsers: argparse.ArgumentParser) -> tuple[str, str] | None:
    """The first option that none of these has, and what was probably meant; an abbreviation is known.

    Options that hold everywhere are not to be abbreviated: they are read before it is known which others there are.
    """
    known = {option: parser.allow_abbrev for parser in parsers for option in parser._option_string_actions}
    for word in words:
        name = word.partition("=")[0]
        if _SHORT.match(word) and word[:2] not in known:
            return word[:2], ""
        if name.startswith("--") and not any(
            option == name or (shortened and option.startswith(name)) for option, shortened in known.items()
        ):
            return name, word_meant(name, known)
    return None


def asked_of(words: Sequence[str], whole: argparse.ArgumentParser) -> argparse.ArgumentParser | None:
    """The parser of the command that these words name, as far down as they do; None for one that there is not."""
    parser = whole
    for word in words:
        below = commands_of(parser)
        if not word.startswith("-") and below:
            if word not in below:
                return None if parser is whole else parser
            parser = below[word]
    return parser


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands right below this one, by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found
