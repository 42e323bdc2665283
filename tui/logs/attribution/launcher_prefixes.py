"""Read the prefixes that launchers put before the lines of a job, and the worker or host that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import NamedTuple

_ISO = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"

_SURE = re.compile(
    # SkyPilot: (head, rank=0, pid=17894), (worker1, rank=1, pid=15406, ip=10.0.0.2), with the task's name before.
    rb"\((?:[\w.-]{1,100}, )?(?:head|worker\d{1,5}), rank=(?P<sky>\d{1,5}), pid=\d{1,9}"
    rb"(?:, ip=(?P<sky_ip>[\d.]{7,15}))?\) ?"
    # SkyPilot's jobs and Ray's actors: (train pid=20809, ip=10.0.0.2), (RayTrainWorker(rank=3) pid=7), (pid=7).
    rb"|\((?:[\w.:/-]{1,100}(?:\((?:rank=(?P<ray>\d{1,5}))?[^()\n]{0,60}\))?,? )?pid=\d{1,9}"
    rb"(?:, ip=(?P<ray_ip>[\d.]{7,15}))?\) ?"
    # Open MPI, mpirun --tag-output: [1,0]<stdout>:, its newer detailed form, and horovodrun over Gloo: [0]<stdout>:
    rb"|\[(?:[\w.-]{1,100}@)?(?:\d{1,9},)?(?P<mpi>\d{1,5})\](?:\[[\w.-]{1,100}:\d{1,9}\])?<std(?:out|err|diag)>: ?\t?"
    # torch.distributed's own and torchrun --tee: [rank0]: and [default0]:; torchx names the role and the replica.
    rb"|\[rank(?P<torch>\d{1,5})\]: ?|\[[a-z][a-z_-]{0,60}\d{1,5}(?:\|\d{1,5})?\]: ?"
    # parallel-ssh: [10.0.0.2] and a tab; kubectl logs --prefix: [pod/name/container]
    rb"|\[(?P<pssh>(?=[^\]\n]{0,100}[A-Za-z.])[\w.-]{0,100}\d[\w.-]{0,100})\]\t"
    rb"|\[pod/(?P<pod>[\w.-]{1,100})/[\w.-]{1,100}\] ?"
    # Lightning Fabric's own: [rank: 3]
    rb"|\[rank: {1,3}(?P<fabric>\d{1,5})\] "
    # journalctl: a date without a year or one of ISO 8601, the host, the program and its number.
    rb"|(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|" + _ISO + rb"[+-]\d\d:?\d\d)"
    rb" (?P<journal>[\w.-]{1,100}) [\w./@-]{1,100}\[\d{1,9}\]: "
    # gcloud ai custom-jobs stream-logs: a level, a date, the pool and the replica.
    rb"|[A-Z]{4,8} {1,5}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} {1,12}(?P<vertex>[a-z]{1,40}\d{0,5}-\d{1,5}) {1,12}"
    # Dates that docker, kubectl and containerd put before everything else; those of others, before another's label.
    rb"|" + _ISO + rb"Z:?[ \t](?:std(?:out|err) [FP] )?"
    rb"|(?:(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} {1,2}\d{1,2}(?:, \d{4},)?|\d{4}-\d\d-\d\d) \d\d:\d\d:\d\d"
    rb"(?:(?:[.,]\d{1,9})?:? (?:running: )?| \d{4})"
    rb"(?=\[(?:\d{1,9},)?\d{1,5}\]<std|\[(?:rank|default)\d{1,5}\]: ?|\([\w.:/-]{0,100} ?pid=\d)"
)
"""Unambiguous forms. Sources: the public documentation of each tool."""

_JSON = re.compile(rb'(?:\{(?=")[^\n]{0,4000}?|\s{2,16})"(?:(?P<plain>textPayload)|message|(?P<docker>log))": ?"')
"""An entry of Cloud Logging, of GKE's agents or of docker up to its text; an export may spread it over lines."""

_JSON_STRING = re.compile(rb'(?:[^"\\\n]|\\[^\n])*')
_JSON_POD = re.compile(rb'"(?:pod_name|k8s_pod_name|hostname|node_id)": ?"(?P<pod>[\w.-]{1,100})"')
_JSON_WORKER = re.compile(rb'"worker_id": ?"(?P<worker>\d{1,5})"')
"""The number of a TPU VM within its node in Cloud Logging; the VMs share the node's name."""

_HAS_DIGITS = re.compile(rb"\d")

_LABEL = re.compile(
    # `srun --label` (the task's number); pdsh, clush, pssh -P (a host), grep (a file): any text may look like that.
    rb"(?: {0,5}(?P<task>\d{1,5})|(?P<host>[\w/-][\w./-]{0,200})): ?"
    # docker compose: a service, blanks up to a column, a bar; parallel-ssh with blanks; Open MPI without a stream.
    rb"|(?P<service>[\w-][\w.@-]{0,100}) {2,40}\| "
    # stern: a pod and its container; GNU parallel: a tag and a tab.
    rb"|(?P<stern>[a-z0-9]{1,60}(?:-[a-z0-9]{1,60}){1,12}) [a-z0-9-]{1,60} "
    rb"|(?P<tag>(?=[^\t\n]{0,100}\d)[\w-][\w.-]{0,100})\t"
    rb"|\[(?P<blank>(?=[^\]\n]{0,100}[a-z.])[\w.-]{0,100}\d[\w.-]{0,100})\] {1,2}|\[\d{1,9},(?P<rank>\d{1,5})\]:? ?"
)
"""Labels that are trusted only after they have been seen right before a sample."""

_LOG_HEAD = (
    rb"(?:[IWE]\d{4} \d\d:\d\d:\d\d\.\d{1,6}[^\n\]]{0,120}\] |\[?[\w-]{0,40}\]? ?\d{4}-\d\d-\d\d[^\n|{]{0,160}?)?"
)
"""What a logger prints before its message: absl's letter and date, or a name and a date."""

_SAMPLE = (
    rb"(?:\|{0,2} ?(?:Training|Test) Device=(?:xla|TPU):|\[(?:xla|TPU):\d"
    rb"|(?:epoch: \d{1,9}, )?step: \d{1,12}, loss: |"
    + _LOG_HEAD + rb"(?:completed step: \d|step: {0,12}\d{1,12} {1,4}loss: |\{['\"]loss['\"]: |Progress on:train"
    rb"|\| epoch \d|iter \d|steps?:? ?\d|Step[:=]? {0,8}\d|Step\.\.\. \(|\[\d{1,12}\] [\w/]{1,60} ?= ?|Iter \d"
    rb"|(?:Train )?Epoch: {0,2}\[?\d|Train: \[|Training +\[|eta: |Epoch(?:\(train\))? {1,4}\[\d|Iter\(train\) "
    rb"|epoch[:=] ?\[?\d"
    # What people print themselves.
    rb"|(?:[^\w\s\[\]|]{1,4} )?(?:\[[A-Za-z][^\]\n]{0,24}\] )?\[{0,2}(?:[Tt]rain(?:ing)? )?(?:[Gg]lobal[_ ])?"
    rb"(?:[Ee]poch|EPOCH|[Ss]tep|[Ii]ter(?:ation)?|[Bb]atch)[^\w\n]{1,8}"
    rb"\d[^\n]{0,160}?(?<![A-Za-z])(?:train_|avg_)?[Ll]oss[ :=]{1,4}[-\dn]"
    rb")| ?(?:\[\d{4}[^\]\n]{0,40}\] )? ?iteration {1,12}\d{1,12}/"
    rb"|\d{1,12}/(?:\d{1,12}|Unknown) (?:\[[=>.]|\xe2\x94)|Epoch \d{1,9}: {0,4}\d{0,3}%)"
)  # fmt: skip
"""How the samples of each trainer begin."""

_INNER = rb"(?:\[[a-z][a-z_-]{0,60}\d{1,5}(?:\|\d{1,5})?\]: ?){0,2}"
"""Labels of torchrun and of torch.distributed between another tool's and a sample."""

LABELLED_SAMPLE = re.compile(
    rb"(?!(?:\d{6,20}|(?i:steps?|train\w*|epoch|loss|config\w*|args|settings)|INFO|DEBUG|WARNING|ERROR|root"
    rb"|wandb): ?)"
    rb"(?!\[?(?i:phase|stage|ep(?:och)?|step|iter|batch|exp(?:eriment)?|run|fold|trial|task|job|model|seed|part|round|v)"
    rb"[_-]?\d{1,5}(?:-[A-Za-z]{1,20})?[\]:\t])"
    rb"(?!\d{4}-\d\d-\d\d|(?i:train(?:ing)?|(?:val|eval|test|best|dev)[a-z]{0,8})(?:: ?| {1,40}\| ))(?:"
    + _LABEL.pattern + rb")" + _INNER + _SAMPLE
)  # fmt: skip
"""A label right before a sample: from then on this label is trusted."""

_NUMBERS = ("sky", "ray", "mpi", "torch", "fabric")
_HOSTS = ("sky_ip", "ray_ip", "pssh", "pod", "journal", "vertex")
_LABELS = ("task", "host", "service", "stern", "tag", "blank", "rank")

_MOST_NESTED = 3
"""Most labels before one line: SkyPilot's, torchrun's and Python's."""


class LauncherPrefix(NamedTuple):
    """The label before a line; number and address are None where it names neither. `length` in bytes."""

    number: int | None
    """A rank or task number."""
    address: str | None
    """An address or host name."""
    length: int
    message: bytes | None = None
    """The text after the label if it is a JSON string: unescaped, perhaps of several lines."""


def read_launcher_prefix(line: bytes, labels: Container[bytes] = ()) -> LauncherPrefix | None:
    """Return the labels at a line's beginning; `labels` are the hosts and tasks that were seen before samples.

    Launchers nest, and each adds its label: the first label that names a worker decides.
    """
    prefix: LauncherPrefix | None = None
    length = 0
    message: bytes | None = None
    for _ in range(_MOST_NESTED):
        rest = (line[length:] if length else line) if message is None else message
        inner = _one(rest, labels)
        if inner is None:
            break
        if inner.message is not None or message is not None:
            message = rest[inner.length :] if inner.message is None else inner.message
        if prefix is None or message is None:
            length += inner.length
        named = prefix if prefix is not None and (prefix.number is not None or prefix.address is not None) else inner
        prefix = LauncherPrefix(named.number, named.address, length, message)
    return prefix


def _one(line: bytes, labels: Container[bytes]) -> LauncherPrefix | None:
    match = _SURE.match(line)
    if match is not None:
        number = next((int(match[name]) for name in _NUMBERS if match[name] is not None), None)
        address = next((match[name].decode() for name in _HOSTS if match[name] is not None), None)
        return LauncherPrefix(number, address, match.end())
    if line.startswith((b'{"', b"  ")):
        entry = _entry(line)
        if entry is not None:
            return entry
    match = _LABEL.match(line)
    if match is None:
        return None
    label = _label_in(match)
    if label not in labels and LABELLED_SAMPLE.match(line) is None:
        return None
    if match["task"] is not None or match["rank"] is not None:
        return LauncherPrefix(int(label), None, match.end())
    return LauncherPrefix(None, label.decode("ascii", "replace"), match.end())


def _entry(line: bytes) -> LauncherPrefix | None:
    match = _JSON.match(line)
    if match is None:
        return None
    pod, worker = _JSON_POD.search(line), _JSON_WORKER.search(line)
    if pod is None and match["plain"] is None and (match["docker"] is None or b'"stream"' not in line):
        return None
    number = None if worker is None else int(worker["worker"])
    address = None if pod is None else pod["pod"].decode()
    string = _JSON_STRING.match(line, match.end())
    if string is None or not _HAS_DIGITS.search(string[0]):
        # Structured loggers have their figures in other fields.
        return LauncherPrefix(number, address, 0)
    return LauncherPrefix(number, address, match.end(), _unescape(string[0]))


def _unescape(string: bytes) -> bytes:
    if b"\\" not in string:
        return string
    try:
        text = json.loads(b'"' + string + b'"', strict=False)
    except ValueError:
        return string
    return str(text).encode("utf-8", "surrogatepass")


def _label_in(match: re.Match[bytes]) -> bytes:
    return next(match[name] for name in _LABELS if match[name] is not None)


def label_of(line: bytes) -> bytes | None:
    """Return the label of a labelled sample, a host or a task; None for any other line."""
    if LABELLED_SAMPLE.match(line) is None:
        return None
    match = _LABEL.match(line)
    return None if match is None else _label_in(match)
