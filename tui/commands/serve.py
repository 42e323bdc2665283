"""`serve`: serve the console to a browser on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.pod.worker import MOST_PORT
from tui.procs.python_env import module_command
from tui.text.numbers import parse_integer

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8000


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    serve = commands.add(
        "serve",
        help="serve the console to a browser",
        description="Serve the console on this machine's loopback address until Ctrl-C or SIGTERM. The printed "
        "address contains a key: a new tab needs the whole address, a reload does not. To use it from another "
        "machine, run ssh -L 8000:127.0.0.1:8000 THIS-MACHINE there and open the same address. With --read-only, "
        "the consoles cannot change anything.",
    )
    serve.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help=f"port, 0 for a free one (default: {DEFAULT_PORT})"
    )
    serve.set_defaults(run_blocking=serve_console)


def _port(text: str) -> int:
    port = parse_integer(text, MOST_PORT)
    if port is None:
        raise argparse.ArgumentTypeError(f"must be a port, not {text!r}")
    return port


def serve_console(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Serve until interrupted; every tab gets its own console. Raises UsageError where it cannot listen."""
    from tui.settings import load

    settings = load(flags)  # unreadable settings fail here, not in every tab
    if not importlib.util.find_spec("textual_serve"):
        raise UsageError("serve needs textual-serve", remedy="python3 -m pip install 'tpu-tui[serve]'")
    from tui.commands.serve_server import AccessControl, run_server

    listening = _listen(args.port)
    port = listening.getsockname()[1]
    access = AccessControl(port)

    def announce() -> None:
        if out.as_json:
            out.line({"url": access.url, "port": port, "pid": os.getpid()})
            return
        out.text(access.url)
        out.note(
            "Open this address in a browser. Anyone who has it controls your console. "
            "Ctrl-C stops serving; runs continue."
        )

    command = shlex.join([*module_command("tui.cli"), *words_of(flags)])
    log = shlex.quote(str(_error_log(settings.home)))
    run_server(f"exec {command} 2>>{log}", listening, access, announce)
    return 0


def _error_log(home: Path) -> Path:
    """Create the file for the consoles' errors, which do not belong on this terminal; return its path."""
    from tui.console.platform.stderr_redirect import LOG_NAME
    from tui.settings.home import make_private

    make_private(home)
    path = home / LOG_NAME
    path.touch(mode=0o600)
    return path


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise UsageError(
            f"cannot listen on port {port}",
            why=error.strerror or str(error),
            remedy="choose another one with --port, or any free one with --port 0",
        ) from error
    return listening


def words_of(flags: Mapping[str, Any]) -> list[str]:
    """Return global options as words of a command line."""
    arguments: list[str] = []
    for name, value in flags.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif isinstance(value, list):
            arguments += [f"{option}={item}" for item in value]
        elif value not in (None, False):
            arguments.append(f"{option}={value.absolute() if isinstance(value, Path) else value}")
    return arguments
