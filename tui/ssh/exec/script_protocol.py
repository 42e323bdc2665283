"""Scripts on a worker that answer: what is sent, and which lines of what comes back are answers.

The remote command is always `exec sh -c …`, so any login shell will do. Only what follows the call's nonce on a line
is believed: start-up files print what they like, with or without a line's end.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tui.errors import WorkerError
from tui.text.numbers import MOST_INTEGER, parse_integer
from tui.text.printable import one_line, printable

_MAX_ANSWER = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?[+-]\d\d:\d\d", re.ASCII)
"""Times as the workers write them, of which every Python can read the fraction."""
_WORDS = 400
"""Bytes at the end of what a worker complains of, in which its last line is looked for."""
_NO_HOME = "Could not chdir to home directory"
_PASSWORD = re.compile("password (has expired|change required)", re.IGNORECASE)
"""What sshd says, once it has let somebody in, where PAM wants another password first."""
_NEW_PASSWORD = (
    "log in there once with ssh in a terminal, which asks for another; or let root there run chage -d -1 USER"
)
START_UP_FILES = "its login shell's start-up files (~/.bashrc) must not read input, exit or start another shell"
"""What else keeps a script from answering: it comes on standard input, behind those files."""


@functools.cache
def load_script(path: Path) -> str:
    """Return a worker script's text, which begins with the prelude that all of them share."""
    prelude = Path(__file__).with_name("script_prelude.sh")
    return prelude.read_text(encoding="utf-8") + path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Call:
    """One call: a script with its settings, its arguments (fit for a shell), the nonce of its answers, data."""

    script: bytes
    arguments: str
    nonce: str
    data: bytes = b""

    @property
    def command(self) -> str:
        """The remote command line, which takes `input`."""
        return f"exec sh -c '{self._made}; eval \"$tt_s\"' tpu-tui {self.arguments}"

    @property
    def input(self) -> bytes:
        """What to write to its standard input."""
        return self.script + self.data

    @property
    def command_of_two(self) -> str:
        """A remote command line which takes `input`, and then another call's `next_input` or the end of its input.

        One session where there would be two, and start-up files that are read once.
        """
        another = 'read -r tt_n tt_s || exit 0; set -- $tt_s; tt_s=$(head -c "$tt_n"); eval "$tt_s"'
        return f"exec sh -c '{self._made}; (eval \"$tt_s\") || exit; {another}' tpu-tui {self.arguments}"

    @property
    def next_input(self) -> bytes:
        """What to write to the standard input of a session that has made one call and takes another."""
        return f"{len(self.script)} {self.arguments}\n".encode() + self.input

    @property
    def _made(self) -> str:
        return f"tt_s=$(head -c {len(self.script)})"


@dataclass(frozen=True)
class Answer:
    """One line that the script answered: its first word, the text after it, and the `key=value` words in that."""

    word: str
    text: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str, most: int = MOST_INTEGER) -> int | None:
        """Return a field as an integer; None where it is missing, is none or is above `most`."""
        return parse_integer(self.fields.get(name, ""), most)

    def word_at(self, place: int) -> str:
        """Return a word of the text by its place, from 0; empty where there are not so many."""
        words = self.text.split(" ", place + 1)
        return words[place] if place < len(words) else ""

    def number_at(self, place: int) -> int | None:
        """Return a word of the text, by its place, as an integer; None where it is none."""
        return parse_integer(self.word_at(place))

    def name(self, field: str) -> str | None:
        """Return a field that is a short name, as of a signal or of a machine's start; None for any other text."""
        value = self.fields.get(field, "")
        return value if _NAME.fullmatch(value) else None

    def moment(self, field: str) -> str | None:
        """Return a field that is an RFC 3339 time with its offset; None for any other text."""
        value = self.fields.get(field, "")
        return value if _MOMENT.fullmatch(value) and _is_a_time(value) else None


def _is_a_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def parse_line(nonce: str, line: bytes) -> Answer | None:
    """The answer in one line of output, None when there is none. The text is cleaned for a terminal.

    In front of the first may stand what start-up files printed last, such as a terminal's title.
    """
    _, found, said = line.partition(f"@{nonce} ".encode())
    if not found:
        return None
    text = printable(said.rstrip(b"\r\n")[:_MAX_ANSWER].decode("utf-8", "replace"))
    word, _, rest = text.partition(" ")
    fields = dict(pair.split("=", 1) for pair in rest.split(" ") if "=" in pair)
    return Answer(word, rest, fields)


def parse_answers(nonce: str, output: bytes) -> list[Answer]:
    """All answers in an output, in order."""
    found = [parse_line(nonce, line) for line in output.split(b"\n")]
    return [answer for answer in found if answer is not None]


def channel_errors() -> tuple[type[Exception], ...]:
    """What reading from or writing to a session raises when its connection broke."""
    import asyncssh

    return OSError, asyncssh.Error


class ScriptNotRunError(WorkerError):
    """A worker that runs nothing of ours as it is set up: something else ran instead, or nothing at all."""


def no_answer_error(worker: int, what: str, stderr: bytes, exit_code: int | None, stdout: bytes = b"") -> WorkerError:
    """The error for a call that ended without an answer; why is told by what was written instead."""
    complaint, said = _last_line(stderr), _last_line(stdout)
    ended = f"it ended with {exit_code}" if exit_code is not None else "the connection closed"
    why = complaint or (f"{ended} and said: {said}" if said else ended)
    kind = ScriptNotRunError if said or exit_code else WorkerError
    if _PASSWORD.search(why):
        return kind(what, worker=worker, why=why, remedy=_NEW_PASSWORD)
    remedy = (
        f"the worker needs sh, coreutils and util-linux; {START_UP_FILES}; "
        "nothing runs behind a ForceCommand or a shell such as nologin; try `tpu-tui exec`"
    )
    return kind(what, worker=worker, why=why, remedy=remedy)


def _last_line(output: bytes) -> str:
    """The last line of an output, cleaned for a terminal; of sshd's own remark that it found no home nothing."""
    lines = output[-_WORDS:].decode("utf-8", "replace").strip().splitlines()
    told = [line for line in lines if not line.startswith(_NO_HOME)]
    return one_line(told[-1]) if told else ""
