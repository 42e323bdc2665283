"""Calls of scripts on a worker: the text to send, and the answers among the lines of output.

The remote command is always `exec sh -c …`, so any login shell works. Only the text after the call's nonce on a line
is an answer: start-up files may print anything, with or without a newline at the end.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tui.errors import WorkerError
from tui.text.numbers import MOST_INTEGER, parse_integer
from tui.text.printable import one_line, printable
from tui.text.timestamps import parse_time

_MAX_ANSWER_BYTES = 64 * 1024
MOST_ANSWERS_BYTES = 8 * 1024 * 1024
"""Twice what a worker answers about 10,000 runs. Answers take 20 times their size in memory."""
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?[+-]\d\d:\d\d", re.ASCII)
"""Times as the workers write them, with fractions that every supported Python can parse."""
_LAST_LINE_BYTES = 400
"""Bytes at the end of an output that are searched for its last line."""
_NO_HOME = "Could not chdir to home directory"
_PASSWORD = re.compile("password (has expired|change required)", re.IGNORECASE)
"""sshd's text after a login for which PAM requires a new password first."""
_NEW_PASSWORD = (
    "log in once with ssh in a terminal, which asks for a new password; or run chage -d -1 USER as root there"
)
MAX_CHATTER_BYTES = 1 << 20
"""Most bytes that a login shell may print before a script answers."""
START_UP_FILES = "its login shell's start-up files (~/.bashrc) must not read input, exit or start another shell"
"""A remedy for a script that does not answer: it arrives on standard input after these files were read."""
BEGIN_TIMEOUT_S = 90.0
"""Seconds for a login shell to reach a script that transfers files: some start-up files sleep, some never end."""
PROGRESS_TIMEOUT_S = 600.0
"""Seconds for such a script to take or send something: hashing gigabytes on a slow disk takes minutes."""
WINDOW_BYTES = 256 * 1024
"""Bytes a worker may send ahead of a reader of its streams; bounds memory and keeps workers from starving others."""
READ_BYTES = 2 * WINDOW_BYTES
"""Bytes of a stream to read at once: all that can have arrived.

asyncssh 2.24 reopens the whole window as soon as less than a window is left to read, so with smaller reads the output
of a fast worker piles up in memory.
"""


@functools.cache
def load_script(path: Path) -> str:
    """Return the text of a worker script after the prelude that all scripts share; each file is read once.

    Lines of comments are left out: they are a third of what each worker would be sent.
    """
    prelude = Path(__file__).with_name("script_prelude.sh")
    text = prelude.read_text(encoding="utf-8") + path.read_text(encoding="utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))


@dataclass(frozen=True)
class Call:
    """One call of a script: its text with its settings, its arguments (quoted for a shell), a nonce, its data."""

    script: bytes
    arguments: str
    nonce: str
    data: bytes = b""

    @property
    def command(self) -> str:
        """The remote command line, which reads `input`."""
        return f"exec sh -c '{self._read_script}; eval \"$tt_s\"' tpu-tui {self.arguments}"

    @property
    def input(self) -> bytes:
        """The bytes for its standard input."""
        return self.script + self.data

    @property
    def command_of_two(self) -> str:
        """A remote command line that reads `input`, then either another call's `next_input` or the end of input.

        Two calls use one session, so the start-up files are read once.
        """
        another = 'read -r tt_n tt_s || exit 0; set -- $tt_s; tt_s=$(head -c "$tt_n"); eval "$tt_s"'
        return f"exec sh -c '{self._read_script}; (eval \"$tt_s\") || exit; {another}' tpu-tui {self.arguments}"

    @property
    def next_input(self) -> bytes:
        """The bytes for the standard input of a session that reads a second call."""
        return f"{len(self.script)} {self.arguments}\n".encode() + self.input

    @property
    def _read_script(self) -> str:
        return f"tt_s=$(head -c {len(self.script)})"


@dataclass(frozen=True)
class Answer:
    """One line of the script's answer: its first word, the text after it, and the `key=value` pairs in that text."""

    word: str
    text: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Return whether a field that is a flag is set."""
        return self.fields.get(name) == "1"

    def number(self, name: str, most: int = MOST_INTEGER) -> int | None:
        """Return a field as an integer; None if it is missing, not an integer or above `most`."""
        return parse_integer(self.fields.get(name, ""), most)

    def word_at(self, place: int) -> str:
        """Return a word of the text by its place, from 0; empty if there are fewer words."""
        words = self.text.split(" ", place + 1)
        return words[place] if place < len(words) else ""

    def number_at(self, place: int) -> int | None:
        """Return a word of the text, by its place, as an integer; None if it is not one."""
        return parse_integer(self.word_at(place))

    def name(self, field: str) -> str | None:
        """Return a field that is a short name, such as a signal's or a boot id; None for any other text."""
        value = self.fields.get(field, "")
        return value if _NAME.fullmatch(value) else None

    def moment(self, field: str) -> str | None:
        """Return a field that is an RFC 3339 time with its offset; None for any other text."""
        value = self.fields.get(field, "")
        return value if _MOMENT.fullmatch(value) and parse_time(value) else None


def answer_marker(nonce: str) -> bytes:
    """Return the bytes that precede every answer to a call."""
    return f"@{nonce} ".encode()


def parse_line(nonce: str, line: bytes) -> Answer | None:
    """Return the answer in one line of output, None if there is none. The text is cleaned for a terminal.

    Output of start-up files without a newline, such as a terminal's title, may precede the answer.
    """
    _, marker, answer = line.partition(answer_marker(nonce))
    if not marker:
        return None
    text = printable(answer.rstrip(b"\r\n")[:_MAX_ANSWER_BYTES].decode("utf-8", "replace"))
    word, _, rest = text.partition(" ")
    fields = dict(pair.split("=", 1) for pair in rest.split(" ") if "=" in pair)
    return Answer(word, rest, fields)


def parse_answers(nonce: str, output: bytes) -> list[Answer]:
    """Return the answers in the first `MOST_ANSWERS_BYTES` of an output, in order."""
    answers = [parse_line(nonce, line) for line in output[:MOST_ANSWERS_BYTES].split(b"\n")]
    return [answer for answer in answers if answer is not None]


def channel_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading from or writing to a session raises when its connection broke."""
    from tui.ssh.asyncssh_import import asyncssh

    return OSError, asyncssh.Error


class ScriptNotRunError(WorkerError):
    """The worker did not run the script: its configuration runs another program, or none."""


def no_answer_error(worker: int, what: str, stderr: bytes, exit_code: int | None, stdout: bytes = b"") -> WorkerError:
    """Return the error for a call that ended without an answer; its cause is the output instead."""
    complaint, output = _last_line(stderr), _last_line(stdout)
    ended = f"it ended with {exit_code}" if exit_code is not None else "the connection closed"
    why = complaint or (f"{ended} after printing: {output}" if output else ended)
    kind = ScriptNotRunError if output or exit_code else WorkerError
    if _PASSWORD.search(why):
        return kind(what, worker=worker, why=why, remedy=_NEW_PASSWORD)
    remedy = (
        f"the worker needs sh, coreutils and util-linux; {START_UP_FILES}; "
        "a ForceCommand or a shell such as nologin prevents it; try `tpu-tui exec`"
    )
    return kind(what, worker=worker, why=why, remedy=remedy)


def _last_line(output: bytes) -> str:
    """Return the last line of an output, cleaned for a terminal, without sshd's remark about a missing home."""
    lines = output[-_LAST_LINE_BYTES:].decode("utf-8", "replace").strip().splitlines()
    others = [line for line in lines if not line.startswith(_NO_HOME)]
    return one_line(others[-1]) if others else ""
