"""Why an operation of Compute Engine failed, or a VM of a group could not be created: a sentence and its next step.

Sources: Compute Engine documentation, "Troubleshooting resource availability errors" (ZONE_RESOURCE_POOL_EXHAUSTED),
"Troubleshooting VM creation" (QUOTA_EXCEEDED) and "Troubleshooting managed instance groups".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.cloud.api_errors import without_event_id
from tui.errors import CloudError, NoSuchResourceError, TpuTuiError, UsageError

_STOCK_OUT = ("ZONE_RESOURCE_POOL_EXHAUSTED", "REGION_RESOURCE_POOL_EXHAUSTED", "VM_MIN_COUNT_NOT_REACHED")
"""Beginnings of the codes where a zone has no capacity now."""
_QUOTA = ("QUOTA_EXCEEDED", "RESOURCE_QUOTA_EXCEEDED", "LIMIT_EXCEEDED")
_IN_USE = ("RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "RESOURCE_IN_USE")
_USAGE = ("RESOURCE_ALREADY_EXISTS", "INVALID_FIELD_VALUE", "INVALID_USAGE", "CONDITION_NOT_MET")


def explain_failure(error: Mapping[str, Any], what: str, project: str) -> TpuTuiError:
    """Return one error of an operation, or of a VM's last attempt, as a sentence with its next step.

    It is a NoSuchResourceError where the operation's target is gone.
    """
    code = str(error.get("code") or "")
    why = without_event_id(str(error.get("message") or code or error)).rstrip(".")
    if code == "RESOURCE_NOT_FOUND":
        return NoSuchResourceError(what, why=why)
    if is_stock_out(error):
        return CloudError(
            what, why=why, remedy="try another zone or machine type, --spot or --flex-start, or try later"
        )
    if code in _QUOTA:
        page = f"https://console.cloud.google.com/iam-admin/quotas?project={project}"
        return CloudError(what, why=why, remedy=f"delete what is not needed, or request more at {page}")
    if code == "PERMISSIONS_ERROR":
        remedy = "ask its owner to let the project's service agent use it (roles/compute.instanceAdmin.v1)"
        return CloudError(what, why=why, remedy=remedy)
    if code in _IN_USE:
        return CloudError(what, why=why, remedy="delete what uses it first; tpu-tui resources shows it")
    return (UsageError if code in _USAGE else CloudError)(what, why=why)


def is_stock_out(error: Mapping[str, Any]) -> bool:
    """Return whether an error means that there is no capacity now."""
    return str(error.get("code") or "").startswith(_STOCK_OUT)
