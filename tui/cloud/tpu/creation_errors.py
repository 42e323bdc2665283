"""Why a slice could not be created: quota, stock-out, reservation, name or type, each with its next step.

Sources of the texts: Google's answers quoted in skypilot#4579, skypilot#5593 and its provisioner's comments, and in
gcpdiag's rule on Cloud TPU capacity. Login, permission and disabled APIs are explained in `tui.cloud.api_errors`.
"""

from __future__ import annotations

import re

from tui.cloud.api_errors import first_line, quota_remedy
from tui.cloud.tpu.zone_offers import ZoneOffers
from tui.errors import CloudError, TpuTuiError, UsageError
from tui.pod.creation.slice_request import SliceRequest
from tui.pod.slice_commands import create_command

_QUOTA = re.compile(
    r"[Qq]uota(?: limit)? '(?P<name>[^']+)'.*?[Ll]imit:? (?P<limit>[\d,.]*\d)"
    r"(?: in (?:zone|region) (?P<place>[\w-]+))?"
)
_NO_CAPACITY = re.compile(r"no more capacity|[Nn]ot enough (?:resources|capacity)|stockout|out of capacity")
_NO_TPU_NODES = "provision TPU Node has been denied"
_RESERVATION = re.compile(r"reserved capacity|\breservations?\b")


async def explain_creation(
    error: TpuTuiError, request: SliceRequest, offers: ZoneOffers, project: str
) -> TpuTuiError:
    """Return the error of a creation as one sentence with its next step; another error unchanged."""
    from google.api_core import exceptions

    cause = error.__cause__
    if not isinstance(cause, exceptions.GoogleAPICallError):
        return error
    text = first_line(cause)
    if request.is_tpu_node and (_NO_TPU_NODES in text or isinstance(cause, exceptions.MethodNotImplemented)):
        return _no_tpu_nodes(error.what, text, request)
    if isinstance(cause, exceptions.AlreadyExists):
        return _name_taken(error.what, request)
    if _RESERVATION.search(text):
        return _reservation(error.what, text, request, project)
    if isinstance(cause, exceptions.InvalidArgument | exceptions.NotFound):
        missing = await offers.missing(request.zone, request.type_name, request.runtime_version)
        return UsageError(error.what, why=missing[0], remedy=missing[1]) if missing else error
    if _NO_CAPACITY.search(text):
        zones = await offers.zones_with(request.type_name, request.zone)
        return _stock_out(error.what, request, zones)
    if isinstance(cause, exceptions.ResourceExhausted) and (quota := _QUOTA.search(text)):
        return _quota(error.what, quota, request, project)
    return error


def _no_tpu_nodes(what: str, text: str, request: SliceRequest) -> TpuTuiError:
    """Return the error of an API that no longer creates TPU Nodes: its message, and what to create instead."""
    vms = create_command(request.name, request.zone, request.type_name, None)
    remedy = f"create TPU VMs: {vms}; or an instance group with TPUs on Compute Engine: tpu-tui groups create"
    return CloudError(what, why=text.rstrip("."), remedy=remedy)


def _name_taken(what: str, request: SliceRequest) -> TpuTuiError:
    kind = "a slice" if request.queue is None else "a queued resource, or one of its slices,"
    remedy = f"choose another name, or delete it first: {request.delete_command}"
    return UsageError(what, why=f"{kind} of that name exists already", remedy=remedy)


def _reservation(what: str, text: str, request: SliceRequest, project: str) -> TpuTuiError:
    page = f"https://console.cloud.google.com/compute/reservations?project={project}"
    if request.reserved:
        remedy = f"omit --reserved to use capacity without a reservation; {page} lists yours"
    else:
        remedy = f"the project has this type by reservation only: add --reserved ({page}), or try --spot"
    return CloudError(what, why=f"the reservation is too small: {text.rstrip('.')}", remedy=remedy)


def _stock_out(what: str, request: SliceRequest, zones: list[str]) -> TpuTuiError:
    ways = [f"try another zone that has {request.type_name} ({', '.join(zones)})"] if zones else []
    ways += [] if request.queue else ["wait for capacity with --queued"]
    ways += [] if request.spot else ["use --spot"]
    remedy = ", or ".join(ways) or "try again later: no other zone has it"
    return CloudError(what, why=f"{request.zone} has no {request.type_name} left now", remedy=remedy)


def _quota(what: str, quota: re.Match[str], request: SliceRequest, project: str) -> TpuTuiError:
    location = quota["place"] or request.zone
    why = f"quota {quota['name']} is used up: its limit in {location} is {quota['limit'].rstrip('.,')}"
    return CloudError(what, why=why, remedy=quota_remedy(project))
