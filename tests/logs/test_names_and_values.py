"""Homemade lines that the grammar of names and values reads, and similar lines that are no training."""

from __future__ import annotations

from itertools import product

import pytest

from tests.logs.shapes import snapshot_of
from tui.logs.demux import Demux
from tui.logs.dialects.grammar.names_and_values import read_line

pytestmark = pytest.mark.py310

READ = [
    ('epoch 3, phase train, step 120, loss_train, 0.5123', 3, 120, 0.5123),
    ('[E3] step 120 loss 0.5123', 3, 120, 0.5123),
    ('[ep3] step 120 loss 0.5123', 3, 120, 0.5123),
    ('Global steps: 120; Throughput: 3580.4 instances/sec; Loss: 0.5123', None, 120, 0.5123),
    ('Step, 120, Loss, 0.5123, Acc, 0.81', None, 120, 0.5123),
    ('{"metric": "train/loss", "value": 0.5123, "step": 120}', None, 120, 0.5123),
    ('{"name": "loss", "data": {"epoch": 3.01, "step": 120, "value": 0.5123}}', 3, 120, 0.5123),
    ('step=120 name=loss value=0.5123', None, 120, 0.5123),
    ('Epoch 3 | Batch 120/391 | Loss 0.5123 | Acc 81.2', 3, 120, 0.5123),
    ('epoch=3 step=120 train_loss=0.5123 val_loss=0.6123', 3, 120, 0.5123),
    ('step 120 - loss: 0.5123 - lr: 1e-4 - tok/s: 12345', None, 120, 0.5123),
    ('[Step 120/5000] loss=0.5123 (avg 0.6) | 12.3 samples/s', None, 120, 0.5123),
    ('INFO: epoch 3-120, loss: 0.5123', 3, 120, 0.5123),
    ('Epoch 3-120/391 | loss 0.5123', 3, 120, 0.5123),
    ('Epoch 3-7 | step 120 | loss 0.5123', 3, 120, 0.5123),
    ('[120|1000] loss: 0.5123', None, 120, 0.5123),
    ('Epoch: 3 [ 120|1000] loss: 0.5123 acc: 0.4', 3, 120, 0.5123),
    ('epoch 3 iteration120, Loss: 0.5123', 3, 120, 0.5123),
    ('INFO : | epoch 003 | train_loss 0.5123 | train_ppl 5.836 | s/epoch 10.13 | lr 1.0', 3, None, 0.5123),
    ("train stats: {'loss/train': '0.5123', 'counters/examples': 3840, 'counters/updates': 120}", None, 120, 0.5123),
    ('60% Época 3: pérdida de entrenamiento=0.5123, pérdida de validación=0.61', 3, None, 0.5123),
    ('Época 3 perda de treinamento: 0.5123 perda de validação: 0.6', 3, None, 0.5123),
    ('Paso 120: loss entrenamiento=0.5123', None, 120, 0.5123),
    ('Epoch: 3.17 - loss: 0.5123 - acc: 0.5:   0%| | 120/42622.979999', 3, 120, 0.5123),
    ('Epoch: 3, Steps: 569 | Train Loss: 0.5123 Vali Loss: 0.6 Test Loss: 0.7', 3, None, 0.5123),
    ("Iter 120: loss = tensor(0.5123, device='xla:0', grad_fn=<X>)", None, 120, 0.5123),
    ('2024-01-01 10:00:00 | train | epoch 3 | 120/391 batches | loss 0.5123 | 45.1 ms/batch', 3, 120, 0.5123),
    ('| epoch   3 |   200/ 2983 batches | lr 5.00 | ms/batch 33.30 | loss  5.12 | ppl   166.8', 3, 200, 5.12),
    ('Ep 3, it 120/391, loss: 0.5123, time: 0.33', 3, 120, 0.5123),
    ("{'epoch': 3, 'step': 120, 'loss': 0.5123, 'lr': 0.001}", 3, 120, 0.5123),
    ("OrderedDict([('epoch', 3), ('step', 120), ('loss', 0.5123)])", 3, 120, 0.5123),
    ('{"train": {"loss": 0.5123, "step": 120}}', None, 120, 0.5123),
    ("Training step 120: {'loss': 0.5123, 'grad_norm': 1.0}", None, 120, 0.5123),
    ("step: 120, metrics: {'loss': Array(0.5123, dtype=float32), 'accuracy': 0.81}", None, 120, 0.5123),
    ('I0101 10:00:00.000000 1234 train.py:100] [120] loss=0.5123, steps_per_sec=2.0', None, 120, 0.5123),
    ('train: epoch: 0003, iter: 000120, loss: 0.5123', 3, 120, 0.5123),
    ('Epoch 3/10, Iteration 120/391, Training Loss: 0.5123, LR: 0.001', 3, 120, 0.5123),
    ('Epoch 3, global step 120: train loss 0.5123, smoothed 0.6', 3, 120, 0.5123),
    ('After 120 steps, loss is 0.5123', None, 120, 0.5123),
    ('120 steps: loss 0.5123', None, 120, 0.5123),
    ('Loss at step 120: 0.5123', None, 120, 0.5123),
    ('Step: 120 | Time: 0.31s | Loss: 0.5123 | Mem: 12.3GB | MFU: 41%', None, 120, 0.5123),
    ('=> Epoch: 3, loss: 0.5123, acc: 0.81', 3, None, 0.5123),
    ('Epoch 3 train loss: 0.5123, valid loss: 0.61, time 12s', 3, None, 0.5123),
    ('Epoch 3 - avg_train_loss: 0.5123  avg_val_loss: 0.61  time: 12s', 3, None, 0.5123),
    ('Epoch: 3 Loss/train: 0.5123 Loss/val: 0.6', 3, None, 0.5123),
    ('[Train] Epoch 3, loss 0.5123', 3, None, 0.5123),
    ('epoch 3 total loss 0.5123 cls loss 0.1 box loss 0.4', 3, None, 0.5123),
    ('10:00:01 worker 3: step 120 | loss 0.5123', None, 120, 0.5123),
    ('[host 2] step=120 loss=0.5123', None, 120, 0.5123),
    ('Global step 120 Train loss 0.5123 Tokens/sec 12345.6', None, 120, 0.5123),
    ('step 1,200 loss 0.5123', None, 1200, 0.5123),
    ('step 1.2k loss 0.5123', None, 1200, 0.5123),
    ('Epoch 3:  31%|###   | 120/391 [00:10<00:20, 12.0it/s, loss=0.5123, acc=0.8]', 3, 120, 0.5123),
    ('Training Epoch 3:  31%|###   | 120/391 [00:10<00:20, 12.0it/s, train_loss=0.512]', 3, 120, 0.512),
    ('loss=0.5123:  31%|###   | 120/391 [00:10<00:20, 12.0it/s]', None, 120, 0.5123),
    ('train_step=120, train_loss=0.5123, train_ppl=1.6', None, 120, 0.5123),
    ('update 120 nll 0.5123', None, 120, 0.5123),
    ('Epoch 3 Step 120 Cross Entropy 0.5123', 3, 120, 0.5123),
    ('step=120 mlm_loss=0.5123 lr=0.1', None, 120, 0.5123),
    ('Step 120, Minibatch Loss= 0.5123, Training Accuracy= 0.812', None, 120, 0.5123),
    ('Train epoch 3 [120/391] loss=0.5123', 3, 120, 0.5123),
    ('(3/10)(120/391) loss: 0.5123', 3, 120, 0.5123),
    ('[3/10][120/391] Loss: 0.5123', 3, 120, 0.5123),
    ('[Epoch 3/10] [Batch 120/391] [loss: 0.5123]', 3, 120, 0.5123),
    ('epoch 3 batch 120 of 391 loss 0.5123', 3, 120, 0.5123),
    ('INFO:trainer:epoch 3 step 120 loss 0.5123', 3, 120, 0.5123),
    ('Batch 120, Loss: 0.5123', None, 120, 0.5123),
    ('Episode: 120, Loss: 0.5123, Reward: 10.0', None, 120, 0.5123),
    ('n_iter: 120 loss: 0.5123', None, 120, 0.5123),
    ('Epoch #3 loss: 0.5123', 3, None, 0.5123),
    ('Epoch 3 completed. Average loss: 0.5123', 3, None, 0.5123),
    ('Epoch 3 finished in 12.3s, loss=0.5123', 3, None, 0.5123),
    ('---> epoch 3, average loss = 0.5123', 3, None, 0.5123),
    ('Epoch 3 Loss 0.5123 Time 12.1', 3, None, 0.5123),
    ('epoch: 3 train_loss: 0.5123 test_loss: 0.61', 3, None, 0.5123),
    ('epoch 3 :: loss 0.5123 :: acc 0.81', 3, None, 0.5123),
    ('Epoch 3 -> loss 0.5123', 3, None, 0.5123),
    ('Epoch 3 → Loss: 0.5123', 3, None, 0.5123),
    ("Epoch 3: {'loss': 0.5123}", 3, None, 0.5123),
    ('epoch/step: 3/120, loss: 0.5123', 3, 120, 0.5123),
    ('Epoch: 3 Update/Total: 120/3958 Total_Loss: 0.5123 Pose_Loss: 0.2', 3, 120, 0.5123),
    ('120/446 (epoch 3), train_loss = 0.5123', 3, 120, 0.5123),
    ('[3/100], [10/11], step: 120, batch_loss: 0.5123, batch_loss_c: 0.44', 3, 120, 0.5123),
    ('[3][120] loss: 0.5123', 3, 120, 0.5123),
    ('[ 120] | gnorm 8.33 lr 0.000125 | loss 0.5123', None, 120, 0.5123),
    ('02:40:52 SUCCESS Step 120 | Time: 5.13s | Loss: 0.5123', None, 120, 0.5123),
    ('Loss in epoch 3 = 0.5123', 3, None, 0.5123),
    ('loss (epoch 3, step 120): 0.5123', 3, 120, 0.5123),
    ('loss at step 120 of epoch 3: 0.5123', 3, 120, 0.5123),
    ('loss after 120 iterations: 0.5123', None, 120, 0.5123),
    ('Epoch 3 Val Loss: 0.7 Train Loss: 0.5123', 3, None, 0.5123),
    ('3/10 epochs, 120/391 steps, loss 0.5123', 3, 120, 0.5123),
    ('120th iteration, loss: 0.5123', None, 120, 0.5123),
    ('[训练] 轮次: 3/10, 批次: 120/391, 训练损失: 0.5123, 学习率: 0.001', 3, 120, 0.5123),
    ('第3轮 训练损失: 0.5123 验证损失: 0.6', 3, None, 0.5123),
    ('에포크 3 - 손실: 0.5123 - 검증 손실: 0.6', 3, None, 0.5123),
    ('Эпоха 3 шаг 120 потери 0.5123', 3, 120, 0.5123),
    ('Epoch 3 - 0.5123 loss - 0.81 acc', 3, None, 0.5123),
    ('step 120: 0.5123 loss, 81.2% acc, 12.3 img/s', None, 120, 0.5123),
    ('120 | 0.5123 loss | 3.1 s', None, 120, 0.5123),
    ('iter 120 loss_G 0.5 loss_D 0.6 loss 0.5123', None, 120, 0.5123),
    ('[120]\teval-logloss:0.6\ttrain-logloss:0.5123', None, 120, 0.5123),
    ('Train loss 120 0.5123 Grad Norm 1.2 1.23s/it', None, 120, 0.5123),
]  # fmt: skip

NO_SAMPLES = [
    "epoch 3, step 120, val_loss, 0.5123",
    '{"metric": "val_loss", "value": 0.5123, "step": 120}',
    '{"metric": "accuracy", "value": 0.5123, "step": 120, "best": "loss"}',
    "Test Epoch 3: loss 0.5123",
    "==> Test: Epoch: [3][10/40] Time 0.12 (0.13) Loss 0.6123 (0.6)",
    "Epoch 3 vali loss: 0.5123",
    "Eval step 120 loss 0.5123",
    "validation loss at step 120: 0.5123",
    "Best loss 0.5123 at epoch 3",
    "Saved checkpoint step 120 loss 0.5123",
    "step 120: learning rate 0.0001",
    "steps: 1000 lr: 0.1 loss: mse",
    "Loaded model from epoch 3 (loss 0.5123)",
    "Config: epochs=10, batch_size=32, loss=0.5",
    "loss_weight=0.5 step=120",
    "Early stopping at epoch 3 with loss 0.5",
    "Step: 100 Q_loss: 0.5 V_loss: 0.6 A_loss: 0.7",
    "Epoch[0] Time cost=28.650",
    "iter 120 loss weight: 0.5",
    "step 120 eta 0.5 loss_scale 1024.0",
    "Phase: Training, Epoch: 3, Cross-Entropy: 7,081955E+12",
    "Lowest loss in epoch 3: 0.5",
    "cost of step 3: 0.12 USD",
    "loss scale after step 5: 1024",
    "Epoch 3: average loss over 100 steps: 0.5",
    "loss in epoch 3 improved from 0.5 to 0.4",
    "验证 轮次 3 损失 0.5",
    "最佳损失 0.5 轮次 3",
    "валидационные потери 0.5 эпоха 3",
    "Época 3 pérdida de validación 0.5",
    "Época 3 perda de teste: 0.5",
]


BLOCKS = [
    ('step,loss,lr\n10,0.5,0.1\n20,0.4,0.1', (None, 20, 0.4)),
    ('epoch,train_loss,val_loss\n1,0.5,0.6\n2,0.4,0.5', (2, None, 0.4)),
    ('Epoch  Train Loss  Val Loss\n1      0.5         0.6\n2      0.4         0.5', (2, None, 0.4)),
    ('{"step": 10, "loss": 0.5}\n{"step": 20, "loss": 0.4}', (None, 20, 0.4)),
    ('step 20\n  loss: 0.4\n  lr: 0.1\nstep 30\n  loss: 0.3\n  lr: 0.1', (None, 30, 0.3)),
    ('Epoch 1/2\nstep 10 loss 0.5\nValidation:\nstep 10 loss 0.9\nEpoch 2/2\nstep 10 loss 0.4', (2, 10, 0.4)),
    ('Epoch 1\ntrain loss 0.5\nval loss 0.6\nEpoch 2\ntrain loss 0.4\nval loss 0.5', (2, None, 0.4)),
    ('Epoch 1\n  training loss = 0.5\n  validation loss = 0.6\nEpoch 2\n  training loss = 0.4\n', (2, None, 0.4)),
    ('Epoch 2 started\nbatch 10: loss 0.4\nbatch 20: loss 0.3', (2, 20, 0.3)),
    ('--- Epoch 2 ---\n10/100 loss=0.4\n20/100 loss=0.3', (2, 20, 0.3)),
    ('Starting epoch 2\n[10/100] loss: 0.4\n[20/100] loss: 0.3', (2, 20, 0.3)),
    ('epoch: 2\nTrain: loss 0.4 acc 0.8\nTest: loss 0.5 acc 0.7', (2, None, 0.4)),
    ('step: 20, loss: 0.4\neval step: 20, loss: 0.9\n', (None, 20, 0.4)),
    ('step 20: loss 0.4\nval loss: 0.9 at step 20\n', (None, 20, 0.4)),
    ('step 20: train loss 0.4, val loss 0.5\nstep 40: train loss 0.3, val loss 0.4', (None, 40, 0.3)),
    ('Rank 0: step 20 loss 0.4\n', (None, 20, 0.4)),
    ('Epoch 2\nTraining loss: 0.4\nValidation loss: 0.5\n', (2, None, 0.4)),
    ('Epoch 2 | time 10.1s\n\ttrain_loss 0.4\n\tval_loss 0.5', (2, None, 0.4)),
    ('Epoch 2 Average train loss 0.4\nEpoch 2 Average val loss 0.5', (2, None, 0.4)),
    ('current step: 1th step\nbatch loss:0.5\ncurrent step: 2th step\nbatch loss:0.4', (None, 2, 0.4)),
    ('Epoch [2/9][20/1000]\tlr: 0.1, eta: 3 days, 1:41:57\ntask: [x], loss: 0.4, cls_loss: 0.2', (2, 20, 0.4)),
    ('epoch 2 iter 20 time 0.21\n\tloss 0.4 acc 0.5', (2, 20, 0.4)),
    ('Epoch: 2 lr: 0.001\nbatch 20 loss 0.4', (2, 20, 0.4)),
    ('Epoch 2\nloss: 0.5, lr: 0.1\nloss: 0.4, lr: 0.1\nval loss: 0.6', (2, None, 0.4)),
    ('EPOCH\tTIMESTAMP\tTRAIN_LOSS\n1\t10:34:38\t0.5\n2\t10:44:07\t0.4', (2, None, 0.4)),
    ('Epoch 2 Time=5.8\n  TRAIN:   Cost=0.4  logq=1.0\n  EVAL-L1: Cost=0.5', (2, None, 0.4)),
    ('#Step 20, loss = 0.4, accuracy = 0.8', (None, 20, 0.4)),
    ('Epoch 2/9: 100%|###| 391/391 [00:10<00:00, 39.0it/s]\nTrain Loss: 0.4, Val Loss: 0.5', (2, None, 0.4)),
    ('Epoch 2:\n   10: loss=0.5 acc=0.7\n   20: loss=0.4 acc=0.8', (2, 20, 0.4)),
    ('0.5 loss, 0.001 LR, 3.1 s\n0.4 loss, 0.001 LR, 3.1 s', (None, None, 0.4)),
    ('total loss\tbox loss\n0.5\t0.25\n0.4\t0.25', (None, None, 0.4)),
    ('#015Epoch 2: 100% 4/4 [00:00<00:00, 12.1it/s, loss=0.4]', (2, 4, 0.4)),
]  # fmt: skip


def rows_of(*lines: str) -> list[tuple[int | None, int | None, float | None]]:
    return [(row.epoch, row.step, row.loss) for row in snapshot_of(*lines).rows()]


@pytest.mark.parametrize(("line", "epoch", "step", "loss"), READ)
def test_a_line_of_names_and_values_is_read(line: str, epoch: int | None, step: int | None, loss: float) -> None:
    assert rows_of(line) == [(epoch, step, loss)]


@pytest.mark.parametrize(
    "pace",
    [
        "elapsed time per iteration (ms): 250", "train_step_timing in s: 0.25", "time per step: 0.25s",
        "sec/step 0.25", "time/step = 250ms", "seconds_per_step: 0.25", "ms_per_step=250", "0.25 s/it",
        "250 ms/batch", "4.0 it/s",
    ],
)  # fmt: skip
def test_how_long_a_step_takes_is_a_rate(pace: str) -> None:
    demux = Demux()
    demux.feed(None, f"step 7 loss 0.5 {pace}\n".encode())
    demux.finish()
    assert [(row.step, row.loss, row.rate, row.rate_unit) for row in demux.snapshot().rows()] == [
        (7, 0.5, 4.0, "it/s")
    ]


@pytest.mark.parametrize("pace", ["2500us/sample", "2.5 ms/sample", "0.0025 s/image", "2.5 ms/example"])
def test_how_long_a_sample_takes_is_a_rate_of_samples(pace: str) -> None:
    for line in (f"step 7 loss 0.5 {pace}\n", f"Epoch 1/2\n7/7 [====] - 0s {pace} - loss: 0.5 - val_loss: 0.75\n"):
        demux = Demux()
        demux.feed(None, line.encode())
        demux.finish()
        assert [(row.step, row.rate, row.rate_unit) for row in demux.snapshot().rows()] == [(7, 400.0, "examples/s")]


@pytest.mark.parametrize("between", ["Saving checkpoint at step 20", "Evaluating at step 20", "max_steps: 20"])
def test_a_step_that_is_only_mentioned_has_no_loss_below_it(between: str) -> None:
    assert rows_of(between, "loss: 0.5") == []


@pytest.mark.parametrize("line", NO_SAMPLES)
def test_a_line_that_only_looks_like_training_is_no_sample(line: str) -> None:
    assert rows_of(line) == []


@pytest.mark.parametrize(("text", "row"), BLOCKS)
def test_blocks_of_lines_are_read(text: str, row: tuple[int | None, int | None, float]) -> None:
    assert rows_of(*text.split("\n")) == [row]


def test_steps_below_a_heading_belong_to_its_epoch() -> None:
    lines = ("epoch 3", "step 10 loss 0.5", "epoch 4", "step 20 loss 0.25")
    assert rows_of(*lines[:2]) == [(3, 10, 0.5)]
    assert rows_of(*lines) == [(4, 20, 0.25)]


@pytest.mark.parametrize(
    "heading",
    [
        "2020-05-20 03:11:48 start epoch 3/500: learning_rate = 1.8e-05 sequence_len = 28",
        "==>>[2019-10-31 06:19:20] [Epoch=003/020] Stage 1, [Need: 00:30:12]", "10:00:00 | Epoch 3",
        "Epoch 3 (LSTM(std), learning rate=0.0070, decay rate=0.0500 (schedule=1)): ", "TRAIN EPOCH  3:",
        "Epoch 3 - learning rate: 0.001000 - synchronize file: syn/crfnn", "==>Epoch 3, gpu = 2, lr = 0.01 ==>",
        "[GPU0] Epoch 3 Training ====", "---Epoch #3 started---", "Epoch 3 started at 2024-01-01 10:00:00",
        "Start of epoch 3", "Now training epoch 3", "Beginning epoch 3 with 391 batches", "Fold 0, epoch 3",
        "[2022-06-26 21:02:44,318]Epoch: 0003", "Epoch 3 out of 100", "Epoch [3]/[10]", "[Epoch 3] starting...",
        "Epoch 3 begins (391 batches)", "Epoch 3: 391 batches", "Epoch 3: Learning rate is 0.001", "lr=0.001 epoch=3",
        "Fold: 1, Epoch: 3", "Task 2 Epoch 3", "Train Phase, Epoch: 3", "Now at epoch 3",
        "Epoch 3 - 2023-01-01 10:00:00", "Current epoch: 3", "epoch = 3", "Epoch : 3", "Epoch No. 3",
        "Epoch: 3 of 10", "===> Epoch 3, lr 0.001",
        "Epoch 3: training", "INFO:__main__:Starting epoch 3", "Running epoch 3 on 8 devices",
    ],
)  # fmt: skip
def test_a_line_that_begins_an_epoch_is_a_heading(heading: str) -> None:
    assert rows_of(heading, "step 10 loss 0.5") == [(3, 10, 0.5)]


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 3 finished", "Finished epoch 3", "Epoch 3 took 12s", "Epoch 3 done, lr=0.001", "End of epoch 3",
        "Training epoch 3 took 50 s", "Epoch 3, lr 0.001, accuracy 0.5", "Saved model for epoch 3", "Best epoch 3",
        "start training from epoch 3", "Loaded checkpoint of epoch 3", "epochs 3", "num epochs 3",
        "Warmup for epoch 3", "Training epoch 3: 45% 12/100", "Skipping epoch 3", "1 epoch = 3 batches",
        "Learning rate decays at epoch 3", "milestones: epoch 3, epoch 6", "Epoch 3: early stopping",
        "lr_decay_epoch: 3", "Epoch 3: reducing learning rate of group 0 to 1.0e-04.", "Namespace(epoch=3, lr=0.1)",
        "Epoch 3: 0.512", "Number of epoch: 3", "summary:       epoch 3",
    ],
)  # fmt: skip
def test_a_line_that_only_mentions_an_epoch_is_no_heading(line: str) -> None:
    assert rows_of(line, "step 10 loss 0.5") == [(None, 10, 0.5)]


@pytest.mark.parametrize("heading", ["[Step 10/100] [Epoch 3/30] [nyudv2]", "Epoch 3/30, Batch 10/100"])
def test_a_step_above_its_loss_has_its_epoch_on_either_side(heading: str) -> None:
    assert rows_of(heading, "  loss: 0.5, time: 0.25") == [(3, 10, 0.5)]


@pytest.mark.parametrize("name", ["End of epoch 3, loss", "==>End of epoch 3: loss", "epoch 3 end, train loss:"])
def test_the_loss_at_the_end_of_an_epoch_is_a_sample_of_a_job_without_steps(name: str) -> None:
    assert rows_of(f"{name} 0.5 ==>") == [(3, None, 0.5)]
    assert rows_of("step 10 loss 0.25", f"{name} 0.5 ==>") == [(None, 10, 0.25)]


def test_steps_before_the_first_heading_have_no_epoch() -> None:
    assert rows_of("step 10 loss 0.5", "Epoch 1:") == [(None, 10, 0.5)]


def test_training_continues_after_a_test_in_lower_case() -> None:
    lines = (
        "epoch: 0, loss is: 0.5",
        "testing in eval mode...",
        "epoch: 0, loss is: 0.7",
        "Now continue training...",
    )
    assert rows_of(*lines) == [(0, None, 0.5)]
    assert rows_of(*lines, "epoch: 1, loss is: 0.25") == [(1, None, 0.25)]


@pytest.mark.parametrize(
    "line",
    ["Epoch: 7.03e-05 - loss: 0.5:   0%| | 20/426.9", "{'loss': 0.5, 'lr': 1e-05, 'epoch': 8.69e-05}"],
)
def test_a_fraction_of_an_epoch_is_not_the_epoch_of_its_first_digit(line: str) -> None:
    assert [(epoch, loss) for epoch, _step, loss in rows_of(line)] == [(None, 0.5)]


def test_the_end_of_a_fraction_of_an_epoch_names_no_epoch() -> None:
    assert rows_of("Finished training epoch 7e-05", "step 10 loss 0.5") == [(None, 10, 0.5)]


def test_several_batches_or_epochs_are_no_epoch_with_a_step() -> None:
    assert rows_of("epoch 3 batches 100-200 loss 0.5") == [(3, None, 0.5)]
    assert [step for _epoch, step, _loss in rows_of("epochs 1-5 loss 0.5")] == [None]


def test_the_reading_of_a_line_depends_on_its_shape_alone() -> None:
    for line, *_ in READ:
        alike = line.encode().translate(bytes.maketrans(b"123456789", b"000000000"))
        reading, other = read_line(line.encode()), read_line(alike)
        assert (reading and reading.spans) == (other and other.spans)


def test_long_lines_without_numbers_cost_little() -> None:
    assert read_line(b"step of the loss and " * 90 + b"loss 0.5") is None


@pytest.mark.parametrize("sign", [": ", " ", "=", ":", " = "])
def test_every_usual_spelling_of_epoch_step_and_loss_is_read(sign: str) -> None:
    """Whichever dialect reads the line, none that knows only a part of it may take it."""
    counts = product(("epoch", "Epoch"), ("step", "Iter", "batch"), ("loss", "Train Loss"), ("", "/100"))
    for (epoch, step, loss, total), separator in product(counts, (" ", ", ", " | ", " - ", "\t")):
        line = f"{epoch}{sign}3{separator}{step}{sign}20{total}{separator}{loss}{sign}0.5\n"
        demux = Demux()
        demux.feed(None, line.encode())
        demux.finish()
        assert [(row.epoch, row.step, row.loss) for row in demux.snapshot().rows()] == [(3, 20, 0.5)], line
