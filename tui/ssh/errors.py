"""Why a worker could not be reached over SSH: one table of causes, each with its sentence and its remedy."""

from __future__ import annotations

import asyncio
import enum
import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tui.errors import WorkerError
from tui.text.printable import one_line

_MAX_REMOTE_CHARACTERS = 200
"""The part of a server's own words that a message repeats."""
_MAX_GREETING_CHARACTERS = 60
"""The part of them that stands where an SSH server's greeting should."""
TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
NO_ROUTE_ERRNOS = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL}
)
_FORWARDING_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED (RFC 4254, section 5.1)."""
IAP_PORT_CLOSED = 4003
IAP_NOT_AUTHORIZED = 4033
IAP_NO_INSTANCE = 4047
"""Codes with which IAP closes a tunnel that it does not open (Identity-Aware Proxy documentation, TCP forwarding)."""
_REMOTE = ("words", "command", "host")
"""Values of a cause's templates that a server, a program or a configuration wrote."""
_IAP_HTTP_REFUSALS = (401, 403, 404)
WorkerName = int | str | None
"""A worker's index, another name for a host, or None for no worker."""


class Reason(str, enum.Enum):
    """What went wrong, for programs; the sentence with it is for people."""

    NAME = "name"
    NO_ROUTE = "no_route"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    NOT_SSH = "not_ssh"
    CLOSED_EARLY = "closed_early"
    ALGORITHMS = "algorithms"
    HOST_KEY_UNKNOWN = "host_key_unknown"
    HOST_KEY_CHANGED = "host_key_changed"
    DENIED = "denied"
    LOGIN_TIMED_OUT = "login_timed_out"
    SESSIONS = "sessions"
    TAKEN = "taken"
    LOST = "lost"
    ROUTE_MISSING = "route_missing"
    OTHER = "other"

    def __str__(self) -> str:
        return self.value


class SshError(WorkerError):
    """A worker's connection failed for a `reason` that programs can distinguish."""

    def __init__(
        self, reason: Reason, what: str, *, worker: WorkerName = None, why: str = "", remedy: str = ""
    ) -> None:
        super().__init__(what, worker=worker, why=why, remedy=remedy)
        self.reason = reason
        self.started = reason is Reason.LOST
        """Whether the command may have begun; one that did not can be repeated."""


class Endpoint(Protocol):
    """Where a login leads: the parts of a `Login` that messages name."""

    @property
    def host(self) -> str:
        """A name or an address."""
        ...

    @property
    def port(self) -> int:
        """The SSH port."""
        ...

    @property
    def user(self) -> str:
        """The account there."""
        ...


@dataclass(frozen=True)
class Cause:
    """One way to fail; `why` and `remedy` are templates, in which a login is `{where}`, `{port}` and `{account}`."""

    reason: Reason
    what: str
    why: str = ""
    remedy: str = ""

    def error(self, worker: WorkerName, login: Endpoint | None = None, **values: object) -> SshError:
        """Return the error for one worker; the values that others wrote are made printable and short."""
        known = {name: quote_remote(str(value)) if name in _REMOTE else value for name, value in values.items()}
        if login is not None:
            account = f"{one_line(login.user)}@{login.host}"
            known.update(where=f"{login.host}:{login.port}", port=login.port, account=account)
        why, remedy = self.why.format(**known), self.remedy.format(**known)
        return SshError(self.reason, self.what, worker=worker, why=why, remedy=remedy)


def quote_remote(text: str | bytes, limit: int = _MAX_REMOTE_CHARACTERS) -> str:
    """Return a server's own words, printable and short."""
    line = one_line(text)
    return line if len(line) <= limit else line[:limit] + "…"


_SERIAL_CONSOLE = "the worker may be out of memory or its disk stuck: see its serial console, or restart it"
_FILE_LIMIT = (
    "raise the hard limit on open files to a few more than twice the workers (ulimit -Hn; "
    "limits.conf, LimitNOFILE= or docker run --ulimit nofile=), or name fewer workers"
)
_ACCOUNT_LOG = "sshd's log there says why (journalctl -u ssh)"

NO_ADDRESS = Cause(
    Reason.NO_ROUTE,
    "no address to reach it by",
    "the slice lists none",
    "see `tpu-tui workers`; a slice that is being created gets its addresses last",
)
NAME_UNRESOLVED = Cause(
    Reason.NAME,
    "its name does not resolve",
    "{host}",
    "check the address, and that this machine's DNS works",
)
NO_CONNECT_ANSWER = Cause(
    Reason.TIMED_OUT,
    "no answer",
    "{where} was silent for {seconds:g} s, as behind a firewall that drops packets",
    "allow tcp:{port} from here (gcloud compute firewall-rules create allow-ssh --allow=tcp:{port}), "
    "or use another route (internal addresses, a jump host)",
)
REFUSED = Cause(
    Reason.REFUSED,
    "connection refused",
    "nothing listens on {where}",
    "a worker that is still booting answers within a minute or two; else check the port and its sshd",
)
NO_ROUTE = Cause(
    Reason.NO_ROUTE,
    "no route to it",
    "{where}",
    "check this machine's network; an internal address is reachable from inside its network only "
    "(use route external, or a jump host)",
)
CONNECT_FAILED = Cause(Reason.OTHER, "the connection failed", "{where}: {words}")
FILE_LIMIT = Cause(
    Reason.OTHER,
    "no connection more fits into this process",
    "it has as many files open as it may",
    _FILE_LIMIT,
)
NO_FORWARDING = Cause(
    Reason.ROUTE_MISSING,
    "the jump host does not forward",
    "the jump host {jump} says: {words}",
    "AllowTcpForwarding yes in the jump host's sshd_config",
)
JUMP_REFUSED = Cause(
    Reason.REFUSED,
    "connection refused",
    "nothing listens on {where} (the jump host {jump} says: {words})",
    "check the port and the worker's sshd",
)
JUMP_TIMED_OUT = Cause(
    Reason.TIMED_OUT,
    "no answer",
    "{where} is silent (the jump host {jump} says: {words})",
    "allow tcp:22 between the jump host and the worker",
)
JUMP_NO_ROUTE = Cause(
    Reason.NO_ROUTE,
    "no route to it",
    "the jump host {jump} says: {words}",
    "is this the jump host of its network?",
)
JUMP_NAME = Cause(Reason.NAME, "its name does not resolve", "the jump host {jump} says: {words}", "check the address")
JUMP_FAILED = Cause(
    Reason.OTHER,
    "the jump host could not connect to it",
    "the jump host {jump} says: {words}",
    "check the address",
)
JUMP_SILENT = Cause(
    Reason.TIMED_OUT,
    "no answer",
    "the jump host {jump} did not reach {where} within {seconds:g} s",
    "allow tcp:{port} between the jump host and the worker, and see whether the jump host hangs",
)
JUMP_LOGIN_TIMED_OUT = Cause(
    Reason.TIMED_OUT,
    "no answer",
    "the jump host {jump} did not let us through within {seconds:g} s",
    "see whether the jump host answers at all: ssh to it, or its serial console",
)
PROXY_FAILED = Cause(
    Reason.ROUTE_MISSING,
    "its ProxyCommand does not lead to it",
    "{command}: {words}",
    "run that command by itself: an SSH server's first line begins with SSH-2.0",
)
NOT_SSH = Cause(
    Reason.NOT_SSH,
    "not an SSH server",
    "{where} is not an SSH server{answer}",
    "check the port: another service uses it, or a proxy/VPN is intercepting it",
)
NO_GREETING = Cause(
    Reason.NOT_SSH,
    "no SSH server answers",
    "{where} accepts the connection and sends nothing for {seconds:g} s",
    "a worker that hangs does so: see its serial console, or stop and start it; else check the port",
)
CLOSED_EARLY = Cause(
    Reason.CLOSED_EARLY,
    "it closed the connection before the login",
    "{where} hung up at once, as sshd does beyond MaxStartups or while it boots",
    "try again in a moment; fewer logins at once (handshakes) or a higher MaxStartups help",
)
UNSIGNED = Cause(
    Reason.DENIED,
    "permission denied",
    "{account} accepts a key, but the agent or device that holds it did not sign",
    "confirm when it asks (a touch, a PIN, `ssh-add -c`), unlock it (`ssh-add -X`), or use `--identity FILE`",
)
_DENIED = Cause(
    Reason.DENIED,
    "permission denied",
    "{rejected} for {account}{remark}",
    "{unlock}`tpu-tui keys add {slice}`, or once `gcloud compute tpus tpu-vm ssh {slice}`{copy_id}; "
    "else check `--user` and `--identity`, and `ssh-add -l` for keys of an agent; an account that is locked or "
    f"not allowed to log in looks the same from here: {_ACCOUNT_LOG}",
)
_MORE_THAN_A_KEY = Cause(
    Reason.DENIED,
    "permission denied",
    "{account} requires {methods} in addition to or instead of a key{remark}",
    "{terminal}let a key suffice there: `AuthenticationMethods publickey` in its sshd_config",
)
CUT_IN_KEY_EXCHANGE = Cause(
    Reason.LOST,
    "it hung up in the middle of the key exchange",
    "{where} broke down, or has no algorithm in common with us",
    "try again; if it persists, see its own log or `ssh -v`",
)
CUT_IN_LOGIN = Cause(
    Reason.LOST,
    "it hung up in the middle of the login",
    "{where} broke off while logging in {account}{remark}",
    "try again; if it persists, the account there may be expired, locked or not allowed to log in: " + _ACCOUNT_LOG,
)
LOGIN_TIMED_OUT = Cause(
    Reason.LOGIN_TIMED_OUT,
    "the login did not finish",
    "{where} answered and was then silent for {seconds:g} s",
    _SERIAL_CONSOLE,
)
NO_LOGIN_IN_TIME = Cause(
    Reason.TIMED_OUT,
    "no answer",
    "no login within {seconds:g} s",
    "see whether its sshd answers at all: nc -vz, or the worker's serial console",
)
_NO_SESSION_IN_TIME = Cause(
    Reason.TIMED_OUT, "no answer", "it began no command within {seconds:g} s", _SERIAL_CONSOLE
)
NO_ALGORITHMS = Cause(
    Reason.ALGORITHMS,
    "no algorithm in common",
    "{where}: {words}",
    "its SSH server is very old or very restricted: update it",
)
HOST_KEY_REJECTED = Cause(Reason.HOST_KEY_CHANGED, "its host key is not trusted", "{words}", "see {files}")
LOGIN_FAILED = Cause(Reason.OTHER, "the login failed", "{words}")
NO_SESSION = Cause(
    Reason.SESSIONS, "it opens no session", "{words}", "raise MaxSessions in its sshd_config, and see its log"
)
SESSION_TAKEN = Cause(Reason.TAKEN, "its one session is taken", "MaxSessions is 1")
"""The one session per connection is open: the command needs another connection, or that session's end."""
_LOST = Cause(
    Reason.LOST,
    "the connection was lost",
    "{words}",
    "check the network; a worker that was preempted shows in `tpu-tui slices`",
)
TOO_MUCH_OUTPUT = Cause(
    Reason.OTHER,
    "the command writes too much",
    "more than {mebibytes} MiB of output",
    "redirect its output to a file on the worker, or launch it as a run",
)
IAP_UNNAMED = Cause(
    Reason.ROUTE_MISSING,
    "IAP cannot find it",
    "its guest attributes contain no hostname, and the route is iap",
    "the organisation may forbid guest attributes (compute.disableGuestAttributesAccess), or the slice is "
    "not READY; else use another route: a profile's `route` or `jump`",
)
IAP_NO_TOKEN = Cause(
    Reason.ROUTE_MISSING, "no access token for IAP", "{words}", "gcloud auth application-default login"
)
_IAP_PORT_CLOSED = Cause(
    Reason.REFUSED,
    "IAP cannot reach its SSH port",
    "{why}",
    "gcloud compute firewall-rules create allow-iap-ssh --allow=tcp:22 --source-ranges=35.235.240.0/20; "
    "a worker that is still booting answers within a minute or two",
)
_IAP_DENIED = Cause(
    Reason.ROUTE_MISSING,
    "IAP does not let us through",
    "{why}",
    "ask the project's owner for roles/iap.tunnelResourceAccessor, and that the IAP API is enabled",
)
_IAP_NO_INSTANCE = Cause(
    Reason.NO_ROUTE, "IAP does not find it", "{why}", "`tpu-tui slices` shows whether the slice is READY"
)
_IAP_NO_TUNNEL = Cause(
    Reason.TIMED_OUT,
    "no tunnel through IAP",
    "{why}",
    "check the network: tunnel.cloudproxy.app, port 443, must be reachable",
)


def connect_error(error: BaseException, worker: WorkerName, login: Endpoint, seconds: float) -> SshError:
    """Return why no TCP connection came about."""
    number = getattr(error, "errno", None)
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return NAME_UNRESOLVED.error(worker, host=login.host)
    if isinstance(error, asyncio.TimeoutError) or number == errno.ETIMEDOUT:
        return NO_CONNECT_ANSWER.error(worker, login, seconds=seconds)
    if number == errno.ECONNREFUSED:
        return REFUSED.error(worker, login)
    if number in NO_ROUTE_ERRNOS:
        return NO_ROUTE.error(worker, login)
    if number in TOO_MANY_FILES:
        return FILE_LIMIT.error(worker)
    return CONNECT_FAILED.error(worker, login, words=str(error))


def jump_host_error(code: int, words: str, worker: WorkerName, login: Endpoint, jump: str) -> SshError:
    """Return why a jump host did not lead to the worker; `words` are the jump host's."""
    lowered = words.lower()
    if code == _FORWARDING_PROHIBITED:
        cause = NO_FORWARDING
    elif "refused" in lowered:
        cause = JUMP_REFUSED
    elif "timed out" in lowered:
        cause = JUMP_TIMED_OUT
    elif "route" in lowered or "unreachable" in lowered:
        cause = JUMP_NO_ROUTE
    elif "name" in lowered or "known" in lowered:
        cause = JUMP_NAME
    else:
        cause = JUMP_FAILED
    return cause.error(worker, login, jump=jump, words=words)


def not_ssh_error(worker: WorkerName, login: Endpoint, greeting: bytes = b"") -> SshError:
    """Return that something else listens there; the first line of its `greeting` shows what."""
    line = next(iter(greeting.strip().splitlines()), b"")
    answer = f' (it answered "{quote_remote(line, _MAX_GREETING_CHARACTERS)}")' if line else ""
    return NOT_SSH.error(worker, login, answer=answer)


def denied_error(
    worker: WorkerName, login: Endpoint, tried: int, locked: list[str], slice_: str | None = None, words: str = ""
) -> SshError:
    """Return that the server accepts none of the keys; `locked` are key files that are still encrypted."""
    keys = "1 SSH key" if tried == 1 else f"{tried} SSH keys"
    copy_id = f" (`ssh-copy-id {one_line(login.user)}@{login.host}` for a machine of your own)"
    return _DENIED.error(
        worker,
        login,
        rejected=f"the server rejected your {keys}" if tried else "there is no SSH key to offer",
        remark=f" ({quote_remote(words)})" if words else "",
        unlock=f"ssh-add {locked[0]} (it is encrypted); else " if locked else "",
        slice=slice_ or "SLICE",
        copy_id="" if slice_ else copy_id,
    )


def more_than_a_key_error(worker: WorkerName, login: Endpoint, methods: Sequence[str], words: str = "") -> SshError:
    """Return that the server accepts no login by a key alone; `words` are its own."""
    asks = "keyboard-interactive" in methods
    return _MORE_THAN_A_KEY.error(
        worker,
        login,
        methods=" or ".join(methods),
        remark=f": {quote_remote(words)}" if words else "",
        terminal="run it in a terminal, where its question can be answered; or " if asks else "",
    )


def no_session_in_time(worker: WorkerName, seconds: float) -> SshError:
    """Return that the connection stands and the server does not answer whether it opens a session."""
    error = _NO_SESSION_IN_TIME.error(worker, seconds=round(seconds, 1))
    error.started = True
    return error


def lost_error(worker: WorkerName, words: str, *, started: bool = True) -> SshError:
    """Return that the connection broke off; `started` False when the command surely never began."""
    error = _LOST.error(worker, words=words or "it was closed")
    error.started = started
    return error


def iap_error(worker: WorkerName, instance: str, code: int, words: str) -> SshError:
    """Return why IAP opened no tunnel; `code` is a WebSocket close code or an HTTP status, 0 for neither."""
    if code == IAP_PORT_CLOSED:
        cause = _IAP_PORT_CLOSED
    elif code == IAP_NOT_AUTHORIZED or code in _IAP_HTTP_REFUSALS:
        cause = _IAP_DENIED
    elif code == IAP_NO_INSTANCE:
        cause = _IAP_NO_INSTANCE
    else:
        cause = _IAP_NO_TUNNEL
    status = f" ({code})" if code else ""
    return cause.error(worker, why=f"{instance}: {quote_remote(words) or 'no reason given'}{status}")
