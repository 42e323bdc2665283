"""Dialects: what the lines of each trainer look like, as data. A pattern with named groups, and what a match is."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tui.errors import UsageError
from tui.logs.lines import without_escapes
from tui.logs.patterns import required_text, runs_away

COLUMNS = ("core", "device", "epoch", "step", "loss", "rate", "global_rate", "clock", "worker")
"""What a sample can tell. `rate` and `global_rate` in the trainer's own unit (examples/s for PyTorch/XLA)."""

LONGEST = 65_536
"""Of a longer line only the last so many bytes are looked at: memory stays bounded, whatever a job prints."""

_NUMBER = rb"[-+]?(?:\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?|[nN]a[nN]|[iI]nf)"
_CLOCK = rb"\d\d:\d\d:\d\d(?![\d:])"
_DATED = rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}(?!\d)"
_SPAN = rb"(?:-?\d{1,6} days?, )?\d{1,6}:\d\d:\d\d(?:\.\d{1,6})?"
_GROUPED = rb"\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,9})?|" + _NUMBER
"""A number that may carry thousands' commas, as torchtitan prints them."""


LOOSE_REACH = 2048
"""`reach` of dialects with loose middles, a user's own among them; real lines are shorter."""


class Kind(enum.Enum):
    """What a matching line is."""

    SAMPLE = "sample"
    """A core's step and loss."""
    TEST = "test"
    """An evaluation row of a core: the core lives, but this is no training step."""
    EPOCH = "epoch"
    """Something about an epoch as a whole."""
    FACT = "fact"
    """Something told once about the run."""


@dataclass(frozen=True)
class Dialect:
    """One shape of line. `hints` are byte strings of which a line must hold one to be tried at all."""

    name: str
    kind: Kind
    hints: tuple[bytes, ...]
    source: bytes
    """The pattern as a regular expression."""
    moment: str = ""
    """For epochs: `begin` (samples follow) or `end` (samples came before)."""
    ignored_loss: float | None = None
    """A loss that says there is none (torchtitan's pipeline stages print -1)."""
    reach: int = LONGEST
    """Bytes at a line's end that are searched: patterns with loose middles must not be tried on megabytes."""
    last_only: bool = False
    """Of several matches in one line only the last is the newest state (redrawn progress bars)."""

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The pattern, compiled when the first line is tried: most logs speak one dialect."""
        return re.compile(self.source)


def _dialect(name: str, kind: Kind, hints: Sequence[bytes], pattern: bytes, **more: Any) -> Dialect:
    return Dialect(name, kind, tuple(hints), pattern, **more)


_RATES = rb" Rate=(?P<rate>" + _NUMBER + rb") GlobalRate=(?P<global_rate>" + _NUMBER + rb")"

TRAINING = _dialect(
    "torch_xla",
    Kind.SAMPLE,
    [b"Training Device="],
    rb"Training Device=xla:(?P<device>\d{1,4})/(?P<core>\d{1,6})(?: Epoch=(?P<epoch>\d{1,9}))?"
    rb" Step=(?P<step>\d{1,12}) Loss=(?P<loss>" + _NUMBER + rb")" + _RATES + rb" Time=(?P<clock>" + _CLOCK + rb")",
)
"""`torch_xla.test.test_utils.print_training_update` since 1.6: the line that the trainer here prints as well."""

_OLD = (
    rb" Loss=(?P<loss>" + _NUMBER + rb")" + _RATES + rb" Time=(?P<clock>" + _DATED + rb"|" + _CLOCK + rb")"
)  # fmt: skip

TORCH_XLA: tuple[Dialect, ...] = (
    TRAINING,
    _dialect(
        "torch_xla 1.5",
        Kind.SAMPLE,
        [b"[xla:"],
        rb"\[xla:(?P<device>\d{1,4})/(?P<core>\d{1,6})\]\((?P<step>\d{1,12})\)" + _OLD,
    ),
    _dialect(
        "torch_xla 1.5, ordinal only",
        Kind.SAMPLE,
        [b"[xla:"],
        rb"\[xla:(?P<core>\d{1,6})\]\((?P<step>\d{1,12})\)" + _OLD,
    ),
    _dialect(
        "torch_xla test",
        Kind.TEST,
        [b"Test Device="],
        rb"Test Device=xla:(?P<device>\d{1,4})/(?P<core>\d{1,6})(?: Step=(?P<step>\d{1,12}))?"
        rb"(?: Epoch=(?P<epoch>\d{1,9}))?(?: Accuracy=(?P<accuracy>" + _NUMBER + rb"))?"
        rb"(?: Time=(?P<clock>" + _CLOCK + rb"))?(?=\s|$)",
    ),
    _dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b" train begin"],
        rb"Epoch (?P<epoch>\d{1,9}) train begin(?: (?P<train_began>" + _CLOCK + rb"))?(?![\w{])",
        moment="begin",
    ),
    _dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b" train end"],
        rb"Epoch (?P<epoch>\d{1,9}) train end (?P<train_ended>"
        + _CLOCK
        + rb")(?:, Epoch Time=(?P<seconds>"
        + _SPAN
        + rb")"
        rb", Replica Train Samples=(?P<replica_samples>\d{1,15})(?!\d)"
        rb", Reduced GlobalRate=(?P<reduced_global_rate>" + _NUMBER + rb")(?![\d.]))?",
        moment="end",
    ),
    _dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b"Finished training epoch "],
        rb"Finished training epoch (?P<epoch>\d{1,9})(?![\d{])",
        moment="end",
    ),
    _dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b" test end"],
        rb"Epoch (?P<epoch>\d{1,9}) test end (?P<test_ended>" + _CLOCK + rb")"
        rb"(?:, (?:Reduced )?Accuracy=(?P<accuracy>" + _NUMBER + rb")(?![\d.])%?)?"
        rb"(?:, Replica Accuracy=(?P<replica_accuracy>" + _NUMBER + rb")%?)?"
        rb"(?:, Replica Test Samples=(?P<replica_test_samples>\d{1,15})(?!\d))?",
        moment="end",
    ),
    _dialect(
        "torch_xla accuracy",
        Kind.FACT,
        [b"Max Accuracy: "],
        rb"Max Accuracy: (?P<max_accuracy>" + _NUMBER + rb")%",
    ),
    _dialect(
        "torch_xla totals",
        Kind.FACT,
        [b"Total Train Time: "],
        rb"Total Train Time: (?P<total_train_time>" + _SPAN + rb")(?![\d:])",
    ),
    _dialect(
        "torch_xla totals",
        Kind.FACT,
        [b"Avg. Global Rate: "],
        rb"Avg\. Global Rate: (?P<average_global_rate>" + _NUMBER + rb") examples per second",
    ),
    _dialect(
        "xla_dist cluster",
        Kind.FACT,
        [b"Cluster configuration: "],
        rb"Cluster configuration: (?P<cluster>\{client_workers: \[[^\]]*\], service_workers: \[[^\]]*\]\})",
    ),
)

_NOT_BEFORE = rb"(?<![\w./-])"
"""Where a name begins: not in the middle of another one (`val_loss`, `eval/loss`, `lm loss` are not `loss`)."""

OTHERS: tuple[Dialect, ...] = (
    _dialect(
        "MaxText",
        Kind.SAMPLE,
        [b"completed step: "],
        rb"completed step: (?P<step>\d{1,12}), seconds: {1,4}[\d.]{1,20}, TFLOP/s(?:/device)?: {1,4}[\d.]{1,20},"
        rb"(?: {1,4}Tokens/s/device: {1,4}(?P<rate>" + _NUMBER + rb"),)?(?: {1,4}total_weights: {1,4}[\d.]{1,20},)?"
        rb" {1,4}(?:main_model_)?loss: {1,4}(?P<loss>" + _NUMBER + rb")(?![\w.])",
    ),
    _dialect(
        "MaxText",
        Kind.SAMPLE,
        [b"training loss: "],
        rb"Train step (?P<step>\d{1,12}) training loss: (?P<loss>" + _NUMBER + rb")(?![\w.])",
    ),
    _dialect(
        "Hugging Face Trainer",
        Kind.SAMPLE,
        [b"{'loss'", b'{"loss"'],
        rb"\{(?P<q>['\"])loss(?P=q): (?P<v>['\"]?)(?P<loss>" + _NUMBER + rb")(?P=v), [^{}]{0,2000}?"
        rb"(?P=q)epoch(?P=q): (?P=v)(?P<epoch>\d{1,9})(?:\.\d{1,9})?(?P=v)\}",
    ),
    _dialect(
        "accelerate",
        Kind.SAMPLE,
        [b"it/s, ", b"s/it, "],
        rb"(?:Steps|Training|train)[^|\n]{0,40}\|[^|\n]{0,300}\| ?(?P<step>\d{1,12})/\d{1,12} \["
        rb"[^\]\n]{0,60}?(?:it/s|s/it), "
        rb"(?:[\w.]{1,30}=[^,\]\s]{1,30}, ){0,4}(?:step_|train_)?loss=(?P<loss>" + _NUMBER + rb")(?=[,\]])",
        last_only=True,
    ),
    _dialect(
        "Keras epoch",
        Kind.EPOCH,
        [b"Epoch "],
        rb"^Epoch (?P<epoch>\d{1,9})/\d{1,9}\s*$",
        moment="begin",
    ),
    _dialect(
        "Keras",
        Kind.SAMPLE,
        [b" - loss: "],
        rb"(?<!\d)(?P<step>\d{1,12})/(?:\d{1,12}|Unknown) (?:\[[=>.\s]{1,200}\]|\S{1,300}) -? ?[^\n]{0,60}?"
        rb" ?- loss: (?P<loss>" + _NUMBER + rb")(?![\w.])",
        last_only=True,
    ),
    _dialect(
        "Lightning",
        Kind.SAMPLE,
        [b"Epoch "],
        rb"Epoch (?P<epoch>\d{1,9}):[^\n]{0,300}?\| ?(?P<step>\d{1,12})/(?:\d{1,12}|\?) \[[^\]\n]{0,120}?"
        rb"(?:[ ,](?:train_)?loss=(?P<loss>" + _NUMBER + rb")(?![\w.]))",
        last_only=True,
    ),
    _dialect(
        "torchtitan",
        Kind.SAMPLE,
        [b"step:"],
        rb"(?<![\w{])step: {0,12}(?P<step>\d{1,12}) {1,4}loss: {0,12}(?P<loss>" + _NUMBER + rb")(?![\w.])"
        rb"(?:[^\n]{0,120}? tps: {0,12}(?P<rate>" + _GROUPED + rb")(?![\w.]))?",
        ignored_loss=-1.0,
    ),
    _dialect(
        "levanter",
        Kind.SAMPLE,
        [b"Progress on:train"],
        rb"Progress on:train (?P<step>\d{1,9}(?:\.\d{1,4})?[kMG]?)it/\S{1,20} rate:\S{1,30}"
        rb"(?: remaining:\S{1,30})?(?: elapsed:\S{1,30})? loss=(?P<loss>" + _NUMBER + rb")(?![\w.])",
        last_only=True,
    ),
    _dialect(
        "Megatron",
        Kind.SAMPLE,
        [b" iteration ", b"iteration "],
        rb"(?<!\w)iteration {1,12}(?P<step>\d{1,12})/ {0,12}\d{1,12} \|[^\n]{0,600}?"
        rb" lm loss: (?P<loss>" + _NUMBER + rb") \|",
    ),
)

BUILT_IN: tuple[Dialect, ...] = TORCH_XLA + tuple(replace(dialect, reach=LOOSE_REACH) for dialect in OTHERS)


def user_dialects(mapping: Mapping[str, Any]) -> tuple[Dialect, ...]:
    r"""Dialects of a profile's `[dialects.NAME]` tables: `pattern`, and `columns` where group names differ.

    A pattern's named groups are columns (`core device worker epoch step loss rate global_rate clock`), or are mapped
    to them by `columns = { loss = "my_group" }`; `step` and `loss` are needed. Raises UsageError saying which
    dialect is wrong and how.
    """
    return tuple(_user_dialect(name, entry) for name, entry in mapping.items())


def _user_dialect(name: str, entry: Any) -> Dialect:
    def wrong(why: str, remedy: str = "") -> UsageError:
        return UsageError(f"dialect {name!r} in the profile cannot be used", why=why, remedy=remedy)

    if isinstance(entry, str):
        entry = {"pattern": entry}
    if not isinstance(entry, Mapping) or not isinstance(entry.get("pattern"), str):
        raise wrong("it has no pattern", f"write [dialects.{name}] pattern = '…(?P<step>\\d+)…(?P<loss>\\S+)…'")
    if extra := sorted(set(entry) - {"pattern", "columns"}):
        raise wrong(f"unknown key {extra[0]!r}", "its keys are pattern and columns")
    source, columns = entry["pattern"], entry.get("columns", {})
    if not isinstance(columns, Mapping):
        raise wrong("columns is not a table", 'write columns = { loss = "name of a group" }')
    for column, group in columns.items():
        if column not in COLUMNS:
            raise wrong(f"no such column: {column}", f"columns are {', '.join(COLUMNS)}")
        source = re.sub(rf"\(\?P<{re.escape(str(group))}>", f"(?P<{column}>", source)
    try:
        pattern = re.compile(source.encode())
    except (re.error, RecursionError, OverflowError) as error:
        raise wrong(f"its pattern is no regular expression: {error}") from error
    groups = set(pattern.groupindex)
    if missing := {"step", "loss"} - groups:
        raise wrong(
            f"its pattern has no group for {' and '.join(sorted(missing))}", "name a group (?P<step>…), (?P<loss>…)"
        )
    if odd := sorted(groups - set(COLUMNS)):
        raise wrong(f"group {odd[0]!r} is no column", f"columns are {', '.join(COLUMNS)}; use (?:…) for the rest")
    if why := runs_away(source.encode(), LOOSE_REACH):
        raise wrong(f"its pattern could hold up everything: {why}", "say how often at most: {1,30} instead of + or *")
    text = required_text(source.encode())
    return Dialect(name, Kind.SAMPLE, (text,) if text else (), source.encode(), reach=LOOSE_REACH)


@dataclass(frozen=True)
class Trial:
    """What one dialect made of a file: how many lines it matched, and the first of them with what they tell."""

    name: str
    matched: int
    examples: tuple[tuple[str, Mapping[str, str]], ...]

    def to_json(self) -> dict[str, Any]:
        """The trial as `dialect test --json` prints it."""
        examples = [{"line": line, "columns": dict(columns)} for line, columns in self.examples]
        return {"dialect": self.name, "matched": self.matched, "examples": examples}


def try_dialects(lines: Iterable[bytes], dialects: Sequence[Dialect], *, most: int = 5) -> tuple[int, list[Trial]]:
    """How many lines there are, and what each dialect (by name, in order) matches of them, alone; `most` examples."""
    counts: dict[str, int] = {dialect.name: 0 for dialect in dialects}
    examples: dict[str, list[tuple[str, Mapping[str, str]]]] = {name: [] for name in counts}
    total = 0
    for line in lines:
        total += 1
        text = without_escapes(line)
        for name, match in _matches(text, dialects).items():
            counts[name] += 1
            if len(examples[name]) < most:
                told = {key: value.decode("utf-8", "replace") for key, value in match.groupdict().items() if value}
                shown = {key: value for key, value in told.items() if key not in _HELPING_GROUPS}
                examples[name].append((text.decode("utf-8", "replace"), shown))
    return total, [Trial(name, counts[name], tuple(examples[name])) for name in counts]


_HELPING_GROUPS = ("q", "v")
"""Groups that only say which quotes were used."""


def _matches(text: bytes, dialects: Sequence[Dialect]) -> dict[str, re.Match[bytes]]:
    found: dict[str, re.Match[bytes]] = {}
    for dialect in dialects:
        if dialect.hints and not any(hint in text for hint in dialect.hints):
            continue
        match = dialect.pattern.search(text, max(0, len(text) - dialect.reach))
        if match is not None:
            found.setdefault(dialect.name, match)
    return found
