"""Connections to a slice's workers, which are reused as long as the workers are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tui.operator.connections import Connections
from tui.settings import Settings


async def test_a_slice_that_was_recreated_with_the_same_addresses_gets_new_connections(tmp_path: Path) -> None:
    hosts = tmp_path / "lab.txt"
    hosts.write_text("127.0.0.1\n127.0.0.2\n")
    connections = Connections(Settings(home=tmp_path, hosts=hosts))
    slice_ = replace(await connections.inventory.get("lab", None), created="2026-11-24T09:00:00Z")

    first = await connections.fleet(slice_)
    assert await connections.fleet(replace(slice_, state="READY")) is first
    assert await connections.fleet(replace(slice_, created="2026-11-24T10:00:00Z")) is not first
    await connections.close()
