"""Why there is no way through Identity-Aware Proxy: each cause its own sentence with its own remedy."""

from __future__ import annotations

from tui.ssh.errors import Reason, SshError, quoted

IAP_PORT_CLOSED = 4003
IAP_NOT_AUTHORIZED = 4033
IAP_NO_INSTANCE = 4047
"""Codes with which IAP closes a tunnel that it does not open (Identity-Aware Proxy documentation, TCP forwarding)."""
_HTTP_REFUSALS = (401, 403, 404)


def iap_unnamed(worker: int | str | None) -> SshError:
    """IAP finds a worker by its machine's name, and that is not known."""
    return SshError(
        Reason.ROUTE_MISSING,
        "IAP cannot find it",
        worker=worker,
        why="its guest attributes tell no hostname, and the route is iap",
        remedy="the organisation may forbid guest attributes (compute.disableGuestAttributesAccess), or the slice is "
        "not READY; else go by another route: a profile's `route` or `jump`",
    )


def iap_failed(worker: int | str | None, instance: str, code: int, words: str) -> SshError:
    """IAP opened no tunnel; `code` is a WebSocket close code or an HTTP status, 0 where there was neither."""
    why = f"{instance}: {quoted(words) or 'no reason told'}" + (f" ({code})" if code else "")
    if code == IAP_PORT_CLOSED:
        remedy = (
            "gcloud compute firewall-rules create allow-iap-ssh --allow=tcp:22 --source-ranges=35.235.240.0/20; "
            "a worker that still boots answers within a minute or two"
        )
        return SshError(Reason.REFUSED, "IAP cannot reach its SSH port", worker=worker, why=why, remedy=remedy)
    if code == IAP_NOT_AUTHORIZED or code in _HTTP_REFUSALS:
        remedy = "ask the project's owner for roles/iap.tunnelResourceAccessor, and that the IAP API is enabled"
        return SshError(Reason.ROUTE_MISSING, "IAP does not let us through", worker=worker, why=why, remedy=remedy)
    if code == IAP_NO_INSTANCE:
        remedy = "`tpu-tui slices` shows whether the slice is READY"
        return SshError(Reason.NO_ROUTE, "IAP does not find it", worker=worker, why=why, remedy=remedy)
    remedy = "look at the network: tunnel.cloudproxy.app, port 443, must be reachable"
    return SshError(Reason.TIMED_OUT, "no tunnel through IAP", worker=worker, why=why, remedy=remedy)


def no_token(worker: int | str | None, words: str) -> SshError:
    """IAP asks for an access token, and there is none."""
    return SshError(
        Reason.ROUTE_MISSING,
        "no access token for IAP",
        worker=worker,
        why=quoted(words),
        remedy="gcloud auth application-default login",
    )
