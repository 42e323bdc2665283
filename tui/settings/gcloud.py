"""gcloud's active configuration, read from its files without running gcloud.

Source: Google Cloud CLI documentation, "Managing gcloud CLI configurations" and `gcloud topic configurations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tui.settings.home import read_user_file

_NO_CONFIGURATION = "NONE"
"""gcloud's name for no configuration."""
_PROPERTIES = {"project": ("core", "project"), "zones": ("compute", "zone"), "account": ("core", "account")}
"""The section and property of gcloud for each setting."""


@dataclass(frozen=True)
class GcloudConfiguration:
    """The active configuration: its name and settings. `problem` is why it could not be read, else empty."""

    name: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def config_directory(environ: Mapping[str, str], user_home: Path) -> Path:
    """Return the directory of gcloud's configurations and credentials."""
    directory = environ.get("CLOUDSDK_CONFIG")
    return Path(directory) if directory else user_home / ".config" / "gcloud"


def environment_variable(setting: str) -> str | None:
    """Return gcloud's own variable for a setting (`CLOUDSDK_CORE_PROJECT`); None where there is none."""
    if setting not in _PROPERTIES:
        return None
    section, name = _PROPERTIES[setting]
    return f"CLOUDSDK_{section.upper()}_{name.upper()}"


def read_active(environ: Mapping[str, str], user_home: Path) -> GcloudConfiguration:
    """Read the active configuration; the result is empty if there is none, and has a `problem` if it is broken."""
    directory = config_directory(environ, user_home)
    try:
        name = environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME") or _active_name(directory)
        if name == _NO_CONFIGURATION:
            return GcloudConfiguration()
        return GcloudConfiguration(name, _read_properties(directory / "configurations" / f"config_{name}"))
    except FileNotFoundError:
        return GcloudConfiguration()
    except (OSError, ValueError) as error:
        return GcloudConfiguration(problem=" ".join(str(error).split()))


def _active_name(directory: Path) -> str:
    try:
        return read_user_file(directory / "active_config").decode().strip() or "default"
    except FileNotFoundError:
        return "default"


def _read_properties(path: Path) -> dict[str, str]:
    """Read the properties for settings. Raises OSError, and ValueError for an invalid file."""
    text = read_user_file(path).decode()
    import configparser

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text, source=str(path))
        properties = {setting: parser.get(*key, fallback="").strip() for setting, key in _PROPERTIES.items()}
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    return {setting: value for setting, value in properties.items() if value}
