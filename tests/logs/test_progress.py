"""Tests of how far a run has come, by the totals that its lines print, and of the time that is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot

pytestmark = pytest.mark.py310

STEP_S = 2.0


def read(lines: list[str], *, at: list[float] | None = None) -> Snapshot:
    """Return the snapshot after these lines, which arrived at these times."""
    demux = Demux()
    for index, line in enumerate(lines):
        demux.feed(0, f"{line}\n".encode(), None if at is None else at[index])
    demux.finish()
    return demux.snapshot()


def totals(snapshot: Snapshot) -> tuple[int | None, int | None]:
    progress = snapshot.progress
    return (None, None) if progress is None else (progress.epochs, progress.steps)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Epoch [2/10], Step [100/600], Loss: 0.5234", (10, 600)),
        ("Epoch: 2/10 | Step: 100/600 | loss: 0.5234", (10, 600)),
        ("epoch 2 of 10, step 100 of 600: loss 0.5234", (10, 600)),
        ("[2/10][100/600] loss: 0.5234", (10, 600)),
        ("step 100/600 loss=0.5234", (None, 600)),
        ("step 1,100/6,000 loss=0.5234", (None, 6000)),
        ("iteration      100/  500000 | elapsed time per iteration (ms): 10.0 | lm loss: 6.9E+00 |", (None, 500_000)),
        ("Epoch 2/10 - loss: 0.5234", (10, None)),
        ("step 100 loss=0.5234", (None, None)),
        ("step 100, loss=0.5234/1.0", (None, None)),
        ("step 100/s loss=0.5234", (None, None)),
        ("step 100: loss 0.5234 (of 600)", (None, None)),
        ("epoch 2 loss 0.5234 12/05/2026", (None, None)),
        ("step 700/600 loss=0.5234", (None, None)),
        ("step 0/0 loss=0.5234", (None, None)),
    ],
)
def test_totals_are_read_behind_a_step_and_an_epoch(line: str, expected: tuple[int | None, int | None]) -> None:
    snapshot = read([line, line.replace("0.5234", "0.5134")])
    assert len(snapshot) == 1
    assert totals(snapshot) == expected


def homemade(epoch: int, step: int, epochs: int, steps: int) -> str:
    return f"Epoch [{epoch}/{epochs}], Step [{step}/{steps}], Loss: 0.5000"


def counting_on(epoch: int, step: int, epochs: int, steps: int) -> str:
    return f"Epoch [{epoch}/{epochs}], Step [{(epoch - 1) * steps + step}/{epochs * steps}], Loss: 0.5000"


def from_zero(epoch: int, step: int, epochs: int, steps: int) -> str:
    return f"Epoch [{epoch - 1}/{epochs}], Step [{step - 1}/{steps}], Loss: 0.5000"


def bars(epoch: int, step: int, _epochs: int, steps: int) -> str:
    return f"Epoch {epoch - 1}: {100 * step // steps:3d}%|##| {step}/{steps} [00:17<01:02, 1.00it/s, loss=0.500]"


def each_epoch(epoch: int, _step: int, epochs: int, _steps: int) -> str:
    return f"Epoch {epoch}/{epochs} - loss: 0.5000"


@pytest.mark.parametrize("steps", [1, 7, 50])
@pytest.mark.parametrize("stride", [1, 5])
@pytest.mark.parametrize("form", [homemade, counting_on, from_zero])
def test_share_and_time_left_agree_with_an_independent_count(
    form: Callable[[int, int, int, int], str], stride: int, steps: int
) -> None:
    epochs = 4
    run = [(epoch, step) for epoch in range(1, epochs + 1) for step in range(1, steps + 1)]
    printed = [number for number, (_, step) in enumerate(run) if (step - 1) % stride == 0]
    for end in range(2, len(printed) + 1, max(1, len(printed) // 12)):
        shown = printed[:end]
        snapshot = read(
            [form(*run[number], epochs, steps) for number in shown],
            at=[1e9 + STEP_S * number for number in shown],
        )
        progress = snapshot.progress
        assert progress is not None
        assert progress.share is not None
        assert progress.total is not None
        epoch, step = run[shown[-1]]
        done = (epoch - 1) * steps + step
        if progress.of == "epochs" or form is counting_on:
            expected, total = done, epochs * steps
            assert epoch > 1 or form is counting_on
        else:
            # In the first epoch, it is unknown whether steps begin again.
            assert epoch == 1 or steps == 1
            expected, total = step, steps
        off_by_one = 1 / total + 1e-9
        assert progress.share == pytest.approx(expected / total, abs=off_by_one)
        left = snapshot.seconds_left()
        if progress.of == "epochs" or expected > 2 * stride:
            assert left is not None
            assert left == pytest.approx(STEP_S * (total - expected), abs=STEP_S * (1.1 + 0.1 * total))


def test_an_epoch_that_is_printed_at_its_end_is_done() -> None:
    lines = [each_epoch(epoch, 0, 20, 0) for epoch in range(1, 6)]
    snapshot = read(lines, at=[1e9 + 60.0 * number for number in range(5)])
    assert snapshot.progress is not None
    assert (snapshot.progress.of, snapshot.progress.share) == ("epochs", 0.25)
    assert snapshot.seconds_left() == pytest.approx(15 * 60)


def test_a_bar_without_the_number_of_epochs_counts_the_steps_of_its_epoch() -> None:
    lines = [bars(epoch, step, 0, 10) for epoch in (1, 2, 3) for step in range(1, 11)][:25]
    snapshot = read(lines, at=[1e9 + STEP_S * number for number in range(25)])
    assert snapshot.progress is not None
    assert (snapshot.progress.of, snapshot.progress.share) == ("steps", 0.5)
    assert snapshot.seconds_left() == pytest.approx(5 * STEP_S, rel=0.3)


def test_the_time_left_includes_evaluations_but_no_pause_before_a_restart() -> None:
    demux, now, paces = Demux(), 1e9, []
    for epoch in (1, 2, 3):
        for step in range(1, 11):
            now += STEP_S
            demux.feed(0, f"{homemade(epoch, step, 10, 10)}\n".encode(), now)
        now += 80.0  # an evaluation
        paces.append(demux.snapshot(now).seconds_left())
    assert paces[-1] == pytest.approx(7 * 100.0, rel=0.25)
    demux.restart()
    now += 3600.0
    for step in range(1, 9):
        now += STEP_S
        demux.feed(0, f"{homemade(4, step, 10, 10)}\n".encode(), now)
    assert demux.snapshot(now).seconds_left() == pytest.approx(62 * STEP_S, rel=0.1)


def test_a_fraction_of_an_epoch_is_no_whole_epoch() -> None:
    lines = ["  Num Epochs = 3", *(f"{{'loss': 0.5, 'epoch': {part}}}" for part in (0.25, 0.5, 1.25))]
    snapshot = read(lines)
    assert totals(snapshot) == (3, None)
    assert snapshot.progress is not None
    assert snapshot.progress.share is None


def test_totals_of_an_evaluation_do_not_count() -> None:
    lines = [homemade(1, step, 3, 100) for step in (10, 20, 30)]
    snapshot = read([*lines, "Validation: [5/20] val_loss: 0.7000"])
    assert totals(snapshot) == (3, 100)


def test_hostile_totals_are_bounded() -> None:
    for total in ("9" * 12, "9" * 40, ",,,", "1,2,3", "-5", "1e9"):
        snapshot = read([f"step 5/{total} loss=0.5", f"step 6/{total} loss=0.4"])
        assert len(snapshot) == 1
        assert snapshot.progress is None or snapshot.progress.steps == int("9" * 12)


def test_the_place_names_what_is_known() -> None:
    assert read([homemade(2, 40, 10, 391)]).place == ("epoch 2 of 10", "step 40 of 391")
    assert read(["step 40 loss=0.5", "step 50 loss=0.4"]).place == ("step 50",)
    assert read(["no samples"]).place == ()
