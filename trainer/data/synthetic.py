"""Generate random images without any input, to measure everything else; they can only be memorised."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from trainer.data.batching import Batch


def batches(*, batch: int, size: int, classes: int, seed: int, rank: int, steps: int) -> Iterator[Batch]:
    """Yield one batch, `steps` times.

    A sample depends on the seed and its place in the global batch alone. So the same global batch, and its mean loss,
    are the same for any number of replicas.
    """
    images = np.empty((batch, 3, size, size), dtype=np.uint8)
    labels = np.empty(batch, dtype=np.int64)
    for row in range(batch):
        random = np.random.default_rng((seed, rank * batch + row))
        images[row] = random.integers(0, 256, images.shape[1:], dtype=np.uint8)
        labels[row] = random.integers(classes)
    batch_of_noise = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(steps):
        yield batch_of_noise
