"""Shell completion: a script for each shell, and the names that it proposes."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import directory, file
from tui.errors import UsageError
from tui.settings.home import make_private, read_regular, read_user_file
from tui.text.bounded_json import parse_json

if TYPE_CHECKING:
    from tui.commands.parser.commands import Parser
    from tui.pod.creation.zone_offer import ZoneOffer
    from tui.pod.slice import Slice
    from tui.settings import Settings

SHELLS = ("bash", "zsh", "fish")
_NAMES = "tpu-tui completion --list {} --line={} 2>/dev/null"
_LINES = {"bash": '"$COMP_LINE"', "zsh": '"$BUFFER"', "fish": "(commandline | string collect)"}
"""How each shell passes the line being typed, which may name the profile or project whose slices are wanted."""
_FUNCTIONS = {
    "bash": """
{function}() {{
  local name typed=${{1//[\\\\\\"\\']/}}
  while IFS= read -r name; do
    [[ $name == "$typed"* ]] && printf '%q\\n' "$name"
  done < <({names})
  {files}
}}
""",
    "zsh": """
{function}() {{
  local -a found
  found=(${{(f)"$({names})"}})
  compadd -a found
  {files}
}}
""",
    "fish": """
function {function}
  {names}
  {files}
end
""",
}
"""A function for each shell that completes one kind of names when Tab is pressed.

Bash's `compgen -W` would execute a `$(…)` in a name, and names of slices can come from other machines' run records.
"""
_FILES = {"bash": 'compgen -f -- "$1"', "zsh": "_files", "fish": "__fish_complete_path (commandline -ct)"}
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9.@_-]")
_DELETE = "delete"
"""The word after `runs` that runs follow, not a slice."""
_RECENT_RUNS = 20
"""Number of newest runs whose slices are proposed."""


def script(shell: str) -> str:
    """Return the completion script for a shell."""
    import shtab

    from tui.commands.parser.parser import build_parser, global_options

    shared = global_options()
    parser = build_parser(parents=[shared])
    for argument in parser.commands["runs"].arguments:
        if argument.help == argparse.SUPPRESS:
            argument.help = f"only with {_DELETE}"
    for argument in (*shared.arguments, *_arguments(parser)):
        kind = _kind_of(argument)
        if kind == "files":
            argument.complete = shtab.FILE  # type: ignore[attr-defined]
        elif kind == "directories":
            argument.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif kind:
            name = _function(kind)
            argument.complete = {"bash": name, "zsh": name, "fish": f"({name})"}  # type: ignore[attr-defined]
    functions = (
        _FUNCTIONS[shell].format(
            function=_function(kind),
            names=_NAMES.format(kind, _LINES[shell]),
            files=_FILES[shell] if kind == "logs" else "",
        )
        for kind in NAME_KINDS
    )
    return str(shtab.complete(parser, shell, preamble="".join(functions)))


def _function(kind: str) -> str:
    """Return the function's name; `_file` in it makes shtab 1.13 tell bash that it also yields files."""
    return f"_tpu_tui_{kind}_file" if kind == "logs" else f"_tpu_tui_{kind}"


def _arguments(parser: Parser) -> Iterator[argparse.Action]:
    yield from parser.arguments
    for subparser in parser.commands.values():
        yield from _arguments(subparser)


def _kind_of(argument: argparse.Action) -> str:
    """Return the kind of an argument by its metavar and type; empty where nothing can be proposed."""
    metavar = argument.metavar if isinstance(argument.metavar, str) else ""
    if metavar in ("TYPE", "RUNTIME"):
        return "types" if metavar == "TYPE" else "runtimes"
    if "RUN" in metavar:
        return "logs" if "FILE" in metavar else "words" if "SLICE" in metavar else "runs"
    if metavar.startswith("SLICE"):
        return "slices"
    if argument.dest == "profile":
        return "profiles"
    if argument.type is directory:
        return "directories"
    return "files" if metavar == "FILE" or argument.type is file else ""


def list_names(kind: str, given: Mapping[str, Any], line: str) -> Iterator[str]:
    """Yield the names of one of `NAME_KINDS` for the line that is being typed."""
    if kind == "words" and _DELETE in line.split():
        kind = "runs"
    return _LISTS[kind](_settings(given, line))


# ── the names ────────────────────────────────────────────────────────────────────────────────────


def _settings(options: Mapping[str, Any], line: str) -> Settings:
    """Return the settings for the line being typed, without its options while those are incomplete."""
    from tui.commands.parser.parser import flags, global_options
    from tui.settings import load

    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    words = words[: words.index("--")] if "--" in words else words
    with contextlib.suppress(SystemExit, UsageError):
        return load({**options, **flags(global_options().parse_known_args(words)[0])})
    return load(options)


def remember_slices(settings: Settings, slices: Sequence[Slice]) -> None:
    """Save the names of the slices just listed, for completion; a failure is ignored."""
    if settings.hosts:
        return
    counts = Counter(slice_.name for slice_ in slices)
    _remember("slices", (slice_.name if counts[slice_.name] == 1 else slice_.path for slice_ in slices), settings)


def remember_offers(settings: Settings, offers: Iterable[ZoneOffer]) -> None:
    """Save the types and runtime versions just listed, for completion; a failure is ignored."""
    listed = [offer for offer in offers if offer.types]
    _remember("types", {name for offer in listed for name in offer.types}, settings)
    _remember("runtimes", {version for offer in listed for version in offer.versions}, settings)


def _remember(kind: str, names: Iterable[str], settings: Settings) -> None:
    with contextlib.suppress(OSError):
        path = _cache_file(settings, kind)
        make_private(path.parent)
        path.write_text("".join(f"{name}\n" for name in sorted(names)))


def _cache_file(settings: Settings, kind: str) -> Path:
    """Return the file with the names of one kind last listed for this profile and project."""
    owner = _UNSAFE_IN_NAME.sub("-", f"{settings.profile or ''}@{settings.project or ''}")
    return settings.home / "cache" / f"{kind}-{owner}.txt"


def _profiles(settings: Settings) -> Iterator[str]:
    return (path.stem for path in sorted((settings.home / "profiles").glob("*.toml")))


def _runs(settings: Settings) -> Iterator[str]:
    """Yield the IDs of the runs here, newest first."""
    from tui.pod.run import is_run_id

    with contextlib.suppress(OSError):
        names = [path.name for path in settings.runs_home.iterdir() if is_run_id(path.name)]
        yield from sorted(names, key=lambda name: name[-20:], reverse=True)


def _slices(settings: Settings) -> Iterator[str]:
    """Yield the hosts file's slice, or else those of the last listing and of this profile's newest runs."""
    if settings.hosts:
        from tui.operator import slice_name

        yield slice_name(settings.hosts)
        return
    yield from _remembered("slices", settings)
    for run in list(_runs(settings))[:_RECENT_RUNS]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            record = parse_json(read_regular(settings.runs_home / run / "run.json"))
            if record.get("profile") == settings.profile:
                yield str(record["slice"])


def _remembered(kind: str, settings: Settings) -> Iterator[str]:
    """Yield the names of a kind that a command listed last."""
    with contextlib.suppress(OSError, ValueError):
        yield from read_user_file(_cache_file(settings, kind)).decode().split()


def _words(settings: Settings) -> Iterator[str]:
    """Yield what may follow `runs`."""
    yield _DELETE
    yield from _slices(settings)


_LISTS: dict[str, Callable[[Settings], Iterator[str]]] = {
    "runs": _runs,
    "logs": _runs,
    "slices": _slices,
    "types": partial(_remembered, "types"),
    "runtimes": partial(_remembered, "runtimes"),
    "words": _words,
    "profiles": _profiles,
}
NAME_KINDS = tuple(_LISTS)
"""The kinds of names that a script can request."""
