import json
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.pod.job_options import JobOptions
from tui.pod.run import Run, is_run_id, make_run_id
from tui.pod.secrets import MASK, is_secret, mask_secrets, mask_urls
from tui.pod.worker import Worker

pytestmark = pytest.mark.py310

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


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "WANDB_API_KEY", "my_password", "AWS_SECRET_ACCESS", "Credentials", "credential", "MYSQL_PWD"),
        *("AUTH", "auth_header", "DB_PASS", "PASSWD", "SSH_PASSPHRASE", "SENTRY_DSN", "apiKey", "APIKey", "HFToken"),
        *("dbPass", "KEY2", "X-Auth", "GOOGLE_APPLICATION_CREDENTIALS", "_KEY_", "MyPwd"),
    ],
)
def test_a_name_with_a_word_for_a_secret_is_secret(name: str) -> None:
    assert is_secret(name)
    assert mask_secrets({name: "hush"}) == {name: MASK}


@pytest.mark.parametrize(
    "name",
    [
        *("NUM_PASSES", "AUTHOR", "PWD", "OLDPWD", "PGPASS", "KEYBOARD", "TOKENIZER", "MONKEY", "COMPASS", "PASSES"),
        *("", "_", "EPOCHS", "XLA_FLAGS", "authority", "bypass", "TOKENS_PER_BATCH"),
    ],
)
def test_a_name_with_such_letters_inside_a_word_is_not_secret(name: str) -> None:
    assert not is_secret(name)
    assert mask_secrets({name: "shown"}) == {name: "shown"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://user:pa:ss@host:5432/db", f"postgres://{MASK}@host:5432/db"),
        ("https://token@example.org/a?b=c@d", f"https://{MASK}@example.org/a?b=c@d"),
        ("--url=redis://:hush@h/0,redis://u:hu@sh@i", f"--url=redis://{MASK}@h/0,redis://{MASK}@i"),
        ("postgres://u:p#w@h/db", f"postgres://{MASK}@h/db"),
        ("postgres://u:p/w?@x@h/db", f"postgres://{MASK}@h/db"),
        ("https://example.org/@v1", "https://example.org/@v1"),
        ("gs://bucket/a@b", "gs://bucket/a@b"),
        ("me@host", "me@host"),
    ],
)
def test_the_user_of_a_url_is_masked_and_nothing_else(text: str, shown: str) -> None:
    assert mask_urls(text) == shown
    assert mask_secrets({"PLACE": text}) == {"PLACE": shown}
    run = Run("a-20260102-030405-beef", "pod", JobOptions(("x", text), env={"PLACE": text}), WORKERS)
    assert (run.to_json()["argv"], run.to_json()["env"]) == (["x", shown], {"PLACE": shown})
    assert run.without_secrets().job.argv == ("x", shown)


def test_a_variable_passed_by_name_only_is_secret_and_stays_so() -> None:
    run = Run(
        "a-20260102-030405-beef",
        "pod",
        JobOptions(("x",), env={"PLAIN": "hush", "N": "1"}, env_by_name=("PLAIN",)),
        WORKERS,
    )
    again = Run.from_json(json.loads(json.dumps(run.to_json())))
    assert (again.job.env, again.job.env_by_name) == ({"PLAIN": MASK, "N": "1"}, ("PLAIN",))
    older = {name: value for name, value in run.to_json().items() if name != "env_by_name"}
    assert Run.from_json(older).job.env_by_name == ()


def test_run_json_never_holds_a_secret_and_can_be_read_back() -> None:
    run = Run(
        "a-20260102-030405-beef", "pod", JobOptions(("python", "t.py"), env={"HF_TOKEN": "hush", "N": "1"}), WORKERS
    )
    text = json.dumps(run.to_json())
    assert "hush" not in text
    again = Run.from_json(json.loads(text))
    assert again.workers == WORKERS
    assert again.job.argv == run.job.argv
    assert again.job.env == {"HF_TOKEN": MASK, "N": "1"}


def test_fields_of_a_newer_version_are_ignored() -> None:
    document = Run("a-20260102-030405-beef", "pod", JobOptions(("true",)), WORKERS).to_json() | {"invented_later": 1}
    assert Run.from_json(document).id == "a-20260102-030405-beef"


WHOLE = Run("a-20260102-030405-beef", "pod", JobOptions(("true",)), WORKERS).to_json()


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"id": "x"},
        {"id": "x", "slice": "s", "argv": None, "workers": []},
        WHOLE | {"env": ["A=b"]},
        WHOLE | {"workers": []},
        WHOLE | {"zone": 5},
        WHOLE | {"node_endpoints": "10.1.0.2:8470"},
        WHOLE | {"workers": [{"index": 0, "port": float("inf")}]},
    ],
)
def test_an_invalid_record_of_a_run_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"run\.json"):
        Run.from_json(document)
