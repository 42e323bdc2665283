"""The variables that torch_xla's launcher `xla_dist` gives each worker for the XRT runtime of torch_xla up to 2.0.

Source: `torch_xla/distributed/xla_dist.py` and `cluster.py` of pytorch/xla at v1.13.0 (commit c62c5a5) and v2.0.0
(commit 500e1c2), which set the same values. `tests/pod/data/xla_dist.json` holds what that code computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.pod.ports import COORDINATOR_PORT, MESH_PORT

SERVER_PORT = 51011
"""Port of the XRT server that each TPU VM runs, unless `--tpuvm-server-port` says otherwise."""
RESERVED_VARIABLES = (
    "XRT_TPU_CONFIG",
    "XRT_LOCAL_WORKER",
    "XRT_MESH_SERVICE_ADDRESS",
    "XRT_SHARD_WORLD_SIZE",
    "XRT_SHARD_ORDINAL",
    "TPU_NUM_DEVICES",
    "XLA_EMIT_STEPLOG",
)
"""What a user may not set, and a container gets, in this order; `--env` overrides the other variables."""
HEARTBEAT = "torch_xla.core.xla_model::mark_step"
"""What every core prints at each step because of `XLA_EMIT_STEPLOG`; xla_dist leaves such lines out."""
_DEVICES = {"v2": 8, "v3": 8, "v4": 4}
"""XLA devices of a worker, by generation."""
_DEFAULT_DEVICES = 8
_CHIPS_OF_A_HOST = "2,2,1"
_SIDES = {8: "1,1", 32: "2,2", 64: "2,4", 128: "4,4", 256: "4,8", 512: "8,8", 1024: "8,16", 2048: "16,16"}
_HOST_BOUNDS: Mapping[str, str] = {
    **{f"v2-{cores}": f"{_SIDES[cores]},1" for cores in (8, 32, 128, 256, 512)},
    **{f"v3-{cores}": f"{sides},1" for cores, sides in _SIDES.items()},
    "v4-8": "1,1,1",
    "v4-16": "1,1,2",
    "v4-32": "1,1,4",
    "v4-64": "1,2,4",
    "v4-128": "2,2,4",
    "v4-256": "2,2,8",
    "v4-512": "2,4,8",
    "v4-1024": "4,4,8",
    "v4-2048": "4,4,16",
    "v4-4096": "4,8,16",
}
"""Hosts along each side of a slice; xla_dist fails for any other type."""


@dataclass(frozen=True)
class XrtCluster:
    """The machines of a job: a slice of TPU VMs, or a TPU Node's endpoints with the user VMs that drive them.

    The first address is the master's: xla_dist, started on a VM, makes that one the first.
    """

    addresses: Sequence[str]
    """Internal addresses of the machines that run the job, in worker order."""
    accelerator_type: str | None = None
    node_endpoints: Sequence[str] = ()
    """`ip:port` of each of the TPU Node's endpoints; none for TPU VMs."""
    server_port: int = SERVER_PORT
    cores_per_worker: int | None = None
    """XLA devices of a worker as the slice's source reports, for generations that xla_dist does not know."""

    @property
    def has_server(self) -> bool:
        """Return whether each worker runs an XRT server, as TPU VMs do; a TPU Node has its own servers."""
        return not self.node_endpoints

    @property
    def devices(self) -> int:
        """XLA devices of a worker."""
        return _DEVICES.get(self._generation) or self.cores_per_worker or _DEFAULT_DEVICES

    @property
    def _generation(self) -> str:
        return (self.accelerator_type or "").partition("-")[0]

    def environment(self, place: int) -> dict[str, str]:
        """Return the variables of the worker at this place among the addresses."""
        kind = "c_localservice" if self.has_server else "c_tpu_worker"
        variables = {
            "XRT_LOCAL_WORKER": f"{kind}:{place}",
            "XRT_MESH_SERVICE_ADDRESS": f"{self.addresses[0]}:{MESH_PORT}",
            "XRT_SHARD_WORLD_SIZE": str(len(self.addresses)),
            "XRT_SHARD_ORDINAL": str(place),
            "TPU_NUM_DEVICES": str(self.devices),
            "XLA_EMIT_STEPLOG": "1",
        }
        if self.has_server:
            variables |= self._tpu_vm_variables(place)
        if place == 0:
            services = self.node_endpoints or [f"{address}:{self.server_port}" for address in self.addresses]
            variables["XRT_TPU_CONFIG"] = "|".join(
                f"{kind};{index};{service}" for index, service in enumerate(services)
            )
        return variables

    def _tpu_vm_variables(self, place: int) -> dict[str, str]:
        bounds = _HOST_BOUNDS.get(self.accelerator_type or "")
        shape = {"TPU_CHIPS_PER_HOST_BOUNDS": _CHIPS_OF_A_HOST, "TPU_HOST_BOUNDS": bounds} if bounds else {}
        return {
            **shape,
            "TPUVM_MODE": "1",
            "CLOUD_TPU_TASK_ID": str(place),
            "TPU_MESH_CONTROLLER_ADDRESS": f"{self.addresses[0]}:{COORDINATOR_PORT}",
            "TPU_MESH_CONTROLLER_PORT": str(COORDINATOR_PORT),
        }

    def describe_unknown_type(self) -> str | None:
        """Return what was chosen for a type that xla_dist does not know; None for one that it knows."""
        is_known = self.accelerator_type in _HOST_BOUNDS if self.has_server else self._generation in _DEVICES
        if is_known:
            return None
        chosen = f"TPU_NUM_DEVICES is {self.devices}"
        if self.has_server:
            chosen += (
                ", and TPU_HOST_BOUNDS and TPU_CHIPS_PER_HOST_BOUNDS are left to libtpu"
                " (--env TPU_HOST_BOUNDS=X,Y,Z sets them)"
            )
        return f"xla_dist does not know the type {self.accelerator_type or 'of this slice'}: {chosen}"
