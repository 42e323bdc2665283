"""Resolve settings: flag, then environment, profile, gcloud's active configuration, default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui.errors import UsageError
from tui.settings import gcloud
from tui.settings.fields import ENVIRONMENT_PREFIX, FIELDS, LOCAL_PROFILE, Place, Setting, SettingField, Settings
from tui.settings.home import loose_home
from tui.settings.profiles import Profile, profile_path, read_profile

_HOME_VARIABLE = f"{ENVIRONMENT_PREFIX}HOME"
_PROFILE_VARIABLE = f"{ENVIRONMENT_PREFIX}PROFILE"
_DEFAULT_PROFILE = "default"
_HIDDEN = "(not shown)"


def load(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings for these flags (names as on the command line, with `_`; absent or None: not given).

    Raises UsageError for an invalid value, and for a profile that is missing or unreadable.
    """
    environment = os.environ if environ is None else environ
    return _Resolver(flags, environment).settings()


class _Resolver:
    """Resolves all settings of one invocation from their sources, the strongest first."""

    def __init__(self, flags: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._flags = {name: value for name, value in flags.items() if value is not None and value != []}
        self._environ = environ
        home = environ.get("HOME")
        self._user_home = Path(home) if home else Path.home()
        self._place = Place(Path.cwd(), self._user_home)
        self._gcloud = gcloud.read_active(environ, self._user_home)
        self._home = self._find_home()
        self._profile, self._profile_origin = self._find_profile(Path(self._home.value))

    def settings(self) -> Settings:
        settings = {field.name: self._resolve(field) for field in FIELDS}
        if "project" in self._flags and "hosts" not in self._flags and settings["hosts"].value is not None:
            settings["hosts"] = Setting(
                "hosts", None, f"overridden by --project; otherwise {settings['hosts'].origin}"
            )
        values = {name: setting.value for name, setting in settings.items()}
        profile = Setting("profile", self._profile.name if self._profile else None, self._profile_origin)
        account = self._account()
        shown = {field.name: _without_secret(field, settings[field.name]) for field in FIELDS}
        loose = loose_home(Path(self._home.value))
        home = Setting("home", self._home.value, f"{self._home.origin}; {loose}") if loose else self._home
        origins = {"home": home, "profile": profile, **shown, "account": account}
        return Settings(
            home=self._home.value, profile=profile.value, account=account.value, origins=origins, **values
        )

    def _find_home(self) -> Setting:
        path = self._environ.get(_HOME_VARIABLE)
        if path:
            return Setting("home", self._place.path(path), f"environment {_HOME_VARIABLE}")
        import platformdirs

        return Setting("home", platformdirs.user_data_path("tpu-tui", appauthor=False), "default")

    def _find_profile(self, home: Path) -> tuple[Profile | None, str]:
        name, origin = self._flags.get("profile"), "flag"
        if name is None:
            name, origin = self._environ.get(_PROFILE_VARIABLE) or None, f"environment {_PROFILE_VARIABLE}"
        if name is not None:
            return read_profile(home, str(name), self._user_home), origin
        if profile_path(home, _DEFAULT_PROFILE).exists():
            return read_profile(home, _DEFAULT_PROFILE, self._user_home), "default"
        if not self._names_another_place() and profile_path(home, LOCAL_PROFILE).exists():
            local = read_profile(home, LOCAL_PROFILE, self._user_home)
            if local.belongs_to_live_pod:
                return local, "chosen because a local pod is running and no other project or hosts file is configured"
        return None, "default"

    def _names_another_place(self) -> bool:
        """Return whether a hosts file, or a project other than a local pod's, is configured outside profiles.

        A local pod prints its project in a variable for gcloud; no project of Google Cloud has so short a name.
        """
        if "hosts" in self._flags or self._environ.get("TPU_TUI_HOSTS"):
            return True
        variables = map(self._environ.get, ("TPU_TUI_PROJECT", "CLOUDSDK_CORE_PROJECT"))
        projects = (self._flags.get("project"), *variables, self._gcloud.values.get("project"))
        return next(filter(None, projects), LOCAL_PROFILE) != LOCAL_PROFILE

    def _resolve(self, field: SettingField) -> Setting:
        name, flag = field.name, field.flag
        if flag is not None and flag in self._flags:
            return Setting(name, self._read(field, self._flags[flag], f"--{flag.replace('_', '-')}"), "flag")
        gcloud_variable = None if self._is_local_pod else gcloud.environment_variable(name)
        for variable in (*field.variables, gcloud_variable):
            if variable and self._environ.get(variable):
                value = self._read(field, self._environ[variable], variable)
                return Setting(name, value, f"environment {variable}")
        if self._profile is not None and name in self._profile.values:
            return Setting(name, self._profile.values[name], self._profile.origin)
        if name in self._gcloud.values and not self._is_local_pod:
            origin = f"gcloud configuration {self._gcloud.name}"
            return Setting(name, self._read(field, self._gcloud.values[name], origin), origin)
        return Setting(name, field.default, "default")

    @property
    def _is_local_pod(self) -> bool:
        """Return whether the profile belongs to a local pod, to whose API gcloud's settings do not apply."""
        return self._profile is not None and "tpu" in self._profile.values.get("endpoints", {})

    def _read(self, field: SettingField, value: Any, source: str) -> Any:
        try:
            return field.read(value, self._place)
        except ValueError as error:
            raise UsageError(f"{source} {error}", why=f"it is {value!r}", remedy=field.remedy(value)) from None

    def _account(self) -> Setting:
        variable = gcloud.environment_variable("account")
        if variable and self._environ.get(variable):
            return Setting("account", self._environ[variable], f"environment {variable}")
        if "account" in self._gcloud.values:
            return Setting("account", self._gcloud.values["account"], f"gcloud configuration {self._gcloud.name}")
        problem = self._gcloud.problem
        origin = f"default; gcloud's configuration cannot be read: {problem}" if problem else "default"
        return Setting("account", None, origin)


def _without_secret(field: SettingField, setting: Setting) -> Setting:
    return replace(setting, value=_HIDDEN) if field.is_secret and setting.value is not None else setting
