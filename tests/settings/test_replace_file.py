from __future__ import annotations

from pathlib import Path

import pytest

from tui.settings.home import replace_file


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_as_a_whole_and_private_to_its_owner(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replace_file(path, durable=durable) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"

    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unfinished_replacement_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replace_file(path) as file:
        file.writelines([b"new", None])  # type: ignore[list-item]

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_replacements_at_a_time_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replace_file(path) as first, replace_file(path) as second:
        first.write(b"first")
        second.write(b"second, which is complete before the first")

    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
