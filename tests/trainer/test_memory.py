from __future__ import annotations

import pytest

from trainer import memory
from trainer.errors import TrainerError
from trainer.memory import Machine


def test_replicas_that_fit_are_let_through() -> None:
    memory.check([Machine("a", 4000)] * 4, 1000)


def test_replicas_of_several_workers_on_one_machine_are_counted_together() -> None:
    with pytest.raises(TrainerError, match=r"5 replicas on one machine need about 4.9 GiB, 3.9 GiB are available"):
        memory.check([Machine("a", 4000)] * 5, 1000)
    memory.check([Machine("a", 4000)] * 3 + [Machine("b", 4000)] * 2, 1000)


def test_a_machine_that_does_not_tell_its_memory_is_let_through() -> None:
    memory.check([Machine("", 0)] * 100, 1000)


def test_a_larger_model_batch_or_image_needs_more() -> None:
    small = memory.needed("resnet10", 5_000_000, 32, 32)
    assert small < memory.needed("resnet50", 25_000_000, 32, 32)
    assert small < memory.needed("resnet10", 5_000_000, 320, 32)
    assert small < memory.needed("resnet10", 5_000_000, 32, 224)


def test_this_machine_has_memory_and_an_identity() -> None:
    here = memory.this_machine()
    assert here.available > 0
    assert here == Machine(memory.this_machine().boot, here.available)
