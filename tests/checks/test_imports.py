from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["tui.checks", "tui.planning", "tui.cloud.compute.firewall_rules"])
def test_importing_the_package_imports_no_google_library_and_no_ssh(module: str) -> None:
    heavy = "('google', 'grpc', 'asyncssh', 'textual', 'aiohttp', 'numpy')"
    code = f"import sys, {module}; print([name for name in sys.modules if name.startswith({heavy})])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
