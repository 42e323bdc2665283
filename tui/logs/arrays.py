"""numpy, loaded without the threads that its linear algebra would start: nothing here multiplies matrices."""

from __future__ import annotations

import os

__all__ = ["np", "npt"]

_THREADS = "OPENBLAS_NUM_THREADS"
"""Read by OpenBLAS when it is loaded; starting a thread a processor costs more than reading a small log."""

_before = os.environ.get(_THREADS)
os.environ.setdefault(_THREADS, "1")
import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

if _before is None:
    del os.environ[_THREADS]
