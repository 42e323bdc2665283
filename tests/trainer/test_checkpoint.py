from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.trainer.storage_answers import answering
from trainer.checkpoint import store
from trainer.checkpoint.store import CheckpointStore, Identity, Pointer, Position, State
from trainer.errors import TrainerError
from trainer.storage import objects

IDENTITY = Identity("resnet50", 10, "plan")


def state(value: float = 1.0) -> State:
    floats = {"model.w": torch.full((3, 4), float(value)), "momentum.w": torch.full((3, 4), -float(value))}
    return State(floats, {"seen": 7}, [(torch.get_rng_state(), 5)])


def save_checkpoints(where: str, values: int) -> CheckpointStore:
    writer = CheckpointStore(where, IDENTITY, None)
    for value in range(1, values + 1):
        writer.save(state(value), Position(1, value, None))
    return writer


def find_newest_value(where: str) -> tuple[float | None, list[str]]:
    """Return the value in the newest whole checkpoint, and the lines that were printed while it was searched."""
    printed: list[str] = []
    newest = store.find_newest(where, IDENTITY, printed.append)
    return (None if newest is None else float(newest[1].floats["model.w"][0, 0])), printed


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return str(tmp_path / "runs" / "one")
    request.getfixturevalue("object_store")
    return f"gs://trainer-test/{tmp_path.name}"


def test_a_saved_checkpoint_loads_unchanged(place: str) -> None:
    position = Position(3, 17, 71.25)
    where = CheckpointStore(place, IDENTITY, None).save(state(2.5), position)
    newest = store.find_newest(place, IDENTITY)
    assert newest is not None
    pointer, loaded, path = newest
    assert (pointer.position, pointer.identity) == (position, IDENTITY)
    assert where == path == objects.join(place, pointer.file)
    before = state(2.5)
    assert loaded.floats.keys() == before.floats.keys()
    assert all(torch.equal(loaded.floats[name], value) for name, value in before.floats.items())
    assert loaded.integers == {"seen": 7}
    assert torch.equal(loaded.random[0][0], torch.get_rng_state())
    assert loaded.random[0][1] == 5


def test_a_place_without_checkpoints_has_none(place: str) -> None:
    assert find_newest_value(place) == (None, [])


def test_the_last_three_and_the_best_are_kept(place: str) -> None:
    writer = save_checkpoints(place, 2)
    writer.save(state(3), Position(1, 3, 50.0), best=True)
    for value in range(4, 9):
        writer.save(state(value), Position(1, value, 50.0))
    kinds = ("json", "pt")
    numbered = sorted(f"checkpoint-{number:06d}.{kind}" for number in (3, 6, 7, 8) for kind in kinds)
    assert objects.list_names(place) == ["best.json", *numbered]
    pointer, best, _ = store.load_named(objects.join(place, "best.json"), IDENTITY)
    assert pointer.position.best == 50.0
    assert float(best.floats["model.w"][0, 0]) == 3


def test_of_checkpoints_that_were_each_the_best_so_far_the_newest_are_kept(tmp_path: Path) -> None:
    for value in range(1, 8):
        newest = store.find_newest(str(tmp_path), IDENTITY)
        writer = CheckpointStore(str(tmp_path), IDENTITY, newest and newest.pointer)
        for accuracy in (value - 0.5, value + 0.0):
            writer.save(state(value), Position(value, 0, accuracy), best=True)
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == [f"checkpoint-{n:06d}.pt" for n in (11, 12, 13, 14)]


def spoil_state(directory: Path) -> None:
    path = directory / "checkpoint-000003.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def cut_state(directory: Path) -> None:
    path = directory / "checkpoint-000003.pt"
    path.write_bytes(path.read_bytes()[:-10])


def older_schema(directory: Path) -> None:
    path = directory / "checkpoint-000003.json"
    write_pointer(path, schema=0)


def write_pointer(path: Path, **fields: Any) -> None:
    """Change fields of a pointer and write it with a matching checksum."""
    document = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({**document, "checksum": store.checksum_of(document)}))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_state, "its checksum is wrong"),
        (cut_state, "bytes"),
        (lambda directory: (directory / "checkpoint-000003.json").unlink(), "it was never finished"),
        (lambda directory: (directory / "checkpoint-000003.json").write_text("{"), "Expecting"),
        (lambda directory: (directory / "checkpoint-000003.json").write_text('{"schema": 1}'), "it lacks file"),
        (lambda directory: (directory / "checkpoint-000003.pt").unlink(), "Cannot read"),
        (older_schema, "it has schema 0, this trainer reads 1"),
        (lambda directory: (directory / "checkpoint-000003.json").write_text("null"), "NoneType"),
        (lambda directory: newer_pointer(directory, position={"epoch": "two"}), "its epoch is 'two'"),
        (
            lambda directory: newer_pointer(directory, position={"epoch": 0}),
            "epoch 0, step 0, best None is not a position",
        ),
        (lambda directory: newer_pointer(directory, file="../checkpoint-000003.pt"), "it points at '../checkpoint"),
        (
            lambda directory: newer_state(directory, floats={"model.weight": torch.tensor([1.0, float("nan")])}),
            "the training had diverged",
        ),
    ],
)
def test_a_damaged_or_unfinished_checkpoint_is_passed_over_and_reported(
    tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    save_checkpoints(str(tmp_path), 3)
    spoil(tmp_path)
    value, printed = find_newest_value(str(tmp_path))
    assert value == 2
    [line] = printed
    assert line.startswith(f"Passed over checkpoint {tmp_path}/checkpoint-000003: ")
    assert says in line


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"size": INF}, "its size is inf"),
        ({"size": NAN}, "its size is nan"),
        ({"size": 10**30}, "it has "),
        ({"size": 1}, "it has more than 1 bytes"),
        ({"size": -1}, "it has more than -1 bytes"),
        ({"run": {}}, "its run is {}"),
        ({"file": 5}, "its file is 5"),
        ({"position": {"epoch": INF}}, "its epoch is inf"),
        ({"position": {"step": NAN}}, "its step is nan"),
        ({"position": {"step": True}}, "its step is True"),
        ({"position": {"best": NAN}}, "is not a position"),
        ({"position": []}, "its position is []"),
        ({"position": "x" * 10**6}, "its position is 'xxx"),
        ({"identity": "x"}, "its identity is 'x'"),
        ({"identity": {**vars(IDENTITY), "classes": "10"}}, "its classes is '10'"),
        ({"identity": {"model": "resnet50"}}, "it lacks classes"),
    ],
)
def test_a_pointer_with_a_field_of_another_type_is_damaged(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    save_checkpoints(str(tmp_path), 3)
    newer_pointer(tmp_path, **fields)
    value, [line] = find_newest_value(str(tmp_path))
    assert value == 2
    assert says in line
    assert len(line) < 300


WIDE = torch.zeros(1).expand(1 << 28)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"floats": torch.zeros(2)}, "its floats are not tensors"),
        ({"floats": {"model.w": 5}}, "its floats are not tensors"),
        ({"floats": {"model.w": torch.zeros(2, dtype=torch.int64)}}, "its floats are not tensors"),
        ({"floats": {"model.w": WIDE}}, "its tensors are larger than its file"),
        ({"floats": {"model.w": torch.zeros(2).to_sparse()}}, "floats are not tensors"),
        ({"integers": "abc"}, "its integers are not numbers"),
        ({"integers": {"seen": 2**63}}, "its integers are not numbers"),
        ({"integers": {5: 5}}, "its integers are not numbers"),
        ({"random": "ab"}, "its generators' states are not a list"),
        ({"random": [5]}, "it is damaged"),
        ({"random": [("x", {})]}, "it is damaged"),
        ({"random": [(torch.get_rng_state()[:-1], 5)]}, "the input RNG state size"),
        ({"random": [(torch.get_rng_state(), 2**64)]}, "generator has no number"),
    ],
)
def test_a_state_with_a_field_of_another_type_is_damaged(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    save_checkpoints(str(tmp_path), 3)
    newer_state(tmp_path, **fields)
    value, [line] = find_newest_value(str(tmp_path))
    assert value == 2
    assert says in line


def repack(directory: Path, change: Callable[[str, bytes], bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """Change the files inside the newest state, and adapt its pointer."""
    path = directory / "checkpoint-000003.pt"
    whole = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
    with zipfile.ZipFile(path, "w", compression) as packed:
        for name in whole.namelist():
            packed.writestr(name, change(name, whole.read(name)))
    content = path.read_bytes()
    newer_pointer(directory, size=len(content), sha256=hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("pickled", [b"\x80\x02J\x01", b"\x80\x02K\x05Q.", b"\x80\x02.", b""])
def test_a_state_with_any_invalid_pickle_is_damaged(tmp_path: Path, pickled: bytes) -> None:
    save_checkpoints(str(tmp_path), 3)
    repack(tmp_path, lambda name, content: pickled if name.endswith("data.pkl") else content)
    assert find_newest_value(str(tmp_path))[0] == 2


def test_a_state_that_is_compressed_is_damaged_before_it_is_decompressed(tmp_path: Path) -> None:
    """A file of 23 MB became 5 GB."""
    save_checkpoints(str(tmp_path), 3)
    repack(tmp_path, lambda name, content: content + bytes(1 << 20) * name.endswith("data/0"), zipfile.ZIP_DEFLATED)
    value, [line] = find_newest_value(str(tmp_path))
    assert value == 2
    assert "its parts are larger than its file" in line


def newer_pointer(directory: Path, **fields: Any) -> None:
    write_pointer(directory / "checkpoint-000003.json", **fields)


def newer_identity(directory: Path) -> None:
    newer_pointer(directory, identity={**vars(IDENTITY), "precision": "bf16"})


def newer_state(directory: Path, **fields: Any) -> None:
    stream = io.BytesIO()
    torch.save({"schema": store.SCHEMA, **vars(state(3)), **fields}, stream)
    content = stream.getvalue()
    (directory / "checkpoint-000003.pt").write_bytes(content)
    newer_pointer(directory, size=len(content), sha256=hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_a_flipped_bit_in_a_pointer_never_resumes_from_a_changed_position(tmp_path: Path, place: int) -> None:
    save_checkpoints(str(tmp_path), 3)
    path = tmp_path / "checkpoint-000003.json"
    content = bytearray(path.read_bytes())
    whole = Pointer.from_json(bytes(content), "whole")
    content[place % len(content)] ^= 1 << (place % 7)
    path.write_bytes(content)
    newest = store.find_newest(str(tmp_path), IDENTITY, lambda _: None)
    assert newest is not None
    assert newest[0] == whole or newest[0].position.step == 2


def test_a_pointer_of_an_earlier_trainer_which_has_no_checksum_is_read(tmp_path: Path) -> None:
    save_checkpoints(str(tmp_path), 1)
    path = tmp_path / "checkpoint-000001.json"
    older = {name: value for name, value in json.loads(path.read_text()).items() if name != "checksum"}
    path.write_text(json.dumps(older))
    assert find_newest_value(str(tmp_path)) == (1.0, [])


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (partial(newer_pointer, schema=99), "it has schema 99, this trainer reads 1"),
        (partial(newer_pointer, parts=["a", "b"]), "this trainer does not know its parts"),
        (newer_identity, "this trainer does not know its precision"),
        (partial(newer_state, schema=99), "it has schema 99, this trainer reads 1"),
        (partial(newer_state, averages={}), "this trainer does not know its averages"),
    ],
    ids=["pointer's schema", "pointer's field", "identity's field", "state's schema", "state's field"],
)
@pytest.mark.parametrize("name", ["", "/checkpoint-000003.pt"], ids=["auto", "named"])
def test_a_newer_trainers_checkpoint_is_refused_with_what_to_do_and_not_taken_for_damaged(
    tmp_path: Path, write: Callable[[Path], None], says: str, name: str
) -> None:
    save_checkpoints(str(tmp_path), 3)
    write(tmp_path)
    remedy = "Update the trainer here, or give another --checkpoint-dir, or --resume no."
    with pytest.raises(TrainerError) as refused:
        store.load_named(f"{tmp_path}{name}", IDENTITY)
    assert re.fullmatch(
        rf"Checkpoint {tmp_path}/checkpoint-000003\.(json|pt) was written by a newer trainer: {says}\. {remedy}",
        str(refused.value),
    )


def refusing(path: str) -> tuple[int, bytes]:
    """Answer as a bucket that lists its objects and refuses to return any of them."""
    listing = b'{"items": [{"name": "kept/checkpoint-000001.json"}, {"name": "kept/checkpoint-000001.pt"}]}'
    return (200, listing) if "prefix" in path else (403, b'{"error": {"message": "not now"}}')


def test_a_checkpoint_that_temporarily_cannot_be_read_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a bucket that is unreachable for a moment would make the run start from the beginning."""
    why = r"No permission for gs://runs/kept/checkpoint-000001.json: .*not now"
    with answering(monkeypatch, refusing), pytest.raises(TrainerError, match=why):
        store.find_newest("gs://runs/kept", IDENTITY)


def test_a_checkpoint_on_a_disk_that_cannot_be_read_is_reported_with_a_remedy(tmp_path: Path) -> None:
    save_checkpoints(str(tmp_path), 3)
    (tmp_path / "checkpoint-000003.pt").unlink()
    (tmp_path / "checkpoint-000003.pt").mkdir()  # a directory: even root cannot read it as a file
    with pytest.raises(TrainerError, match=r"Cannot read .*3\.pt: Is a directory\. Make it readable, or"):
        store.find_newest(str(tmp_path), IDENTITY)


@pytest.mark.parametrize("other", [replace(IDENTITY, model="resnet18"), replace(IDENTITY, classes=1000)])
def test_another_models_checkpoint_is_refused_with_both_named(tmp_path: Path, other: Identity) -> None:
    save_checkpoints(str(tmp_path), 1)
    with pytest.raises(TrainerError, match=r"is of another model: resnet50 for 10 classes, not .*--resume no"):
        store.find_newest(str(tmp_path), other)


def test_a_checkpoint_of_another_plan_is_accepted(tmp_path: Path) -> None:
    save_checkpoints(str(tmp_path), 1)
    assert store.find_newest(str(tmp_path), replace(IDENTITY, plan="others")) is not None


def test_a_checkpoint_can_be_named_by_its_file_its_pointer_or_its_directory(tmp_path: Path) -> None:
    save_checkpoints(str(tmp_path), 2)
    names = ["", "/checkpoint-000002.pt", "/checkpoint-000002.json"]
    assert {store.load_named(f"{tmp_path}{name}", IDENTITY)[0].position.step for name in names} == {2}


def test_a_named_checkpoint_that_is_damaged_or_not_there_is_an_error(tmp_path: Path) -> None:
    save_checkpoints(str(tmp_path), 3)
    cut_state(tmp_path)
    with pytest.raises(TrainerError, match=r"Cannot resume from .*checkpoint-000003.pt: it has \d+ of \d+ bytes"):
        store.load_named(str(tmp_path / "checkpoint-000003.pt"), IDENTITY)
    with pytest.raises(TrainerError, match="There is no whole checkpoint in"):
        store.load_named(str(tmp_path / "nowhere"), IDENTITY)
    with pytest.raises(TrainerError, match="Cannot read"):
        store.load_named(str(tmp_path / "nothing.pt"), IDENTITY)


def test_a_run_killed_before_its_best_is_recorded_resumes_from_the_one_before_and_finds_its_best_again(
    tmp_path: Path,
) -> None:
    writer = save_checkpoints(str(tmp_path), 1)
    (tmp_path / "best.json").mkdir()  # the save fails here, after the state and its pointer
    with pytest.raises(TrainerError, match=r"best\.json"):
        writer.save(state(2), Position(2, 0, 50.0), best=True)
    newest = store.find_newest(str(tmp_path), IDENTITY)
    assert newest is not None
    assert newest[0].position == Position(1, 1, None)


def test_another_run_in_the_same_place_overwrites_and_deletes_nothing_of_the_first(tmp_path: Path) -> None:
    save_checkpoints(str(tmp_path), 2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    second = save_checkpoints(str(tmp_path), 5)
    assert before.items() <= {path.name: path.read_bytes() for path in tmp_path.iterdir()}.items()
    assert find_newest_value(str(tmp_path))[0] == 5
    assert second.run not in before["checkpoint-000001.json"].decode()


def test_two_runs_that_save_alternately_in_one_place_overwrite_nothing_of_each_other_and_report_it_once(
    place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = CheckpointStore(place, IDENTITY, None), CheckpointStore(place, IDENTITY, None)
    saved = [writer.save(state(value), Position(1, value)) for value in (1, 2) for writer in (first, second)]
    assert saved == [objects.join(place, f"checkpoint-{number:06d}.pt") for number in (1, 2, 3, 4)]
    runs = [store.load_named(path, IDENTITY)[0].run for path in saved]  # each checkpoint is whole
    assert runs == [first.run, second.run] * 2
    printed = f"Another run seems to save to {place} too, and --resume auto takes the newest of all."
    assert capfd.readouterr().err.count(printed) == 2


def test_a_resumed_run_deletes_its_own_old_checkpoints(tmp_path: Path) -> None:
    first = save_checkpoints(str(tmp_path), 3)
    newest = store.find_newest(str(tmp_path), IDENTITY)
    assert newest is not None
    resumed = CheckpointStore(str(tmp_path), IDENTITY, newest[0])
    assert resumed.run == first.run
    resumed.save(state(4), Position(1, 4, None))
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == [f"checkpoint-{n:06d}.pt" for n in (2, 3, 4)]


def test_a_place_that_cannot_be_written_is_reported_before_the_first_save(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainerError, match=rf"Cannot keep checkpoints in {tmp_path}/file: .* --checkpoint-dir"):
        CheckpointStore(str(tmp_path / "file"), IDENTITY, None)


def test_checking_a_writable_directory_leaves_it_unchanged(place: str) -> None:
    CheckpointStore(place, IDENTITY, None)
    assert objects.list_names(place) == []
