"""Refusals of Google's TPU service that the local pod never makes by itself, in the words of the service."""

from __future__ import annotations

from tui.localpod.api.authentication import INVALID_CREDENTIALS
from tui.localpod.api.rpc_errors import SERVICE, ApiError, not_the_owner, precondition, service_info


def tpu_node_denied() -> ApiError:
    """Return the error with which Google's service refuses new TPU Nodes (words: skypilot#5593)."""
    return ApiError(
        "FAILED_PRECONDITION",
        "Your request to provision TPU Node has been denied. Please migrate to TPU VM Architecture or contact Cloud "
        "TPU team to gain TPU Node access. "
        "https://cloud.google.com/tpu/docs/system-architecture-tpu-vm#from-tpu-node-to-tpu-vm",
    )


def service_disabled(project: str) -> ApiError:
    """Return the error of a project that has not enabled the API."""
    page = f"https://console.developers.google.com/apis/api/{SERVICE}/overview?project={project}"
    info = service_info("SERVICE_DISABLED", consumer=f"projects/{project}")
    message = (
        f"Cloud TPU API has not been used in project {project} before or it is disabled. Enable it by visiting "
        f"{page} then retry. If you enabled this API recently, wait a few minutes for the action to propagate to "
        "our systems and retry."
    )
    return ApiError("PERMISSION_DENIED", message, [info])


def quota_project_denied(project: str) -> ApiError:
    """Return the error of a login that may not bill requests to its quota project."""
    role, permission = "roles/serviceusage.serviceUsageConsumer", "serviceusage.services.use"
    info = service_info("USER_PROJECT_DENIED", consumer=f"projects/{project}")
    message = (
        f"Caller does not have required permission to use project {project}. Grant the caller the {role} role, or a "
        f"custom role with the {permission} permission, by visiting "
        f"https://console.developers.google.com/iam-admin/iam/project?project={project} and then retry."
    )
    return ApiError("PERMISSION_DENIED", message, [info])


def quota_project_required() -> ApiError:
    """Return the error of a login of a user that names no quota project."""
    message = (
        "Your application is authenticating by using local Application Default Credentials. The tpu.googleapis.com "
        "API requires a quota project, which is not set by default. To learn how to set your quota project, see "
        "https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds ."
    )
    info = service_info("SERVICE_DISABLED", consumer="projects/764086051850")
    return ApiError("PERMISSION_DENIED", message, [info])


def insufficient_reservation() -> ApiError:
    """Return the error of a reservation that has too little capacity (message: skypilot#4579)."""
    return precondition("Insufficient reserved capacity. Contact customer support to increase your reservation.")


def unavailable() -> ApiError:
    """Return the error of a service that is briefly down."""
    return ApiError("UNAVAILABLE", "The service is currently unavailable.")


def rate_limited() -> ApiError:
    """Return the error of too many requests in a minute."""
    message = (
        f"Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of service '{SERVICE}' for "
        "consumer 'project_number:1'."
    )
    metric = "tpu.googleapis.com/default_requests"
    info = service_info("RATE_LIMIT_EXCEEDED", quota_metric=metric, consumer="projects/1")
    return ApiError("RESOURCE_EXHAUSTED", message, [info])


def token_expired() -> ApiError:
    """Return the error of an expired access token."""
    return not_the_owner("UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED", INVALID_CREDENTIALS)
