from __future__ import annotations

from pathlib import Path

import pytest

for package in ("torch", "tensorboardX"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from tests.trainer.test_training import event_curves  # noqa: E402
from trainer import objects  # noqa: E402
from trainer.errors import TrainerError  # noqa: E402
from trainer.events import Events  # noqa: E402


def test_curves_in_a_bucket_are_there_after_each_flush(object_store: str, tmp_path: Path) -> None:
    where = f"gs://trainer-test/{tmp_path.name}/logs"
    events = Events(where)
    for epoch in (1, 2):
        events.add(epoch, test_accuracy=epoch / 2)
        events.flush()
        [name] = objects.matching(where)
        curves = event_curves(objects.read(objects.join(where, name)))
        assert curves == {"test/accuracy": [(step, step / 2) for step in range(1, epoch + 1)]}
    events.close()


def test_a_resumed_run_voids_what_the_killed_one_told_of_the_same_steps(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    Events(str(tmp_path), 17).close()
    [file] = tmp_path.iterdir()
    content = file.read_bytes()
    version = 12 + int.from_bytes(content[:8], "little") + 4
    begun = Event.FromString(content[version + 12 : -4])
    assert (begun.step, begun.session_log.status) == (17, SessionLog.START)


def test_a_place_that_cannot_be_written_is_told_before_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainerError, match=f"Cannot write to {tmp_path}/file/logs"):
        Events(str(tmp_path / "file" / "logs"))


def test_a_bucket_that_fails_later_costs_the_curves_and_not_the_training(
    object_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    events = Events(f"gs://trainer-test/{tmp_path.name}/logs")
    monkeypatch.setattr(events, "_where", "gs://no-such-bucket/logs")
    events.add(1, train_loss=0.5)
    events.flush()
    events.add(2, train_loss=0.5)
    events.flush()
    [said] = [line for line in capfd.readouterr().err.splitlines() if "TensorBoard" in line]
    assert said.startswith("No more TensorBoard events are written to gs://no-such-bucket/logs: There is no bucket")
    events.close()


def test_without_a_place_nothing_is_written() -> None:
    events = Events(None)
    events.add(1, train_loss=0.5)
    events.close()
