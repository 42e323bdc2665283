"""The errors of Google's APIs as sentences with a next step.

Source: google.rpc.Code and ErrorInfo's reasons as Google's API error model documents them. Importing this module
imports none of Google's libraries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tui.cloud.credentials import LOGIN
from tui.errors import CloudError, NoSuchResourceError, TpuTuiError, UsageError
from tui.pod.api_paths import last_part
from tui.text.printable import one_line

if TYPE_CHECKING:
    from google.api_core import exceptions

_PLUGIN_FAILED = "metadata from plugin failed"
"""gRPC's text when fetching an access token failed: an UNAVAILABLE for which a retry is useless."""
_CONNECTING = re.compile(r"failed to connect to all addresses; last error: (\w+: \S+: Failed to connect [a-z ]+: )?")
"""What precedes the cause in gRPC's message."""
_EVENT_ID = re.compile(r"\s*\[EID: [^\]]*\]")
_IMPERSONATED = "impersonated credentials"
"""In google-auth's message when a token of an impersonated service account is refused."""
_IMPERSONATE = "iam.serviceAccounts.getAccessToken"
"""The permission that lets a login act as a service account."""
_NOT_ENABLED = "it is disabled"
"""In the message of an API that the project has not enabled."""
_PERMISSION = re.compile(r"[Pp]ermission [\\'\"]*([a-z]+\.[A-Za-z]+\.[A-Za-z]+)")
_NO_LOCATION = re.compile(r"Location \S+ is not found or access is unauthorized")
_RATE_LIMIT = re.compile(r"\bper minute\b|\bper 100 seconds\b|[Rr]ate limit")
_DISABLED = ("SERVICE_DISABLED", "API_DISABLED")
_WRONG_PROJECT = ("CONSUMER_INVALID", "RESOURCE_PROJECT_INVALID", "CONSUMER_SUSPENDED")
_USE_PROJECT = "serviceusage.services.use"
"""The permission that lets a login bill requests to a project."""


@dataclass(frozen=True)
class ApiRequest:
    """The request that failed, for the error's sentence."""

    what: str
    """What could not be done, e.g. "slices in us-central1-a cannot be listed"."""
    project: str
    service: str = "tpu.googleapis.com"
    api: str = "the Cloud TPU API"
    role: str = "roles/tpu.admin"
    """The role that permits the request."""
    endpoint: str = ""
    """host:port of a local pod; empty for Google's service."""


def is_transient(error: BaseException) -> bool:
    """Return whether a retry may help: UNAVAILABLE or a rate limit, but not for a token that cannot be fetched."""
    from google.api_core import exceptions

    if isinstance(error, exceptions.TooManyRequests):
        return _is_rate_limit(error)
    return isinstance(error, exceptions.ServiceUnavailable) and _PLUGIN_FAILED not in str(error)


def retry_delay_s(error: BaseException) -> float:
    """Return the wait before a retry that the API requests, in seconds; 0 if it requests none.

    The request is a google.rpc.RetryInfo, or the HTTP header Retry-After.
    """
    for detail in getattr(error, "details", None) or ():
        if (delay := getattr(detail, "retry_delay", None)) is not None:
            return float(delay.ToTimedelta().total_seconds())
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    seconds = str(headers.get("Retry-After", ""))
    return float(seconds) if seconds.isascii() and seconds.isdecimal() else 0.0


def _is_rate_limit(error: exceptions.GoogleAPICallError) -> bool:
    return error.reason == "RATE_LIMIT_EXCEEDED" or bool(_RATE_LIMIT.search(error.message or ""))


def is_unknown_location(error: BaseException) -> bool:
    """Return whether the API reports an unknown zone."""
    from google.api_core import exceptions

    return isinstance(error, exceptions.GoogleAPICallError) and bool(_NO_LOCATION.search(error.message or ""))


def is_missing(error: TpuTuiError) -> bool:
    """Return whether an error means that what the request names does not exist."""
    from google.api_core import exceptions

    return isinstance(error, NoSuchResourceError) or isinstance(error.__cause__, exceptions.NotFound)


def explain(error: Exception, request: ApiRequest, tried: float = 0.0) -> TpuTuiError:
    """Return the error as a sentence with its remedy; `tried` is the number of seconds spent on retries."""
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    if isinstance(error, exceptions.RetryError) and isinstance(error.cause, Exception):
        error = error.cause
    if isinstance(error, GoogleAuthError) or _PLUGIN_FAILED in str(error):
        return _token(request, str(error))
    if not isinstance(error, exceptions.GoogleAPICallError):
        return CloudError(request.what, why=first_line(error))
    if is_unknown_location(error):
        why = f"there is no such zone, or project {request.project} cannot use it"
        remedy = f"gcloud compute tpus locations list --project {request.project} lists the zones"
        return UsageError(request.what, why=why, remedy=remedy)
    for kind in type(error).__mro__:
        if explained := _BY_KIND.get(kind.__name__):
            return explained(error, request, tried)
    return CloudError(request.what, why=first_line(error), remedy=_TRY_AGAIN)


def did_not_answer(things: str, place: str) -> CloudError:
    """Return the error of a zone or region without an answer in a listing of several; `things` were to be listed."""
    return CloudError(f"{things} in {place} cannot be listed", why="the zone did not answer", remedy="try again")


def unreachable(request: ApiRequest, tried_s: float, detail: str = "") -> CloudError:
    """Return the error of a service that could not be reached, or is down."""
    address = f" at {request.endpoint}" if request.endpoint else ""
    why = f"{request.api}{address} is down or cannot be reached (tried for {tried_s:.0f} s)"
    remedy = "check the network, and https://status.cloud.google.com"
    if request.endpoint:
        remedy = "check that the local pod is up; tpu-tui local up starts one"
    return CloudError(request.what, why=f"{why}: {detail}" if detail else why, remedy=remedy)


def explain_transport(error: Exception, request: ApiRequest, tried_s: float) -> CloudError:
    """Return the error of a request by HTTP without an answer, or with that of a proxy or another server."""
    from requests.exceptions import InvalidJSONError

    if not isinstance(error, InvalidJSONError):
        return unreachable(request, tried_s)
    why = f"{request.endpoint or request.service} does not answer as {request.api} does: {one_line(str(error))}"
    remedy = "check the endpoints in the profile" if request.endpoint else "check the proxy of this network"
    return CloudError(request.what, why=why, remedy=remedy)


def quota_remedy(project: str) -> str:
    """Return what to do when a quota of Cloud TPU is used up."""
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={project}"
    return f"delete what is not needed (queued resources use quota too), or request more at {page}"


def first_line(error: Exception) -> str:
    """Return the API's message on one printable line."""
    return without_event_id(getattr(error, "message", None) or str(error) or type(error).__name__)


def without_event_id(text: str) -> str:
    """Return a message of the API on one printable line, without the event ID for Google's support."""
    return _EVENT_ID.sub("", one_line(str(text)))


def _token(request: ApiRequest, text: str) -> TpuTuiError:
    if _IMPERSONATED in text and _NOT_ENABLED in text:
        return CloudError(
            request.what,
            why="the IAM Service Account Credentials API, which impersonation needs, is not enabled",
            remedy="gcloud services enable iamcredentials.googleapis.com in the project of that service account",
        )
    if _IMPERSONATED in text:
        permission = _permission_in(text) or f" (missing: {_IMPERSONATE})"
        return CloudError(
            request.what,
            why=f"this login may not act as the service account it impersonates{permission}",
            remedy="ask for the role roles/iam.serviceAccountTokenCreator on that service account, "
            f"or log in without impersonation: {LOGIN}",
        )
    if any(word in text for word in ("invalid_grant", "Reauthentication", "expired")):
        why = "the login has expired or was revoked"
    else:
        why = f"no access token could be fetched: {one_line(text)}"
    return CloudError(request.what, why=why, remedy=LOGIN)


def _permission_in(text: str) -> str:
    match = _PERMISSION.search(text)
    return f" (missing: {match[1]})" if match else ""


def _unreachable(error: exceptions.GoogleAPICallError, request: ApiRequest, tried_s: float) -> TpuTuiError:
    return unreachable(request, tried_s, _CONNECTING.sub("", first_line(error)))


def _too_late(_error: exceptions.GoogleAPICallError, request: ApiRequest, tried_s: float) -> TpuTuiError:
    return CloudError(request.what, why=f"{request.api} did not answer within {tried_s:.0f} s", remedy="try again")


_NOT_THE_OWNER = ("CREDENTIALS_MISSING", "ACCESS_TOKEN_TYPE_UNSUPPORTED")
"""Why a local pod refuses a token: there is none, or it is another pod's."""


def _unauthenticated(error: exceptions.GoogleAPICallError, request: ApiRequest, _tried_s: float) -> TpuTuiError:
    if request.endpoint and error.reason in _NOT_THE_OWNER:
        token = "no token" if error.reason == _NOT_THE_OWNER[0] else "a different token"
        why = f"the local pod at {request.endpoint} answers only its owner, and the profile has {token}"
        remedy = "stop that pod and start one with tpu-tui local up, or add its token to the profile (token = …)"
        return CloudError(request.what, why=why, remedy=remedy)
    return CloudError(request.what, why="the access token is expired, revoked or invalid", remedy=LOGIN)


def _forbidden(error: exceptions.GoogleAPICallError, request: ApiRequest, _tried_s: float) -> TpuTuiError:
    text = first_line(error)
    if error.reason == "CONSUMER_QUOTA_PROJECT_REQUIRED" or "requires a quota project" in text:
        return CloudError(
            request.what,
            why="the login has no project to bill requests to",
            remedy=f"gcloud auth application-default set-quota-project {request.project}",
        )
    if error.reason in _DISABLED or _NOT_ENABLED in text:
        return CloudError(
            request.what,
            why=f"{request.api} is not enabled in project {request.project}",
            remedy=f"gcloud services enable {request.service} --project {request.project}",
        )
    if error.reason == "USER_PROJECT_DENIED" or _USE_PROJECT in text:
        consumer = last_part(str((error.metadata or {}).get("consumer", ""))) or "its quota project"
        return CloudError(
            request.what,
            why=f"this login may not bill requests to {consumer} (missing: {_USE_PROJECT})",
            remedy="ask its owner for the role roles/serviceusage.serviceUsageConsumer, or choose another project: "
            f"gcloud auth application-default set-quota-project {request.project}",
        )
    if error.reason == "ACCESS_TOKEN_SCOPE_INSUFFICIENT":
        return CloudError(
            request.what,
            why="the access token lacks the scope https://www.googleapis.com/auth/cloud-platform",
            remedy=f"on a machine of Google's, give it that scope (--scopes=cloud-platform); elsewhere: {LOGIN}",
        )
    if error.reason in _WRONG_PROJECT:
        return UsageError(request.what, why=f"there is no project {request.project}", remedy=_ANOTHER_PROJECT)
    metadata: Any = error.metadata or {}
    permission = f" (missing: {metadata['permission']})" if "permission" in metadata else _permission_in(text)
    return CloudError(
        request.what,
        why=f"project {request.project} does not exist, or this login is not allowed to do that{permission}: {text}",
        remedy=f"ask its owner for the role {request.role}, or {_ANOTHER_PROJECT}",
    )


_ANOTHER_PROJECT = "choose another project with --project (gcloud projects list shows yours)"


def _not_found(error: exceptions.GoogleAPICallError, request: ApiRequest, _tried_s: float) -> TpuTuiError:
    return UsageError(request.what, why=first_line(error))


def _in_the_wrong_state(error: exceptions.GoogleAPICallError, request: ApiRequest, _tried_s: float) -> TpuTuiError:
    return UsageError(request.what, why=first_line(error).rstrip("."), remedy="tpu-tui slices shows its state")


def _exists(error: exceptions.GoogleAPICallError, request: ApiRequest, _tried_s: float) -> TpuTuiError:
    return UsageError(request.what, why=first_line(error), remedy="choose another name, or delete that one first")


_TRY_AGAIN = "try again; https://status.cloud.google.com lists known problems"


def _exhausted(error: exceptions.GoogleAPICallError, request: ApiRequest, _tried_s: float) -> TpuTuiError:
    text = first_line(error)
    if _is_rate_limit(error):
        return CloudError(
            request.what, why=text, remedy="wait a minute; the limit is shared by all programs of the project"
        )
    if "capacity" in text:
        return CloudError(request.what, why=text, remedy="try another zone, --spot, or try later")
    return CloudError(request.what, why=text, remedy=quota_remedy(request.project))


_BY_KIND = {
    "ServiceUnavailable": _unreachable,
    "DeadlineExceeded": _too_late,
    "Unauthorized": _unauthenticated,
    "Forbidden": _forbidden,
    "NotFound": _not_found,
    "AlreadyExists": _exists,
    "TooManyRequests": _exhausted,
    "FailedPrecondition": _in_the_wrong_state,
    "InvalidArgument": _not_found,
    "BadRequest": _not_found,
}
"""By class of google.api_core.exceptions. gRPC's are subclasses of HTTP's: PERMISSION_DENIED is a Forbidden."""
