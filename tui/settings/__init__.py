"""Settings from flags, environment, profile and gcloud's configuration, each with its origin."""

from __future__ import annotations

from tui.settings.fields import LOCAL_PROFILE, Settings
from tui.settings.profiles import profile_path, save_profile
from tui.settings.resolve import load

__all__ = ["LOCAL_PROFILE", "Settings", "load", "profile_path", "save_profile"]
