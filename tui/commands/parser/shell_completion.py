"""`completion`: a script that lets a shell complete our command lines, and the names that it asks for."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import directory, file
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.settings.home import make_private
from tui.text.bounded_json import parse_json

if TYPE_CHECKING:
    from tui.pod.slice import Slice
    from tui.settings import Settings

SHELLS = ("bash", "zsh", "fish")
_NAMES = "tpu-tui completion --list {} --line={} 2>/dev/null"
_LINES = {"bash": '"$COMP_LINE"', "zsh": '"$BUFFER"', "fish": "(commandline | string collect)"}
"""The line that is being typed: a profile or project on it says whose slices are meant."""
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
"""A function of each shell that completes one kind of names: asked when Tab is pressed, and not before.

Bash's `compgen -W` would carry out a `$(…)` in a name, and a slice's can come from another machine's record of a run.
"""
_FILES = {"bash": 'compgen -f -- "$1"', "zsh": "_files", "fish": "__fish_complete_path (commandline -ct)"}
_BEYOND_SHTAB = {
    "bash": """
_tpu_tui_line() {
  local -a words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  local current=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} IFS=$' \\t\\n'
  local everywhere="{everywhere}"
  if [[ " ${words[*]} " == *" -- "* ]]; then
    compopt -o filenames 2>/dev/null
    IFS=$'\\n' COMPREPLY=($([[ $last == -- ]] && compgen -c -- "$current"; compgen -f -- "$current"))
    return
  fi
  if [[ $current == = ]]; then
    current=
  elif [[ $last == = ]]; then
    words=("${words[@]:0:COMP_CWORD-1}") last=${COMP_WORDS[COMP_CWORD-2]}
  fi
  local word option= kept=()
  for word in "${words[@]}"; do
    if [[ $word == = || $option ]]; then
      [[ $word == = ]] || option=
    elif [[ " $everywhere " == *" $word "* ]]; then
      option=$word
    else
      kept+=("$word")
    fi
  done
  words=("${kept[@]}" ${option:+"$option"})
  COMP_WORDS=("${words[@]}" "$current") COMP_CWORD=${#words[@]}
  _shtab_tpu_tui "$1" "$current" "$last"
}
complete -o bashdefault -F _tpu_tui_line tpu-tui
""",
    "zsh": """
_tpu_tui_line() {
  local cut=${words[(i)--]}
  (( cut < CURRENT )) || { _shtab_tpu_tui "$@"; return }
  shift $cut words
  (( CURRENT -= cut ))
  _normal
}
compdef _tpu_tui_line tpu-tui
""",
    "fish": """
function _tpu_tui_job
  set -l words (commandline -opc)
  set -l cut (contains -i -- -- $words)
  set -e words[1..$cut]
  complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end
complete -c tpu-tui -n 'contains -- -- (commandline -opc)' -xa '(_tpu_tui_job)'
""",
}
"""What each shell needs beside shtab's: the job behind `--`; in bash `--option=value` too, which it takes apart.

There also options that hold everywhere are left out with their values: shtab 1.13 takes one that is called like a
command, as the profile `local` is, for that command.
"""
_ONE_WORD_ONLY = re.compile(r'"\(\*\)::?')
"""How shtab 1.13 begins what zsh is told of any number of words, and zsh then completes the first only."""
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9.@_-]")
_RECENT_RUNS = 20
"""Runs that are asked for the slices they were on."""


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add this family's parser."""
    completion = commands.add_parser(
        "completion",
        help="a script that lets your shell complete commands, options, runs and slices",
        description="Prints a script for your shell.\n\n"
        "bash: source <(tpu-tui completion bash)     in ~/.bashrc\n"
        'zsh:  eval "$(tpu-tui completion zsh)"      in ~/.zshrc, after compinit\n'
        "fish: tpu-tui completion fish > ~/.config/fish/completions/tpu-tui.fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", metavar="bash|zsh|fish", nargs="?", choices=SHELLS)
    completion.add_argument("--list", choices=tuple(_LISTS), help=argparse.SUPPRESS)
    completion.add_argument("--line", default="", help=argparse.SUPPRESS)
    completion.set_defaults(run_blocking=print_completion)


def print_completion(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Print the shell's script, or for the script the names of one kind, one a line."""
    if args.list:
        for name in dict.fromkeys(_LISTS[args.list](_settings(flags, args.line))):
            out.text(name)
        return 0
    if not args.shell:
        raise UsageError("which shell?", remedy=f"tpu-tui completion {'|'.join(SHELLS)}")
    out.text(script(args.shell))
    return 0


def script(shell: str) -> str:
    """The whole command line as a script of that shell's completion."""
    import shtab

    from tui.commands.parser.parser import everything

    parser = everything()
    for action in _actions(parser):
        complete = _completed_by(action)
        if complete == "files":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif complete == "directories":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif complete:
            name = _function(complete)
            action.complete = {"bash": name, "zsh": name, "fish": f"({name})"}  # type: ignore[attr-defined]
    functions = (
        _FUNCTIONS[shell].format(
            function=_function(kind),
            names=_NAMES.format(kind, _LINES[shell]),
            files=_FILES[shell] if kind == "logs" else "",
        )
        for kind in _LISTS
    )
    text = str(shtab.complete(parser, shell, preamble="".join(functions)))
    if shell == "zsh":
        text = _ONE_WORD_ONLY.sub('"*:', text)
    return text + _BEYOND_SHTAB[shell].replace("{everywhere}", " ".join(_with_values()))


def _function(kind: str) -> str:
    """The function's name; by `_file` in it shtab 1.13 has bash know that it gives files too."""
    return f"_tpu_tui_{kind}_file" if kind == "logs" else f"_tpu_tui_{kind}"


def _with_values() -> Iterator[str]:
    """The options that hold everywhere and are followed by a value."""
    from tui.commands.parser.parser import options_that_hold_everywhere

    for action in options_that_hold_everywhere()._actions:
        if action.nargs != 0:
            yield from action.option_strings


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for told in action._choices_actions:
                below = action.choices[told.dest]
                below.description = told.help  # a menu has room for a sentence
                yield from _actions(below)
        else:
            yield action


def _completed_by(action: argparse.Action) -> str:
    """What a word of the command line is, by how its help calls it; empty where nothing can be proposed."""
    called = action.metavar if isinstance(action.metavar, str) else ""
    if "RUN" in called:
        return "logs" if "FILE" in called else "words" if "SLICE" in called else "runs"
    if called.startswith("SLICE"):
        return "slices"
    if action.dest == "profile":
        return "profiles"
    if action.type is directory:
        return "directories"
    return "files" if called == "FILE" or action.type is file else ""


# ── the names ────────────────────────────────────────────────────────────────────────────────────


def _settings(given: Mapping[str, Any], line: str) -> Settings:
    """The settings that the line being typed will have; without its options where those are not whole yet."""
    from tui.commands.parser.parser import flags, options_that_hold_everywhere
    from tui.settings import load

    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    words = words[: words.index("--")] if "--" in words else words
    with contextlib.suppress(SystemExit, UsageError):
        return load({**given, **flags(options_that_hold_everywhere().parse_known_args(words)[0])})
    return load(given)


def remember_slices(settings: Settings, slices: Iterable[Slice]) -> None:
    """Keep the names of the slices that were just listed, for the shell; what cannot be kept is not missed."""
    if settings.hosts:
        return
    names = [slice_.name for slice_ in slices]
    words = sorted(slice_.name if names.count(slice_.name) == 1 else slice_.path for slice_ in slices)
    with contextlib.suppress(OSError):
        path = _remembered(settings)
        make_private(path.parent)
        path.write_text("".join(f"{word}\n" for word in words))


def _remembered(settings: Settings) -> Path:
    """Where the slices of the last listing with this profile and project are."""
    whose = _UNSAFE_IN_NAME.sub("-", f"{settings.profile or ''}@{settings.project or ''}")
    return settings.home / "cache" / f"slices-{whose}.txt"


def _profiles(settings: Settings) -> Iterator[str]:
    return (path.stem for path in sorted((settings.home / "profiles").glob("*.toml")))


def _runs(settings: Settings) -> Iterator[str]:
    """The ids of the runs here, newest first."""
    from tui.pod.run import is_run_id

    with contextlib.suppress(OSError):
        names = [path.name for path in settings.runs_home.iterdir() if is_run_id(path.name)]
        yield from sorted(names, key=lambda name: name[-20:], reverse=True)


def _slices(settings: Settings) -> Iterator[str]:
    """The slice of the hosts file, else those of the last listing and of the newest runs with this profile."""
    if settings.hosts:
        from tui.cloud.hosts_file import slice_name

        yield slice_name(settings.hosts)
        return
    with contextlib.suppress(OSError):
        yield from _remembered(settings).read_text().split()
    for run in list(_runs(settings))[:_RECENT_RUNS]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            record = parse_json((settings.runs_home / run / "run.json").read_bytes())
            if record.get("profile") == settings.profile:
                yield str(record["slice"])


def _words(settings: Settings) -> Iterator[str]:
    """What may follow `runs`."""
    yield "delete"
    yield from _slices(settings)
    yield from _runs(settings)


_LISTS: dict[str, Callable[[Settings], Iterator[str]]] = {
    "runs": _runs,
    "logs": _runs,
    "slices": _slices,
    "words": _words,
    "profiles": _profiles,
}
