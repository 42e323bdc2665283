import json
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.pod.run import MASK, Run, is_run_id, is_secret, make_run_id
from tui.pod.worker import Worker

WORKERS = (
    Worker(
        0, "w0", "10.0.0.2", "192.0.2.1", host_keys=("ssh-ed25519 AAAA",), instance="projects/p/zones/z/instances/w0"
    ),
    Worker(1, port=2200, user="ada"),
)


def test_a_run_id_is_base_day_clock_and_four_hex_digits() -> None:
    run_id = make_run_id("night", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc))
    assert run_id.startswith("night-20260102-030405-")
    assert is_run_id(run_id)


@given(st.text(max_size=40))
def test_any_name_makes_an_id_that_is_safe_in_a_path(name: str) -> None:
    run_id = make_run_id(name)
    assert is_run_id(run_id)
    assert "/" not in run_id
    assert not run_id.startswith((".", "-"))


@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY", "my_password", "AWS_SECRET_ACCESS", "Credentials"])
def test_names_that_say_secret_are_secret(name: str) -> None:
    assert is_secret(name)


def test_run_json_never_holds_a_secret_and_reads_back() -> None:
    run = Run("a-20260102-030405-beef", "pod", ("python", "t.py"), WORKERS, env={"HF_TOKEN": "hush", "N": "1"})
    text = json.dumps(run.to_json())
    assert "hush" not in text
    again = Run.from_json(json.loads(text))
    assert again.workers == WORKERS
    assert again.argv == run.argv
    assert again.env == {"HF_TOKEN": MASK, "N": "1"}


def test_fields_of_a_newer_version_are_left_aside() -> None:
    document = Run("a-20260102-030405-beef", "pod", ("true",), WORKERS).to_json() | {"invented_later": 1}
    assert Run.from_json(document).id == "a-20260102-030405-beef"


WHOLE = Run("a-20260102-030405-beef", "pod", ("true",), WORKERS).to_json()


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"id": "x"},
        {"id": "x", "slice": "s", "argv": None, "workers": []},
        WHOLE | {"env": ["A=b"]},
        WHOLE | {"zone": 5},
        WHOLE | {"workers": [{"index": 0, "port": float("inf")}]},
    ],
)
def test_what_is_no_run_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"run\.json"):
        Run.from_json(document)
