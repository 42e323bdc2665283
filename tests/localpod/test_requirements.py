from __future__ import annotations

import pytest

from tui.cli import main


def test_windows_is_told_of_wsl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.platform", "win32")

    assert main(["slices"]) == 2
    assert "WSL" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("demo",), ("demo", "--job", "rehearsal"), ("local", "up")], ids=" ".join)
def test_elsewhere_than_on_linux_a_pod_says_what_can_be_done_there(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")

    assert main(words) == 2
    assert "tpu-tui replay FILE" in capsys.readouterr().err
