"""Results of probes through a real packet filter, compared with those of an unprivileged nmap in the same network."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import tests.sshd
from tests.sshd import MISSING, OpensshWorker, make_key, openssh_worker
from tui.checks.workers.login_check import login_rows
from tui.pod.slice import Slice
from tui.ssh.exec.port_probe import PortState
from tui.ssh.fleet import Fleet

_NET = 1 + os.getpid() % 120 * 2
"""The third byte of the addresses, which differs between test runs at the same time."""
THIS_MACHINE, WORKER = f"10.213.{_NET}.1", f"10.213.{_NET}.2"
"""This machine, and the worker as this machine reaches it."""
NEAR, PEER, ABSENT = (f"10.213.{_NET + 1}.{last}" for last in (1, 2, 77))
"""The worker as its peer sees it, the peer, and an unused address of their network."""
NO_ROUTE = "10.214.99.9"

RULES = {
    7001: ("accept", "open"),
    7002: ("accept", "closed"),
    7003: ("drop", "filtered"),
    7004: ("reject with tcp reset", "closed"),
    7005: ("reject", "closed"),
    7006: ("reject with icmp type host-unreachable", "filtered"),
    7007: ("reject with icmp type net-unreachable", "filtered"),
    7008: ("reject with icmp type prot-unreachable", "filtered"),
    7009: ("reject with icmp type net-prohibited", "filtered"),
    7010: ("reject with icmp type host-prohibited", "filtered"),
    7011: ("reject with icmp type admin-prohibited", "filtered"),
    7012: ("limit rate 5/second burst 1 packets accept; tcp dport 7012 drop", "open"),
}
"""What the peer's packet filter does with a port, and the state that this is; 7001 and 7012 have a listener."""
LISTENING = (7001, 7012)
DROPPED, PROHIBITED, SHUT = 2301, 2302, 2303
"""Ports of the worker itself as this machine sees them: two behind its packet filter, one where nothing listens."""
_LISTEN = """
import socket, sys, time
held = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
print("up", flush=True)
time.sleep(600)
"""


def _missing() -> str:
    programs = [name for name in ("ip", "nft", "nmap", "setpriv") if shutil.which(name) is None]
    if programs:
        return f"not installed: {', '.join(programs)}"
    if os.geteuid() != 0:
        return "network namespaces need root"
    tried = subprocess.run(["unshare", "--net", "nft", "list", "ruleset"], capture_output=True, text=True)
    return MISSING or (tried.returncode and f"no network namespace with nftables here: {tried.stderr.strip()}") or ""


pytestmark = [
    pytest.mark.skipif(bool(_missing()), reason=_missing() or "network namespaces are here"),
    pytest.mark.timing,
]


def run(*words: str, text: str | None = None) -> str:
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpensshWorker]:
    """Run a worker's sshd in a network of its own, joined to this machine and to a peer behind a packet filter."""
    number = os.getpid()
    one, two, link = f"tpuw{number}", f"tpup{number}", f"tv{number}"
    tmp_path = tmp_path_factory.mktemp("namespaces")
    with ExitStack() as stack:
        for name in (one, two):
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "add", f"{link}a", "type", "veth", "peer", "name", f"{link}b", "netns", one)
        run("ip", "-n", one, "link", "add", f"{link}c", "type", "veth", "peer", "name", f"{link}d", "netns", two)
        run("ip", "addr", "add", f"{THIS_MACHINE}/24", "dev", f"{link}a")
        run("ip", "link", "set", f"{link}a", "up")
        for name, end, address in ((one, "b", WORKER), (one, "c", NEAR), (two, "d", PEER)):
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", f"{link}{end}")
            run("ip", "-n", name, "link", "set", f"{link}{end}", "up")
        # By default the kernel sends only one ICMP error a second, on whose timing the results of nmap would depend.
        run("ip", "netns", "exec", two, "sh", "-c", "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit")
        rules = "\n".join(f"tcp dport {port} {verdict.split(';')[0]}" for port, (verdict, _) in RULES.items())
        rules += "\ntcp dport 7012 drop"
        chain = f"table ip t {{\nchain c {{\ntype filter hook input priority 0; policy accept;\n{rules}\n}}\n}}\n"
        run("ip", "netns", "exec", two, "nft", "-f", "-", text=chain)
        own_rules = f"tcp dport {DROPPED} drop\ntcp dport {PROHIBITED} reject with icmp type admin-prohibited"
        chain = f"table ip t {{\nchain c {{\ntype filter hook input priority 0; policy accept;\n{own_rules}\n}}\n}}\n"
        run("ip", "netns", "exec", one, "nft", "-f", "-", text=chain)
        words = ["ip", "netns", "exec", two, sys.executable, "-c", _LISTEN, *map(str, LISTENING)]
        listener = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
        stack.callback(listener.kill)
        assert listener.stdout is not None
        assert listener.stdout.readline() == b"up\n"
        wrapper = tmp_path / "sshd"
        wrapper.write_text(f'#!/bin/sh\nexec ip netns exec {one} {tests.sshd.SSHD} "$@"\n')
        wrapper.chmod(0o755)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(tests.sshd, "SSHD", str(wrapper))
        server = stack.enter_context(openssh_worker(tmp_path, host=WORKER, port=2222))
        server.mark += f" {one}"
        yield server


def nmap(worker: OpensshWorker, host: str, ports: str) -> dict[int, str]:
    """Return what nmap finds from the worker's network as the unprivileged user `nobody`."""
    namespace = worker.mark.split()[1]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    scan = [
        "nmap",
        "-Pn",
        "-n",
        "-sT",
        "-T4",
        "--max-retries",
        "2",
        "--initial-rtt-timeout",
        "500ms",
        "-p",
        ports,
        "-oG",
        "-",
        host,
    ]
    output = run("ip", "netns", "exec", namespace, *nobody, *scan)
    return {int(port): state for port, state in re.findall(r"(\d+)/(\w+)/tcp", output)}


async def probes(worker: OpensshWorker, *targets: tuple[str, int]) -> list[PortState]:
    async with Fleet([worker.worker], worker.access()) as fleet:
        await fleet.connect(0)
        return await asyncio.gather(*(fleet.probe(0, host, port, 4.0) for host, port in targets))


async def test_every_verdict_of_a_packet_filter_is_named_as_by_nmap(worker: OpensshWorker) -> None:
    again, *found = await probes(worker, (PEER, 7012), *((PEER, port) for port in RULES))

    assert again.state == "open"
    states = {port: state.state for port, state in zip(RULES, found, strict=True)}
    assert states == {port: expected for port, (_, expected) in RULES.items()}
    assert states == nmap(worker, PEER, "7001-7012")


async def test_a_reject_that_looks_as_if_nothing_listens_is_mentioned(worker: OpensshWorker) -> None:
    (state,) = await probes(worker, (PEER, 7005))

    assert "port-unreachable looks the same" in state.detail


@pytest.mark.parametrize("host", [ABSENT, NO_ROUTE], ids=["absent", "no route"])
async def test_where_no_packet_arrives_the_port_is_filtered(worker: OpensshWorker, host: str) -> None:
    (state,) = await probes(worker, (host, 8476))

    assert state.state == "filtered"
    if host == ABSENT:
        assert nmap(worker, host, "8476") == {8476: "filtered"}


async def test_each_way_in_which_a_login_is_blocked_has_a_sentence_of_its_own(
    worker: OpensshWorker, tmp_path: Path
) -> None:
    good = worker.worker
    absent = replace(good, internal_ip=f"10.213.{_NET}.77")
    blocked = [replace(good, port=port) for port in (DROPPED, PROHIBITED, SHUT)]
    other_key = " ".join(make_key(tmp_path / "other").split()[:2])
    changed, denied = replace(good, host_keys=(other_key,)), replace(good, user="nobody")
    found = [good, absent, *blocked, changed, denied]
    slice_ = Slice("lab", workers=tuple(replace(one, index=index) for index, one in enumerate(found)))

    async with Fleet(slice_.workers, worker.access(connect_timeout=5)) as fleet:
        logins = await asyncio.gather(*(fleet.try_login(one.index) for one in slice_.workers))
    rows = [row for login in logins for row in login_rows(login)]

    ends = {row.worker: row for row in rows if row.status == "fail"}
    assert {index: row.check for index, row in ends.items()} == {
        1: "tcp",
        2: "tcp",
        3: "tcp",
        4: "tcp",
        5: "host_key",
        6: "reachability",
    }
    sentences = {index: row.detail.partition(":")[0] for index, row in ends.items()}
    assert sentences[1] == sentences[3] == "no route to it"
    assert len({sentences[index] for index in (1, 2, 4, 5, 6)}) == 5
    assert "a firewall may drop" in ends[2].detail
    assert sentences[4] == "connection refused"
    assert "changed" in sentences[5]
    assert "ermission denied" in sentences[6]
    assert all(row.remedy for row in ends.values())


def test_the_worker_has_only_its_own_network(worker: OpensshWorker, tmp_path: Path) -> None:
    namespace = worker.mark.split()[1]

    assert NEAR in run("ip", "-n", namespace, "-br", "addr")
    assert NO_ROUTE not in run("ip", "-n", namespace, "route")
