"""Tab in real shells: commands, options, and the runs, slices and profiles of this machine."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import DEADLINE, Shell
from tui.commands.parser.shell_completion import remember_offers, remember_slices
from tui.pod.creation.zone_offer import ZoneOffer
from tui.pod.slice import Slice
from tui.settings import load

pytestmark = pytest.mark.timing

RUN = "one-20260102-030405-abcd"
CASES = {
    "tpu-tui la": "launch",
    "tpu-tui --read-only --profile office sta": "status",
    "tpu-tui slices del": "delete",
    "tpu-tui launch --detach --js": "--json",
    "tpu-tui launch --runtime x": "xrt",
    "tpu-tui --profile off": "office",
    "tpu-tui slices delete the": "the-pod",
    "tpu-tui --profile office check off": "office-pod",
    "tpu-tui status --watch one": RUN,
    "tpu-tui runs delete x one": RUN,
    "tpu-tui runs delete --old": "--older-than",
    "tpu-tui slices create x --version v2": "v2-alpha-tpuv5",
    "tpu-tui cores sav": "saved.log",
}


NOT_IN_ZSH = "tpu-tui runs delete x one"
"""shtab's zsh script completes the first of any number of words only."""


@pytest.fixture
def home(shell: Shell) -> Shell:
    """Return a terminal on a machine with a run, a profile and a saved log, and with `tpu-tui` on its PATH."""
    for name in ("bin", "profiles", f"runs/{RUN}"):
        (shell.home / name).mkdir(parents=True)
    (shell.home / "runs" / RUN / "run.json").write_text(json.dumps({"slice": "the-pod"}))
    (shell.home / "profiles" / "office.toml").touch()
    remember_slices(load({"profile": "office"}, shell.environ), [Slice("office-pod")])
    remember_offers(load({}, shell.environ), [ZoneOffer("z", {"v5p-8": ()}, versions=("v2-alpha-tpuv5",))])
    (shell.home / "saved.log").touch()
    command = shell.home / "bin" / "tpu-tui"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tui.cli "$@"\n')
    command.chmod(0o755)
    shell.environ.update(PATH=f"{shell.home / 'bin'}:{os.environ['PATH']}", PYTHONPATH=str(Path.cwd()), TERM="dumb")
    return shell


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name} here")


def output_of(home: Shell, *words: str, text: str = "") -> str:
    return subprocess.run(
        words,
        input=text,
        env=home.environ,
        cwd=home.home,
        check=True,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    ).stdout


@needs("bash")
@pytest.mark.py310
def test_bash_completes_every_word(home: Shell) -> None:
    script = """
source <(tpu-tui completion bash)
function=$(complete -p tpu-tui); function=${function#*-F }; function=${function%% *}
while read -r line; do
  COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=($line) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  $function tpu-tui "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null </dev/null
  echo "${COMPREPLY[*]}"
done
"""
    answers = output_of(
        home, "bash", "--norc", "-c", script, text="".join(f"{case}\n" for case in CASES)
    ).splitlines()
    assert dict(zip(CASES, answers, strict=True)) == CASES


ODD = {
    "tpu-tui --profile off": "tpu-tui --profile off\\ ice ",
    "tpu-tui check po": "tpu-tui check pod\\$\\(touch\\ made\\) ",
    "tpu-tui cores sav": "tpu-tui cores sav\\ ed.log ",
    "tpu-tui report fol": "tpu-tui report folder/",
}
"""What is typed, and what Tab makes of it if names hold characters that are special to a shell."""


@pytest.mark.parametrize("shell_name", [pytest.param(name, marks=needs(name)) for name in ("bash", "zsh")])
def test_odd_names_are_quoted_and_nothing_in_them_is_executed(home: Shell, shell_name: str) -> None:
    here = home.home / "here"
    (here / "folder").mkdir(parents=True)
    (here / "sav ed.log").touch()
    (home.home / "profiles" / "office.toml").rename(home.home / "profiles" / "off ice.toml")
    (home.home / "runs" / RUN / "run.json").write_text(json.dumps({"slice": "pod$(touch made)"}))
    ready = 'eval "$(tpu-tui completion {})"; echo rea""dy\n'
    (home.home / ".zshrc").write_text(
        "PS1='> '; autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word\n" + ready.format("zsh")
    )
    (home.home / ".bashrc").write_text("PS1='> '\nbind 'set enable-bracketed-paste off'\n" + ready.format("bash"))
    with terminal_of(home, shell_name, here) as controller:
        for typed, completed in ODD.items():
            os.write(controller, f"{typed}\t".encode())
            until(controller, completed)
            os.write(controller, b"\x15")
    assert not (here / "made").exists()


@contextmanager
def terminal_of(home: Shell, name: str, here: Path) -> Iterator[int]:
    """Run an interactive shell in a directory; yield the controlling end of its terminal."""
    controller, device = pty.openpty()
    fcntl.ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    options = {"stdin": device, "stdout": device, "stderr": device}
    environ = {**home.environ, "ZDOTDIR": str(home.home)}
    with subprocess.Popen([name, "-i"], env=environ, cwd=here, start_new_session=True, **options) as process:
        os.close(device)
        try:
            until(controller, "ready")
            yield controller
        finally:
            process.kill()
            os.close(controller)


@needs("fish")
def test_fish_completes_every_word(home: Shell) -> None:
    lines = ["tpu-tui completion fish | source", *(f"complete -C '{case}' | cut -f1; echo -" for case in CASES)]
    answers = output_of(home, "fish", "--no-config", "-c", "\n".join(lines)).split("\n-\n")
    assert dict(zip(CASES, answers, strict=False)) == CASES


@needs("zsh")
def test_zsh_completes_every_word(home: Shell) -> None:
    (home.home / ".zshrc").write_text(
        "PS1='> '; autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word\n"
        'eval "$(tpu-tui completion zsh)"; echo rea""dy\n'
    )
    with terminal_of(home, "zsh", home.home) as controller:
        for typed, completed in CASES.items():
            if typed == NOT_IN_ZSH:
                continue
            os.write(controller, f"{typed}\t".encode())
            until(controller, typed.rpartition(" ")[0] + " " + completed)
            os.write(controller, b"\x15")


def until(terminal: int, words: str) -> None:
    """Read the output of a terminal until it contains these words."""
    seen = ""
    deadline = time.monotonic() + DEADLINE
    while words not in seen:
        assert select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0], (
            f"{words!r} not in {seen!r}"
        )
        seen += os.read(terminal, 65536).decode(errors="replace")


def test_the_slices_of_the_typed_profile_are_proposed_and_no_large_library_is_imported(shell: Shell) -> None:
    profiles = shell.home / "profiles"
    profiles.mkdir()
    for name in ("one", "two"):
        (profiles / f"{name}.toml").write_text(f'project = "{name}"\n')
        remember_slices(load({"profile": name}, shell.environ), [Slice(f"pod-of-{name}")])
    assert shell.run("completion", "--list", "slices").raw == b""
    assert shell.run("completion", "--list", "slices", "--line=tpu-tui check --profile=two 'p").out == "pod-of-two\n"
    program = (
        "import sys; from tui.cli import main\n"
        "main(['completion', '--list', 'words', '--line=tpu-tui runs --profile one '])\n"
        "large = {'google', 'grpc', 'asyncssh', 'textual', 'numpy', 'shtab'}\n"
        "print(large & {name.split('.')[0] for name in sys.modules})"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], env=shell.environ, check=True, capture_output=True, text=True
    )
    assert answer.stdout.splitlines() == ["delete", "pod-of-one", "set()"]


def test_only_runs_are_proposed_for_deletion_and_no_runs_where_a_slice_is_wanted(home: Shell) -> None:
    def proposed(line: str) -> str:
        return home.call("completion", "--list", "words", f"--line={line}").out

    assert proposed("tpu-tui runs delete ") == f"{RUN}\n"
    assert proposed("tpu-tui runs ") == "delete\nthe-pod\n"
