"""`config show`: print every setting with its meaning and its source."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output

if TYPE_CHECKING:
    from tui.operator import Operator

BEYOND_PROFILES = {
    "home": "directory of runs, profiles and accepted host keys",
    "profile": "name of the saved settings in use",
    "account": "account that gcloud is logged in with",
}
"""The meaning of settings that are not part of a profile."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    config = commands.add("config", help="show every setting, its meaning and its source")
    show = commands.actions_of(config).add("show", help="show every setting, its meaning and its source")
    show.set_defaults(run=show_config)


async def show_config(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print each setting with its value, source and meaning."""
    from tui.settings.fields import FIELDS

    meanings = BEYOND_PROFILES | {field.name: field.meaning for field in FIELDS}
    settings = [
        (setting.name, _plain(setting.value), setting.origin, meanings.get(setting.name))
        for setting in operator.settings.origins.values()
    ]
    if out.as_json:
        names = ("name", "value", "origin", "meaning")
        out.document([dict(zip(names, setting, strict=True)) for setting in settings])
    else:
        rows = [(name, _in_words(value), origin, meaning) for name, value, origin, meaning in settings]
        out.table(("setting", "value", "from", "meaning"), rows)
    return 0


def _in_words(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(item)}" for name, item in value.items()) or None
    return (", ".join(value) or None) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)
