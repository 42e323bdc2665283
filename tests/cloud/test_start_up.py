"""Tests of the imports of a request to the Cloud TPU API, which take longer than the request."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.cloud.conftest import Cloud

ASK = """
import asyncio, sys
from pathlib import Path
from tui.cloud.tpu.tpu_api import TpuApi
from tui.settings import Settings

async def names():
    place = {"project": "local", "zones": ("local-a",), "endpoints": {"tpu": sys.argv[2]}, "token": sys.argv[3]}
    api = TpuApi(Settings(home=Path(sys.argv[1]), **place))
    try:
        return [slice_.name for slice_ in (await api.slices()).slices]
    finally:
        await api.close()

print(asyncio.run(names()), "aiohttp" in sys.modules)
import google.auth.aio.transport.sessions
print("aiohttp" in sys.modules)
"""


async def test_slices_are_listed_without_the_rest_client_that_is_never_used(cloud: Cloud, tmp_path: Path) -> None:
    await cloud.make("pod", "v3-32")
    service = cloud.service
    words = (sys.executable, "-c", ASK, str(tmp_path), f"127.0.0.1:{service.grpc_port}", service.token)
    pipe = asyncio.subprocess.PIPE
    asking = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)
    out, errors = await asking.communicate()
    assert out.decode().splitlines() == ["['pod'] False", "True"], errors.decode()
