"""What the tests' fork server imports; frozen, so that the processes it forks neither examine nor copy it."""

import gc

from tests.trainer import layouts
from trainer.train import loop

__all__ = ["layouts", "loop"]

gc.collect()
gc.freeze()
