"""Tests of the imports of a request to the Cloud TPU API, which take longer than the request."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import types
from pathlib import Path

import pytest

from tests.cloud.conftest import Cloud
from tui.cloud.compute.answer_shapes import shape_of
from tui.cloud.compute.compute_client import open_session
from tui.cloud.google_import import import_google

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


def test_two_threads_import_googles_libraries_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("slowly_imported_one", "slowly_imported_two")
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        del sys.modules[name]
        (tmp_path / f"{name}.py").write_text(
            "import time\nbegun = time.monotonic()\ntime.sleep(0.2)\nended = time.monotonic()"
        )
    threads = [threading.Thread(target=import_google, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    earlier, later = sorted((sys.modules[name] for name in names), key=lambda module: module.begun)
    assert earlier.ended <= later.begun


def test_grpc_is_imported_silently_whichever_library_needs_it_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    open_session("http://127.0.0.1:1", None, shape_of)[0].close()
    assert os.environ["GRPC_VERBOSITY"] == "NONE"
