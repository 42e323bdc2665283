from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.errors import UsageError
from tui.planning import make_plan

TYPES = (
    "v2-8",
    "v2-32",
    "v3-8",
    "v3-2048",
    "v4-8",
    "v4-16",
    "v5litepod-1",
    "v5litepod-16",
    "v5p-128",
    "v6e-8",
    "tpu7x-8",
)


def test_four_times_the_cores_take_four_times_the_batch() -> None:
    plan = make_plan("v2-8", "v2-32", batch_size=1024)

    assert (plan.global_batch, plan.batch_per_core, plan.warnings) == (4096, 128, ())


def test_four_workers_need_a_quarter_of_the_steps() -> None:
    plan = make_plan("v2-8", "v2-32", batch_size=1000, steps=100)

    assert (plan.global_batch, plan.steps) == (4000, 25)
    assert plan.global_batch * (plan.steps or 0) == 100_000
    assert plan.warnings == ()


@pytest.mark.parametrize(
    ("source", "target", "batch"),
    [
        ("v2-8", "v3-32", 4096),
        ("v2-8", "v4-8", 512),
        ("v2-8", "v4-32", 2048),
        ("v2-8", "v5p-16", 1024),
        ("v2-8", "v5litepod-4", 512),
        ("v2-8", "v5litepod-16", 2048),
        ("v2-8", "v6e-256", 32768),
        ("v6e-8", "tpu7x-16", 2048),
        ("v6e-8", "v7x-8", 1024),
        ("v3-32", "v3-8", 256),
        ("v5litepod-8", "v5litepod-1", 128),
    ],
)
def test_each_generation_counts_its_cores_in_its_own_way(source: str, target: str, batch: int) -> None:
    assert make_plan(source, target, batch_size=1024).global_batch == batch


def test_the_learning_rate_scales_with_the_batch_and_is_called_a_starting_point() -> None:
    plan = make_plan("v2-8", "v2-32", batch_size=1024, lr=0.1, epochs=90, steps=9000)

    assert (plan.lr, plan.epochs, plan.steps) == (0.4, 90, 2250)
    assert (plan.warm_up_epochs, plan.warm_up_steps) == (5, 125)
    assert any("starting point" in note for note in plan.notes)
    assert any("from 0.1 to 0.4 over the first 5 epochs" in note for note in plan.notes)


def test_a_short_training_warms_up_for_a_third_and_a_smaller_batch_not_at_all() -> None:
    assert make_plan("v2-8", "v2-32", batch_size=1024, lr=0.1, epochs=6).warm_up_epochs == 2
    smaller = make_plan("v2-32", "v2-8", batch_size=4096, lr=0.4, epochs=90)
    assert (smaller.lr, smaller.warm_up_epochs) == (0.1, None)


def test_single_items_are_reported_in_the_singular() -> None:
    plan = make_plan("v6e-1", "v6e-8", batch_size=3, steps=1, lr=0.1, epochs=3)
    printed = " ".join((*plan.notes, *plan.warnings))
    assert "v6e-1: 1 worker, 1 core (1 chip)" in printed
    assert "over the first epoch" in printed
    assert "1 step shows 21 more" in printed


def test_steps_that_do_not_divide_have_a_warning_and_no_example_is_lost() -> None:
    plan = make_plan("v2-8", "v2-32", batch_size=1000, steps=99)

    assert plan.steps == 25
    (warning,) = plan.warnings
    assert "1,000 × 99 = 99,000 examples do not divide by 4,000: 25 steps show 1,000 more" in warning


def test_a_batch_that_does_not_divide_by_the_cores_has_a_warning() -> None:
    plan = make_plan("v2-8", "v2-32", batch_size=1001)

    assert (plan.batch_per_core, plan.global_batch) == (125, 4000)
    assert "does not divide by the 8 cores of v2-8" in plan.warnings[0]
    assert make_plan("v2-8", "v2-32", batch_size=3).batch_per_core == 1


def test_another_generation_and_a_huge_batch_have_warnings() -> None:
    plan = make_plan("v2-8", "v4-512", batch_size=1024, lr=0.1)

    assert "32 GiB instead of 8" in plan.warnings[0]
    assert "LARS" in plan.warnings[1]
    assert "raise the batch per core" in plan.warnings[0]
    assert make_plan("v2-8", "v4-512", batch_size=1024).warnings[1:] == ()
    smaller = make_plan("v3-8", "v2-8", batch_size=8).warnings[0]
    assert "8 GiB instead of 16): the batch per core may not fit" in smaller
    assert "GiB" not in make_plan("v3-32", "v5litepod-16", batch_size=1024).warnings[0]


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_examples_are_never_fewer_and_at_most_a_batch_more(source: str, target: str, batch: int, steps: int) -> None:
    plan = make_plan(source, target, batch_size=batch, steps=steps)

    assert plan.steps is not None
    surplus = plan.global_batch * plan.steps - batch * steps
    assert 0 <= surplus < plan.global_batch
    assert bool(surplus) == any("do not divide" in warning for warning in plan.warnings)


def test_scaling_up_and_down_again_gives_the_original_values() -> None:
    there = make_plan("v3-8", "v3-32", batch_size=1024, steps=400, lr=0.1)
    back = make_plan("v3-32", "v3-8", batch_size=there.global_batch, steps=there.steps, lr=there.lr)

    assert (back.global_batch, back.steps, back.lr) == (1024, 400, 0.1)


def test_types_may_be_written_in_capitals_and_with_common_names() -> None:
    plan = make_plan("V2-8", " v5e-16", batch_size=1024)

    assert (plan.source, plan.target, plan.global_batch) == ("v2-8", "v5litepod-16", 2048)


@pytest.mark.parametrize("name", ["v2", "tpu-8", "v9-8", "v2-0", "local-4"])
def test_an_unknown_type_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_plan("v2-8", name, batch_size=1024)
    assert "v5litepod-16" in caught.value.remedy


@pytest.mark.parametrize("name", ["v2-12", "v4-4", "v5litepod-3", "v6e-12", "tpu7x-4"])
def test_a_type_without_a_whole_number_of_machines_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} does not exist"):
        make_plan(name, "v2-8", batch_size=1024)


@pytest.mark.parametrize(
    "numbers", [{"batch_size": 0}, {"batch_size": 8, "steps": -1}, {"batch_size": 8, "lr": float("nan")}]
)
def test_numbers_that_cannot_be_scaled_are_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="more than 0"):
        make_plan("v2-8", "v2-32", **numbers)  # type: ignore[arg-type]


def test_a_learning_rate_that_no_number_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="too large"):
        make_plan("v2-8", "v2-32", batch_size=8, lr=1e308)


def test_the_document_has_the_names_that_scripts_read() -> None:
    document = make_plan("v2-8", "v3-32", batch_size=1024).to_json()

    assert {"from", "to", "global_batch", "steps", "epochs", "lr", "warnings"} <= set(document)
    assert (document["from"], document["to"], document["steps"]) == ("v2-8", "v3-32", None)


def test_the_global_batch_can_be_kept() -> None:
    plan = make_plan("v2-8", "v2-32", batch_size=1024, steps=100, lr=0.1, keep_global_batch=True)
    assert (plan.batch_per_core, plan.global_batch, plan.steps, plan.lr) == (32, 1024, 100, 0.1)
    assert (plan.warm_up_epochs, plan.warnings) == (None, ())
    assert "the global batch is kept: 32 per core instead of 128, so cores may be used less" in plan.notes


def test_a_global_batch_that_the_new_cores_cannot_share_is_named() -> None:
    plan = make_plan("v2-8", "v2-32", batch_size=1000, keep_global_batch=True)
    assert plan.global_batch == 31 * 32
    assert any("does not divide by the 32 cores of v2-32" in text for text in plan.warnings)
