"""Lines of the shapes that logs consist of, and logs generated from them."""

from __future__ import annotations

import functools
import itertools
import random
from pathlib import Path

from hypothesis import strategies as st

from tui.logs.core_row import CoreRow
from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot

SAMPLE_LOG = Path(__file__).parent / "data" / "xla_dist_sample.log"


class LineByLineDemux(Demux):
    """Reads every line alone: the reference for the reading of blocks."""

    @property
    def reads_blocks(self) -> bool:
        return False


DEMUXES = {True: Demux, False: LineByLineDemux}
"""The demultiplexer by whether it may read blocks of lines together."""


def read_lines(*lines: str | bytes, worker: int | None = None, fast: bool = True) -> Demux:
    """Return a demultiplexer that has read these lines to their end."""
    demux = DEMUXES[fast]()
    demux.feed(worker, b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines))
    demux.finish()
    return demux


def snapshot_of(*lines: str | bytes, worker: int | None = None) -> Snapshot:
    """Return what these lines say."""
    return read_lines(*lines, worker=worker).snapshot()


def only(*lines: str | bytes) -> CoreRow:
    """Return the only core of these lines."""
    (row,) = snapshot_of(*lines).rows()
    return row


def training(
    core: int = 0,
    step: int = 0,
    loss: str = "6.87500",
    *,
    epoch: int | None = 1,
    device: int = 0,
    rate: str = "258.47",
    global_rate: str = "250.00",
    clock: str = "02:38:57",
) -> str:
    """Return a line as PyTorch/XLA's test utilities print it."""
    of_epoch = "" if epoch is None else f" Epoch={epoch}"
    return (
        f"| Training Device=xla:{device}/{core}{of_epoch} Step={step} Loss={loss} Rate={rate}"
        f" GlobalRate={global_rate} Time={clock}"
    )


NUMBERS = st.one_of(
    st.sampled_from(["nan", "inf", "-inf", "0.00000", "-0.12500", "1e-05", "12", "123456.78901", "7.5", "99.99999"]),
    st.floats(0, 99, allow_nan=False).map(lambda value: f"{value:.5f}"),
)
RATES = st.one_of(st.sampled_from(["nan", "0.00", "1234567.89", "99999.99"]), st.floats(0, 9e4).map("{:.2f}".format))
CLOCKS = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59)).map(
    lambda t: "{:02d}:{:02d}:{:02d}".format(*t)
)

TRAINING_LINES = st.builds(
    training,
    core=st.one_of(st.integers(0, 40), st.sampled_from([511, 999, 16383, 65535, 123456])),
    step=st.one_of(st.integers(0, 99), st.sampled_from([620, 99999999, 100000000])),
    loss=NUMBERS,
    epoch=st.one_of(st.none(), st.integers(0, 12)),
    device=st.one_of(st.integers(0, 1), st.just(11)),
    rate=RATES,
    global_rate=RATES,
    clock=CLOCKS,
).map(str.encode)

OTHER_LINES = st.sampled_from(
    [
        b"==> Preparing data..",
        b"Epoch 1 train begin 18:01:42",
        b"Epoch 1 train end 18:02:10, Epoch Time=0:00:28, Replica Train Samples=39664, Reduced GlobalRate=45676.50",
        b"Epoch 1 test end 18:02:14, Reduced Accuracy=36.84%, Replica Accuracy=36.10%, Replica Test Samples=1563",
        b"Finished training epoch 1",
        b"Max Accuracy: 36.84%",
        b"| Test Device=xla:0/1 Step=20 Epoch=1 Accuracy=71.20 Time=22:03:40",
        b"[xla:1/0](20) Loss=0.03076 Rate=51.78 GlobalRate=50.18 Time=Wed Dec  4 01:41:29 2019",
        b"[xla:5](100) Loss=2.92953 Rate=0.86 GlobalRate=0.72 Time=Sat Jul 25 15:44:27 2020",
        b"completed step: 500, seconds: 15.688, TFLOP/s/device: 1.367, Tokens/s/device: 261.087, loss: 0.624",
        b"  % Total    % Received\r100    19\r",
        b"\x1b[31mstep:  2  \x1b[32mloss: 14.4458\x1b[0m",
        b"|| Training Device=xla:0/3 Epoch=1 Step=0 Loss=6.89059",
        b" Training Device=xla:0/4 Epoch=1 Step=0 Loss=6.89059 Rate=1.00 GlobalRate=1.00 Time=10:00:00",
        b"[20] | Training Device",
        b"=======",
        b"",
        b"\x00\x00\xff\xfe",
    ]
)
PREFIXES = st.sampled_from(
    [
        b"",
        b"",
        b"2020-08-06 02:38:57 10.164.0.43 [0] ",
        b"2020-08-06 02:38:57 10.164.0.109 [1] ",
        b"2020-08-06 02:39:57 10.164.0.109 [1] ",
        b"2020-13-06 02:39:57 10.164.0.109 [1] ",
        b"10.164.0.46 [2] ",
        b"[3] ",
        b"2020-08-06 02:38:29  [] ",
        b"x",
        b"(worker1, rank=1, pid=15406, ip=10.164.0.57) ",
        b"\x1b[36m(RayTrainWorker pid=122107)\x1b[0m ",
        b"actor-worker-0: ",
        b" 3: ",
        b"[1,2]<stdout>:",
        b"2020-08-06 02:38:57 1.2.3.4 [12345] ",
        b"2020-08-06 02:38:57 100.200.100.200 [12345] ",
    ]
)
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\n", b"\r\n", b"\r", b"", b" "])

LOGS = st.lists(
    st.one_of(
        st.tuples(PREFIXES, TRAINING_LINES, st.just(b"\n")).map(b"".join),
        st.tuples(PREFIXES, TRAINING_LINES, ENDS).map(b"".join),
        st.tuples(PREFIXES, OTHER_LINES, ENDS).map(b"".join),
        st.binary(max_size=40),
    ),
    max_size=60,
).map(b"".join)
"""Any mixture of training lines, other lines and noise, with any prefixes and line ends."""


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return the bytes in chunks, cut at the given places."""
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


@functools.lru_cache(maxsize=4)
def generated_log(
    lines: int, cores: int, *, workers: int = 4, junk: float = 0.05, seed: int = 1, prefix: bool = True
) -> bytes:
    """Return a run's log as xla_dist writes it; `junk` is the share of other lines."""
    rng = random.Random(seed)
    out: list[str] = []
    step = 0
    while len(out) < lines:
        for core in rng.sample(range(cores), cores):
            worker = core * workers // cores
            before = (
                f"2020-08-06 02:{step // 60 % 60:02d}:{step % 60:02d} 10.164.0.{worker + 40} [{worker}] "
                if prefix
                else ""
            )
            if rng.random() < junk:
                out.append(
                    before
                    + rng.choice(
                        ["==> Preparing data..", "Traceback (most recent call last):", "a=1 b=2", "100 19 \r100 20"]
                    )
                )
            loss = f"{rng.uniform(0, 9):.5f}"
            rate, both = f"{rng.uniform(20, 300):.2f}", f"{rng.uniform(20, 300):.2f}"
            clock = f"02:{step // 60 % 60:02d}:{step % 60:02d}"
            out.append(
                before
                + training(
                    core, step * 10 % 620, loss, epoch=1 + step * 10 // 620, rate=rate, global_rate=both, clock=clock
                )
            )
        step += 1
    return ("\n".join(out[:lines]) + "\n").encode()
