from __future__ import annotations

import pytest

from tui.cli import main


@pytest.mark.parametrize("words", [("demo",), ("demo", "--job", "rehearsal"), ("local", "up")], ids=" ".join)
def test_elsewhere_than_on_linux_a_pod_says_what_can_be_done_there(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")

    assert main(words) == 2
    assert "tpu-tui replay FILE" in capsys.readouterr().err
