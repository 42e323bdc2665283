"""The accelerator types and runtime versions of a zone, as the API lists them."""

from __future__ import annotations

from typing import Any

import google.cloud.tpu_v2.types as tpu

from tui.localpod.api import rpc_errors
from tui.localpod.api.resources.accelerator_types import SliceShape, shapes
from tui.localpod.api.resources.resource_names import ResourceLocation
from tui.pod.accelerator import CONFIG_TYPES
from tui.pod.api_paths import last_part

RUNTIME_VERSIONS = (
    "tpu-ubuntu2204-base",
    "tpu-vm-base",
    "tpu-vm-pt-1.13",
    "tpu-vm-pt-2.0",
    "tpu-vm-v4-base",
    "tpu-vm-v4-pt-2.0",
    "v2-alpha",
    "v2-alpha-tpuv4",
    "v2-alpha-tpuv5",
    "v2-alpha-tpuv5-lite",
    "v2-alpha-tpuv6e",
)
"""Cloud TPU documentation, TPU software versions. Every worker here runs this machine's own system."""

DEFAULT_RUNTIME_VERSION = "tpu-ubuntu2204-base"
_RUNTIMES = {
    "v5litepod": "v2-alpha-tpuv5-lite",
    "v5p": "v2-alpha-tpuv5",
    "v6e": "v2-alpha-tpuv6e",
}
"""The default runtime versions of later generations (Cloud TPU documentation, TPU software versions)."""
_ConfigType: Any = tpu.AcceleratorConfig.Type
_DEFAULT_TYPE = "v2-8"
"""The type of a request that names no accelerator."""


def accelerator_types(place: ResourceLocation) -> list[tpu.AcceleratorType]:
    """Return every type on offer in the place."""
    return [_accelerator_type(place, shape) for shape in shapes().values()]


def runtime_versions(place: ResourceLocation) -> list[tpu.RuntimeVersion]:
    """Return every runtime version on offer in the place."""
    return [
        tpu.RuntimeVersion(name=place.child("runtimeVersions", version), version=version)
        for version in RUNTIME_VERSIONS
    ]


def default_runtime(accelerator_type: str) -> str:
    """Return the usual runtime version of an accelerator type."""
    return _RUNTIMES.get(accelerator_type.partition("-")[0], DEFAULT_RUNTIME_VERSION)


def requested_shape(place: ResourceLocation, node: tpu.Node) -> SliceShape:
    """Return the shape that a new node requests, by type or by config. Raises INVALID_ARGUMENT."""
    if node.accelerator_type and tpu.Node.pb(node).HasField("accelerator_config"):
        raise rpc_errors.invalid("accelerator_type and accelerator_config are mutually exclusive", "node")
    if tpu.Node.pb(node).HasField("accelerator_config"):
        config = node.accelerator_config
        requested = f"{_ConfigType(config.type_).name} of topology '{config.topology}'"
        shape = next((shape for shape in shapes().values() if accelerator_config(shape) == config), None)
    else:
        requested = last_part(node.accelerator_type) or _DEFAULT_TYPE
        shape = shapes().get(requested)
    if shape is None:
        raise no_such_accelerator(place, requested)
    return shape


def no_such_accelerator(place: ResourceLocation, requested: str) -> rpc_errors.ApiError:
    """Return the error of a type that the zone does not have."""
    message = f"the accelerator {requested} was not found in zone {place.zone}"
    return rpc_errors.invalid(message, "node.accelerator_type")


def check_runtime_version(place: ResourceLocation, version: str) -> None:
    """Raise INVALID_ARGUMENT for a version that is not on offer."""
    if version not in RUNTIME_VERSIONS:
        message = f"the runtime version '{version}' was not found in zone {place.zone}"
        raise rpc_errors.invalid(message, "node.runtime_version")


def accelerator_config(shape: SliceShape) -> tpu.AcceleratorConfig | None:
    """Return the shape as type and topology; None for `local-N`, which has neither."""
    if shape.topology is None:
        return None
    return tpu.AcceleratorConfig(type_=_ConfigType[CONFIG_TYPES[shape.generation]], topology=shape.topology)


def _accelerator_type(place: ResourceLocation, shape: SliceShape) -> tpu.AcceleratorType:
    config = accelerator_config(shape)
    return tpu.AcceleratorType(
        name=place.child("acceleratorTypes", shape.name),
        type_=shape.name,
        accelerator_configs=[config] if config else [],
    )
