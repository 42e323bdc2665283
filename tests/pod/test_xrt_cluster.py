"""Tests of the XRT runtime's variables against those that xla_dist's own code computed (`data/xla_dist.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tui.pod.xrt_cluster import XrtCluster

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "xla_dist.json").read_text())


@pytest.mark.parametrize("case", RECORDED["environments"].values(), ids=RECORDED["environments"])
def test_every_worker_gets_the_same_variables_as_from_xla_dist(case: dict[str, Any]) -> None:
    cluster = XrtCluster(case["addresses"], case["accelerator_type"], case["node_endpoints"], case["server_port"])
    assert [cluster.environment(place) for place in range(len(case["addresses"]))] == case["workers"]
    assert cluster.describe_unknown_type() is None


@pytest.mark.parametrize(("type_", "bounds"), RECORDED["host_bounds"].items())
def test_host_bounds_are_those_of_xla_dist_and_left_out_for_types_unknown_to_it(
    type_: str, bounds: str | None
) -> None:
    cluster = XrtCluster(["10.0.0.2"], type_)
    assert cluster.environment(0).get("TPU_HOST_BOUNDS") == bounds
    assert (cluster.describe_unknown_type() is None) == (bounds is not None)


@pytest.mark.parametrize(
    ("type_", "cores", "devices"),
    [("v5p-16", 4, "4"), ("v5litepod-8", None, "8"), (None, None, "8"), ("v4-384", 8, "4")],
)
def test_a_choice_for_an_unknown_type_is_described(type_: str | None, cores: int | None, devices: str) -> None:
    cluster = XrtCluster(["10.0.0.2"], type_, cores_per_worker=cores)
    variables = cluster.environment(0)
    assert variables["TPU_NUM_DEVICES"] == devices
    assert not {"TPU_HOST_BOUNDS", "TPU_CHIPS_PER_HOST_BOUNDS"} & set(variables)
    assert f"TPU_NUM_DEVICES is {devices}, and TPU_HOST_BOUNDS" in (cluster.describe_unknown_type() or "")


def test_a_tpu_node_needs_no_bounds_so_that_only_its_generation_must_be_known() -> None:
    known = XrtCluster(["10.0.0.2"], "v4-384", ["10.1.0.2:8470"])
    unknown = XrtCluster(["10.0.0.2"], "v5p-8", ["10.1.0.2:8470"])
    assert known.describe_unknown_type() is None
    assert unknown.describe_unknown_type() == "xla_dist does not know the type v5p-8: TPU_NUM_DEVICES is 8"
