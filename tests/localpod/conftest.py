"""Buckets with a recording object store, which a test may end, and with the real one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.localpod.recording_store import make_program
from tui.localpod.bucket import bucket as module
from tui.localpod.bucket.bucket import Bucket


@contextlib.asynccontextmanager
async def started(directory: Path, program: Path | None) -> AsyncIterator[Bucket]:
    """Run a bucket, with a program in place of fake-gcs-server if there is one."""
    made = Bucket(directory)
    try:
        with pytest.MonkeyPatch.context() as patch:
            if program is not None:
                patch.setattr(module, "find_binary", lambda: program)
            await made.start(os.environ)
        yield made
    finally:
        await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def recording(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bucket]:
    """Return a bucket whose object store is the recording one."""
    directory = tmp_path_factory.mktemp("recording")
    async with started(directory, make_program(directory / "store")) as made:
        yield made


@pytest_asyncio.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[Bucket]:
    """Return a bucket whose recording store a test may end."""
    async with started(tmp_path, make_program(tmp_path / "store")) as made:
        yield made


@pytest_asyncio.fixture
async def bucket(tmp_path: Path) -> AsyncIterator[Bucket]:
    """Return a bucket with the real object store."""
    async with started(tmp_path, None) as made:
        yield made
