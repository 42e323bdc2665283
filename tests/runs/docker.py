"""A stand-in for Docker: its daemon in the test's process, and a `docker` program that asks it to run containers.

As with Docker, a container is the daemon's child: `docker run` shows its output, forwards signals and ends with its
exit code, and a killed `docker run` leaves it running.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CLIENT = """#!{python} -I
import json, os, signal, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
words = sys.argv[1:]
values = {{name: os.environ[name] for flag, name in zip(words, words[1:]) if flag == "-e" and name in os.environ}}
connection.sendall(json.dumps({{"words": words, "env": values}}).encode() + b"\\n")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: connection.sendall(b"%d\\n" % number))
for line in connection.makefile("rb"):
    answer = json.loads(line)
    os.write(1, answer.get("out", "").encode())
    os.write(2, answer.get("error", "").encode())
    if "exit" in answer:
        sys.exit(answer["exit"])
sys.exit("the daemon is gone")
"""


@dataclass
class Container:
    """A container that was created: its name, label and process."""

    name: str
    label: str
    process: subprocess.Popen[bytes]


@dataclass
class DockerDaemon:
    """The daemon's state; `path` is the directory of the `docker` program."""

    path: Path
    containers: dict[str, Container] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)
    """The words of every `docker` command so far."""
    is_down: bool = False
    refuses_removal: bool = False

    def start_elsewhere(self, name: str) -> Container:
        """Start a container that belongs to no run."""
        process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.containers[f"id-{process.pid}"] = made = Container(name, "", process)
        return made

    def answer(self, words: list[str], env: dict[str, str], handler: socketserver.StreamRequestHandler) -> None:
        """Execute one `docker` command."""
        self.commands.append(words)
        if self.is_down:
            _send(handler, error="Cannot connect to the Docker daemon. Is the docker daemon running?\n", exit=1)
        elif words[0] == "version":
            _send(handler, exit=0)
        elif words[0] == "run":
            self._run(words, env, handler)
        elif words[0] == "container":
            label = words[words.index("--filter") + 1].removeprefix("label=")
            found = [id_ for id_, made in list(self.containers.items()) if made.label == label]
            _send(handler, out="".join(f"{id_}\n" for id_ in found), exit=0)
        elif self.refuses_removal:
            _send(handler, error="Error response from daemon: device or resource busy\n", exit=1)
        elif words[0] == "stop":
            for made in (self.containers[id_] for id_ in words[words.index("-t") + 2 :] if id_ in self.containers):
                made.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    made.process.wait(float(words[words.index("-t") + 1]))
            _send(handler, exit=0)
        else:
            for id_ in words[words.index("-f") + 1 :]:
                if made := self.containers.pop(id_, None):
                    made.process.kill()
                    made.process.wait()
            _send(handler, exit=0)

    def _run(self, words: list[str], env: dict[str, str], handler: socketserver.StreamRequestHandler) -> None:
        name, label = (_value(words, option) for option in ("--name", "--label"))
        if any(made.name == name for made in self.containers.values()):
            _send(handler, error=f"docker: Conflict. The container name {name!r} is already in use.\n", exit=125)
            return
        command = words[words.index("image") + 1 :]
        with (
            subprocess.Popen(
                command,
                env={"PATH": os.environ["PATH"], **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
            contextlib.suppress(OSError),
        ):
            self.containers[f"id-{process.pid}"] = Container(name, label, process)
            threading.Thread(target=_forward_signals, args=(handler, process), daemon=True).start()
            assert process.stdout
            for line in process.stdout:
                _send(handler, out=line.decode())
            code = process.wait()
            _send(handler, exit=code if code >= 0 else 128 - code)


def _value(words: list[str], option: str) -> str:
    return next(word.partition("=")[2] for word in words if word.startswith(f"{option}="))


def _send(handler: socketserver.StreamRequestHandler, **answer: Any) -> None:
    handler.wfile.write(json.dumps(answer).encode() + b"\n")


def _forward_signals(handler: socketserver.StreamRequestHandler, process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in handler.rfile:
            process.send_signal(signal.Signals(int(line)))


@contextlib.contextmanager
def docker_daemon(directory: Path) -> Iterator[DockerDaemon]:
    """Run a daemon; its `docker` program is in a directory of its own, to be put on a worker's PATH."""
    daemon = DockerDaemon(directory / "docker-bin")
    daemon.path.mkdir()
    address = str(directory / "docker.sock")

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            question = json.loads(self.rfile.readline())
            daemon.answer(question["words"], question["env"], self)

    program = daemon.path / "docker"
    program.write_text(_CLIENT.format(python=sys.executable, address=address))
    program.chmod(0o755)
    with socketserver.ThreadingUnixStreamServer(address, Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield daemon
        server.shutdown()
    for made in daemon.containers.values():
        made.process.kill()
        made.process.wait()
