"""Errors as Google APIs answer them: a code, a message, details (google.rpc.Status)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from google.protobuf import any_pb2, json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2

SERVICE = "tpu.googleapis.com"

_HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
}
"""HTTP status by code (google/rpc/code.proto)."""


class ApiError(Exception):
    """An answer that is not OK; `code` is the name of a google.rpc.Code."""

    def __init__(self, code: str, message: str, details: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = tuple(details)

    @property
    def http_status(self) -> int:
        """The HTTP status that goes with the code."""
        return _HTTP[self.code]

    def to_status(self) -> Any:
        """The error as google.rpc.Status: what an operation carries, and gRPC in its trailers."""
        packed = []
        for detail in self.details:
            packed.append(any_pb2.Any())
            packed[-1].Pack(detail)
        return status_pb2.Status(code=code_pb2.Code.Value(self.code), message=self.message, details=packed)

    def to_json(self) -> dict[str, Any]:
        """The body of an HTTP answer, as Google's JSON APIs write it."""
        error: dict[str, Any] = {"code": self.http_status, "message": self.message, "status": self.code}
        if self.details:
            error["details"] = json_format.MessageToDict(self.to_status())["details"]
        return {"error": error}


def not_found(resource: str) -> ApiError:
    """The resource does not exist."""
    return ApiError("NOT_FOUND", f"Resource '{resource}' was not found", [_resource_info(resource)])


def already_exists(resource: str) -> ApiError:
    """A resource of that name exists."""
    return ApiError("ALREADY_EXISTS", f"Resource '{resource}' already exists", [_resource_info(resource)])


def invalid(what: str, field: str = "") -> ApiError:
    """The request makes no sense; `field` is the path of the field that is wrong."""
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=what)
    details = [error_details_pb2.BadRequest(field_violations=[violation])] if field else []
    return ApiError("INVALID_ARGUMENT", f"Cloud TPU received a bad request. {what} {_event_id()}", details)


def precondition(what: str) -> ApiError:
    """The resource is not in a state for that."""
    return ApiError("FAILED_PRECONDITION", f"{what} {_event_id()}")


def busy() -> ApiError:
    """Another operation on the same resource has not ended."""
    return ApiError("ABORTED", "unable to queue the operation")


def permission_denied(permission: str, resource: str) -> ApiError:
    """The caller may not do that there, or the project is not one the caller may know of."""
    info = error_details_pb2.ErrorInfo(
        reason="IAM_PERMISSION_DENIED",
        domain="iam.googleapis.com",
        metadata={"permission": permission, "resource": resource},
    )
    return ApiError("PERMISSION_DENIED", f"Permission '{permission}' denied on '{resource}'", [info])


def unknown_location(zone: str) -> ApiError:
    """Return the error of an unknown zone; Google's API gives the same for a forbidden one."""
    return ApiError("PERMISSION_DENIED", f"Location {zone} is not found or access is unauthorized.")


def quota_exceeded(generation: str, limit: int, zone: str, project: str) -> ApiError:
    """More workers than the project may have."""
    metric = f"TPU{generation.upper()}PerProjectPerZoneForTPUAPI"
    message = f"Quota limit '{metric}' has been exceeded. Limit: {limit} in zone {zone}."
    violation = error_details_pb2.QuotaFailure.Violation(subject=f"project:{project}", description=message)
    return ApiError("RESOURCE_EXHAUSTED", message, [error_details_pb2.QuotaFailure(violations=[violation])])


def no_capacity(zone: str) -> ApiError:
    """The zone has no more of them."""
    return ApiError(
        "RESOURCE_EXHAUSTED",
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are '
        f"offered (see https://cloud.google.com/tpu/docs/regions) {_event_id()}",
    )


def unavailable() -> ApiError:
    """The service does not answer just now; a client tries again."""
    return ApiError("UNAVAILABLE", "The service is currently unavailable.")


def token_expired() -> ApiError:
    """The access token is not valid any longer."""
    return not_the_owner(
        "UNAUTHENTICATED",
        "ACCESS_TOKEN_EXPIRED",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
    )


def not_the_owner(code: str, reason: str, message: str) -> ApiError:
    """The request does not come from the pod's owner."""
    info = error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com", metadata={"service": SERVICE})
    return ApiError(code, message, [info])


def unimplemented(what: str) -> ApiError:
    """The real service knows this, the local one does not."""
    return ApiError("UNIMPLEMENTED", what)


def _resource_info(resource: str) -> Any:
    return error_details_pb2.ResourceInfo(resource_name=resource)


def _event_id() -> str:
    """What Cloud TPU appends for its support to search by."""
    return f"[EID: 0x{secrets.token_hex(8)}]"
