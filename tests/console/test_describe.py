from __future__ import annotations

from tests.console.stage import a_slice, make_run
from tui.console.render.describe import describe_core, format_document
from tui.logs.core_row import CoreRow, FirstNan


def test_a_core_is_described_in_words() -> None:
    row = CoreRow(
        3, "xla:1", 0, None, 1, 40, float("nan"), 250.5, None, None, "02:38:57", 2, "nan", "examples/s", 0.5
    )
    lines = describe_core(row).splitlines()
    assert "rate: 250.5 examples/s" in lines
    assert "global rate: –" in lines
    assert "pace: 50 % of the median core's" in lines
    assert "steps behind the median: 2" in lines
    assert "loss: nan" in lines
    assert "_" not in "".join(lines)
    assert "no number since" not in "".join(lines)
    lines = describe_core(row._replace(first_nan=FirstNan(1, 38, None, 0, 4096))).splitlines()
    assert lines[-6:] == [
        "loss is not a number since:",
        "  epoch: 1",
        "  step: 38",
        "  time: –",
        "  worker: 0",
        "  offset: 4096",
    ]


def test_a_document_is_formatted_without_brackets() -> None:
    document = {
        "name": "night",
        "argv": ["python3", "-c", "print('a b')"],
        "zone": None,
        "spot": False,
        "exit_codes": [0, None, 1],
        "labels": {},
        "env": {"LR": "0.1"},
        "workers": [{"index": 0, "ip": "10.0.0.1"}, {"index": 1, "ip": None}],
        "why": "it broke\ntwice",
        "started": "2026-11-23T00:12:45.872389+00:00",
        "rate": 748.8599999999999,
        "keys": ["k" * 60, "l" * 60],
    }
    assert format_document(document).splitlines() == [
        "name: night",
        "argv: python3 -c 'print('\"'\"'a b'\"'\"')'",
        "zone: –",
        "spot: no",
        "exit_codes: 0, –, 1",
        "labels: none",
        "env:",
        "  LR: 0.1",
        "workers:",
        "  - index: 0",
        "    ip: 10.0.0.1",
        "  - index: 1",
        "    ip: –",
        "why:",
        "  it broke",
        "  twice",
        "started: 2026-11-23T00:12:45Z",
        "rate: 748.86",
        "keys:",
        "  - " + "k" * 60,
        "  - " + "l" * 60,
    ]


def test_every_field_of_a_slice_and_of_a_run_is_in_its_document() -> None:
    for record in (a_slice(), make_run(a_slice())):
        fields = record.to_json()
        text = format_document(fields)
        assert [name for name in fields if f"{name}:" not in text] == []
