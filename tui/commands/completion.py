"""`completion`: print a script for shell completion."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tui.commands.parser.commands import Commands
from tui.commands.parser.shell_completion import NAME_KINDS, SHELLS, list_names, script
from tui.commands.terminal.output import Output
from tui.errors import UsageError


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    completion = commands.add(
        "completion",
        help="print a shell completion script",
        description="Print a script that completes commands, options, runs and slices in your shell.\n\n"
        "bash: source <(tpu-tui completion bash)     in ~/.bashrc\n"
        'zsh:  eval "$(tpu-tui completion zsh)"      in ~/.zshrc, after compinit\n'
        "fish: tpu-tui completion fish > ~/.config/fish/completions/tpu-tui.fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", metavar="bash|zsh|fish", nargs="?", choices=SHELLS, help="the shell")
    completion.add_argument("--list", choices=NAME_KINDS, help=argparse.SUPPRESS)
    completion.add_argument("--line", default="", help=argparse.SUPPRESS)
    completion.set_defaults(run_blocking=print_completion)


def print_completion(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Print the shell's script, or for that script the names of one kind, one per line."""
    if args.list:
        for name in dict.fromkeys(list_names(args.list, flags, args.line)):
            out.text(name)
        return 0
    if not args.shell:
        raise UsageError("no shell given", remedy=f"tpu-tui completion {'|'.join(SHELLS)}")
    out.text(script(args.shell))
    return 0
