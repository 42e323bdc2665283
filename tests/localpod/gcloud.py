"""The real gcloud with its own configuration, which reaches a pod's APIs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

GCLOUD = shutil.which("gcloud")
GCLOUD_TIMEOUT = 300
"""Seconds a test may take: each of its commands is a program that needs seconds on a busy machine."""
with_gcloud = [
    pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed"),
    pytest.mark.timeout(GCLOUD_TIMEOUT),
]
VM = ("compute", "tpus", "tpu-vm")
TPUS = ("compute", "tpus")
"""The commands of TPU Nodes."""
QUEUED = ("compute", "tpus", "queued-resources")
TRACKS = [pytest.param((), id="ga"), pytest.param(("alpha",), id="alpha")]
"""The release tracks that have TPU VMs; beta has none (gcloud 528)."""


class Gcloud:
    """A runner of gcloud with its own configuration directory, the pod's token and the pod's addresses."""

    def __init__(self, config: Path, rest_port: int, token: str) -> None:
        rest = f"http://127.0.0.1:{rest_port}/"
        (config / "token").write_text(token)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CLOUDSDK_")},
            "HOME": str(config),
            "CLOUDSDK_CONFIG": str(config / "gcloud"),
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(config / "token"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": rest,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{rest}compute/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_OSLOGIN": rest,
            "CLOUDSDK_CORE_PROJECT": "local",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "true",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
            "CLOUDSDK_COMPUTE_ZONE": "local-a",
        }

    async def __call__(self, *words: str) -> tuple[int, str, str]:
        """Run a command; return its exit code, output and errors."""
        assert GCLOUD is not None
        pipe = asyncio.subprocess.PIPE
        streams = {"stdin": asyncio.subprocess.DEVNULL, "stdout": pipe, "stderr": pipe}
        process = await asyncio.create_subprocess_exec(GCLOUD, *words, env=self.environment, **streams)
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def json(self, *words: str) -> Any:
        """Run a command and return the document that it prints."""
        code, out, err = await self(*words, "--format=json")
        assert code == 0, err
        return json.loads(out or "null")
