from __future__ import annotations

from pathlib import Path

import pytest

for package in ("torch", "tensorboardX"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from tests.trainer.test_training import event_curves
from trainer.errors import TrainerError
from trainer.metrics.tensorboard import EventFile
from trainer.storage import objects


def test_curves_in_a_bucket_are_there_after_each_flush(object_store: str, tmp_path: Path) -> None:
    where = f"gs://trainer-test/{tmp_path.name}/logs"
    events = EventFile(where)
    for epoch in (1, 2):
        events.add(epoch, test_accuracy=epoch / 2)
        events.flush()
        [name] = objects.list_names(where)
        curves = event_curves(objects.read(objects.join(where, name)))
        assert curves == {"test/accuracy": [(step, step / 2) for step in range(1, epoch + 1)]}
    events.close()


def test_a_resumed_run_voids_what_the_killed_one_wrote_for_the_same_steps(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    EventFile(str(tmp_path), 17).close()
    [file] = tmp_path.iterdir()
    content = file.read_bytes()
    version = 12 + int.from_bytes(content[:8], "little") + 4
    begun = Event.FromString(content[version + 12 : -4])
    assert (begun.step, begun.session_log.status) == (17, SessionLog.START)


def test_a_place_that_cannot_be_written_is_refused_before_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainerError, match=f"Cannot write to {tmp_path}/file/logs"):
        EventFile(str(tmp_path / "file" / "logs"))


def test_events_that_could_not_be_uploaded_are_uploaded_with_the_next_flush(
    object_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    where = f"gs://trainer-test/{tmp_path.name}/logs"
    events = EventFile(where)
    with monkeypatch.context() as away:
        away.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
        away.setattr("trainer.metrics.tensorboard.UPLOAD_TIMEOUT_S", 0.5)
        for step in (1, 2):
            events.add(step, train_loss=step / 2)
            events.flush()
    events.add(3, train_loss=1.5)
    events.close()
    [name] = objects.list_names(where)
    curves = event_curves(objects.read(objects.join(where, name)))
    assert curves == {"train/loss": [(1, 0.5), (2, 1.0), (3, 1.5)]}
    fails, again = capfd.readouterr().err.splitlines()
    assert fails.startswith("TensorBoard events are not uploaded now; training continues. Cloud Storage does not")
    assert again == f"TensorBoard events are being uploaded to {where} again."


def test_events_that_were_never_uploaded_are_reported_as_lost(
    object_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    where = f"gs://trainer-test/{tmp_path.name}/logs"
    events = EventFile(where)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    monkeypatch.setattr("trainer.metrics.tensorboard.UPLOAD_TIMEOUT_S", 0.5)
    events.add(1, train_loss=0.5)
    events.close()
    lost = f"TensorBoard events were lost: they could not be uploaded to {where}."
    assert capfd.readouterr().err.splitlines()[-1] == lost


def test_an_event_file_that_is_removed_is_reported_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    events = EventFile(str(tmp_path))
    [file] = tmp_path.iterdir()
    file.unlink()
    for step in (1, 2):
        events.add(step, train_loss=0.5)
        events.flush()
    events.close()
    [printed] = capfd.readouterr().err.splitlines()
    assert printed == f"No more TensorBoard events are written to {tmp_path}: No such file or directory."


def test_without_a_place_nothing_is_written() -> None:
    events = EventFile(None)
    events.add(1, train_loss=0.5)
    events.close()
