from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.py310

HEAVY = ("google", "grpc", "asyncssh", "textual", "numpy", "requests")


@pytest.mark.parametrize(
    "module",
    [
        "tui.settings",
        "tui.cloud.inventory",
        "tui.cloud.hosts_file",
        "tui.cloud.tpu.tpu_api",
        "tui.cloud.storage.buckets",
        "tui.checks",
    ],
)
def test_importing_the_module_imports_no_network_library(module: str) -> None:
    program = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert not set(answer.stdout.split()) & set(HEAVY)


def test_a_hosts_file_is_listed_without_any_network_library(tmp_path: Path) -> None:
    program = """
import asyncio, sys, pathlib
from tui.cloud.open_inventory import open_inventory
from tui.settings import load
path = pathlib.Path(sys.argv[1]) / "lab.hosts"
path.write_text("10.0.0.1\\n")
settings = load({"hosts": path}, {"TPU_TUI_HOME": sys.argv[1], "HOME": sys.argv[1]})
listing = asyncio.run(open_inventory(settings).slices())
print(listing.slices[0].name, *sorted({name.split(".")[0] for name in sys.modules}))
"""
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )

    name, *modules = answer.stdout.split()
    assert name == "lab"
    assert not set(modules) & set(HEAVY)
