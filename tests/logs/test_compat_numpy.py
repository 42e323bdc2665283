"""Contract tests of numpy, OpenBLAS and glibc, on which the CPU time of reading a saved log depends."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.py310


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, env={})


def test_numpy_starts_no_threads_and_leaves_the_environment_alone() -> None:
    run("import os; import tui.logs._compat_numpy; assert len(os.listdir('/proc/self/task')) == 1; "
        "assert 'OPENBLAS_NUM_THREADS' not in os.environ")  # fmt: skip


def test_the_memory_of_freed_arrays_is_reused() -> None:
    run(
        "import resource; from tui.logs._compat_numpy import np\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "use = lambda: [np.ones(3_000_000, np.uint8) for _ in range(5)]\n"
        "use(); before = faults()\n"
        "for _ in range(20): use()\n"
        "assert faults() - before < 2_000, faults() - before"
    )
