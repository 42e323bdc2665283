"""The shapes of Compute Engine's answers, with the fields that this program reads (API v1)."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from tui.text.json_shapes import NAME, Text


def _is_range(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


_RANGES = [Text("address range", _is_range)]
_SPANS = [Text("port", re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?").fullmatch)]
_ERRORS = {"errors": [{"code": str, "message": str}]}
_METADATA = {"items": [{"key": NAME, "value": str}]}
_INTERFACES = [{"network": str, "networkIP": str, "accessConfigs": [{"natIP": str}]}]
_TAGS = [{"state": str}]
_COMMON: dict[str, Any] = {
    "name": NAME,
    "zone": str,
    "region": str,
    "description": str,
    "labels": {str: str},
    "creationTimestamp": str,
}
_OPERATION = {
    "name": NAME,
    "zone": str,
    "region": str,
    "status": str,
    "error": _ERRORS,
    "operationType": str,
    "targetLink": str,
    "targetId": int,
    "insertTime": str,
    "user": str,
}
_GROUP = {
    **_COMMON,
    "targetSize": int,
    "instanceTemplate": str,
    "versions": [{"instanceTemplate": str, "targetSize": {}}],
    "resourcePolicies": {"workloadPolicy": str},
    "status": {"isStable": bool, "bulkInstanceOperation": {"lastProgressCheck": {"error": _ERRORS}}},
    "targetSizePolicy": {"mode": str},
    "instanceLifecyclePolicy": {"defaultActionOnFailure": str},
}
_TEMPLATE = {
    **_COMMON,
    "properties": {
        "machineType": str,
        "disks": [{"initializeParams": {"sourceImage": str}}],
        "labels": {str: str},
        "metadata": _METADATA,
        "networkInterfaces": _INTERFACES,
        "scheduling": {"provisioningModel": str, "preemptible": bool},
        "serviceAccounts": [{"email": str}],
        "tags": {"items": [str]},
    },
}
_MANAGED = {
    "name": str,
    "instance": str,
    "id": int,
    "instanceStatus": str,
    "currentAction": str,
    "instanceHealth": [{"detailedHealthState": str}],
    "lastAttempt": {"errors": _ERRORS},
}
_FIREWALL = {
    "name": NAME,
    "network": str,
    "allowed": [{"IPProtocol": str, "ports": _SPANS}],
    "denied": [{"IPProtocol": str, "ports": _SPANS}],
    "disabled": bool,
    "direction": str,
    "priority": int,
    "sourceRanges": _RANGES,
    "destinationRanges": _RANGES,
    "sourceTags": [str],
    "targetTags": [str],
    "sourceServiceAccounts": [str],
    "targetServiceAccounts": [str],
}
_POLICY_RULE = {
    "ruleName": str,
    "action": str,
    "direction": str,
    "disabled": bool,
    "priority": int,
    "targetType": str,
    "targetResources": [str],
    "targetSecureTags": _TAGS,
    "targetServiceAccounts": [str],
    "match": {
        "layer4Configs": [{"ipProtocol": str, "ports": _SPANS}],
        "srcIpRanges": _RANGES,
        "destIpRanges": _RANGES,
        "srcSecureTags": _TAGS,
        "destSecureTags": _TAGS,
        "srcNetworkType": str,
        "destNetworkType": str,
        "srcNetworkContext": str,
        "destNetworkContext": str,
    },
}
_POLICY = {"type": str, "shortName": str, "displayName": str, "name": str, "rules": [_POLICY_RULE]}
_RESOURCES: dict[str, Any] = {
    "disks": {**_COMMON, "status": str, "users": [str], "sizeGb": int},
    "firewalls": _FIREWALL,
    "images": {**_COMMON, "status": str, "archiveSizeBytes": int, "sourceDisk": str},
    "instanceGroupManagers": _GROUP,
    "instances": {
        **_COMMON,
        "status": str,
        "disks": [{"boot": bool, "source": str}],
        "metadata": _METADATA,
        "networkInterfaces": _INTERFACES,
    },
    "instanceTemplates": _TEMPLATE,
    "machineTypes": {"name": NAME, "zone": NAME},
    "networks": {"networkFirewallPolicyEnforcementOrder": str},
    "operations": _OPERATION,
    "resizeRequests": {
        "description": str,
        "resizeBy": int,
        "state": str,
        "status": {"error": _ERRORS, "lastAttempt": {"error": _ERRORS}},
    },
    "resourcePolicies": {**_COMMON, "status": str, "workloadPolicy": {"acceleratorTopology": str}},
}
_METHODS: dict[str, Any] = {
    "getEffectiveFirewalls": {"firewalls": [_FIREWALL], "firewallPolicys": [_POLICY]},
    "getGuestAttributes": {"queryValue": {"items": [{"namespace": str, "key": str, "value": str}]}},
    "listManagedInstances": {"managedInstances": [_MANAGED], "nextPageToken": str},
}
_PROJECT = {"commonInstanceMetadata": {**_METADATA, "fingerprint": str}}


def shape_of(verb: str, path: str) -> Any:
    """Return the shape of the answer to a request for `/compute/v1/projects/…`; changes return operations."""
    *places, last = path.partition("/projects/")[2].split("/")
    place = places[-1] if places else ""
    if last in _METHODS:
        return _METHODS[last]
    if verb != "GET":
        return _OPERATION
    if place == "aggregated":
        scope = {last: [_RESOURCES.get(last, {})], "warning": {"code": str}}
        return {"items": {str: scope}, "unreachables": [str], "nextPageToken": str}
    if place in _RESOURCES:
        return _RESOURCES[place]
    return {"items": [_RESOURCES[last]], "nextPageToken": str} if last in _RESOURCES else _PROJECT


_PROFILE = {
    "posixAccounts": [{"primary": bool, "username": str}],
    "sshPublicKeys": {str: {"key": str}},
}


def login_shape_of(_verb: str, _path: str) -> Any:
    """Return the shape of an answer of the OS Login API: a profile, or the one after a key was added."""
    return {**_PROFILE, "loginProfile": _PROFILE}
