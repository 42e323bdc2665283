"""numpy, loaded without the threads that its linear algebra would start: nothing here multiplies matrices.

Its short-lived arrays keep their memory: glibc gives what is freed at the end of the heap back to the system, which
clears it again for the next array, and that cost a fifth of reading a log.
"""

from __future__ import annotations

import gc
import os

__all__ = ["np", "npt", "places_of"]

_THREADS = "OPENBLAS_NUM_THREADS"
"""Read by OpenBLAS when it is loaded; starting a thread a processor costs more than reading a small log."""

_before, _collecting = os.environ.get(_THREADS), gc.isenabled()
os.environ.setdefault(_THREADS, "1")
# Loading makes many objects that stay: looking for garbage among them takes a tenth of the time.
gc.disable()
import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

if _collecting:
    gc.enable()
if _before is None:
    del os.environ[_THREADS]

_KEPT = 30_000_000
"""Bytes. glibc keeps up to twice the size of the largest mapped block, below 32 MiB, that it has seen freed
(mallopt(3), M_MMAP_THRESHOLD: the "dynamic mmap threshold"). The block is never touched, so it costs no memory."""

np.empty(_KEPT, np.uint8)


def places_of(marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Where marks are set; numpy's own name for it takes twice as long for a short array."""
    return marks.nonzero()[0]
