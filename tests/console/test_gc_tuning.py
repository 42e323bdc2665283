from __future__ import annotations

import gc
import weakref

import pytest

from tui.console.platform.gc_tuning import freeze_loaded_objects

pytestmark = pytest.mark.timing


class Ring:
    """Something that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_outlives_the_first_full_collections_is_left_out_of_later_ones() -> None:
    callbacks = len(gc.callbacks)
    try:
        freeze_loaded_objects(2)
        gc.collect()
        frozen = gc.get_freeze_count()
        kept = [Ring() for _ in range(1000)]
        gc.collect()
        assert gc.get_freeze_count() >= frozen + len(kept)
        assert len(gc.callbacks) == callbacks
    finally:
        gc.unfreeze()


def test_what_comes_later_is_collected_as_ever() -> None:
    try:
        freeze_loaded_objects(1)
        gc.collect()
        ring = Ring()
        gc.collect()
        frozen, gone = gc.get_freeze_count(), weakref.ref(ring)
        del ring
        gc.collect()
        assert gone() is None
        assert gc.get_freeze_count() <= frozen, "no more is frozen; what is frozen may go with its last reference"
    finally:
        gc.unfreeze()
