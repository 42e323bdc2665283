"""All workers of a slice: connections opened on demand and reused; commands on many workers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tui.aio.backoff import backoff
from tui.aio.fan_out import as_worker_error, for_each_worker
from tui.errors import TpuTuiError, UsageError, WorkerError
from tui.pod.worker import Worker
from tui.procs.file_limit import RESERVED_FILES, raise_file_limit
from tui.ssh import errors
from tui.ssh.config.access import Access, Prompter, login_to, logins_to
from tui.ssh.exec.port_probe import PortState
from tui.ssh.host_login import Login
from tui.ssh.keys.client_keys import ClientKeys
from tui.ssh.keys.known_hosts import HostKeys
from tui.ssh.results import LoginResult, LoginTimings
from tui.ssh.transport.iap_tunnel import IapRoute, IapTarget, IapTunnels
from tui.ssh.transport.jump_hosts import JumpHosts
from tui.ssh.transport.paused_timeout import PromptClock, wait_for
from tui.ssh.transport.proxy_command import ProxyCommands, ProxyRoute

if TYPE_CHECKING:
    import asyncssh

    from tui.ssh.connection import WorkerConnection
    from tui.ssh.exec.command import OnOutput, OutputBudget
    from tui.ssh.results import CommandResult
    from tui.ssh.transport.login import Dialer, Route

EARLY_ATTEMPTS = 4
"""Logins tried when sshd hangs up before its greeting: beyond MaxStartups it does so at random."""
_RESULT_GRACE_S = 2.0
"""Seconds after a command's timeout within which its result must arrive."""
_STAGE_OF = {
    errors.Reason.NAME: "name",
    errors.Reason.NO_ROUTE: "connect",
    errors.Reason.REFUSED: "connect",
    errors.Reason.TIMED_OUT: "connect",
    errors.Reason.ROUTE_MISSING: "connect",
    errors.Reason.NOT_SSH: "greeting",
    errors.Reason.CLOSED_EARLY: "greeting",
    errors.Reason.ALGORITHMS: "greeting",
    errors.Reason.HOST_KEY_UNKNOWN: "host_key",
    errors.Reason.HOST_KEY_CHANGED: "host_key",
}
_Result = TypeVar("_Result")


class Fleet:
    """The workers of one slice over SSH: one connection each, opened again when it was lost.

    Use it as an async context manager, or call `close()`. It belongs to one event loop.
    """

    def __init__(self, workers: Sequence[Worker], access: Access, *, prompter: Prompter | None = None) -> None:
        files = raise_file_limit(len(workers))
        self._room = max(1, files - RESERVED_FILES)
        """Most connections that this process can hold: beyond its file limit, opening any file may fail."""
        self._dialing = 0
        self.workers = {worker.index: worker for worker in workers}
        self._access = access
        self._prompter = PromptClock(prompter) if prompter else None
        self._dialer: Dialer | None = None
        self._making_dialer = asyncio.Lock()
        self._host_keys = HostKeys(access)
        self._logins: dict[int, Login] = {}
        """The last login of each worker, successful or not."""
        self._handshake_slots = asyncio.Semaphore(access.handshakes)
        self._live: dict[int, WorkerConnection] = {}
        self._spare: dict[int, WorkerConnection] = {}
        self._proxies = ProxyCommands()
        self._jumps = JumpHosts(access, self._get_dialer, self._proxies)
        self._tunnels = IapTunnels(access)
        self._locks: dict[int, asyncio.Lock] = {}
        self._closed = False

    async def __aenter__(self) -> Fleet:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def access(self) -> Access:
        """The access with every key that was decrypted so far, for a process without a terminal."""
        return self._dialer.keys.access if self._dialer else self._access

    async def close(self) -> None:
        """Close every connection; jump hosts come last, because workers are reached through them."""
        self._closed = True
        connections = self._connections()
        self._live, self._spare = {}, {}
        await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)
        await self._jumps.close()
        await self._tunnels.close()
        await self._proxies.close()
        if self._dialer:
            self._dialer.keys.close()

    async def unknown_hosts(self) -> list[int]:
        """Return the workers without a host key from the API or a known-hosts file."""
        unknown: list[int] = []
        workers = self.workers.values()
        for worker, login in zip(workers, await logins_to(workers, self._access), strict=True):
            if isinstance(login, TpuTuiError):
                raise login
            trust = self._host_keys.trusted(login, worker.host_keys)
            if not (trust.keys or trust.authorities):
                unknown.append(worker.index)
        return unknown

    async def connect(self, index: int) -> WorkerConnection:
        """Return the worker's live connection; open one if there is none.

        Raises SshError (a WorkerError with a `reason`), UsageError for an unknown worker or an invalid key,
        OutOfReachError when a passphrase is needed and there is no prompter.
        """
        live = self._live.get(index)
        if live is not None and live.alive:
            return live
        return await self._connection(index, self._live)

    async def run(
        self,
        index: int,
        command: str,
        *,
        input: bytes = b"",  # noqa: A002
        timeout: float | None = None,
        keep: OutputBudget | None = None,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        """Run one command on one worker to its end; input and output are bytes.

        `timeout` (seconds) counts from its start. With `keep`, output beyond that budget is omitted from the middle;
        `on_output` gets all of it. Raises what `connect` raises, and SshError when the connection is lost before the
        command ended.
        """
        return await self._use(
            index,
            lambda connection: connection.run(command, input=input, timeout=timeout, keep=keep, on_output=on_output),
        )

    async def run_all(
        self,
        indices: Iterable[int],
        command: str,
        *,
        timeout: float | None = None,
        keep: OutputBudget | None = None,
        on_output: OnOutput | None = None,
    ) -> AsyncIterator[CommandResult | WorkerError]:
        """Run one command on many workers; yield each worker's result or error as it becomes known.

        `timeout` is in seconds, per worker, for its login and the command together.
        """
        run_one = partial(self.run_within, command=command, seconds=timeout, keep=keep, on_output=on_output)
        async for _, result in for_each_worker(indices, run_one):
            yield result

    async def run_within(
        self,
        index: int,
        command: str,
        seconds: float | None,
        *,
        input: bytes = b"",  # noqa: A002
        keep: OutputBudget | None = None,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        """Log in and run one command within `seconds`; return its result so far when they are over.

        The clock stops while a person is prompted.
        """
        if seconds is None:
            return await self.run(index, command, input=input, keep=keep, on_output=on_output)
        try:
            _, remaining = await wait_for(seconds, self.connect(index), self._prompter)
        except asyncio.TimeoutError:
            raise self._no_login_within(index, seconds) from None
        running = self.run(index, command, input=input, timeout=remaining, keep=keep, on_output=on_output)
        try:
            return (await wait_for(remaining + _RESULT_GRACE_S, running, self._prompter))[0]
        except asyncio.TimeoutError:
            raise errors.no_session_in_time(index, seconds) from None

    async def process(self, index: int, command: str) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command whose streams the caller reads and writes, as bytes; the caller closes it."""
        return await self._use(index, lambda connection: connection.process(command))

    async def probe(self, index: int, host: str, port: int, timeout: float = 5.0) -> PortState:
        """Return whether `host:port` answers, seen from the worker. Raises what `connect` raises."""
        connection = await self.connect(index)
        return await connection.probe(host, port, timeout)

    async def try_login(self, index: int, timeout: float | None = None) -> LoginResult:
        """Return how far a new login gets within `timeout` seconds; a failure is in the result, not raised.

        The clock stops while a person is prompted.
        """
        stages = LoginTimings()
        try:
            connecting = self._connect(self._worker(index), stages)
            if timeout is None:
                connection = await connecting
            else:
                connection, _ = await wait_for(timeout, connecting, self._prompter)
        except asyncio.TimeoutError:
            stage = "connect" if stages.connected is None else "login"
            return LoginResult(index, stage, stages.connected, None, self._no_login_within(index, timeout or 0.0))
        except TpuTuiError as problem:
            stage = _STAGE_OF.get(problem.reason, "login") if isinstance(problem, errors.SshError) else "login"
            return LoginResult(index, stage, stages.connected, None, as_worker_error(problem, index))
        previous = self._live.get(index)
        if (previous is None or not previous.alive) and not self._closed:
            self._live[index] = connection
        else:
            await connection.close()
        return LoginResult(index, "ready", stages.connected, stages.logged_in)

    async def _use(self, index: int, use: Callable[[WorkerConnection], Awaitable[_Result]]) -> _Result:
        """Use the live connection; reconnect once if it turns out to be dead before anything began."""
        connection = await self.connect(index)
        try:
            return await use(connection)
        except errors.SshError as error:
            if error.reason is errors.Reason.TAKEN:
                return await self._on_either_connection(index, use)
            if error.started or connection.alive or self._closed:
                raise
        return await use(await self.connect(index))

    async def _on_either_connection(
        self, index: int, use: Callable[[WorkerConnection], Awaitable[_Result]]
    ) -> _Result:
        """Use the first free one of two connections to a server that allows one session per connection.

        A run's follower holds one of them for as long as the run lasts.
        """
        waits = backoff(0.05, 1.0)
        while True:
            for connections in (self._spare, self._live):
                try:
                    return await use(await self._connection(index, connections))
                except errors.SshError as error:  # noqa: PERF203 - try the other connection
                    if error.reason is not errors.Reason.TAKEN or self._closed:
                        raise
            await asyncio.sleep(next(waits))

    async def _connection(self, index: int, connections: dict[int, WorkerConnection]) -> WorkerConnection:
        """Return the worker's live connection among these; open one if there is none."""
        async with self._locks.setdefault(index, asyncio.Lock()):
            live = connections.get(index)
            if live is not None and live.alive:
                return live
            connection = await self._connect(self._worker(index), single=connections is self._spare)
            if self._closed:
                await connection.close()
                raise errors.lost_error(index, "this side closed it")
            connections[index] = connection
            return connection

    def _worker(self, index: int) -> Worker:
        try:
            return self.workers[index]
        except KeyError:
            indices = ", ".join(str(number) for number in sorted(self.workers))
            raise UsageError(f"no worker {index}", remedy=f"workers: {indices}") from None

    async def _get_dialer(self) -> Dialer:
        from tui.ssh.transport.login import Dialer

        async with self._making_dialer:
            if self._dialer is None:
                found = await logins_to(self.workers.values(), self._access) if self._access.config else []
                logins = [login for login in found if isinstance(login, Login)]
                identities = dict.fromkeys(path for login in logins for path in login.identities)
                agents = [login.agent for login in logins if login.agent is not None]
                access = replace(self._access, agent=agents[0] or None) if agents else self._access
                keys = ClientKeys(access, self._prompter, identities)
                self._dialer = Dialer(self._access, keys, self._host_keys, self._handshake_slots, self._prompter)
            return self._dialer

    async def _connect(
        self, worker: Worker, stages: LoginTimings | None = None, *, single: bool = False
    ) -> WorkerConnection:
        """Log in; try again when sshd hangs up before its greeting."""
        from tui.ssh.connection import WorkerConnection

        login = await login_to(worker, self._access)
        self._logins[worker.index] = login
        through = self._route(worker, login)
        jump = None if through else self._access.jump or login.jump
        if jump is None and not self._has_room():
            raise errors.FILE_LIMIT.error(worker.index)
        self._dialing += 1
        waits = backoff()
        attempt = 0
        try:
            while True:
                attempt += 1
                try:
                    tunnel = await self._jumps.through(jump, worker.index) if jump else None
                    connection, client = await (await self._get_dialer()).dial(
                        login,
                        worker=worker.index,
                        vouched=worker.host_keys,
                        tunnel=tunnel,
                        through=through,
                        stages=stages,
                    )
                    return WorkerConnection(worker.index, connection, client, self._access.sessions, single=single)
                except errors.SshError as error:
                    if error.reason is not errors.Reason.CLOSED_EARLY or attempt == EARLY_ATTEMPTS:
                        raise
                await asyncio.sleep(next(waits))
        finally:
            self._dialing -= 1

    def _connections(self) -> list[WorkerConnection]:
        return [*self._live.values(), *self._spare.values()]

    def _has_room(self) -> bool:
        connections = self._connections()
        if self._dialing + len(connections) < self._room:
            return True
        return self._dialing + sum(connection.alive for connection in connections) < self._room

    def _route(self, worker: Worker, login: Login) -> Route | None:
        """Return the route through IAP or a ProxyCommand; None for a plain connection or a jump host.

        Raises SshError for IAP when the worker's instance name is unknown.
        """
        if self._access.route == "iap":
            try:
                target = IapTarget.of(worker.instance or "", login.port)
            except ValueError:
                raise errors.IAP_UNNAMED.error(worker.index) from None
            return IapRoute(self._tunnels, target, worker.index)
        if self._access.jump is None and login.proxy is not None:
            return ProxyRoute(self._proxies, login.proxy, worker.index)
        return None

    def _no_login_within(self, index: int, seconds: float) -> errors.SshError:
        """Return the error for a login that took longer than `seconds`; it names a slow jump host."""
        login = self._logins.get(index)
        jump = None if self._access.route == "iap" else self._access.jump or (login.jump if login else None)
        if jump and not self._jumps.is_connected(jump):
            return errors.JUMP_LOGIN_TIMED_OUT.error(index, seconds=seconds, jump=jump)
        return errors.NO_LOGIN_IN_TIME.error(index, seconds=seconds)
