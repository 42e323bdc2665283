"""Store everything that a run needs to continue, in a directory or gs://bucket/prefix.

`checkpoint-000012.pt` holds the state. `checkpoint-000012.json` is written after it, with its size and SHA-256: a
state without that pointer was never finished. `best.json` points at the checkpoint with the best accuracy. Numbers
only grow, also over runs that share the directory, so that nothing whole is ever overwritten.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import pickle
import re
import secrets
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, get_type_hints
from zipfile import BadZipFile, ZipFile

import torch

from trainer.errors import TrainerError, check_fields, check_schema
from trainer.progress import write_error, write_line
from trainer.storage import objects

SCHEMA = 1
CHECKPOINTS_TO_KEEP = 3  # of a run, besides its best: if the newest is damaged, there is another
BEST = "best.json"
BEGIN_ELSEWHERE = "give another --checkpoint-dir, or --resume no"
RESUME_OTHERWISE = "Give another --resume, or auto or no"
PROBE = ".probe"  # always the same name, so that the next run removes what a killed one left
NAME = re.compile(r"checkpoint-(\d{6,})\.(pt|json)")
OWN_FILES = re.compile(rf"{NAME.pattern}|{re.escape(BEST)}|{re.escape(PROBE)}")
DAMAGED = (
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    AssertionError,
    EOFError,
    struct.error,
    BadZipFile,
    pickle.UnpicklingError,
    objects.TooLargeError,
)
T = TypeVar("T")


@dataclass(frozen=True)
class Position:
    """A run's progress, which determines the learning rate and the next samples."""

    epoch: int = 1
    step: int = 0  # done in this epoch; if all are done, only the epoch's evaluation is due
    best: float | None = None  # accuracy in percent

    def __post_init__(self) -> None:
        if self.epoch < 1 or self.step < 0 or (self.best is not None and not 0 <= self.best <= 100):
            raise ValueError(f"epoch {self.epoch}, step {self.step}, best {self.best} is not a position")


@dataclass(frozen=True)
class Identity:
    """A checkpoint's model and plan: other models cannot resume from it, other plans only at an epoch's start."""

    model: str
    classes: int
    plan: str  # digest of the settings that the order of the samples depends on: batch, cores, seed, data …
    order: int = 0  # how the trainer derives the order from them (pipeline.ORDER); 0: in early versions


def checksum_of(pointer: Mapping[str, Any]) -> str:
    """Return the checksum of a pointer file's fields: one flipped bit in them would change how a run continues."""
    fields = {name: value for name, value in pointer.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Pointer:
    """A finished checkpoint's pointer file: the file, size and checksum of its state, and what the state is of."""

    file: str
    size: int  # bytes
    sha256: str
    run: str  # the same for all that a run saves, however often it is resumed
    position: Position
    identity: Identity

    def to_json(self) -> bytes:
        """Return the content of the pointer file."""
        document = {"schema": SCHEMA, **dataclasses.asdict(self)}
        return (json.dumps({**document, "checksum": checksum_of(document)}, indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> Pointer:
        """Parse a pointer file; raise one of DAMAGED, or TrainerError where a newer trainer wrote it.

        Pointers of early versions have no checksum.
        """
        loaded: dict[str, Any] = json.loads(text)
        field_names = {"schema", *get_type_hints(cls)}
        checksum = loaded.pop("checksum", None)
        # Newer trainers write one too, so an unknown field without a checksum is a damaged name.
        if checksum != checksum_of(loaded) if checksum is not None else not field_names.issuperset(loaded):
            raise ValueError("its pointer's checksum is wrong")
        what = f"Checkpoint {where}"
        check_schema(what, loaded.pop("schema"), SCHEMA, BEGIN_ELSEWHERE)
        pointer = _parse(cls, loaded, what)
        if not NAME.fullmatch(pointer.file):
            raise ValueError(f"it points at {pointer.file!r}")
        return pointer


def _parse(kind: type[T], found: Any, what: str) -> T:
    """Return a dataclass whose fields are JSON; raise one of DAMAGED, or TrainerError naming `what`."""
    types = get_type_hints(kind)
    check_fields(what, found, types, BEGIN_ELSEWHERE)
    values = {}
    for name, default in ((field_.name, field_.default) for field_ in dataclasses.fields(kind)):  # type: ignore[arg-type]
        value = found[name] if default is dataclasses.MISSING else found.get(name, default)
        is_part = dataclasses.is_dataclass(types[name])
        if isinstance(value, bool) or not isinstance(value, dict if is_part else types[name]):
            raise ValueError(f"its {name} is {value!r:.40}")
        values[name] = _parse(types[name], value, what) if is_part else value
    return kind(**values)


@dataclass
class State:
    """The content of a checkpoint; all tensors are on the host."""

    floats: dict[str, torch.Tensor]  # parameters and running statistics as "model.…", momentum as "momentum.…"
    integers: dict[str, int]  # the model's counters
    random: list[Any] = field(default_factory=list)  # each rank's generators: host's, device's

    def __post_init__(self) -> None:
        if not isinstance(self.floats, dict) or not all(map(_is_plain, self.floats.values())):
            raise ValueError("its floats are not tensors")
        if not isinstance(self.integers, dict) or not all(
            isinstance(name, str) and isinstance(number, int) and abs(number) < 1 << 63
            for name, number in self.integers.items()
        ):
            raise ValueError("its integers are not numbers")
        if not isinstance(self.random, list):
            raise ValueError("its generators' states are not a list")
        for host, device in self.random:
            torch.Generator().set_state(host)  # raises what is wrong with it
            if not isinstance(device, int) or not 0 <= device < 1 << 64:
                raise ValueError("a device's generator has no number as state")

    @property
    def has_diverged(self) -> bool:
        """Return whether it holds NaN or infinite values, from which no training recovers."""
        return not all(bool(value.isfinite().all()) for value in self.floats.values())


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.layout == torch.strided


class Checkpoint(NamedTuple):
    """A checkpoint that was loaded: its pointer, state and path."""

    pointer: Pointer
    state: State
    path: str


def load(where: str, pointer: Pointer) -> State:
    """Load a checkpoint; raise ValueError saying how it is damaged, TrainerError where it cannot be read."""
    content = objects.read(objects.join(where, pointer.file), pointer.size)
    if len(content) != pointer.size:
        raise ValueError(f"it has {len(content)} of {pointer.size} bytes")
    if hashlib.sha256(content).hexdigest() != pointer.sha256:
        raise ValueError("its checksum is wrong")
    with ZipFile(io.BytesIO(content)) as archive:  # PyTorch compresses nothing, but would decompress it
        if sum(part.file_size for part in archive.infolist()) > len(content):
            raise ValueError("its parts are larger than its file")
    loaded = torch.load(io.BytesIO(content), weights_only=True)
    what = f"Checkpoint {objects.join(where, pointer.file)}"
    check_schema(what, loaded.pop("schema"), SCHEMA, BEGIN_ELSEWHERE)
    check_fields(what, loaded, [field_.name for field_ in dataclasses.fields(State)], BEGIN_ELSEWHERE)
    state = State(**loaded)
    if sum(value.nbytes for value in state.floats.values()) > len(content):  # tensors may repeat a few bytes
        raise ValueError("its tensors are larger than its file")
    if state.has_diverged:
        raise ValueError("the training had diverged")
    return state


def find_newest(where: str, identity: Identity, notify: Callable[[str], None] = write_line) -> Checkpoint | None:
    """Return the newest whole checkpoint in a directory; report newer ones that are skipped, and why.

    Raises TrainerError when it belongs to another model or a newer trainer, or cannot be read at the moment:
    starting over, or from a much older one, would look as if it were lost.
    """
    names = _names(where)
    for number in sorted({number for number, _ in names}, reverse=True):
        name = f"checkpoint-{number:06d}"
        try:
            if (number, "json") not in names:
                raise ValueError("it was never finished")
            return _load_pointed(where, f"{name}.json", identity)
        except (objects.MissingError, *DAMAGED) as error:
            notify(f"Passed over checkpoint {objects.join(where, name)}: {_why(error)}")
        except TrainerError as error:
            error.remedy = error.remedy or "Make it readable, or name an older one with --resume"
            raise
    return None


def load_named(path: str, identity: Identity) -> Checkpoint:
    """Load the checkpoint at a path (.pt, .json, best.json), or the newest of a directory; raise TrainerError."""
    if not path.endswith((".pt", ".json")):
        newest = find_newest(path, identity)
        if newest is None:
            raise TrainerError(f"There is no whole checkpoint in {path}", remedy=RESUME_OTHERWISE)
        return newest
    directory, file = objects.parent(path), path.rpartition("/")[2]
    try:
        return _load_pointed(directory, re.sub(r"\.pt$", ".json", file), identity)
    except DAMAGED as error:
        raise TrainerError(f"Cannot resume from {path}", why=_why(error), remedy=RESUME_OTHERWISE) from error
    except TrainerError as error:
        error.remedy = error.remedy or RESUME_OTHERWISE
        raise


def _load_pointed(directory: str, name: str, identity: Identity) -> Checkpoint:
    """Load the checkpoint of a pointer file; raise one of DAMAGED, or TrainerError."""
    pointer = _pointer(directory, name)
    path = objects.join(directory, pointer.file)
    _refuse_another_model(path, pointer.identity, identity)
    return Checkpoint(pointer, load(directory, pointer), path)


class CheckpointStore:
    """Saves the checkpoints of one run and deletes its older ones, on rank 0."""

    def __init__(
        self, where: str, identity: Identity, resumed: Pointer | None, patience: float | None = None
    ) -> None:
        """Open the store of a run that continues `resumed`; `patience` is the same as for `objects.write`."""
        self._where, self._identity, self._patience = where, identity, patience
        self.run = resumed.run if resumed else secrets.token_hex(8)
        self._own: list[str] = []  # the names of this run's checkpoints, oldest first
        self._best: str | None = None
        self._warned_of_another = False
        objects.remove_temp_files(where, OWN_FILES)
        self._look_around()
        self._try_to_write()

    def save(self, state: State, position: Position, *, best: bool = False) -> str:
        """Write a checkpoint and its pointer, then delete checkpoints that are no longer needed; return its path."""
        try:
            pointer = self._write(state, position, best=best)
        except objects.TakenError:
            self._give_way()
            return self.save(state, position, best=best)
        self._number += 1
        name = pointer.file.removesuffix(".pt")
        self._own.append(name)
        if best:
            self._best = name
        for old in [own for own in self._own if own != self._best][:-CHECKPOINTS_TO_KEEP]:
            for kind in ("json", "pt"):  # first the pointer, then what it points at
                objects.delete(objects.join(self._where, f"{old}.{kind}"), patience=self._patience)
            self._own.remove(old)
        return objects.join(self._where, pointer.file)

    def _write(self, state: State, position: Position, *, best: bool) -> Pointer:
        """Write the state, then its pointers; raise TakenError if the number is already taken.

        `best.json` is written before the checkpoint's own pointer: a run that is killed in between does not resume
        from this checkpoint, and reaches its best accuracy again.
        """
        stream = io.BytesIO()
        torch.save({"schema": SCHEMA, **vars(state)}, stream)
        content, name = stream.getvalue(), f"checkpoint-{self._number:06d}"
        digest = hashlib.sha256(content).hexdigest()
        pointer = Pointer(f"{name}.pt", len(content), digest, self.run, position, self._identity)
        objects.write(objects.join(self._where, pointer.file), content, new=True, patience=self._patience)
        for pointer_name in ([BEST] if best else []) + [f"{name}.json"]:
            objects.write(objects.join(self._where, pointer_name), pointer.to_json(), patience=self._patience)
        return pointer

    def _give_way(self) -> None:
        """Take the next free number: two runs that share a directory overwrite nothing of each other."""
        if not self._warned_of_another:
            self._warned_of_another = True
            what = f"Another run seems to save to {self._where} too, and --resume auto takes the newest of all"
            write_error(f"{what}. Give each run its own --checkpoint-dir.")
        self._number = _first_free(_names(self._where))

    def _try_to_write(self) -> None:
        """Write a probe, so that a directory that cannot be written is reported before hours of training."""
        probe = objects.join(self._where, PROBE)
        try:
            objects.write(probe, b"")
            objects.delete(probe)
        except TrainerError as error:
            remedy = error.remedy or "Give another --checkpoint-dir"
            what = f"Cannot keep checkpoints in {self._where}"
            raise TrainerError(what, why=error.why or error.what, remedy=remedy) from error

    def _look_around(self) -> None:
        names = _names(self._where)
        self._number = _first_free(names)
        for number in sorted(number for number, kind in names if kind == "json"):
            if self._belongs(f"checkpoint-{number:06d}.json") is not None:
                self._own.append(f"checkpoint-{number:06d}")
        best = self._belongs(BEST)
        if best is not None:
            self._best = best.file.removesuffix(".pt")

    def _belongs(self, name: str) -> Pointer | None:
        try:
            pointer = _pointer(self._where, name)
        except (TrainerError, *DAMAGED):
            return None
        return pointer if pointer.run == self.run else None


def _refuse_another_model(path: str, saved: Identity, expected: Identity) -> None:
    if (saved.model, saved.classes) != (expected.model, expected.classes):
        raise TrainerError(
            f"Checkpoint {path} is of another model",
            why=f"{saved.model} for {saved.classes} classes, not {expected.model} for {expected.classes}",
            remedy="Give another --checkpoint-dir, or --resume no",
        )


def _pointer(directory: str, name: str) -> Pointer:
    path = objects.join(directory, name)
    return Pointer.from_json(objects.read_document(path), path)


def _names(directory: str) -> set[tuple[int, str]]:
    matches = map(NAME.fullmatch, objects.list_names(directory) if objects.is_directory(directory) else [])
    return {(int(match[1]), match[2]) for match in matches if match}


def _first_free(names: set[tuple[int, str]]) -> int:
    return 1 + max((number for number, _ in names), default=0)


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it lacks {error.args[0]}"
    if isinstance(error, (TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError)):
        return f"it is damaged ({error})"
    return str(error).rstrip(".") or type(error).__name__
