"""What other tools put before the lines they pass on: which worker, or which host, said it."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

_SURE = re.compile(
    # SkyPilot: (head, rank=0, pid=17894) and (worker1, rank=1, pid=15406, ip=10.0.0.2).
    rb"\((?:head|worker\d{1,5}), rank=(?P<sky>\d{1,5}), pid=\d{1,9}(?:, ip=(?P<sky_ip>[\d.]{7,15}))?\) ?"
    # SkyPilot's jobs and Ray's actors: (train pid=20809, ip=10.0.0.2), (RayTrainWorker(rank=3) pid=7).
    rb"|\([\w.:/-]{1,100}(?:\((?:rank=(?P<ray>\d{1,5}))?[^()\n]{0,60}\))? pid=\d{1,9}"
    rb"(?:, ip=(?P<ray_ip>[\d.]{7,15}))?\) ?"
    # Open MPI, mpirun --tag-output: [1,0]<stdout>:
    rb"|\[(?:[\w.-]{1,100}@)?\d{1,9},(?P<mpi>\d{1,5})\]<std(?:out|err|diag)>: ?\t?"
    # torch.distributed's own and torchrun --tee: [rank0]: and [default0]:
    rb"|\[rank(?P<torch>\d{1,5})\]: ?|\[default\d{1,5}\]: ?"
    # parallel-ssh: [10.0.0.2] and a tab or blank; kubectl logs --prefix: [pod/name/container]
    rb"|\[(?P<pssh>[\w.-]{0,100}\d[\w.-]{0,100})\]\t|\[pod/(?P<pod>[\w.-]{1,100})/[\w.-]{1,100}\] ?"
)
"""Forms that nothing else looks like. Sources: the public documentation of each tool."""

_LABEL = re.compile(rb"(?: {0,5}(?P<task>\d{1,5})|(?P<host>[\w-][\w.-]{0,100})): ?")
"""`srun --label` (the task's number) and pdsh, clush, pssh -P (a host): any text may look like that."""

LABELLED_SAMPLE = re.compile(
    rb"(?:" + _LABEL.pattern + rb")\|{0,2} ?"
    rb"(?:(?:Training|Test) Device=xla:|\[xla:\d|completed step: \d|\{'loss': )"
)
"""A label right before a sample: such labels are to be believed from there on."""

_NUMBERS = ("sky", "ray", "mpi", "torch")
_HOSTS = ("sky_ip", "ray_ip", "pssh", "pod")


@dataclass(frozen=True, slots=True)
class Carrier:
    """What a line's label told; both None where it only says that there is one. `length` in bytes."""

    number: int | None
    """A rank, or a task's number."""
    address: str | None
    """An address, or a host's name."""
    length: int


def read_carrier(line: bytes, labels: Container[bytes] = ()) -> Carrier | None:
    """The label at a line's beginning; `labels` are the hosts and tasks that have stood before samples."""
    match = _SURE.match(line)
    if match is not None:
        number = next((int(match[name]) for name in _NUMBERS if match[name] is not None), None)
        address = next((match[name].decode() for name in _HOSTS if match[name] is not None), None)
        return Carrier(number, address, match.end())
    match = _LABEL.match(line)
    if match is None:
        return None
    label = match["host"] if match["task"] is None else match["task"]
    if label not in labels and LABELLED_SAMPLE.match(line) is None:
        return None
    if match["task"] is not None:
        return Carrier(int(match["task"]), None, match.end())
    return Carrier(None, match["host"].decode("ascii", "replace"), match.end())


def label_of(line: bytes) -> bytes | None:
    """The host or task that a labelled sample teaches."""
    if LABELLED_SAMPLE.match(line) is None:
        return None
    match = _LABEL.match(line)
    return None if match is None else match["host"] if match["task"] is None else match["task"]
