# ruff: noqa: E501 - lines of logs have their original length
"""Shapes of lines in real logs, each rewritten with other numbers and named after the place where it was seen."""

from __future__ import annotations

from dataclasses import dataclass, field

ESC = "\x1b"


@dataclass(frozen=True)
class Shape:
    """Lines, and the rows of the per-core view that they must yield: core, worker, epoch, step, loss, rate."""

    seen_in: str
    lines: tuple[str, ...]
    rows: tuple[tuple[int | None, int | None, int | None, int | None, float | None, float | None], ...] = field(
        default=()
    )


def shape(seen_in: str, *lines: str, rows: list[tuple[object, ...]]) -> Shape:
    return Shape(seen_in, lines, tuple(rows))  # type: ignore[arg-type]


SAMPLES = [
    shape(
        "pytorch/xla#4324",
        "Epoch 1 train begin 01:02:03",
        "| Training Device=xla:0/6 Epoch=1 Step=740 Loss=0.00152 Rate=561.02 GlobalRate=402.11 Time=01:05:46",
        "| Training Device=xla:1/0 Epoch=1 Step=740 Loss=0.00153 Rate=560.93 GlobalRate=401.07 Time=01:05:46",
        rows=[(0, None, 1, 740, 0.00153, 560.93), (6, None, 1, 740, 0.00152, 561.02)],
    ),
    shape(
        "aws-neuron trn1 logs: Device without an ordinal, fields of its own, Time with a date",
        "  .| Training Device=xla:1 Epoch=2 Step=30 Learning_Rate=1e-05 Loss=0.21094 Throughput=9.1 "
        "Time=2023-10-02 11:22:33.654494",
        rows=[(1, None, 2, 30, 0.21094, None)],
    ),
    shape(
        "PyTorch/XLA before 1.6, through a logger: a blank before the step",
        "2019-12-04 01:41:29 [xla:3] (40) Loss=1.250 Rate=52.25 GlobalRate=49.10 Time=Wed Dec  4 01:41:29 2019",
        rows=[(3, None, None, 40, 1.25, 52.25)],
    ),
    shape(
        "PyTorch/XLA of 2019: no GlobalRate, the device named TPU",
        "[TPU:2](120) Loss=0.50000 Rate=31.50 Time=Mon Jul 15 10:11:12 2019",
        rows=[(2, None, None, 120, 0.5, 31.5)],
    ),
    shape(
        "pytorch/xla examples/train_resnet_base.py",
        "Epoch 1 train begin  7:02PM UTC on Jan 12, 2025",
        "epoch: 1, step: 0, loss: 6.921875, rate: 12.25",
        "epoch: 1, step: 10, loss: 6.8125, rate: 410.0625",
        rows=[(None, None, 1, 10, 6.8125, 410.0625)],
    ),
    shape(
        "AI-Hypercomputer/torchprime",
        "[2025-03-01 10:00:00][root][INFO] - Epoch: 0.0125, step: 50, loss: 8.5125, trace time: 12.50 ms",
        rows=[(None, None, 0, 50, 8.5125, None)],
    ),
    shape(
        "AI-Hypercomputer/maxtext#4847, #2232",
        "I0811 21:54:55.531340 138304841739136 metric_logger.py:226] completed step: 7, seconds: 0.731, "
        "TFLOP/s/device: 88.282, Tokens/s/device: 11629.521, total_weights: 572864, loss: 9.979, lm_loss: 9.879, "
        "perplexity: 33358.281",
        "eval metrics after step: 7, loss=8.125, total_weights=4096",
        rows=[(None, None, None, 7, 9.979, 11629.521)],
    ),
    shape(
        "AI-Hypercomputer/maxtext#4085: slices in between, and Primus#979: other throughputs",
        "completed step: 8, active_slices: 2, seconds: 1.5, TFLOP/s/device: 300.25, Tokens/s/device: 500.5, "
        "Samples/s/device: 0.0854, Frames/s/device: 7.255, loss: 1.5",
        rows=[(None, None, None, 8, 1.5, 500.5)],
    ),
    shape(
        "AI-Hypercomputer/maxtext#8",
        "completed step: 14107, seconds: 2.067, TFLOP/s: 35.722, loss: 2.091",
        rows=[(None, None, None, 14107, 2.091, None)],
    ),
    shape(
        "huggingface/transformers#9613: the step after the epoch, through a logger",
        "[INFO|trainer_tf.py:398] 2021-01-15 10:28:50,371 >> {'loss': 0.71, 'learning_rate': 4.8e-05, "
        "'epoch': 0.08695652173913043, 'step': 10}",
        rows=[(None, None, 0, 10, 0.71, None)],
    ),
    shape(
        "huggingface/trl: more after the epoch, nan for the gradient",
        "{'loss': 1.25, 'grad_norm': nan, 'learning_rate': 2e-05, 'num_tokens': 8192.0, 'epoch': 2.5, "
        "'num_input_tokens_seen': 4096}",
        "{'eval_loss': 1.1, 'eval_runtime': 3.2, 'eval_samples_per_second': 31.2, 'epoch': 2.5}",
        "{'train_runtime': 99.1, 'train_samples_per_second': 1.8, 'train_loss': 1.3, 'epoch': 3.0}",
        rows=[(None, None, 2, None, 1.25, None)],
    ),
    shape(
        "Lightning-AI/pytorch-lightning#3866: Colab's bar has no bar, and two losses",
        "Epoch 3:  90% 1533/1702 [12:41<01:23,  2.01it/s, loss=0.158, v_num=0, train_loss=0.149]",
        "Validating: 0it [00:00, ?it/s]",
        rows=[(None, None, 3, 1533, 0.158, 2.01)],
    ),
    shape(
        "Lightning 2: the loss of a step, and that of the epoch, beside val_loss",
        "Epoch 1: 100%|██████████| 938/938 [00:10<00:00, 88.90it/s, v_num=0, val_loss=0.05, train_loss_step=0.125, "
        "train_loss_epoch=0.25]",
        rows=[(None, None, 1, 938, 0.125, 88.9)],
    ),
    shape(
        "Lightning's RichProgressBar",
        "Epoch 2/9  ━━━━━━━━━━━━━━━━╸━━━━━━━ 120/469 0:00:03 • 0:00:09 38.55it/s v_num: 0.000 train_loss: 0.375",
        rows=[(None, None, 2, 120, 0.375, 38.55)],
    ),
    shape(
        "huggingface/diffusers: a bar without a name, and one with its epoch",
        "  2%|▏         | 11/500 [00:13<09:26,  1.16s/it, lr=1e-5, loss=0.5]",
        rows=[(None, None, None, 11, 0.5, 1 / 1.16)],
    ),
    shape(
        "sgl-project/SpecForge#211: training and evaluation bars",
        "Epoch 4/10:  22%|██▏  | 4/18 [00:17<01:02,  4.47s/it, loss=9.5]",
        "Evaluating:  10%|█   | 2/20 [00:01<00:10,  1.4it/s, loss=3.5]",
        rows=[(None, None, 4, 4, 9.5, 1 / 4.47)],
    ),
    shape(
        "keras-team/keras#8169: after a full bar, another one is an evaluation",
        "Epoch 2/12",
        "60000/60000 [==============================] - 5s 87us/step - loss: 0.3437 - acc: 0.8957 - val_loss: 0.0760",
        "10000/10000 [==============================] - 1s 52us/step - loss: 0.0777 - acc: 0.9757",
        rows=[(None, None, 2, 60000, 0.3437, 1e6 / 87)],
    ),
    shape(
        "keras-team/keras, version 3, in colours and with backspaces",
        "Epoch 5/10",
        f"\b\b\b{ESC}[1m102/469{ESC}[0m {ESC}[32m━━━━{ESC}[0m{ESC}[37m━━━━━━━━━━━━━━━━{ESC}[0m {ESC}[1m3s{ESC}[0m "
        "7ms/step - accuracy: 0.9001 - auc: 0.95 - f1_score: 0.811 - precision: 0.7512 - recall: 0.9123 - loss: 0.251",
        rows=[(None, None, 5, 102, 0.251, 1000 / 7)],
    ),
    shape(
        "Keras with verbose=2: no bar",
        "Epoch 1/2",
        "469/469 - 3s - loss: 0.5553 - accuracy: 0.92 - val_loss: 0.11",
        "Epoch 2/2",
        "469/469 - 3s - 7ms/step - accuracy: 0.95 - loss: 0.2553 - val_accuracy: 0.96 - val_loss: 0.09",
        "79/79 - 0s - loss: 0.1031 - accuracy: 0.9701",
        rows=[(None, None, 2, 469, 0.2553, 1000 / 7)],
    ),
    shape(
        "Keras 2.2 with verbose=2: no step either",
        "Epoch 3/4",
        " - 3s - loss: 0.4375 - acc: 0.9200 - val_loss: 0.1100",
        rows=[(None, None, 3, None, 0.4375, None)],
    ),
    shape(
        "GoogleCloudPlatform/training-data-analyst#678: the next epoch glued to a bar",
        "Epoch 1/15",
        "26112/26152 [============================>.] - ETA: 0s - loss: 0.2101 - val_loss: 0.1160Epoch 2/15",
        "  128/26152 [..............................] - ETA: 9s - loss: 0.1875",
        rows=[(None, None, 2, 128, 0.1875, None)],
    ),
    shape(
        "pytorch/torchtitan#2389, #1395: a line of validation",
        f"[titan] 2026-02-24 19:46:17,508 - root - INFO - {ESC}[31mstep:  4  {ESC}[32mloss:  7.62585  "
        "grad_norm: 26.6250  memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%",
        f"[titan] 2026-02-24 19:46:19,508 - root - INFO - {ESC}[33mvalidate step:  5  {ESC}[32mloss:  8.5  "
        "memory:  9.46GiB(64.99%)  tps: 99",
        rows=[(None, None, None, 4, 7.62585, 10050.0)],
    ),
    shape(
        "pytorch/torchtitan#364: of 2024",
        "[rank0]:2024-06-13 12:53:16,156 - root - INFO - step: 10  loss: 10.7798  memory: 41.18GiB(43.33%)  "
        "wps: 2,792  mfu: 16.35%",
        rows=[(None, 0, None, 10, 10.7798, 2792.0)],
    ),
    shape(
        "tradingstrategy-ai/tqdm-loggable, as levanter uses it",
        "2025-02-03T04:05:06 - 0 - tqdm_loggable.tqdm_logging - tqdm_logging.py:145 - INFO :: "
        "Progress on:train 1.50kit/10.0kit rate:1,234.5it/s remaining:02:16 elapsed:55:45 postfix:loss=2.75",
        "Progress on:eval 10.0it/20.0it rate:3.1it/s remaining:00:03 elapsed:00:03 postfix:loss=2.5",
        rows=[(None, None, None, 1500, 2.75, None)],
    ),
    shape(
        "epfLLM/Megatron-LLM#11, and Megatron-LM of today with its date",
        " [2024-05-01 12:34:56] iteration        2/     100 | consumed samples:           32 | elapsed time per "
        "iteration (ms): 300.2 | throughput per GPU (TFLOP/s/GPU): 123.4 | learning rate: 1.000000E-04 | global "
        "batch size:    16 | lm loss: 1.025000E+01 | loss scale: 1.0 | grad norm: 0.811 |",
        " validation loss at iteration 2 | lm loss value: 9.1E+00 | lm loss PPL: 8.0E+03 |",
        rows=[(None, None, None, 2, 10.25, 1000 / 300.2)],
    ),
    shape(
        "NVIDIA/NeMo 2",
        "Training epoch 0, iteration 5/99 | lr: 1e-05 | global_batch_size: 8 | global_step: 5 | "
        "reduced_train_loss: 11.03 | train_step_timing in s: 0.5 | consumed_samples: 48",
        rows=[(None, None, 0, 5, 11.03, 2.0)],
    ),
    shape(
        "pytorch-tpu/fairseq#21: a line for each core",
        "| epoch 001 | training on xla:0/4:     41 / 4830 loss=15.812, nll_loss=15.812, wps=945, ups=0, "
        "wpb=3986.024, bsz=128.000, num_updates=41, lr=5.22398e-06, gnorm=6.531, oom=0.000, wall=173",
        "| epoch 001 | training on xla:0/6:     41 / 4830 loss=15.938, nll_loss=15.938, wps=753, num_updates=41",
        rows=[(4, None, 1, 41, 15.812, 945.0), (6, None, 1, 41, 15.938, 753.0)],
    ),
    shape(
        "facebookresearch/fairseq#2338",
        "2020-07-17 06:57:45 | INFO | train_inner | epoch 001:    100 / 160368 loss=14.165, ppl=17143.1, wps=0, "
        "ups=0, wpb=1669, bsz=40, num_updates=100, lr=1e-06, gnorm=4.168, train_wall=321, wall=439",
        "2020-07-17 09:57:45 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.1 | num_updates 100",
        rows=[(None, None, 1, 100, 14.165, 0.0)],
    ),
    shape(
        "facebookresearch/fairseq#3328: JSON",
        '[2021-03-09 10:00:00,000][train_inner][INFO] - {"epoch": 3, "update": 2.018, "loss": "4.125", "ntokens": '
        '"1669", "ppl": "12.3", "wps": "95.1", "ups": "0.12", "num_updates": "1200", "lr": "1e-06"}',
        rows=[(None, None, 3, 1200, 4.125, None)],
    ),
    shape(
        "huggingface/pytorch-image-models (timm)",
        "Train: 4 [  50/1251 (  4%)]  Loss: 6.250 (6.31)  Time: 0.412s, 2485.50/s  (0.430s, 2381.4/s)  "
        "LR: 1.000e-04  Data: 0.010 (0.021)",
        "Test: [   0/48]  Time: 1.5 (1.5)  Loss:  5.5 (5.5)  Acc@1:  1.0",
        rows=[(None, None, 4, 50, 6.25, 2485.5)],
    ),
    shape(
        "google-research/bert#907: TPUEstimator",
        "I1110 12:00:00.000000 140 basic_session_run_hooks.py:262] loss = 13.5, step = 97",
        "INFO:tensorflow:Saving dict for global step 97: accuracy = 0.5, global_step = 97, loss = 1.5",
        rows=[(None, None, None, 97, 13.5, None)],
    ),
]
"""Lines that are samples, with some among them that are not."""

_TRAINING = "| Training Device=xla:0/{} Epoch=1 Step=20 Loss=2.50000 Rate=10.00 GlobalRate=9.00 Time=10:00:00"


def _cores(*rows: tuple[int, int | None]) -> list[tuple[object, ...]]:
    return [(core, worker, 1, 20, 2.5, 10.0) for core, worker in rows]


CARRIED = [
    shape(
        "skypilot-org/skypilot#1380: the cluster's name before the node's",
        "(node-2, head, rank=0, pid=23862) " + _TRAINING.format(0),
        "(node-0, worker1, rank=1, pid=22755, ip=172.31.81.91) " + _TRAINING.format(1),
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "skypilot-org/skypilot: a job's one task",
        "(train, pid=1234) " + _TRAINING.format(3),
        rows=_cores((3, None)),
    ),
    shape(
        "intel/ipex-llm#3552: Ray before 2, a pid alone",
        "(pid=31681) " + _TRAINING.format(0),
        "(pid=31682, ip=10.239.10.109) " + _TRAINING.format(1),
        rows=_cores((0, None), (1, 0)),
    ),
    shape(
        "ray-project/ray#40536, #66055",
        f"{ESC}[36m(TorchTrainer pid=7236){ESC}[0m - (ip=10.0.59.242, pid=7410) rank=0, local_rank=0, node_rank=0",
        f"{ESC}[36m(RayTrainWorker pid=354, ip=10.72.1.31){ESC}[0m " + _TRAINING.format(4)
        + f"{ESC}[32m [repeated 3x across cluster]{ESC}[0m",
        rows=_cores((4, 0)),
    ),
    shape(
        "horovod/horovod#2527 (Open MPI) and #3827 (Gloo)",
        "[1,0]<stdout>:" + _TRAINING.format(0),
        "[1]<stdout>:" + _TRAINING.format(1),
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "openpmix/prrte: the detailed tag",
        "[prterun-host-12@1,3][node7:4321]<stderr>: " + _TRAINING.format(2),
        rows=_cores((2, 3)),
    ),
    shape(
        "meta-pytorch/torchtune#2620: torchx names the replica",
        "[trainer0|0]:" + _TRAINING.format(5),
        rows=_cores((5, None)),
    ),
    shape(
        "pytorch/pytorch#75087 with torch.distributed's own prefix behind it",
        "[default1]:[rank9]: " + _TRAINING.format(9),
        rows=_cores((9, 9)),
    ),
    shape(
        "SkyPilot around torchrun: the machine, not the process",
        "(worker2, rank=2, pid=15, ip=10.0.0.7) [rank17]: " + _TRAINING.format(17),
        rows=_cores((17, 2)),
    ),
    shape(
        "srun --label around torchrun's Megatron",
        " 3: [default0]: iteration       10/     500 | consumed samples: 1 | lm loss: 1.500000E+00 | loss scale: 1.0 |",
        "10: [default0]: iteration       10/     500 | consumed samples: 1 | lm loss: 2.500000E+00 | loss scale: 1.0 |",
        rows=[(None, 3, None, 10, 1.5, None), (None, 10, None, 10, 2.5, None)],
    ),
    shape(
        "srun --label around Hugging Face and Keras",
        "0: {'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 1.0}",
        "1: Epoch 2/3",
        "1: 10/20 [=====>....] - ETA: 1s - loss: 0.5",
        "1: Epoch 3/3",
        "1: 11/20 [=====>....] - ETA: 1s - loss: 0.25",
        rows=[(None, 0, 1, None, 1.5, None), (None, 1, 3, 11, 0.25, None)],
    ),
    shape(
        "clush and pdsh around MaxText and torchtitan, with loggers' dates",
        "t1v-n-1-w-0: I0706 16:52:46.073802 14 metric_logger.py:214] completed step: 5, seconds: 1.0, "
        "TFLOP/s/device: 1.0, loss: 4.5",
        "t1v-n-1-w-1: [titan] 2026-02-24 19:46:17,508 - root - INFO - step:  6  loss:  3.5  memory: 1GiB(1%)  tps: 7",
        rows=[(None, 0, None, 5, 4.5, None), (None, 1, None, 6, 3.5, 7.0)],
    ),
    shape(
        "docker compose logs",
        "trainer-1   | ==> Preparing data..",
        "trainer-1   | " + _TRAINING.format(0),
        "trainer-12  | " + _TRAINING.format(1),
        "trainer-1   | done",
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "parallel-ssh's client with blanks",
        "[host1]  " + _TRAINING.format(0),
        "[10.0.0.5]  " + _TRAINING.format(1),
        rows=_cores((0, 0), (1, 1)),
    ),
    shape(
        "kubectl logs --prefix --timestamps",
        "[pod/train-slice-0-1-x7k/jax-tpu] 2024-05-01T12:00:00.123456789Z " + _TRAINING.format(1),
        rows=_cores((1, 0)),
    ),
    shape(
        "Cloud Logging's entries, one JSON object a line",
        '{"insertId":"a1","labels":{"compute.googleapis.com/resource_name":"gke-1"},"resource":{"labels":'
        '{"pod_name":"train-0","namespace_name":"default"},"type":"k8s_container"},"textPayload":"'
        + _TRAINING.format(0) + '","timestamp":"2024-05-01T12:00:00Z"}',
        '{"resource":{"labels":{"pod_name":"train-1"}},"textPayload":"' + _TRAINING.format(1) + '"}',
        rows=_cores((0, 0), (1, 1)),
    ),
]  # fmt: skip
"""Samples with the prefixes that other tools add."""

SECTIONS = [
    shape(
        "parallel-ssh: pssh -i",
        "[1] 12:00:01 [SUCCESS] tpu-w-1",
        _TRAINING.format(8),
        "done",
        "[2] 12:00:02 [FAILURE] 10.0.0.5 Exited with error code 1",
        _TRAINING.format(0),
        "Stderr: Traceback",
        rows=_cores((0, 1), (8, 0)),
    ),
    shape(
        "ClusterShell: clush -b",
        "---------------",
        "node1",
        "---------------",
        _TRAINING.format(0),
        "---------------",
        "node[2-3,5] (3)",
        "---------------",
        _TRAINING.format(8),
        "--------------- a heading of the job",
        _TRAINING.format(9),
        rows=_cores((0, 0), (8, 1), (9, 1)),
    ),
    shape(
        "pdsh: dshbak -c",
        "----------------",
        "tpu-w-0,tpu-w-1",
        "----------------",
        _TRAINING.format(3),
        rows=_cores((3, 0)),
    ),
    shape(
        "a job's own rule at a log's beginning",
        "--------------------",
        "Training on 8 cores",
        "--------------------",
        _TRAINING.format(3),
        rows=_cores((3, None)),
    ),
]
"""The whole outputs of hosts one after another, each below a header: only at the beginning of a log."""

NO_SAMPLES = [
    ("PyTorch/XLA: evaluation in the form of a sample", "[xla:0](0) Acc=0.84375 Rate=0.00 Time=Sat Jul 25 15:44:27 2020"),
    ("PyTorch/XLA: cut off", "| Training Device=xla:0/3 Epoch=1 Step=680 Loss=0.001"),
    ("PyTorch/XLA: cut off", "| Training Device=xla:0/3 Epoch=1 Step=680 Loss=0.00100 Rate=5.00 GlobalRate=42."),
    ("PyTorch/XLA: cut off", "[xla:1](20) Loss=0.03076 Rate=51.78 GlobalR"),
    ("PyTorch/XLA: glued in its middle", "| Training Device=xla:0/1 Epoch=1 Step=2 Loss=6.8| Training Device=xla:0/2 Ep"),
    ("PyTorch/XLA: documentation", "Training Device=xla:0/X Epoch=1 Step=X Loss=X Rate=X GlobalRate=X Time=21:19:06"),
    ("pytorch/xla examples: cut off", "epoch: 1, step: 10, loss: 6.8125, rate: "),
    ("MaxText: configuration", "I0804 08:13:33.767627 1 pyconfig.py:465] Config param target_eval_loss: 0.0"),
    ("MaxText: evaluation", "eval metrics after step: 9, loss=3.200, total_weights=1024"),
    ("MaxText: cut off", "completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, tot"),
    ("Hugging Face: evaluation", "{'eval_loss': 0.61, 'eval_accuracy': 0.7, 'epoch': 1.0}"),
    ("Hugging Face: summary", "{'train_runtime': 31.1, 'train_loss': 0.51, 'epoch': 3.0}"),
    ("Hugging Face: cut off", "{'loss': 0.71, 'learning_rate': 4.8e-05, 'epo"),
    ("Hugging Face: a metrics table", "  train_loss               =     1.2345"),
    ("tqdm: evaluation", "Evaluating:  10%|█         | 2/20 [00:01<00:10,  1.7it/s, loss=0.5]"),
    ("Lightning: validation", "Validation DataLoader 0: 100%|██████████| 79/79 [00:00<00:00, 131.5it/s, val_loss=0.5]"),
    ("Lightning: only a validation loss", "Epoch 0: 100%|███| 9/9 [00:01<00:00, 8.1it/s, v_num=0, val_loss=0.5]"),
    ("Keras: only a validation loss", "469/469 [==============================] - 1s 2ms/step - val_loss: 0.5"),
    ("Keras: a checkpoint's note", "Epoch 00003: val_loss improved from 0.50000 to 0.40000, saving model to best.h5"),
    ("torchtitan: validation", "[titan] 2026-01-01 - root - INFO - validate step: 10  loss:  5.5  memory: 1GiB(1%)  tps: 9"),
    ("torchtitan: its own source", 'f"{color.red}step: {step:2}  {color.green}loss: {global_avg_loss:7.4f}  "'),
    ("levanter: evaluation", "Progress on:eval 12it/24it rate:3.1it/s remaining:00:03 elapsed:00:03 postfix:loss=2.5"),
    ("Megatron: validation", " validation loss at iteration 100 | lm loss value: 1.0E+01 | lm loss PPL: 2.2E+04 |"),
    ("Megatron: cut off", " iteration       10/     500 | consumed samples:  1 | lm loss: 1.5"),
    ("fairseq: an epoch's summary", "| INFO | train | epoch 001 | loss 9.1 | ppl 500 | wps 100 | num_updates 4830"),
    ("TPUEstimator: evaluation", "INFO:tensorflow:Saving dict for global step 97: eval_loss = 1.5, loss = 1.5, step = x"),
    ("Weights & Biases: a summary", "wandb:            train/loss 2.40747"),
    ("Weights & Biases: a history", "wandb:      loss █▆▅▄▃▂▁▁"),
    ("nanoGPT: evaluation", "step 250: train loss 2.4, val loss 2.5"),
    ("XLA: a metrics dump", "  Rate: 0.0417158 / second"),
    ("XLA: a metrics dump", "  Accumulator: nanB"),
    ("Ray: where workers are", "(TorchTrainer pid=7236) - (ip=10.0.59.242, pid=7410) rank=0, local_rank=0, node_rank=0"),
    ("MaxText's runner", "[t=4.00, SCP] Completed 0/2, slice 0 worker 0 still working..."),
    ("a configuration", "loss = 'mse', step = 10"),
    ("a configuration", "{'loss': 'cross_entropy', 'epoch': 10}"),
    ("a configuration", '{"loss": 0.5, "epochs": 10}'),
]  # fmt: skip
"""Lines that look like samples and are none, and where they come from."""
