from __future__ import annotations

import ctypes
import resource
from itertools import islice, repeat

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from trainer.data import pixel_buffers
from trainer.data.batching import Batching
from trainer.data.pixel_buffers import Machine
from trainer.errors import TrainerError


def test_replicas_that_fit_are_let_through() -> None:
    pixel_buffers.check([Machine("a", 4000)] * 4, 1000)


def test_replicas_of_several_workers_on_one_machine_are_counted_together() -> None:
    with pytest.raises(TrainerError, match=r"5 replicas on one machine would take 4.9 GiB, 3.9 GiB are available"):
        pixel_buffers.check([Machine("a", 4000)] * 5, 1000)
    pixel_buffers.check([Machine("a", 4000)] * 3 + [Machine("b", 4000)] * 2, 1000)


def test_a_machine_that_does_not_tell_its_memory_is_let_through() -> None:
    pixel_buffers.check([Machine("", 0)] * 100, 1000)


def test_a_larger_model_batch_or_image_needs_more() -> None:
    small = pixel_buffers.needed("resnet10", 5_000_000, 32, 32)
    assert small < pixel_buffers.needed("resnet50", 25_000_000, 32, 32)
    assert small < pixel_buffers.needed("resnet10", 5_000_000, 320, 32)
    assert small < pixel_buffers.needed("resnet10", 5_000_000, 32, 224)


def test_this_machine_has_memory_and_an_identity() -> None:
    here = pixel_buffers.this_machine()
    assert here.available > 0
    assert here == Machine(pixel_buffers.this_machine().boot, here.available)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc can be told to keep memory")
def test_the_memory_of_one_batch_is_used_again_for_those_after_it() -> None:
    side, size, pages = 224, 16, 16 * 3 * 224 * 224 // resource.getpagesize()
    picture = cv2.imencode(".jpg", np.zeros((side, side, 3), np.uint8))[1].tobytes()
    sample = {"__key__": "0", "__url__": "0.tar", "jpg": picture, "cls": b"0"}
    made = Batching(size, side, 10).of(repeat(sample))
    for _ in islice(made, 10):
        pass
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in islice(made, 20):
        pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20 * pages / 4


LARGE = (pixel_buffers.LARGEST_KEPT + 1,)


def test_a_large_array_is_not_lent_again_before_nothing_refers_to_any_part_of_it() -> None:
    whole = pixel_buffers.pixels(*LARGE)
    place = whole.ctypes.data
    part = torch.from_numpy(whole[7:9].reshape(1, 2))
    part[...] = 5
    del whole
    others = [pixel_buffers.pixels(*LARGE) for _ in range(2 * pixel_buffers.SPARE)]
    assert place not in [other.ctypes.data for other in others]
    del part
    again = pixel_buffers.pixels(*LARGE)
    assert again.ctypes.data == place
