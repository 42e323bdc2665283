"""The local pod's OS Login API: profiles with POSIX accounts and SSH keys, for gcloud and tpu-tui.

REST paths and fields are those of the OS Login API v1; beta and alpha have the same two methods.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tui.cloud.compute.ssh_key_metadata import has_os_login
from tui.localpod.api import rpc_errors
from tui.localpod.api.compute.answers import answer

_SERVICE_ACCOUNT_SUFFIX = ".gserviceaccount.com"
_USER = "/{version:v1|v1beta|v1alpha}/users/{user:[^/:]+}"
_MAX_USER_NAME = 32


class OsLoginService:
    """The profiles of a pod's users.

    `project_metadata` returns the project's metadata; each of `changed` is called after a key has been added.
    """

    def __init__(self, project: str, project_metadata: Callable[[], Mapping[str, str]]) -> None:
        self._project = project
        self._project_metadata = project_metadata
        self.changed: list[Callable[[], None]] = []
        self.keys: dict[str, list[str]] = {}
        """The public keys in each user's profile; a user with a key also has an account in the project."""

    def logins(self, node_metadata: Mapping[str, str]) -> dict[str, Sequence[str]] | None:
        """Return the keys of each user name that may log in to a node; None for a node without OS Login."""
        if not has_os_login(node_metadata, self._project_metadata()):
            return None
        return {user_name(user): keys for user, keys in self.keys.items()}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes that the pod's REST port serves."""
        return [
            web.get(_USER + "/loginProfile", self._get_login_profile),
            web.post(_USER + ":importSshPublicKey", self._import_ssh_public_key),
        ]

    async def _get_login_profile(self, request: web.Request) -> web.Response:
        return answer(self._profile(self._user(request)))

    async def _import_ssh_public_key(self, request: web.Request) -> web.Response:
        user = self._user(request)
        try:
            parts = str(json.loads(await request.read())["key"]).split()
        except (ValueError, KeyError, TypeError):
            parts = []
        if len(parts) < 2:
            raise rpc_errors.ApiError("INVALID_ARGUMENT", "Invalid SSH public key.")
        keys = self.keys.setdefault(user, [])
        if (key := " ".join(parts)) not in keys:
            keys.append(key)
        for notify in self.changed:
            notify()
        return answer({"loginProfile": self._profile(user)})

    def _user(self, request: web.Request) -> str:
        return unquote(request.match_info["user"])

    def _profile(self, user: str) -> dict[str, Any]:
        profile: dict[str, Any] = {"name": user}
        if keys := self.keys.get(user):
            fingerprints = {hashlib.sha256(key.encode()).hexdigest(): key for key in keys}
            profile["sshPublicKeys"] = {
                name: {"key": key, "fingerprint": name, "name": f"users/{user}/sshPublicKeys/{name}"}
                for name, key in fingerprints.items()
            }
            profile["posixAccounts"] = [self._account(user)]
        return profile

    def _account(self, user: str) -> dict[str, Any]:
        name, number = user_name(user), str(_number(user))
        return {
            "primary": True,
            "username": name,
            "accountId": self._project,
            "operatingSystemType": "LINUX",
            "name": f"users/{user}/projects/{self._project}",
            "uid": number,
            "gid": number,
            "homeDirectory": f"/home/{name}",
        }


def user_name(user: str) -> str:
    """Return the user name of an e-mail address (Compute Engine documentation, "About OS Login")."""
    if user.endswith(_SERVICE_ACCOUNT_SUFFIX):
        return f"sa_{_number(user)}"
    return re.sub(r"[^a-z0-9]", "_", user.lower())[:_MAX_USER_NAME]


def _number(user: str) -> int:
    """Return a number that stands for an account's unique ID."""
    return int(hashlib.sha256(user.encode()).hexdigest()[:13], 16)
