"""The causes why a worker cannot be reached over SSH, each with its sentence and its remedy."""

from __future__ import annotations

import asyncio
import enum
import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from tui.errors import WorkerError
from tui.ssh.host_login import Login
from tui.text.printable import one_line

_MAX_REMOTE_CHARACTERS = 200
"""Characters of a server's own text that a message repeats."""
_MAX_GREETING_CHARACTERS = 60
"""Characters of that text where an SSH server's greeting is expected."""
_REMOTE = ("words", "command", "host")
"""Template values whose text comes from a server, a program or a configuration."""


class Reason(str, enum.Enum):
    """The kind of failure, for programs; the error's sentence is for people."""

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
        self, reason: Reason, what: str, *, worker: int | None = None, why: str = "", remedy: str = ""
    ) -> None:
        super().__init__(what, worker=worker, why=why, remedy=remedy)
        self.reason = reason
        self.started = reason is Reason.LOST
        """Whether the command may have begun; a command that did not begin can be repeated."""


@dataclass(frozen=True)
class Cause:
    """One kind of failure; its templates name a login as `{where}`, `{port}` and `{account}`.

    `sentence` is "what: why", the two texts of a `TpuTuiError`.
    """

    reason: Reason
    sentence: str
    remedy: str = ""

    def error(self, worker: int | None, login: Login | None = None, **values: object) -> SshError:
        """Return the error for one worker; text from other machines and programs is made printable and short."""
        fields = {name: quote_remote(str(value)) if name in _REMOTE else value for name, value in values.items()}
        if login is not None:
            account = f"{one_line(login.user)}@{login.host}"
            fields.update(where=f"{login.host}:{login.port}", port=login.port, account=account)
        what, _, why = self.sentence.partition(": ")
        why, remedy = why.format(**fields), self.remedy.format(**fields)
        return SshError(self.reason, what, worker=worker, why=why, remedy=remedy)


def quote_remote(text: str | bytes, limit: int = _MAX_REMOTE_CHARACTERS) -> str:
    """Return a server's own text, printable and short."""
    line = one_line(text)
    return line if len(line) <= limit else line[:limit] + "…"


_SERIAL_CONSOLE = "the worker may be out of memory or its disk may hang: see its serial console, or restart it"
_ACCOUNT_LOG = "sshd's log on the worker gives the reason (journalctl -u ssh)"

# No TCP connection.
NO_ADDRESS = Cause(
    Reason.NO_ROUTE,
    "it has no address: the slice lists none for it",
    "see `tpu-tui workers`; a slice that is being created gets its addresses last",
)
UNSAFE_NAME = Cause(
    Reason.NAME,
    "its host, account or host key alias is not a valid name: {host}",
    "see `tpu-tui workers`, or run.json of the run: someone may have made that name up to do harm",
)
NAME_UNRESOLVED = Cause(
    Reason.NAME, "its name does not resolve: {host}", "check the address, and DNS on this machine"
)
NO_CONNECT_ANSWER = Cause(
    Reason.TIMED_OUT,
    "no answer: {where} did not answer within {seconds:g} s; a firewall may drop the packets",
    "allow tcp:{port} from here (gcloud compute firewall-rules create allow-ssh --allow=tcp:{port}), "
    "or use another route (internal addresses, a jump host)",
)
REFUSED = Cause(
    Reason.REFUSED,
    "connection refused: nothing listens on {where}",
    "a worker that is booting answers within a minute or two; otherwise check the port and its sshd",
)
NO_ROUTE = Cause(
    Reason.NO_ROUTE,
    "no route to it: {where}",
    "check this machine's network; an internal address can be reached from inside its network only "
    "(use route external, or a jump host)",
)
CONNECT_FAILED = Cause(Reason.OTHER, "the connection failed: {where}: {words}")
FILE_LIMIT = Cause(
    Reason.OTHER,
    "this process cannot open another connection: it has reached its limit on open files",
    "raise the hard limit on open files to a few more than twice the workers (ulimit -Hn; "
    "limits.conf, LimitNOFILE= or docker run --ulimit nofile=), or name fewer workers",
)
_NO_ROUTE_ERRNOS = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL)
_BY_ERRNO = {
    errno.ETIMEDOUT: NO_CONNECT_ANSWER,
    errno.ECONNREFUSED: REFUSED,
    **dict.fromkeys(_NO_ROUTE_ERRNOS, NO_ROUTE),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), FILE_LIMIT),
}

# The route to the worker's SSH port: a jump host, a ProxyCommand, IAP.
_JUMP_FAILED = Cause(
    Reason.OTHER,
    "the jump host could not connect to it: the jump host {jump} says: {words}",
    "check the address of the worker",
)
_JUMP_NO_ROUTE = Cause(
    Reason.NO_ROUTE,
    "no route to it: the jump host {jump} says: {words}",
    "check that this jump host is in the worker's network",
)
_JUMP_CAUSES = {
    "forbidden": Cause(
        Reason.ROUTE_MISSING,
        "the jump host does not forward: the jump host {jump} says: {words}",
        "set AllowTcpForwarding yes in the jump host's sshd_config",
    ),
    "refused": Cause(
        Reason.REFUSED,
        "connection refused: nothing listens on {where} (the jump host {jump} says: {words})",
        "check the port and the worker's sshd",
    ),
    "timed out": Cause(
        Reason.TIMED_OUT,
        "no answer: {where} does not answer (the jump host {jump} says: {words})",
        "allow tcp:{port} between the jump host and the worker",
    ),
    "no route": _JUMP_NO_ROUTE,
    "unreachable": _JUMP_NO_ROUTE,
    "name": Cause(
        Reason.NAME,
        "its name does not resolve: the jump host {jump} says: {words}",
        "check the address of the worker",
    ),
}
"""By the cause of the worker's port as seen from the jump host (`PortState.cause`)."""
JUMP_SILENT = Cause(
    Reason.TIMED_OUT,
    "no answer: the jump host {jump} did not reach {where} within {seconds:g} s",
    "allow tcp:{port} between the jump host and the worker, and check that the jump host does not hang",
)
JUMP_LOGIN_TIMED_OUT = Cause(
    Reason.TIMED_OUT,
    "no answer: the login on the jump host {jump} did not finish within {seconds:g} s",
    "check that the jump host answers: ssh to it, or see its serial console",
)
PROXY_FAILED = Cause(
    Reason.ROUTE_MISSING,
    "its ProxyCommand does not reach it: {command}: {words}",
    "run that command by itself: an SSH server's first line begins with SSH-2.0",
)
IAP_UNNAMED = Cause(
    Reason.ROUTE_MISSING,
    "IAP cannot find it: its guest attributes contain no hostname, and the route is iap",
    "the organisation may forbid guest attributes (compute.disableGuestAttributesAccess), or the slice is "
    "not READY; otherwise use another route: a profile's `route` or `jump`",
)
IAP_NO_TOKEN = Cause(
    Reason.ROUTE_MISSING, "no access token for IAP: {words}", "gcloud auth application-default login"
)
_IAP_PORT_CLOSED = Cause(
    Reason.REFUSED,
    "IAP cannot reach its SSH port: {why}",
    "gcloud compute firewall-rules create allow-iap-ssh --allow=tcp:22 --source-ranges=35.235.240.0/20; "
    "a worker that is booting answers within a minute or two",
)
_IAP_DENIED = Cause(
    Reason.ROUTE_MISSING,
    "IAP refuses this login: {why}",
    "ask the project's owner for roles/iap.tunnelResourceAccessor, and to enable the IAP API",
)
_IAP_NO_INSTANCE = Cause(
    Reason.NO_ROUTE, "IAP does not find it: {why}", "`tpu-tui slices` shows whether the slice is READY"
)
_IAP_NO_TUNNEL = Cause(
    Reason.TIMED_OUT,
    "no tunnel through IAP: {why}",
    "check the network: tunnel.cloudproxy.app, port 443, must be reachable",
)
_IAP_CAUSES = {
    **dict.fromkeys((401, 403, 404, 4033), _IAP_DENIED),
    4003: _IAP_PORT_CLOSED,
    4047: _IAP_NO_INSTANCE,
}
"""By HTTP status, or by the code IAP closes a tunnel with (Identity-Aware Proxy documentation, TCP forwarding)."""

# No SSH server, or no login.
NOT_SSH = Cause(
    Reason.NOT_SSH,
    "not an SSH server: {where} is not an SSH server{answer}",
    "check the port: another service uses it, or a proxy/VPN is intercepting it",
)
NO_GREETING = Cause(
    Reason.NOT_SSH,
    "no SSH server answers: {where} accepted the connection and sent nothing for {seconds:g} s",
    "a worker that hangs does this: see its serial console, or stop and start it; otherwise check the port",
)
CLOSED_EARLY = Cause(
    Reason.CLOSED_EARLY,
    "it closed the connection before the login: {where} hung up (sshd does so beyond MaxStartups, or while booting)",
    "try again in a moment; fewer logins at once (handshakes) or a higher MaxStartups help",
)
NO_ALGORITHMS = Cause(
    Reason.ALGORITHMS,
    "no algorithm in common: {where}: {words}",
    "its SSH server is very old or very restricted: update it",
)
CUT_IN_KEY_EXCHANGE = Cause(
    Reason.LOST,
    "it hung up in the middle of the key exchange: {where} failed, or has no algorithm in common with tpu-tui",
    "try again; if it persists, see its own log or `ssh -v`",
)
HOST_KEY_REVOKED = Cause(
    Reason.HOST_KEY_CHANGED,
    "its host key is revoked: {where} offers {offered}, which {files} marks as revoked",
    "do not connect before you know why; ask the maintainer of that file",
)
HOST_KEY_UNKNOWN = Cause(
    Reason.HOST_KEY_UNKNOWN,
    "its host key is unknown: {where} offers {offered}",
    "compare the fingerprint with the machine's own, then pass `--host-keys accept-new`",
)
HOST_KEY_CHANGED = Cause(
    Reason.HOST_KEY_CHANGED, "its host key has changed: {where} offers {offered}; {source} {known}", "{remedy}"
)
HOST_KEY_NOT_SAVED = Cause(
    Reason.HOST_KEY_UNKNOWN, "its host key was accepted but could not be saved: {why}", "make {path} writable"
)
HOST_KEY_REJECTED = Cause(Reason.HOST_KEY_CHANGED, "its host key is not trusted: {words}", "see {files}")
_DENIED = Cause(
    Reason.DENIED,
    "permission denied: {rejected} for {account}{remark}",
    "{unlock}`tpu-tui keys add {slice}`, or once `gcloud compute tpus tpu-vm ssh {slice}`{copy_id}; "
    "otherwise check `--user` and `--identity`, and `ssh-add -l` for the agent's keys; a locked or forbidden account "
    f"looks the same from here: {_ACCOUNT_LOG}",
)
_DENIED_BY_OS_LOGIN = Cause(
    Reason.DENIED,
    "permission denied: {rejected} for {account}, the OS Login user name{remark}",
    "{unlock}ask the project's owner for roles/compute.osLogin, with roles/iam.serviceAccountUser on the slice's "
    "service account (and roles/compute.osLoginExternalUser from another organisation); `tpu-tui keys add {slice}` "
    "adds your key to the OS Login profile",
)
UNSIGNED = Cause(
    Reason.DENIED,
    "permission denied: {account} accepts a key, but the agent or device that holds it did not sign",
    "confirm when it asks (a touch, a PIN, `ssh-add -c`), unlock it (`ssh-add -X`), or use `--identity FILE`",
)
_MORE_THAN_A_KEY = Cause(
    Reason.DENIED,
    "permission denied: {account} requires {methods} in addition to or instead of a key{remark}",
    "{terminal}let a key suffice there: `AuthenticationMethods publickey` in its sshd_config",
)
CUT_IN_LOGIN = Cause(
    Reason.LOST,
    "it hung up in the middle of the login: {where} disconnected while logging in {account}{remark}",
    "try again; if it persists, the account there may be expired, locked or not allowed to log in: " + _ACCOUNT_LOG,
)
LOGIN_TIMED_OUT = Cause(
    Reason.LOGIN_TIMED_OUT,
    "the login did not finish: {where} answered, then sent nothing for {seconds:g} s",
    _SERIAL_CONSOLE,
)
NO_LOGIN_IN_TIME = Cause(
    Reason.TIMED_OUT,
    "no answer: no login within {seconds:g} s",
    "check that its sshd answers: nc -vz, or the worker's serial console",
)
LOGIN_FAILED = Cause(Reason.OTHER, "the login failed: {words}")

# A connection that is logged in.
_NO_SESSION_IN_TIME = Cause(
    Reason.TIMED_OUT, "no answer: it started no command within {seconds:g} s", _SERIAL_CONSOLE
)
NO_SESSION = Cause(
    Reason.SESSIONS, "it opens no session: {words}", "raise MaxSessions in its sshd_config, and see its log"
)
SESSION_TAKEN = Cause(Reason.TAKEN, "its only session is in use: MaxSessions is 1")
"""The server allows one session per connection: a command must use another connection or wait."""
_LOST = Cause(
    Reason.LOST,
    "the connection was lost: {words}",
    "check the network; `tpu-tui slices` shows whether the slice was preempted",
)
TOO_MUCH_OUTPUT = Cause(
    Reason.OTHER,
    "the command writes too much: more than {mebibytes} MiB of output",
    "redirect its output to a file on the worker, or launch it as a run",
)


def connect_error(error: BaseException, worker: int | None, login: Login, seconds: float) -> SshError:
    """Return why no TCP connection was made within `seconds`."""
    number = getattr(error, "errno", None) or 0
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return NAME_UNRESOLVED.error(worker, host=login.host)
    cause = NO_CONNECT_ANSWER if isinstance(error, asyncio.TimeoutError) else _BY_ERRNO.get(number, CONNECT_FAILED)
    return cause.error(worker, login, seconds=seconds, words=str(error))


def jump_host_error(cause: str, words: str, worker: int | None, login: Login, jump: str) -> SshError:
    """Return why a jump host did not connect to the worker: a `PortState.cause`, and the jump host's `words`."""
    return _JUMP_CAUSES.get(cause, _JUMP_FAILED).error(worker, login, jump=jump, words=words)


def not_ssh_error(worker: int | None, login: Login, greeting: bytes = b"") -> SshError:
    """Return the error for another service at that address, with the first line of its `greeting`."""
    line = next(iter(greeting.strip().splitlines()), b"")
    answer = f' (it answered "{quote_remote(line, _MAX_GREETING_CHARACTERS)}")' if line else ""
    return NOT_SSH.error(worker, login, answer=answer)


def denied_error(
    worker: int | None, login: Login, tried: int, locked: list[str], slice_: str | None, words: str, os_login: bool
) -> SshError:
    """Return the error for keys that the server refuses; `locked` are key files that are still encrypted."""
    keys = "SSH key" if tried == 1 else f"{tried} SSH keys"
    copy_id = f" (`ssh-copy-id {one_line(login.user)}@{login.host}` for a machine outside Google Cloud)"
    return (_DENIED_BY_OS_LOGIN if os_login else _DENIED).error(
        worker,
        login,
        rejected=f"the server rejected your {keys}" if tried else "there is no SSH key to offer",
        remark=f" ({quote_remote(words)})" if words else "",
        unlock=f"ssh-add {locked[0]} (it is encrypted); otherwise " if locked else "",
        slice=slice_ or "SLICE",
        copy_id="" if slice_ else copy_id,
    )


def more_than_a_key_error(worker: int | None, login: Login, methods: Sequence[str], words: str = "") -> SshError:
    """Return the error for a server that accepts no login by a key alone; `words` come from the server."""
    asks = "keyboard-interactive" in methods
    return _MORE_THAN_A_KEY.error(
        worker,
        login,
        methods=" or ".join(methods),
        remark=f": {quote_remote(words)}" if words else "",
        terminal="run it in a terminal, where you can answer its question; or " if asks else "",
    )


def no_session_in_time(worker: int | None, seconds: float) -> SshError:
    """Return the error for a server that did not answer a request for a session within `seconds`."""
    error = _NO_SESSION_IN_TIME.error(worker, seconds=round(seconds, 1))
    error.started = True
    return error


def lost_error(worker: int | None, words: str, *, started: bool = True) -> SshError:
    """Return the error for a broken connection; `started` is False when the command certainly never began."""
    error = _LOST.error(worker, words=words or "it was closed")
    error.started = started
    return error


def iap_error(worker: int | None, instance: str, code: int, words: str) -> SshError:
    """Return why IAP opened no tunnel; `code` is a WebSocket close code or an HTTP status, 0 for neither."""
    status = f" ({code})" if code else ""
    why = f"{instance}: {quote_remote(words) or 'no reason given'}{status}"
    return _IAP_CAUSES.get(code, _IAP_NO_TUNNEL).error(worker, why=why)
