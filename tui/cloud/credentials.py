"""Application default credentials, found without waiting and without output on stderr.

Source: google-auth's documentation of `google.auth.default` for the search order. Google's libraries are imported by
the search.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tui.cloud.google_import import import_google
from tui.errors import CloudError
from tui.settings.gcloud import config_directory
from tui.settings.home import read_user_file
from tui.text.bounded_json import parse_json
from tui.text.printable import one_line

LOGIN = "gcloud auth application-default login"
"""The command that makes application default credentials."""
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_FILE = "application_default_credentials.json"
_FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_GCLOUD_LOGIN_FILES = ("credentials.db", "access_tokens.db")
"""Files of `gcloud auth login`, which only gcloud reads."""
_PRODUCT_NAME = Path("/sys/class/dmi/id/product_name")
"""Contains `Google Compute Engine` on its machines, also in containers."""


class NoCredentialsError(CloudError):
    """This machine has no credentials for Google Cloud."""


class FoundCredentials(NamedTuple):
    """Credentials and their project, if they have one."""

    credentials: Any
    project: str | None


def find_credentials(environ: Mapping[str, str] | None = None) -> FoundCredentials:
    """Return the application default credentials. Raises CloudError naming the command that creates them.

    The metadata server is used only on Compute Engine: elsewhere its probe waits for seconds.
    """
    environment = os.environ if environ is None else environ
    home = environment.get("HOME")
    directory = config_directory(environment, Path(home) if home else Path.home())
    named = environment.get(_FILE_VARIABLE)
    if named:
        return _from_file(Path(named), f"${_FILE_VARIABLE}")
    if (directory / _FILE).exists():
        return _from_file(directory / _FILE, "application default credentials")
    if _on_compute_engine(environment):
        return _from_metadata_server()
    raise _none_found(directory)


def _from_file(path: Path, source: str) -> FoundCredentials:
    import_google("google.auth")
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load: Any = google.auth.load_credentials_from_dict
            credentials, project = load(parse_json(read_user_file(path)), scopes=_SCOPES)
    except (GoogleAuthError, OSError, ValueError, AttributeError, TypeError) as error:
        why = one_line(str(error.args[0] if error.args else error))
        raise CloudError(f"{source} cannot be used", why=f"{path}: {why}", remedy=LOGIN) from None
    return FoundCredentials(credentials, project or getattr(credentials, "quota_project_id", None))


def _from_metadata_server() -> FoundCredentials:
    import_google("google.auth")
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        return FoundCredentials(*google.auth.default(scopes=_SCOPES))
    except GoogleAuthError as error:
        raise CloudError("this machine has no credentials", why=one_line(str(error)), remedy=LOGIN) from None


def _on_compute_engine(environ: Mapping[str, str]) -> bool:
    if environ.get("GCE_METADATA_HOST"):
        return True
    if environ.get("NO_GCE_CHECK") == "true" or not sys.platform.startswith("linux"):
        return False
    try:
        return _PRODUCT_NAME.read_text().startswith("Google")
    except OSError:
        return False


def _none_found(directory: Path) -> CloudError:
    if any((directory / name).exists() for name in _GCLOUD_LOGIN_FILES):
        return CloudError(
            "no application default credentials",
            why="gcloud auth login works for gcloud only; other programs need application default credentials",
            remedy=LOGIN,
        )
    return NoCredentialsError(
        "no credentials for Google Cloud",
        why=f"${_FILE_VARIABLE} is not set, and {directory / _FILE} does not exist",
        remedy=f"{LOGIN}; or try tpu-tui demo, which needs no account",
    )
