"""The ports of a slice at which the processes of a job find each other, and its TPUs."""

from __future__ import annotations

COORDINATOR_PORT = 8476
"""PJRT's process controller and mesh controller, and the mesh controller of the XRT runtime."""
MESH_PORT = 8477
"""The mesh service of xla_dist."""
TPU_NODE_PORT = 8470
"""The server of each TPU of a TPU Node."""
