"""Why a worker could not be reached over SSH: each cause its own sentence with its own remedy."""

from __future__ import annotations

import asyncio
import enum
import errno
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.errors import WorkerError
from tui.text.printable import one_line

if TYPE_CHECKING:
    from tui.ssh.config.access import Login

_REMOTE_TEXT = 200
"""Characters of a server's own words that a message repeats."""
_GREETING_TEXT = 60
"""Of those that stand where an SSH server's greeting should."""
TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL})


class Reason(str, enum.Enum):
    """What went wrong, for programs; the sentence beside it is for people."""

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
    """A worker's connection failed for a `reason` that programs can tell apart."""

    def __init__(
        self, reason: Reason, what: str, *, worker: int | str | None = None, why: str = "", remedy: str = ""
    ) -> None:
        super().__init__(what, worker=worker, why=why, remedy=remedy)
        self.reason = reason
        self.started = reason is Reason.LOST
        """Whether the command may have begun; one that did not can be given again."""


def quoted(text: str | bytes, most: int = _REMOTE_TEXT) -> str:
    """A server's own words made harmless and short."""
    line = one_line(text)
    return line if len(line) <= most else line[:most] + "…"


def no_address(worker: int | str | None) -> SshError:
    """A worker whose source tells no address."""
    return SshError(
        Reason.NO_ROUTE,
        "no address to reach it by",
        worker=worker,
        why="the slice tells none",
        remedy="see `tpu-tui workers`; a slice that is being made gets its addresses last",
    )


def unconnected(error: BaseException, worker: int | str | None, login: Login, seconds: float) -> SshError:
    """Why no TCP connection came about."""
    where = f"{login.host}:{login.port}"
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return SshError(
            Reason.NAME,
            "its name does not resolve",
            worker=worker,
            why=one_line(login.host),
            remedy="check the address, and that this machine's DNS works",
        )
    if isinstance(error, asyncio.TimeoutError) or getattr(error, "errno", None) == errno.ETIMEDOUT:
        return SshError(
            Reason.TIMED_OUT,
            "no answer",
            worker=worker,
            why=f"{where} was silent for {seconds:g} s, as behind a firewall that drops packets",
            remedy=f"allow tcp:{login.port} from here (gcloud compute firewall-rules create allow-ssh "
            f"--allow=tcp:{login.port}), or go by another route (internal addresses, a jump host)",
        )
    number = getattr(error, "errno", None)
    if number == errno.ECONNREFUSED:
        return SshError(
            Reason.REFUSED,
            "connection refused",
            worker=worker,
            why=f"nothing listens on {where}",
            remedy="a worker that still boots answers within a minute or two; else check the port and its sshd",
        )
    if number in NO_ROUTE:
        return SshError(
            Reason.NO_ROUTE,
            "no route to it",
            worker=worker,
            why=where,
            remedy="check this machine's network; an internal address is reached from inside its network only "
            "(route external, or a jump host)",
        )
    if number in TOO_MANY_FILES:
        return no_room(worker)
    return SshError(Reason.OTHER, "the connection failed", worker=worker, why=f"{where}: {one_line(str(error))}")


def no_room(worker: int | str | None) -> SshError:
    """This process may not open as many files as it has workers to connect to."""
    return SshError(
        Reason.OTHER,
        "no connection more fits into this process",
        worker=worker,
        why="it has as many files open as it may",
        remedy="raise the hard limit on open files to a few more than twice the workers (ulimit -Hn; "
        "limits.conf, LimitNOFILE= or docker run --ulimit nofile=), or name fewer workers",
    )


def tunnel_refused(code: int, words: str, worker: int | str | None, login: Login, jump: str) -> SshError:
    """Why a jump host did not lead to the worker; `words` are the jump host's."""
    lowered = words.lower()
    where = f"{login.host}:{login.port}"
    via = f"the jump host {jump} says: {quoted(words)}"
    if code == 1:
        return SshError(
            Reason.ROUTE_MISSING,
            "the jump host does not forward",
            worker=worker,
            why=via,
            remedy="AllowTcpForwarding yes in the jump host's sshd_config",
        )
    if "refused" in lowered:
        return SshError(
            Reason.REFUSED,
            "connection refused",
            worker=worker,
            why=f"nothing listens on {where} ({via})",
            remedy="check the port and the worker's sshd",
        )
    if "timed out" in lowered:
        return SshError(
            Reason.TIMED_OUT,
            "no answer",
            worker=worker,
            why=f"{where} is silent ({via})",
            remedy="allow tcp:22 between the jump host and the worker",
        )
    if "route" in lowered or "unreachable" in lowered:
        return SshError(
            Reason.NO_ROUTE, "no route to it", worker=worker, why=via, remedy="is this the jump host of its network?"
        )
    if "name" in lowered or "known" in lowered:
        return SshError(Reason.NAME, "its name does not resolve", worker=worker, why=via, remedy="check the address")
    return SshError(
        Reason.OTHER, "the jump host could not connect to it", worker=worker, why=via, remedy="check the address"
    )


def tunnel_silent(worker: int | str | None, login: Login, jump: str, seconds: float) -> SshError:
    """A jump host that let us in says neither that it reached the worker nor that it did not."""
    return SshError(
        Reason.TIMED_OUT,
        "no answer",
        worker=worker,
        why=f"the jump host {jump} did not reach {login.host}:{login.port} within {seconds:g} s",
        remedy=f"allow tcp:{login.port} between the jump host and the worker, and see whether the jump host hangs",
    )


def proxy_failed(worker: int | str | None, command: str, words: str) -> SshError:
    """Nothing came through the command that is configured to lead to it."""
    return SshError(
        Reason.ROUTE_MISSING,
        "its ProxyCommand does not lead to it",
        worker=worker,
        why=f"{quoted(command)}: {quoted(words)}",
        remedy="try that command by itself: an SSH server greets with a line that begins with SSH-2.0",
    )


def not_ssh(worker: int | str | None, login: Login, words: bytes = b"") -> SshError:
    """Something answered that does not speak SSH; of its `words` the first line tells what it is."""
    line = next(iter(words.strip().splitlines()), b"")
    said = f": it says {quoted(line, _GREETING_TEXT)}" if line else ""
    return SshError(
        Reason.NOT_SSH,
        "not an SSH server",
        worker=worker,
        why=f"what listens on {login.host}:{login.port} does not speak SSH{said}",
        remedy="check the port: another program has it, or a proxy or VPN answers in the worker's place",
    )


def silent(worker: int | str | None, login: Login, seconds: float) -> SshError:
    """Something took the connection, and never said who it is."""
    return SshError(
        Reason.NOT_SSH,
        "no SSH server answers",
        worker=worker,
        why=f"{login.host}:{login.port} takes the connection and says nothing within {seconds:g} s",
        remedy="a worker that hangs does so: see its serial console, or stop and start it; else check the port",
    )


def closed_early(worker: int | str | None, login: Login) -> SshError:
    """The server hung up before it said who it is."""
    return SshError(
        Reason.CLOSED_EARLY,
        "it closed the connection before the login",
        worker=worker,
        why=f"{login.host}:{login.port} hung up at once, as sshd does beyond MaxStartups or while it boots",
        remedy="try again in a moment; fewer logins at once (handshakes) or a higher MaxStartups help",
    )


def denied(
    worker: int | str | None, login: Login, tried: int, locked: list[str], slice_: str | None = None, words: str = ""
) -> SshError:
    """The server knows none of our keys."""
    keys = f"none of {tried} keys was accepted" if tried else "we have no key to offer"
    said = f" ({quoted(words)})" if words else ""
    opened = f"ssh-add {locked[0]} (it is encrypted); else " if locked else ""
    name = slice_ or "SLICE"
    own = "" if slice_ else f" (`ssh-copy-id {one_line(login.user)}@{login.host}` for a machine of your own)"
    return SshError(
        Reason.DENIED,
        "permission denied",
        worker=worker,
        why=f"{keys} for {one_line(login.user)}@{login.host}{said}",
        remedy=f"{opened}`tpu-tui keys add {name}`, or once `gcloud compute tpus tpu-vm ssh {name}`{own}; "
        "else check `--user` and `--identity`, and `ssh-add -l` for keys of an agent; an account that is locked or "
        "not allowed to log in looks the same from here: sshd's log there tells (journalctl -u ssh)",
    )


def unsigned(worker: int | str | None, login: Login) -> SshError:
    """A key was welcome, and what holds it did not sign."""
    return SshError(
        Reason.DENIED,
        "permission denied",
        worker=worker,
        why=f"{one_line(login.user)}@{login.host} takes a key, but the agent or device that holds it did not sign",
        remedy="confirm when it asks (a touch, a PIN, `ssh-add -c`), unlock it (`ssh-add -X`), or `--identity FILE`",
    )


def more_than_a_key(worker: int | str | None, login: Login, wanted: Sequence[str], words: str = "") -> SshError:
    """The server lets nobody in with a key alone; `words` are its own."""
    said = f": {quoted(words)}" if words else ""
    asks = "keyboard-interactive" in wanted
    todo = "run it in a terminal, where its question can be answered; or " if asks else ""
    return SshError(
        Reason.DENIED,
        "permission denied",
        worker=worker,
        why=f"{one_line(login.user)}@{login.host} wants {' or '.join(wanted)} beside or instead of a key{said}",
        remedy=f"{todo}let a key do there: `AuthenticationMethods publickey` in its sshd_config",
    )


def cut_in_key_exchange(worker: int | str | None, login: Login) -> SshError:
    """The server greeted us and hung up before anything was encrypted."""
    return SshError(
        Reason.LOST,
        "it hung up in the middle of the key exchange",
        worker=worker,
        why=f"{login.host}:{login.port} broke down, or has no algorithm in common with us",
        remedy="try again; if it stays like that, its own log or `ssh -v` tells more",
    )


def cut_in_login(worker: int | str | None, login: Login, words: str) -> SshError:
    """The server hung up when it knew who we are; `words` are its own, none where it broke off without any."""
    said = f": {quoted(words)}" if words else ""
    return SshError(
        Reason.LOST,
        "it hung up in the middle of the login",
        worker=worker,
        why=f"{login.host}:{login.port} broke off when {one_line(login.user)} logged in{said}",
        remedy="try again; if it stays like that, the account there may be expired, locked or not allowed to log in: "
        "sshd's log tells (journalctl -u ssh)",
    )


def login_timed_out(worker: int | str | None, login: Login, seconds: float) -> SshError:
    """The server answered and then did not finish the login."""
    return SshError(
        Reason.LOGIN_TIMED_OUT,
        "the login did not finish",
        worker=worker,
        why=f"{login.host}:{login.port} answered and was silent for {seconds:g} s",
        remedy="the worker may be out of memory or its disk stuck: see its serial console, or restart it",
    )


def no_login_within(worker: int | str | None, seconds: float) -> SshError:
    """The time that somebody gave it was over before it had let us in."""
    return SshError(
        Reason.TIMED_OUT,
        "no answer",
        worker=worker,
        why=f"no login within {seconds:g} s",
        remedy="see whether its sshd answers at all: nc -vz, or the worker's serial console",
    )


def no_jump_within(worker: int | str | None, seconds: float, jump: str) -> SshError:
    """The same, spent in front of the jump host."""
    return SshError(
        Reason.TIMED_OUT,
        "no answer",
        worker=worker,
        why=f"the jump host {jump} did not let us through within {seconds:g} s",
        remedy="see whether the jump host answers at all: ssh to it, or its serial console",
    )


def no_session_within(worker: int | str | None, seconds: float) -> SshError:
    """The connection stands, and the server does not say whether it opens a session."""
    error = SshError(
        Reason.TIMED_OUT,
        "no answer",
        worker=worker,
        why=f"it began no command within {round(seconds, 1):g} s",
        remedy="the worker may be out of memory or its disk stuck: see its serial console, or restart it",
    )
    error.started = True
    return error


def no_algorithms(worker: int | str | None, login: Login, words: str) -> SshError:
    """Nothing in common to encrypt with."""
    return SshError(
        Reason.ALGORITHMS,
        "no algorithm in common",
        worker=worker,
        why=f"{login.host}:{login.port}: {quoted(words)}",
        remedy="its SSH server is very old or very restricted: update it",
    )


def too_many_sessions(worker: int | str | None, words: str) -> SshError:
    """The server opens no session although none of ours is open."""
    return SshError(
        Reason.SESSIONS,
        "it opens no session",
        worker=worker,
        why=quoted(words),
        remedy="raise MaxSessions in its sshd_config, and see its log",
    )


def taken(worker: int | str | None) -> SshError:
    """The one session that the server gives a connection is open: another connection, or its end, is needed."""
    return SshError(Reason.TAKEN, "its one session is taken", worker=worker, why="MaxSessions is 1")


def lost(worker: int | str | None, words: str, *, started: bool = True) -> SshError:
    """The connection broke off; `started` False when the command surely never began."""
    error = SshError(
        Reason.LOST,
        "the connection was lost",
        worker=worker,
        why=quoted(words) or "it was closed",
        remedy="check the network; a worker that was preempted shows in `tpu-tui slices`",
    )
    error.started = started
    return error


def flooded(worker: int | str | None, limit: int) -> SshError:
    """A command wrote more than is kept in memory."""
    return SshError(
        Reason.OTHER,
        "the command writes too much",
        worker=worker,
        why=f"more than {limit >> 20} MiB of output",
        remedy="redirect its output to a file on the worker, or launch it as a run",
    )
