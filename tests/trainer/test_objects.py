"""Cloud Storage's client as workers get it: with whatever credentials a machine has."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("google.cloud.storage")

from trainer import objects


def test_credentials_that_belong_to_no_project_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "user.json"
    told = {"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"}
    key.write_text(json.dumps(told))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    client = objects._client_of.__wrapped__(os.getpid(), "")
    assert client.bucket("anybodys").path == "/b/anybodys"
    client.close()
