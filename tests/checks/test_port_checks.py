from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.checks.check_row import CheckRow
from tui.checks.port_checks import FULL_MATRIX_WORKERS, firewall_remedy, peers_of, scope_rows, smallest_network
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.ssh.exec.port_probe import classify_port


def pod(count: int, **fields: object) -> Slice:
    workers = tuple(Worker(index, internal_ip=f"10.164.0.{index + 1}") for index in range(count))
    return Slice(name="pod", workers=workers, **fields)  # type: ignore[arg-type]


def test_a_row_has_the_names_that_scripts_read() -> None:
    row = CheckRow("ports", 0, 1, 8476, "fail", "filtered", "no answer", "allow it")

    assert row.to_json() == {
        "check": "ports",
        "worker": 0,
        "peer": 1,
        "port": 8476,
        "status": "fail",
        "state": "filtered",
        "detail": "no answer",
        "remedy": "allow it",
    }


def test_small_slices_try_every_pair() -> None:
    pairs = {(index, peer) for index in range(32) for peer in peers_of(index, 32)}

    assert len(pairs) == 32 * 31
    assert scope_rows(pod(32)) == []


@pytest.mark.parametrize("count", [FULL_MATRIX_WORKERS + 1, 64, 200])
def test_large_slices_are_sampled_and_say_so(count: int) -> None:
    pairs = {(index, peer) for index in range(count) for peer in peers_of(index, count)}

    assert {(0, peer) for peer in range(1, count)} <= pairs
    assert {(index, 0) for index in range(1, count)} <= pairs
    assert {(index, (index + 1) % count) for index in range(count)} <= pairs
    assert len(pairs) < 3 * count
    (row,) = scope_rows(pod(count))
    assert f"{len(pairs)} of {count * (count - 1)} pairs" in row.detail


@given(st.lists(st.ip_addresses(v=4).map(str), min_size=1, max_size=20))
def test_the_rule_covers_every_worker_and_half_of_it_would_not(addresses: list[str]) -> None:
    network = smallest_network(addresses)

    assert network is not None
    inside = [ipaddress.ip_address(address) for address in addresses]
    assert all(address in network for address in inside)
    if network.prefixlen < 32:
        assert not any(all(address in half for address in inside) for half in network.subnets())


def test_the_remedy_is_the_narrowest_rule_on_the_slices_network() -> None:
    remedy = firewall_remedy(pod(4, network="projects/p/global/networks/lab", project="p"), 8476)

    assert remedy == (
        "gcloud compute firewall-rules create allow-lab-tcp-8476 --network=lab --direction=INGRESS "
        "--allow=tcp:8476 --source-ranges=10.164.0.0/29 --project=p"
    )


def test_outside_google_cloud_the_remedy_is_in_words() -> None:
    assert firewall_remedy(pod(2, source="hosts_file"), 22) == "allow tcp:22 between the workers in their firewall"
    assert smallest_network(["fe80::1"]) is None
    assert smallest_network([]) is None


@pytest.mark.parametrize(
    ("code", "words", "state", "cause"),
    [
        (2, "Connection refused", "closed", "refused"),
        (2, "No route to host", "filtered", "no route"),
        (2, "Network is unreachable", "filtered", "unreachable"),
        (2, "Protocol not available", "filtered", "prohibited"),
        (2, "Connection timed out", "filtered", "timed out"),
        (2, "open failed", "filtered", "no way"),
        (1, "open failed", "unknown", "forbidden"),
        (2, "[Errno 92] Connect call failed", "filtered", "prohibited"),
        (2, "[Errno 111] Connect call failed", "closed", "refused"),
        (2, "Temporary failure in name resolution", "unknown", "name"),
        (4, "open failed", "unknown", "other"),
        (2, "something else \x1b[31m", "unknown", "other"),
    ],
)
def test_the_state_of_a_port_is_named_as_by_nmap(code: int, words: str, state: str, cause: str) -> None:
    answer = classify_port(code, words)

    assert (answer.state, answer.cause) == (state, cause)
    assert bool(answer.remedy) == (cause == "forbidden")
    assert "\x1b" not in answer.detail
