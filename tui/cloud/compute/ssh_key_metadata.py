"""Public SSH keys in instance metadata, which Compute Engine's guest agent installs.

Source: Compute Engine's documentation, "Add SSH keys to VMs" for the lines of `ssh-keys` and "About OS Login" for
`enable-oslogin`. gcloud's `tpu-vm ssh` searches the project's metadata for its key, and adds it to the node's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from tui.pod.slice import BLOCK_PROJECT_KEYS, OS_LOGIN
from tui.text.bounded_json import parse_json

_GOOGLE_COMMENT = "google-ssh"
"""The first word in the comment of a key that may expire; a JSON document with `expireOn` follows."""


@dataclass(frozen=True)
class KeyEntry:
    """One line of `ssh-keys`: `USER:TYPE BASE64 COMMENT`."""

    user: str
    key: str
    """Type and base64, e.g. `ssh-ed25519 AAAA…`."""
    expires: datetime | None = None


def parse_entries(text: str) -> Iterator[KeyEntry]:
    """Yield the valid entries; other lines are skipped, as the guest agent does."""
    for line in text.splitlines():
        user, colon, rest = line.strip().partition(":")
        fields = rest.split(None, 3)
        if user and colon and len(fields) >= 2:
            expires = _expiry(fields[3]) if len(fields) == 4 and fields[2] == _GOOGLE_COMMENT else None
            yield KeyEntry(user, f"{fields[0]} {fields[1]}", expires)


def valid_keys(text: str, user: str, now: datetime | None = None) -> list[str]:
    """Return the user's keys in `ssh-keys` that have not expired."""
    now = now or datetime.now(timezone.utc)
    entries = (entry for entry in parse_entries(text) if entry.user == user)
    return [entry.key for entry in entries if entry.expires is None or entry.expires > now]


def accepts(text: str, user: str, key: str) -> bool:
    """Return whether `ssh-keys` holds this key for this user, not expired."""
    return _bare(key) in valid_keys(text, user)


def with_key(text: str, user: str, key: str) -> str:
    """Return `ssh-keys` with one more line; the other lines stay unchanged."""
    line = f"{user}:{_bare(key)} {user}"
    return f"{text.rstrip(chr(10))}\n{line}" if text.strip() else line


def is_valid_user(name: str) -> bool:
    """Return whether a line of `ssh-keys` can have this user: the name contains no blank and no colon."""
    return bool(name) and not any(letter.isspace() or letter == ":" for letter in name)


def has_os_login(slice_metadata: Mapping[str, str], project_metadata: Mapping[str, str]) -> bool:
    """Return whether OS Login is enabled, which ignores keys in the metadata. The slice's own value wins."""
    for metadata in (slice_metadata, project_metadata):
        if OS_LOGIN in metadata:
            return _is_true(metadata[OS_LOGIN])
    return False


def blocks_project_keys(slice_metadata: Mapping[str, str]) -> bool:
    """Return whether the slice ignores the keys in the project's metadata."""
    return _is_true(slice_metadata.get(BLOCK_PROJECT_KEYS, ""))


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("true", "1", "yes", "y")


def _bare(key: str) -> str:
    return " ".join(key.split()[:2])


def _expiry(text: str) -> datetime | None:
    """Return when a key expires; an unreadable time counts as past, so that a new key is added."""
    try:
        expiry = parse_json(text)["expireOn"]
        return datetime.strptime(expiry, "%Y-%m-%dT%H:%M:%S%z").astimezone(timezone.utc)
    except (ValueError, KeyError, TypeError, OverflowError):
        return datetime.min.replace(tzinfo=timezone.utc)
