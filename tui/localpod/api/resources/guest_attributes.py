"""Guest attributes, which each worker's machine publishes about itself, e.g. its SSH host key."""

from __future__ import annotations

from collections.abc import Sequence

import google.cloud.tpu_v2.types as tpu

from tui.localpod.api import rpc_errors
from tui.localpod.api.host_protocol import HostedWorker
from tui.text.numbers import parse_integer


def guest_attributes(
    workers: Sequence[HostedWorker], query_path: str, worker_ids: Sequence[str]
) -> tpu.GetGuestAttributesResponse:
    """Return the attributes under the path, one answer per worker, in worker order.

    `query_path` is empty, `<namespace>/` or `<namespace>/<key>`; no IDs, or an empty one, select all workers.
    Raises INVALID_ARGUMENT for a worker that the node does not have.
    """
    selected = [_worker(workers, text) for text in worker_ids if text] or list(workers)
    return tpu.GetGuestAttributesResponse(
        guest_attributes=[
            tpu.GuestAttributes(
                query_path=query_path,
                query_value=tpu.GuestAttributesValue(
                    items=[entry for entry in _published(worker) if matches(entry.namespace, entry.key, query_path)]
                ),
            )
            for worker in selected
        ]
    )


def _published(worker: HostedWorker) -> list[tpu.GuestAttributesEntry]:
    kind, key = worker.host_key
    return [
        tpu.GuestAttributesEntry(namespace="deviceInfo", key="hostname", value=worker.hostname),
        tpu.GuestAttributesEntry(namespace="hostkeys", key=kind, value=key),
    ]


def matches(namespace: str, key: str, query_path: str) -> bool:
    """Return whether an attribute is under a path: an empty one, `<namespace>/` or `<namespace>/<key>`."""
    wanted_namespace, _, wanted_key = query_path.strip("/").partition("/")
    return wanted_namespace in ("", namespace) and wanted_key in ("", key)


def _worker(workers: Sequence[HostedWorker], text: str) -> HostedWorker:
    if (index := parse_integer(text, len(workers) - 1)) is None:
        raise rpc_errors.invalid(f"worker '{text}' does not exist: the node has {len(workers)} workers", "worker_ids")
    return workers[index]
