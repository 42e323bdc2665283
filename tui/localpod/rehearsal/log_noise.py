"""Other contents of real logs: progress meters, colours, binary data, lines of a megabyte, markup."""

from __future__ import annotations

import random

MEGABYTE = 1 << 20


def _curl(random_: random.Random) -> bytes:
    rows = [b"  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n"]
    shares = range(0, 101, random_.choice((10, 20, 25)))
    times = b"0:01:15 --:--:--  0:01:15 2211k"
    rows += [b"\r%3d  162M  %3d %4dk    0     0  2211k      0  %s" % (share, share, share, times) for share in shares]
    return b"".join(rows) + b"\n"


def _bytes(random_: random.Random) -> bytes:
    return random_.randbytes(200).replace(b"\n", b"\0") + b"\xff\xfe\0\n"


def _long_line(random_: random.Random) -> bytes:
    return bytes([random_.randrange(97, 123)]) * MEGABYTE + b"\n"


_FIXED = (
    b"\x1b]0;this is not your title\x07\x1b[2J\x1b[31;1mred\x1b[0m \x1b[?1049h\n",
    b"[/usr/lib] [bold red]not markup[/] [link=file:///etc/passwd]nor this[/link] [@click=app.quit]nor this\n",
    b"  Rate: 0.0417158 / second\n    Accumulator: nanB\n  Counter: CachedCompile\n",
    b"| Training Device=xla:0/3 Epoch=1 Step=680 Loss=0.001\n",
    b"2020-08-06 02:38:29  [] Cluster configuration: {client_workers: [{10.164.0.43, n1-standard-96}]}\n",
    b'print0(f"step:{step+1}/{args.num_iterations} loss={loss:.4f}")\n',
    b"wandb:      Training/loss_tot 2.40747\n",
    "\u202eright to left\u202c \u2028 \u200f\n".encode(),
)


def noise(random_: random.Random) -> bytes:
    """Return one piece of noise, in whole lines."""
    make = random_.choice((_curl, _bytes, _long_line, None, None, None))
    return make(random_) if make is not None else random_.choice(_FIXED)
