"""The key that gcloud logs in with: find it, or create it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tui.errors import UsageError
from tui.settings.home import read_user_file
from tui.ssh.config.access import Access
from tui.ssh.config.openssh_config import local_user
from tui.ssh.keys.client_keys import public_key_of

if TYPE_CHECKING:
    import asyncssh

KEY_TYPE = "ssh-rsa"
KEY_BITS = 3072
"""Type and size of the keys that `gcloud compute ssh` creates: gcloud will use this key too."""


@dataclass(frozen=True)
class LoginKey:
    """A key file and its public half: `public` is the line in `KEY.pub`; None if the key does not exist."""

    path: Path
    public: str | None = None
    fingerprint: str | None = None

    @property
    def exists(self) -> bool:
        """Return whether the key exists."""
        return self.public is not None


def find_login_key(access: Access) -> LoginKey:
    """Return the key named by the user, else gcloud's. Raises UsageError when it exists and cannot be read.

    Only its public half is needed, so an encrypted key with `KEY.pub` beside it needs no passphrase.
    """
    path = Path(access.identity or access.identities[0])
    public = _public_of(path)
    if public is not None:
        return _with_public_half(path, public)
    if path.exists():
        raise UsageError(
            "this is not a private key", why=str(path), remedy=f"ssh-keygen -y -f {path} shows the reason"
        )
    if access.identity:
        raise UsageError("no such key file", why=str(path), remedy="give `--identity` the path of a private key")
    return LoginKey(path)


def make_login_key(key: LoginKey) -> LoginKey:
    """Create the key pair, without a passphrase, readable by its owner only; takes a second of CPU.

    Raises UsageError when it cannot be written; an existing file is never overwritten.
    """
    from tui.ssh.asyncssh_import import asyncssh

    comment = f"{local_user()}@{socket.gethostname()}"
    private = asyncssh.generate_private_key(KEY_TYPE, comment=comment, key_size=KEY_BITS)
    try:
        key.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(key.path, private.export_private_key(), 0o600)
        _write_new(Path(f"{key.path}.pub"), private.export_public_key(), 0o644)
    except OSError as error:
        raise UsageError(
            "the SSH key cannot be created", why=str(error), remedy="name another key with --identity"
        ) from error
    return _with_public_half(key.path, private)


def _public_of(path: Path) -> asyncssh.SSHKey | None:
    from tui.ssh.asyncssh_import import asyncssh

    with suppress(OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError):
        return public_key_of(str(path)) or asyncssh.import_private_key(read_user_file(path))
    return None


def _with_public_half(path: Path, key: asyncssh.SSHKey) -> LoginKey:
    return LoginKey(path, key.export_public_key().decode().strip(), key.get_fingerprint())


def _write_new(path: Path, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
