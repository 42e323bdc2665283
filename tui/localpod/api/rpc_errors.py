"""Errors as Google APIs return them: a code, a message, details (google.rpc.Status)."""

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
    """An answer other than OK; `code` is the name of a google.rpc.Code."""

    def __init__(self, code: str, message: str, details: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = tuple(details)

    @property
    def http_status(self) -> int:
        """Return the HTTP status of the code."""
        return _HTTP[self.code]

    def to_status(self) -> Any:
        """Return the error as google.rpc.Status, for operations and for gRPC's trailers."""
        packed = []
        for detail in self.details:
            packed.append(any_pb2.Any())
            packed[-1].Pack(detail)
        return status_pb2.Status(code=code_pb2.Code.Value(self.code), message=self.message, details=packed)

    def to_json(self) -> dict[str, Any]:
        """Return the body of an HTTP answer, as Google's JSON APIs write it."""
        error: dict[str, Any] = {"code": self.http_status, "message": self.message, "status": self.code}
        if self.details:
            error["details"] = json_format.MessageToDict(self.to_status())["details"]
        return {"error": error}


def not_found(resource: str) -> ApiError:
    """Return the error of a resource that does not exist."""
    return ApiError("NOT_FOUND", f"Resource '{resource}' was not found", [_resource_info(resource)])


def already_exists(resource: str) -> ApiError:
    """Return the error of a name that is taken."""
    return ApiError("ALREADY_EXISTS", f"Resource '{resource}' already exists", [_resource_info(resource)])


def invalid(what: str, field: str = "") -> ApiError:
    """Return the error of an invalid request; `field` is the path of the invalid field."""
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=what)
    details = [error_details_pb2.BadRequest(field_violations=[violation])] if field else []
    return ApiError("INVALID_ARGUMENT", f"Cloud TPU received a bad request. {what} {_event_id()}", details)


def precondition(what: str) -> ApiError:
    """Return the error of a resource whose state does not allow the request."""
    return ApiError("FAILED_PRECONDITION", f"{what} {_event_id()}")


def busy() -> ApiError:
    """Return the error of a resource with an operation in progress."""
    return ApiError("ABORTED", "unable to queue the operation")


def permission_denied(permission: str, resource: str) -> ApiError:
    """Return the error of a missing permission, or of a project that the caller may not see."""
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
    """Return the error of a request for more workers than the project may have."""
    metric = f"TPU{generation.upper()}PerProjectPerZoneForTPUAPI"
    message = f"Quota limit '{metric}' has been exceeded. Limit: {limit} in zone {zone}."
    violation = error_details_pb2.QuotaFailure.Violation(subject=f"project:{project}", description=message)
    return ApiError("RESOURCE_EXHAUSTED", message, [error_details_pb2.QuotaFailure(violations=[violation])])


def no_capacity(zone: str) -> ApiError:
    """Return the error of a zone without capacity."""
    return ApiError(
        "RESOURCE_EXHAUSTED",
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are '
        f"offered (see https://cloud.google.com/tpu/docs/regions) {_event_id()}",
    )


def not_the_owner(code: str, reason: str, message: str) -> ApiError:
    """Return the error of a request that is not the pod owner's."""
    return ApiError(code, message, [service_info(reason)])


def service_info(reason: str, **metadata: str) -> error_details_pb2.ErrorInfo:
    """Return the machine-readable reason of a refusal."""
    return error_details_pb2.ErrorInfo(
        reason=reason, domain="googleapis.com", metadata={"service": SERVICE, **metadata}
    )


def unimplemented(what: str) -> ApiError:
    """Return the error of a feature that the real service has and this one lacks."""
    return ApiError("UNIMPLEMENTED", what)


def _resource_info(resource: str) -> Any:
    return error_details_pb2.ResourceInfo(resource_name=resource)


def _event_id() -> str:
    """Return an event ID, which Cloud TPU appends to a message for its support."""
    return f"[EID: 0x{secrets.token_hex(8)}]"
