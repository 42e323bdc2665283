"""Hostile input from a seed: valid worker answers, records and state files, damaged at random."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker

NONCE = "0123456789abcdef"
RUN_ID = "pod-20261123-101500-00aa"
RUN = Run(
    id=RUN_ID,
    slice="pod",
    job=JobOptions(("python", "train.py"), env={"EPOCHS": "3"}, restarts=2),
    workers=(Worker(0, "w-0", "10.0.0.1", host_keys=("ssh-ed25519 AAAA",)), Worker(1, "w-1", "10.0.0.2")),
    cores_per_worker=8,
    created="2026-11-23T10:15:00+00:00",
)
_ENDED = "exit=0 signal= size=292 oom=0 aborted= boot=b-1 time=2026-11-23T10:16:00.123456+00:00 since="
_HEAD = f"log=292 now=b-1 was=b-1 confirmed=1 attempt=0 keeper=12 stopped= {_ENDED}"
ANSWERS = (
    *(f"run {RUN_ID} {index} ended {_HEAD}" for index in (0, 1)),
    *(f"status {RUN_ID} 0 {word} {_HEAD}" for word in ("ended", "running", "lost", "never", "armed")),
    *(f"{word} {_ENDED}" for word in ("end", "stopped", "stopped rebooted=1")),
    *("listed", "norun", "log 292 b-1 b-1", "short 12 b-1 b-2", "lost code=1 size=292 boot=b-1 was=b-2"),
    *("armed 12", "prepared", "entitled 12", "kept", "deleted", "alive 12 sh", "refused runs pod", "json 12"),
    *("disk 1 2 3 4", "memory total 12", "load 0.5 8", "clock 1.5", "owner 12 root 5 t x python", "devices 4"),
    *("version torch 2.9.0", "python missing", "origin 10.0.0.1", "lock a b c", "code h p"),
)
EVENTS: tuple[dict[str, Any], ...] = (
    {"event": "state", "worker": None, "state": "preparing", "cause": None, "boot": "ab", "up": 1.5},
    {"event": "phase", "worker": 0, "phase": "confirm", "status": "done", "detail": ""},
    {"event": "state", "worker": None, "state": "running", "cause": None, "boot": "ab", "up": 2.5},
    {"event": "note", "worker": 1, "text": "it is silent", "stall": "silent", "workers": [1], "cores": [3]},
    {"event": "note", "worker": None, "text": "gone", "slice": "preempted", "gone": True, "remedy": "create it"},
    {"event": "note", "worker": None, "text": "again", "earlier_attempts": 1},
    {"event": "link", "worker": 1, "status": "lost", "detail": "no route"},
    {"event": "stop_requested", "worker": None, "by": "user", "grace": 30.0},
    {"event": "exit", "worker": 0, "exit_code": 0, "signal": None, "size": 12, "cause": None, "recorded": True},
    {"event": "stop", "worker": 1, "confirmed": True, "exit_code": 143, "detail": ""},
    {"event": "failure", "worker": 1, "exit_code": 1, "cause": "worker 1 exited with 1"},
    {"event": "tags", "worker": None, "tags": {"0": "12345", "1": "67890"}},
    {"event": "told", "worker": None, "attempt": 1, "ended": [{"worker": 0, "exit_code": 1, "ended": "x"}]},
    {"event": "state", "worker": None, "state": "failed", "cause": "why", "boot": "ab", "up": 9.5},
)
_DEEP = 100_000
_NUMBERS = (
    "9" * 5000,
    "-1",
    "1000000000000",
    "1e400",
    "99999999999999999999",
    "²",
    "٣",
    "1_0",
    "+1",
    "0x1",
    " 1",
    "0x" + "9" * 5000,
)
_TEXTS = ("", "\x1b]0;x\x07", "\u202e", "\x00", "[red]", "../../x", "=1+1", "a" * 70_000, "\udcff", "\ud800", "%s{}")
_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 10**12, 2**63, 10**400, 1.5, -0.0, 1e308, float("inf"), float("nan")),
    *([], {}, [[]], [None], {"a": {"b": []}}, [1, -1, 10**12], "5", "9" * 5000, "running", "lost"),
    *_TEXTS,
)


class Hostility:
    """A source of damaged and malicious input; the same seed gives the same input."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def answers(self) -> bytes:
        """Return output that a worker may write instead of valid answers."""
        lines = [f"@{NONCE} {self._words(answer)}" for answer in self.random.sample(ANSWERS, 6)]
        return self._damaged("\n".join(lines).encode("utf-8", "replace") + b"\n")

    def _words(self, answer: str) -> str:
        words = answer.split(" ")
        for _ in range(self.random.randrange(3)):
            place = self.random.randrange(len(words))
            name, sign, _ = words[place].partition("=")
            bad = self.random.choice((*_NUMBERS, *_TEXTS))
            words[place] = f"{name}{sign}{bad}" if sign else bad
        if self.random.random() < 0.2:
            del words[self.random.randrange(len(words)) :]
        return " ".join(words)

    def record(self) -> bytes:
        """Return possible content of run.json, here or on a worker."""
        return self._damaged(self._dumped(self._spoiled(RUN.to_json())))

    def events(self) -> bytes:
        """Return possible content of events.jsonl."""
        lines = []
        for event in EVENTS:
            document = {"time": "2026-11-23T10:15:01.000001+00:00", **event}
            lines.append(self._dumped(self._spoiled(document) if self.random.random() < 0.3 else document))
        return self._damaged(b"\n".join(lines) + b"\n")

    def arrivals(self) -> bytes:
        """Return possible content of `arrivals`."""
        lines = [b"%d %d %.6f" % (place % 2, 100 * place, 1764e6 + place) for place in range(6)]
        if self.random.random() < 0.5:
            words = [self.random.choice((*_NUMBERS, "1", "1.5", "nan")) for _ in range(self.random.randrange(1, 5))]
            lines.insert(self.random.randrange(6), " ".join(words).encode())
        return self._damaged(b"\n".join(lines) + b"\n")

    def keeper(self) -> bytes:
        """Return possible content of the keeper file."""
        words = [self.random.choice((*_NUMBERS, *_TEXTS[:6], "12", "host")) for _ in range(self.random.randrange(5))]
        return self._damaged(" ".join(words).encode("utf-8", "replace"))

    def hosts(self) -> bytes:
        """Return possible content of a hosts file."""
        host = self.random.choice(("10.0.0.1", "w-1", "[::1]", "a@b", *_TEXTS[:6]))
        return self._damaged(f"w-0\n{host}:{self.random.choice(_NUMBERS)}\n".encode("utf-8", "replace"))

    def profile(self) -> bytes:
        """Return possible content of a profile."""
        name = self.random.choice(
            ("port", "project", "zones", "thresholds", "endpoints", "dialects", "local", "read_only")
        )
        value = self.random.choice(
            (*_NUMBERS, '"x"', "[" * 5_000, "{ a = " * 500, "nan", "-inf", "{ straggler = 1e999 }")
        )
        return self._damaged(f"{name} = {value}\n".encode("utf-8", "replace"))

    def _spoiled(self, document: dict[str, Any]) -> Any:
        """Return the document with some values replaced, left out or of another type."""
        document = copy.deepcopy(document)
        for _ in range(self.random.randrange(1, 4)):
            holder: Any = document
            while True:
                if not holder:
                    break
                key = self.random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
                if isinstance(holder[key], (dict, list)) and self.random.random() < 0.7:
                    holder = holder[key]
                    continue
                if self.random.random() < 0.15:
                    del holder[key]
                else:
                    holder[key] = copy.deepcopy(self.random.choice(_VALUES))
                break
        return document

    @staticmethod
    def _dumped(document: Any) -> bytes:
        return json.dumps(document).encode()

    def _damaged(self, data: bytes) -> bytes:
        """Return the bytes unchanged, cut off, or with a changed byte, repeated part, long number or deep list."""
        kind = self.random.random()
        place = self.random.randrange(len(data) + 1)
        if kind < 0.1:
            return data[:place]
        if kind < 0.2:
            return data[:place] + bytes([self.random.randrange(256)]) + data[place + 1 :]
        if kind < 0.25:
            return data[:place] + b"9" * 5000 + data[place:]
        if kind < 0.255:
            return data[:place] + self.random.choice((b"[", b'{"a":', b"]")) * _DEEP + data[place:]
        if kind < 0.3:
            end = self.random.randrange(place, len(data) + 1)
            return data[:end] + data[place:]
        return data
