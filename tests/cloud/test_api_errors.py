from __future__ import annotations

import grpc
import pytest
from google.api_core import exceptions
from google.auth.exceptions import RefreshError
from google.rpc import error_details_pb2

from tui.cloud.api_errors import ApiRequest, explain, is_transient, is_unknown_location, retry_delay_s
from tui.cloud.credentials import LOGIN
from tui.errors import CloudError, UsageError

REQUEST = ApiRequest("slices cannot be listed", "my-project")


def answered(code: grpc.StatusCode, message: str, reason: str = "", **metadata: str) -> exceptions.GoogleAPICallError:
    """Return the error that the client library makes from an answer with google.rpc.ErrorInfo."""
    info = error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com", metadata=metadata) if reason else None
    return exceptions.from_grpc_status(code, message, error_info=info)


def test_a_disabled_api_gets_the_command_that_enables_it() -> None:
    message = "Cloud TPU API has not been used in project 1 before or it is disabled."
    for error in (
        answered(grpc.StatusCode.PERMISSION_DENIED, message, "SERVICE_DISABLED", service="tpu.googleapis.com"),
        answered(grpc.StatusCode.PERMISSION_DENIED, message),
    ):
        error_ = explain(error, REQUEST)

        assert error_.remedy == "gcloud services enable tpu.googleapis.com --project my-project"
        assert isinstance(error_, CloudError)


def test_a_missing_permission_is_named() -> None:
    error = answered(
        grpc.StatusCode.PERMISSION_DENIED, "Permission denied", "IAM_PERMISSION_DENIED", permission="tpu.nodes.list"
    )

    error_ = explain(error, REQUEST)

    assert "my-project" in error_.why
    assert "tpu.nodes.list" in error_.why


def test_a_project_that_does_not_exist_is_a_usage_error() -> None:
    error_ = explain(answered(grpc.StatusCode.PERMISSION_DENIED, "Project gone", "CONSUMER_INVALID"), REQUEST)

    assert isinstance(error_, UsageError)
    assert error_.why == "there is no project my-project"


def test_a_login_without_quota_project_gets_the_command_that_sets_one() -> None:
    message = "The tpu.googleapis.com API requires a quota project, which is not set by default."

    error_ = explain(answered(grpc.StatusCode.PERMISSION_DENIED, message), REQUEST)

    assert error_.remedy == "gcloud auth application-default set-quota-project my-project"


@pytest.mark.parametrize(
    "error",
    [
        RefreshError("invalid_grant: Token has been expired or revoked."),
        exceptions.ServiceUnavailable(
            "Getting metadata from plugin failed with error: ('invalid_grant: Bad Request', {'error': 'invalid'})"
        ),
        answered(grpc.StatusCode.UNAUTHENTICATED, "Request had invalid authentication credentials."),
    ],
)
def test_an_expired_login_is_reported_with_the_command_that_renews_it_and_not_retried(error: Exception) -> None:
    error_ = explain(error, REQUEST)

    assert (error_.what, error_.remedy, error_.exit_code) == (REQUEST.what, LOGIN, 3)
    assert "expired" in error_.why
    assert not is_transient(error)


def test_only_an_outage_is_retried() -> None:
    assert is_transient(answered(grpc.StatusCode.UNAVAILABLE, "try later"))
    assert not is_transient(answered(grpc.StatusCode.PERMISSION_DENIED, "no"))
    assert not is_transient(ValueError("no"))


def test_an_outage_is_reported_with_the_time_of_the_attempts() -> None:
    error = exceptions.RetryError("timeout", answered(grpc.StatusCode.UNAVAILABLE, "connect: refused"))

    error_ = explain(error, REQUEST, 12.4)

    assert "tried for 12 s" in error_.why
    assert "connect: refused" in error_.why


def test_control_characters_in_a_message_of_the_api_are_removed() -> None:
    error_ = explain(answered(grpc.StatusCode.INTERNAL, "bad\x1b]0;owned\x07\nthing [EID: 0x1234]"), REQUEST)

    assert "\x1b" not in error_.why
    assert "\n" not in error_.why
    assert "EID" not in error_.why


def test_an_unknown_zone_is_recognised() -> None:
    message = "Location us-central9-z is not found or access is unauthorized."

    assert is_unknown_location(answered(grpc.StatusCode.PERMISSION_DENIED, message))
    assert not is_unknown_location(answered(grpc.StatusCode.PERMISSION_DENIED, "no"))


def test_an_unknown_zone_is_a_usage_error_and_not_one_of_the_login() -> None:
    message = "Location us-central9-z is not found or access is unauthorized."
    error_ = explain(answered(grpc.StatusCode.PERMISSION_DENIED, message), REQUEST)
    assert isinstance(error_, UsageError)
    assert "no such zone" in error_.why
    assert "locations list" in error_.remedy


def test_a_slice_in_the_wrong_state_is_a_usage_error() -> None:
    error_ = explain(answered(grpc.StatusCode.FAILED_PRECONDITION, "The node is READY."), REQUEST)
    assert isinstance(error_, UsageError)
    assert error_.why == "The node is READY"
    assert "tpu-tui slices" in error_.remedy


def test_a_rate_limit_suggests_waiting_and_a_used_up_quota_deleting() -> None:
    message = "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute'"
    for error in (
        answered(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded", "RATE_LIMIT_EXCEEDED"),
        answered(grpc.StatusCode.RESOURCE_EXHAUSTED, message),
    ):
        assert "wait a minute" in explain(error, REQUEST).remedy
    used_up = answered(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota 'TPUV2sPreemptiblePerProjectPerZone' exhausted")
    assert "delete what is not needed" in explain(used_up, REQUEST).remedy


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.ABORTED])
def test_an_unspecific_error_has_a_next_step(code: grpc.StatusCode) -> None:
    assert "try again" in explain(answered(code, "internal error"), REQUEST).remedy


@pytest.mark.parametrize("kind", [RefreshError, exceptions.ServiceUnavailable])
def test_a_forbidden_impersonation_names_the_permission(kind: type[Exception]) -> None:
    answer = '{"error": {"message": "Permission \'iam.serviceAccounts.getAccessToken\' denied on resource"}}'
    prefix = "" if kind is RefreshError else "Getting metadata from plugin failed with error: "
    error = kind(f"{prefix}('Unable to acquire impersonated credentials', {answer!r})")

    error_ = explain(error, REQUEST)

    assert error_.why == (
        "this login may not act as the service account it impersonates (missing: iam.serviceAccounts.getAccessToken)"
    )
    assert "roles/iam.serviceAccountTokenCreator" in error_.remedy
    assert not is_transient(error)


def test_a_failed_impersonation_names_the_permission_even_if_the_answer_does_not() -> None:
    error_ = explain(RefreshError("Unable to acquire impersonated credentials", "{}"), REQUEST)

    assert error_.why.endswith("(missing: iam.serviceAccounts.getAccessToken)")


def test_an_impersonation_without_its_api_names_the_command_that_enables_it() -> None:
    answer = "IAM Service Account Credentials API has not been used in project 1 before or it is disabled."
    error_ = explain(RefreshError("Unable to acquire impersonated credentials", answer), REQUEST)

    assert "gcloud services enable iamcredentials.googleapis.com" in error_.remedy
    assert "missing:" not in error_.why


def test_a_token_without_the_scope_is_named() -> None:
    message = "Request had insufficient authentication scopes."
    error = answered(grpc.StatusCode.PERMISSION_DENIED, message, "ACCESS_TOKEN_SCOPE_INSUFFICIENT")

    error_ = explain(error, REQUEST)

    assert "lacks the scope https://www.googleapis.com/auth/cloud-platform" in error_.why
    assert "--scopes=cloud-platform" in error_.remedy


def test_a_quota_project_that_may_not_be_used_names_the_permission() -> None:
    message = "Caller does not have required permission to use project billed."
    error = answered(grpc.StatusCode.PERMISSION_DENIED, message, "USER_PROJECT_DENIED", consumer="projects/billed")

    error_ = explain(error, REQUEST)

    assert error_.why == "this login may not bill requests to billed (missing: serviceusage.services.use)"
    assert "roles/serviceusage.serviceUsageConsumer" in error_.remedy


def test_a_permission_is_also_read_from_the_message() -> None:
    message = "Permission 'tpu.nodes.create' denied on 'projects/p/locations/z'"

    assert "(missing: tpu.nodes.create)" in explain(answered(grpc.StatusCode.PERMISSION_DENIED, message), REQUEST).why


def test_a_rate_limit_is_temporary_and_a_used_up_quota_is_not() -> None:
    limited = answered(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded", "RATE_LIMIT_EXCEEDED")
    assert is_transient(limited)
    assert retry_delay_s(limited) == 0
    assert not is_transient(answered(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota limit 'X' has been exceeded."))
