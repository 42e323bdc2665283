"""Read numpy's arrays out of pickles, as in CIFAR-10's "python version", which torchvision downloads and users have.

Unpickling runs what the file names, so only numpy's constructors are allowed. Python 2 pickled them as parts of
`numpy.core`, which numpy 2 still accepts but warns about. What needs this: making shards of CIFAR-10
(tests/trainer/test_shard_sources.py).
"""

from __future__ import annotations

import io
import pickle
from typing import Any

ALLOWED = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }
)


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles dictionaries of lists, bytes and arrays of numbers, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which no CIFAR-10 batch does")
        return super().find_class(module.replace("numpy.core.", "numpy._core."), name)


def load_pickled_arrays(content: bytes) -> dict[bytes, Any]:
    """Return a pickled dictionary of arrays; raise pickle.UnpicklingError, or whatever damage leads to."""
    loaded = _ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
    return {key if isinstance(key, bytes) else str(key).encode(): value for key, value in loaded.items()}
