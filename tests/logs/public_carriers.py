# ruff: noqa: E501 - lines of logs have their original length
"""More prefixes that tools add to the lines they forward, each rewritten with other values."""

from __future__ import annotations

from tests.logs.public_shapes import ESC, Shape, shape

_TRAINING = "| Training Device=xla:0/{} Epoch=1 Step=20 Loss=2.50000 Rate=10.00 GlobalRate=9.00 Time=10:00:00"


def _cores(*rows: tuple[int, int | None]) -> list[tuple[object, ...]]:
    return [(core, worker, 1, 20, 2.5, 10.0) for core, worker in rows]


CARRIERS: list[Shape] = [
    shape(
        "journalctl",
        "Nov 22 02:06:03 t1v-n-1-w-0 systemd[1]: Started Training.",
        "Nov 22 02:06:04 t1v-n-1-w-0 python3[1234]: " + _TRAINING.format(0),
        "Nov 22 02:06:04 t1v-n-1-w-1 python3[987]: " + _TRAINING.format(1),
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "journalctl -o short-iso around Hugging Face",
        "2024-05-01T12:00:00+0000 t1v-n-1-w-0 train.sh[12]: {'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 1.0}",
        "2024-05-01T12:00:00+0000 t1v-n-1-w-1 train.sh[15]: {'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 1.0}",
        rows=[(None, 0, 1, None, 1.5, None), (None, 1, 1, None, 2.5, None)],
    ),
    shape(
        "stern: a pod and its container",
        "train-slice-0-1-x7k jax-tpu " + _TRAINING.format(1),
        f"{ESC}[32mtrain-slice-0-0-abc {ESC}[0m{ESC}[32mjax-tpu{ESC}[0m " + _TRAINING.format(0),
        rows=_cores((0, 1), (1, 0)),
    ),
    shape(
        "GoogleCloudPlatform/vertex-ai-samples#242: gcloud ai custom-jobs stream-logs",
        "INFO    2022-01-26 14:19:41 +1100       workerpool0-0   " + _TRAINING.format(0),
        "ERROR   2022-01-26 14:19:42 +1100       workerpool1-2   " + _TRAINING.format(1),
        "ERROR   2022-01-26 14:19:43 +1100       workerpool0-0    31%|███       | 5974/19120 [31:21<59:25,  3.69it/s]",
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "docker service logs",
        "trainer.1.x8k2m1p0q@node1    | " + _TRAINING.format(0),
        "trainer.2.a1b2c3d4e@node2    | " + _TRAINING.format(1),
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "docker logs --timestamps, kubectl logs --timestamps: dates before another tool's labels",
        "2024-05-01T12:00:00.123456789Z [rank3]: " + _TRAINING.format(3),
        "2024-05-01T12:00:00.123456789Z (RayTrainWorker pid=354, ip=10.72.1.31) " + _TRAINING.format(4),
        rows=_cores((3, 3), (4, 0)),
    ),
    shape(
        "containerd's files",
        "2024-05-01T12:00:00.123456789Z stdout F " + _TRAINING.format(0),
        "2024-05-01T12:00:01.123456789Z stderr F ==> Preparing data..",
        rows=_cores((0, None)),
    ),
    shape(
        "GNU parallel --tag",
        "tpu-w-0\t" + _TRAINING.format(0),
        "tpu-w-1\t" + _TRAINING.format(1),
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "grep over a directory of logs",
        "logs/worker-0.log:" + _TRAINING.format(0),
        "logs/worker-1.log:" + _TRAINING.format(8),
        rows=_cores((0, 0), (8, 1)),
    ),
    shape(
        "tmux pipe-pane and script(1): what a terminal saw",
        f"{ESC}[?2004h{ESC}]0;user@t1v-n-1-w-0: ~\x07{ESC}[01;32muser@t1v-n-1-w-0{ESC}[00m:~$ python train.py\r",
        f"{ESC}[?2004l\r{_TRAINING.format(0)}\r",
        f"{_TRAINING.format(1)}\r",
        rows=_cores((0, None), (1, None)),
    ),
    shape(
        "gcloud compute tpus tpu-vm ssh --worker=all: no worker is named",
        "SSH: Attempting to connect to worker 0...",
        "SSH: Attempting to connect to worker 1...",
        _TRAINING.format(0),
        _TRAINING.format(4),
        "##### Command execution on worker 1 failed with exit status 1. Continuing.",
        rows=_cores((0, None), (4, None)),
    ),
    shape(
        "slurm around MaxText, the task padded",
        "00: completed step: 5, seconds: 1.0, TFLOP/s/device: 1.0, loss: 4.5",
        "11: completed step: 6, seconds: 1.0, TFLOP/s/device: 1.0, loss: 3.5",
        rows=[(None, 0, None, 5, 4.5, None), (None, 11, None, 6, 3.5, None)],
    ),
    shape(
        "pdsh around the trainers of language models",
        "w0: iter 10: loss 4.0, time 561.94ms, mfu 12.00%",
        "w1: I1002 21:38:13.425730 139 logging_writer.py:35] [400] train_accuracy=0.372, train_loss=3.25",
        "w2: step 00250/05568 (4.49%) | loss: 4.5 | lrm: 1.00 | dt: 779.27ms | tok/sec: 448 | mfu: 42.57",
        rows=[
            (None, 0, None, 10, 4.0, None),
            (None, 1, None, 400, 3.25, None),
            (None, 2, None, 250, 4.5, 448.0),
        ],
    ),
    shape(
        "Cloud Logging with the message in a payload of its own",
        '{"insertId":"a1","jsonPayload":{"message":"' + _TRAINING.format(0) + '"},"resource":{"labels":{"pod_name":"train-0"}}}',
        '{"insertId":"a2","jsonPayload":{"message":"' + _TRAINING.format(1) + '"},"resource":{"labels":{"pod_name":"train-1"}}}',
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "DeepSpeed's launcher over pdsh",
        "worker-0: [2022-03-11 02:06:58,985] [INFO] [logging.py:69:log_dist] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]",
        "worker-0: steps: 10 loss: 2.5000 iter time (s): 0.512 samples/sec: 31.250",
        "worker-1: steps: 10 loss: 3.5000 iter time (s): 0.512 samples/sec: 31.250",
        rows=[(None, 0, None, 10, 2.5, 31.25), (None, 1, None, 10, 3.5, 31.25)],
    ),
]  # fmt: skip
"""Samples with the prefixes that other tools add."""

MORE_SECTIONS: list[Shape] = [
    shape(
        "tail -F of several logs: a file occurs again",
        "==> logs/worker-0.log <==",
        _TRAINING.format(0),
        "",
        "==> logs/worker-1.log <==",
        _TRAINING.format(8),
        "",
        "==> logs/worker-0.log <==",
        "==> Preparing data..",
        _TRAINING.format(1),
        rows=_cores((0, 0), (1, 0), (8, 1)),
    ),
    shape(
        "ansible: a command's output on every host",
        "10.0.0.2 | CHANGED | rc=0 >>",
        _TRAINING.format(0),
        "done",
        "tpu-w-1 | FAILED | rc=1 >>",
        _TRAINING.format(8),
        "Traceback (most recent call last):non-zero return code",
        rows=_cores((0, 0), (8, 1)),
    ),
]
"""The whole outputs of hosts one after another, each below a header: only at the beginning of a log."""
