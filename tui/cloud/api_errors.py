"""What Google's APIs answer when they refuse, as sentences with a next step. Imports Google's libraries.

Source: google.rpc.Code and ErrorInfo's reasons as Google's API error model documents them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError

from tui.cloud.credentials import LOGIN
from tui.errors import CloudError, TpuTuiError, UsageError
from tui.text.printable import one_line

_PLUGIN_FAILED = "metadata from plugin failed"
"""gRPC's words when fetching an access token failed: an UNAVAILABLE that no retry cures."""
_EVENT_ID = re.compile(r"\s*\[EID: [^\]]*\]")
_NO_LOCATION = re.compile(r"Location \S+ is not found or access is unauthorized")
_EACH_MINUTE = re.compile(r"\bper minute\b|\bper 100 seconds\b|[Rr]ate limit")
_DISABLED = ("SERVICE_DISABLED", "API_DISABLED")
_WRONG_PROJECT = ("CONSUMER_INVALID", "RESOURCE_PROJECT_INVALID", "CONSUMER_SUSPENDED")
_QUOTA_PROJECT = ("USER_PROJECT_DENIED", "CONSUMER_QUOTA_PROJECT_REQUIRED")


@dataclass(frozen=True)
class ApiRequest:
    """What was being asked for when the error came, for its sentence."""

    what: str
    """As "slices in us-central1-a cannot be listed"."""
    project: str
    service: str = "tpu.googleapis.com"
    api: str = "the Cloud TPU API"
    role: str = "roles/tpu.admin"
    """What someone who may not needs to be granted."""
    endpoint: str = ""
    """host:port of a local pod; empty for Google's own."""


def is_passing(error: BaseException) -> bool:
    """Whether asking again may help: UNAVAILABLE, but not for a token that cannot be fetched."""
    return isinstance(error, exceptions.ServiceUnavailable) and _PLUGIN_FAILED not in str(error)


def is_unknown_location(error: BaseException) -> bool:
    """Whether the API says that there is no such zone."""
    return isinstance(error, exceptions.GoogleAPICallError) and bool(_NO_LOCATION.search(error.message or ""))


def explain(error: Exception, asked: ApiRequest, tried: float = 0.0) -> TpuTuiError:
    """The error as a sentence with its remedy; `tried` is for how many seconds it was asked."""
    if isinstance(error, exceptions.RetryError) and isinstance(error.cause, Exception):
        error = error.cause
    if isinstance(error, GoogleAuthError) or _PLUGIN_FAILED in str(error):
        return _token(asked, str(error))
    if not isinstance(error, exceptions.GoogleAPICallError):
        return CloudError(asked.what, why=_first_line(error))
    if is_unknown_location(error):
        why = f"there is no such zone, or project {asked.project} cannot use it"
        remedy = f"gcloud compute tpus locations list --project {asked.project} shows the zones there are"
        return UsageError(asked.what, why=why, remedy=remedy)
    for kind, explained in _BY_KIND.items():
        if isinstance(error, kind):
            return explained(error, asked, tried)
    return CloudError(asked.what, why=_first_line(error), remedy=_THEIR_FAULT)


def _first_line(error: Exception) -> str:
    """What the API said, on one harmless line, without the number meant for Google's support."""
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return _EVENT_ID.sub("", one_line(str(text)))


def _token(asked: ApiRequest, said: str) -> TpuTuiError:
    if "invalid_grant" in said or "Reauthentication" in said or "expired" in said:
        why = "the login has expired or was revoked"
    else:
        why = f"no access token could be fetched: {one_line(said)}"
    return CloudError(asked.what, why=why, remedy=LOGIN)


def _unreachable(error: exceptions.GoogleAPICallError, asked: ApiRequest, tried: float) -> TpuTuiError:
    where = f" at {asked.endpoint}" if asked.endpoint else ""
    remedy = "look at the network, and at https://status.cloud.google.com"
    if asked.endpoint:
        remedy = "is the local pod still there? tpu-tui local up starts one"
    why = f"{asked.api}{where} is down or out of reach, tried for {tried:.0f} s: {_first_line(error)}"
    return CloudError(asked.what, why=why, remedy=remedy)


def _too_late(_error: exceptions.GoogleAPICallError, asked: ApiRequest, tried: float) -> TpuTuiError:
    return CloudError(asked.what, why=f"{asked.api} did not answer within {tried:.0f} s", remedy="try again")


_NOT_ITS_OWNER = ("CREDENTIALS_MISSING", "ACCESS_TOKEN_TYPE_UNSUPPORTED")
"""Why a local pod takes no token: there is none, or it is another pod's."""


def _unauthenticated(error: exceptions.GoogleAPICallError, asked: ApiRequest, _tried: float) -> TpuTuiError:
    if asked.endpoint and error.reason in _NOT_ITS_OWNER:
        which = "no token" if error.reason == _NOT_ITS_OWNER[0] else "another token"
        why = f"the local pod at {asked.endpoint} answers its owner only, and the profile has {which}"
        remedy = "end that pod and start one with tpu-tui local up, or put its token into the profile (token = …)"
        return CloudError(asked.what, why=why, remedy=remedy)
    return CloudError(asked.what, why="the access token is expired, revoked or not valid", remedy=LOGIN)


def _forbidden(error: exceptions.GoogleAPICallError, asked: ApiRequest, _tried: float) -> TpuTuiError:
    said = _first_line(error)
    if error.reason in _DISABLED or "it is disabled" in said:
        return CloudError(
            asked.what,
            why=f"{asked.api} is not enabled in project {asked.project}",
            remedy=f"gcloud services enable {asked.service} --project {asked.project}",
        )
    if error.reason in _QUOTA_PROJECT or "requires a quota project" in said:
        return CloudError(
            asked.what,
            why="the login names no project to bill requests to",
            remedy=f"gcloud auth application-default set-quota-project {asked.project}",
        )
    if error.reason in _WRONG_PROJECT:
        return UsageError(asked.what, why=f"there is no project {asked.project}", remedy=_ANOTHER_PROJECT)
    metadata: Any = error.metadata or {}
    permission = f" (missing: {metadata['permission']})" if "permission" in metadata else ""
    return CloudError(
        asked.what,
        why=f"project {asked.project} does not exist, or this login may not do that in it{permission}: {said}",
        remedy=f"{_ANOTHER_PROJECT}, or ask its owner for the role {asked.role}",
    )


_ANOTHER_PROJECT = "name the right one with --project (gcloud projects list shows yours)"


def _not_found(error: exceptions.GoogleAPICallError, asked: ApiRequest, _tried: float) -> TpuTuiError:
    return UsageError(asked.what, why=_first_line(error))


def _in_the_wrong_state(error: exceptions.GoogleAPICallError, asked: ApiRequest, _tried: float) -> TpuTuiError:
    return UsageError(asked.what, why=_first_line(error).rstrip("."), remedy="tpu-tui slices shows its state")


def _exists(error: exceptions.GoogleAPICallError, asked: ApiRequest, _tried: float) -> TpuTuiError:
    return UsageError(asked.what, why=_first_line(error), remedy="take another name, or delete that one first")


_THEIR_FAULT = "try again; https://status.cloud.google.com tells whether it is more than this once"


def _exhausted(error: exceptions.GoogleAPICallError, asked: ApiRequest, _tried: float) -> TpuTuiError:
    said = _first_line(error)
    if error.reason == "RATE_LIMIT_EXCEEDED" or _EACH_MINUTE.search(said):
        return CloudError(asked.what, why=said, remedy="wait a minute; other programs of the project count too")
    if "capacity" in said:
        return CloudError(asked.what, why=said, remedy="try another zone, --spot, or later")
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={asked.project}"
    remedy = f"delete what is not needed (queued resources hold quota too), or ask for more at {page}"
    return CloudError(asked.what, why=said, remedy=remedy)


_BY_KIND = {
    exceptions.ServiceUnavailable: _unreachable,
    exceptions.DeadlineExceeded: _too_late,
    exceptions.Unauthorized: _unauthenticated,
    exceptions.Forbidden: _forbidden,
    exceptions.NotFound: _not_found,
    exceptions.AlreadyExists: _exists,
    exceptions.TooManyRequests: _exhausted,
    exceptions.FailedPrecondition: _in_the_wrong_state,
    exceptions.InvalidArgument: _not_found,
}
"""gRPC's codes are subclasses of HTTP's: PERMISSION_DENIED is a Forbidden, UNAUTHENTICATED an Unauthorized."""
