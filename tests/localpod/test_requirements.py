from __future__ import annotations

import pytest

from tui.cli import main


def test_on_windows_the_error_names_wsl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.platform", "win32")

    assert main(["slices"]) == 2
    assert "WSL" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("demo",), ("demo", "--job", "rehearsal"), ("local", "up")], ids=" ".join)
def test_on_another_system_the_error_of_a_pod_names_an_alternative(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")

    assert main(words) == 2
    assert "tpu-tui replay FILE" in capsys.readouterr().err
