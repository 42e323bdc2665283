# ruff: noqa: E501 - lines of logs are as long as they are
"""What people print themselves, as public logs and documents show it; each is written anew."""

from __future__ import annotations

from tests.logs.public_shapes import Shape, shape
from tests.logs.public_trainers import one

HOMEMADE: list[Shape] = [
    shape(
        "what people print: batches, and an epoch's summary",
        "Epoch 1, Batch 700: Train Loss: 1.0506, Train Accuracy: 62.06%",
        "Epoch 1/20, Train Loss: 1.0236, Train Accuracy: 63.37%, Test Loss: 1.0360, Test Accuracy: 62.54%",
        rows=one(700, 1.0506, epoch=1),
    ),
    shape(
        "what people print: batches of how many",
        "Epoch 2, Batch 100/391, Loss: 1.9876, Acc: 25.67%",
        rows=one(100, 1.9876, epoch=2),
    ),
    shape(
        "what people print: a colon after the batch",
        "Epoch 2, Batch 50: Loss 1.6106284856796265, Accuracy 0.4158884584903717",
        rows=one(50, 1.6106284856796265, epoch=2),
    ),
    shape(
        "what people print: both in brackets",
        "[Epoch 2, Batch 1000] loss: 1.542",
        "[Epoch 2] Average loss: 1.523",
        rows=one(1000, 1.542, epoch=2),
    ),
    shape(
        "what people print: iterations of how many",
        "Iteration 1000/5000, Loss: 0.0254",
        rows=one(1000, 0.0254),
    ),
    shape(
        "what people print: a tag and a dash",
        "[GS] Iteration 1000/7000 - Loss: 0.045",
        "[INFO] Optimized: 250000 -> 180000 Gaussians",
        rows=one(1000, 0.045),
    ),
    shape(
        "what people print: bars, and the test's accuracy",
        "Epoch: 1 | step: 0900 | train loss: 1.46265 | test accurary: 0.975",
        rows=one(900, 1.46265, epoch=1),
    ),
    shape(
        "what people print: no epoch",
        "Step: 900 | train loss: 0.1320 | test accuracy: 0.9459 | time: 124.8018",
        rows=one(900, 0.132),
    ),
    shape(
        "what people print: an average",
        "Step: 1000 | Average Loss: 5.3127",
        rows=one(1000, 5.3127),
    ),
    shape(
        "what people print: figures between",
        "Step: 1000 | Mem: 3 | Eps: 0.94 | Loss: 0.0000",
        rows=one(1000, 0.0),
    ),
    shape(
        "what people print: the model's name before",
        "mamba | Step 80 | Loss 5.7067 | Gate 0.0000",
        rows=one(80, 5.7067),
    ),
    shape(
        "what people print: beside an evaluation",
        "INFO - step 25 train loss: 1.5 test loss: 1.6",
        "INFO - step 100 | loss 1.1000 | steps time 123.45ms",
        "INFO - step 100 train loss: 1.0 test loss: 1.2",
        rows=one(100, 1.1),
    ),
    shape(
        "what people print: averages and bests after it",
        "    step 1000, loss: 4.3302, avg_loss: 4.6289, best_loss: 3.6702, lr: 1.10e-04, time/batch: 1.862s",
        rows=one(1000, 4.3302),
    ),
    shape(
        "what people print: a date in brackets",
        "[2024-01-01 14:00:00] step 1000, loss: 45.123, entropy: 2.345, grad_norm: 12.456",
        rows=one(1000, 45.123),
    ),
    shape(
        "what people print: a step in brackets",
        "[Step 1000] Loss: 6.3511",
        rows=one(1000, 6.3511),
    ),
    shape(
        "what people print: and more after it",
        "[Step 100] Loss: 5.4321 | LR: 0.000200 | Tokens: 6553600",
        rows=one(100, 5.4321),
    ),
    shape(
        "what people print: blanks and equals signs",
        "  step 460/611  loss=1.1115  lr=4.94e-05",
        rows=one(460, 1.1115),
    ),
    shape(
        "what people print: of how many, both",
        "Epoch 1/2, Step 100/5000, Loss: 7.823, LR: 0.000125",
        rows=one(100, 7.823, epoch=1),
    ),
    shape(
        "what people print: tokens a second",
        "Step 100/1000 | Loss: 3.245 | LR: 0.000300 | Tokens/s: 1520 | Mem: 2456 MB",
        rows=one(100, 3.245, 1520.0),
    ),
    shape(
        "what people print: a rank without a colon",
        "[rank0] Step 100 | Loss: 8.42 | LR: 3.00e-05 | Tokens/s: 1,523,456 | MFU: 45.2%",
        rows=[(None, 0, None, 100, 8.42, 1523456.0)],
    ),
    shape(
        "what people print: a column of steps",
        "Epoch 1/10",
        "  Step    5 | Loss: 10.8234 | Avg Loss: 10.9156 | LR: 9.88e-04",
        "  Step   10 | Loss: 10.7123 | Avg Loss: 10.8234 | LR: 9.51e-04",
        rows=one(10, 10.7123, epoch=1),
    ),
    shape(
        "what people print: samples a second, an epoch alone",
        "epoch 0: 20 steps, 106.9 ms/step, 1146 samples/s, loss 2.2979, bottleneck=backward (data 0%)",
        rows=one(None, 2.2979, 1146.0, epoch=0),
    ),
    shape(
        "what people print: a bar of samples",
        "Epoch 024/100 train: 100%|##########| 60000/60000 [00:31<00:00, 1880.39samples/s, loss_mean=0.0677, accuracy=0.975]",
        "Epoch 024/100 valid: 100%|##########| 10000/10000 [00:04<00:00, 2328.44samples/s, loss_mean=0.332, accuracy=0.925]",
        rows=one(60000, 0.0677, 1880.39, epoch=24),
    ),
    shape(
        "what people print: a bar with a colon",
        "Epoch 1/10: 100%|██████████| 1875/1875 [00:45<00:00, 41.67it/s, Loss: 0.1234]",
        rows=one(1875, 0.1234, 41.67, epoch=1),
    ),
    shape(
        "what people print: a bar without a name",
        "100%|██████████| 1000/1000 [03:33<00:00,  4.68it/s, loss: 1.569e-01]",
        rows=one(1000, 0.1569, 4.68),
    ),
    shape(
        "what people print: figures before a bar",
        "Loss=2.3879714012145996 Batch_id=300 Accuracy=38.46: 100%|██████████| 301/301 [02:38<00:00,  1.89it/s]",
        "Test set: Average loss: 0.0113, Accuracy: 10586/33000 (32.08%)",
        rows=one(301, 2.3879714012145996, 1.89),
    ),
    shape(
        "what people print: epochs alone",
        "- Epoch 10/100: loss=0.87, reward=28.3",
        rows=one(None, 0.87, epoch=10),
    ),
    shape(
        "what people print: epochs in brackets",
        "[2025-06-15 14:28:45] [EPOCH] 1/50 | train_loss=2.3410 | val_loss=1.9870 | lr=5.00e-4 | 5m12s",
        rows=one(None, 2.341, epoch=1),
    ),
    shape(
        "what people print: both losses at each step",
        "step=100 train_loss=2.540 val_loss=2.760 grad_norm=2.950",
        rows=one(100, 2.54),
    ),
    shape(
        "what people print: slashes",
        "Epoch 3:    train/loss: 5.5476   valid/loss: 4.1520   train/acc: 0.6250   valid/acc: 0.4333",
        rows=one(None, 5.5476, epoch=3),
    ),
    shape(
        "what people print: epochs and a bar",
        "Epoch  1/100 | Loss: 0.1570",
        rows=one(None, 0.157, epoch=1),
    ),
    shape(
        "what people print: training and validation",
        "Epoch 10/100 | Train Loss: 0.000123 | Val Loss: 0.000089 | Val MAE: 0.000045 | LR: 1.00e-03",
        rows=one(None, 0.000123, epoch=10),
    ),
    shape(
        "what people print: run together",
        "Epoch 10/100 | TrainLoss 0.1834 | ValLoss 0.2017 | BestValLoss 0.2017",
        rows=one(None, 0.1834, epoch=10),
    ),
    shape(
        "what people print: parts after the whole",
        "[2025-03-17 14:30:22] Epoch 10/100 | loss=0.0234 | sub_loss_a=0.012 | sub_loss_b=0.011 | val_mse=0.045 | lr=8.2e-4",
        rows=one(None, 0.0234, epoch=10),
    ),
    shape(
        "what people print: Train before the epoch",
        "Train Epoch 9, loss: 2.1963339030742643",
        rows=one(None, 2.1963339030742643, epoch=9),
    ),
    shape(
        "what people print: its time",
        "Epoch 10 loss 12.3880 | train 2.1s | Acc 9.32% | infer 4.4s",
        rows=one(None, 12.388, epoch=10),
    ),
    shape(
        "what people print: a learning rate between",
        "my_trainer.py[:153] epoch: 9, Current lr : 2.8e-05, train_loss: 5.683, val_loss: 10.85063, val_acc: 0.95385",
        rows=one(None, 5.683, epoch=9),
    ),
    shape(
        "what people print: a count after it",
        "Epoch: 380/600, loss: 11.976921256464772, correct: 50",
        rows=one(None, 11.976921256464772, epoch=380),
    ),
    shape(
        "what people print: behind a bar",
        "Epoch Progress:   2%|▌     | 20/1000 [00:22<18:29,  1.13s/it]Dataset Size: 1%, Epoch: 21, Train Loss: 10.886632442474365, Val Loss: 10.924477895100912",
        rows=one(None, 10.886632442474365, 1 / 1.13, epoch=21),
    ),
    shape(
        "what people print: train and validation beneath an epoch",
        "Epoch 3/10",
        "  Train Loss: 1.7234",
        "  Val Loss:   1.6543",
        rows=one(None, 1.7234, epoch=3),
    ),
    shape(
        "what people print: no. 1",
        "Step 200: loss=1.258  lr=9.8e-5   epoch=0.67",
        rows=one(200, 1.258, epoch=0),
    ),
    shape(
        "what people print: no. 2",
        "Epoch 0, Step 200: Loss = 1.19, F1 = 94.60%",
        rows=one(200, 1.19, epoch=0),
    ),
    shape(
        "what people print: no. 3",
        "Epoch 1/50 | Batch 200/1271 | Loss: 0.0198 | K=4 | LR: 0.0001",
        rows=one(200, 0.0198, epoch=1),
    ),
    shape(
        "what people print: no. 4",
        "Epoch 1/10 - Batch 200/1875 - Loss: 1.456",
        "Epoch 1/10 completed - Train Loss: 0.892, Train Acc: 73.4%, Test Acc: 74.1%",
        rows=one(200, 1.456, epoch=1),
    ),
    shape(
        "what people print: no. 5",
        "Epoch 1/5, Batch 200/1061, Loss: 2.4444",
        rows=one(200, 2.4444, epoch=1),
    ),
    shape(
        "what people print: no. 6",
        "Batch 200/10000, SNR:18.7dB, Loss:0.567, NMSE:-2.46dB, ",
        rows=one(200, 0.567),
    ),
    shape(
        "what people print: no. 8",
        "Batch 200/5844 | Loss: 0.7120 | Avg Loss: 2.0603 | Beta: 0.9942 | Time: 67.9s",
        rows=one(200, 0.712),
    ),
    shape(
        "what people print: no. 9",
        "Epochs : 5 [25600 / 50000 (51)%] Train Loss : 0.4637",
        rows=one(25600, 0.4637, epoch=5),
    ),
    shape(
        "what people print: no. 10",
        "* Training epoch 0 | batch loss : 0.47359 | accuracy : 0.525",
        rows=one(None, 0.47359, epoch=0),
    ),
    shape(
        "what people print: no. 11",
        "epoch 23 :  [512/512]loss : 0.49648",
        rows=one(512, 0.49648, epoch=23),
    ),
    shape(
        "what people print: no. 12",
        "Episode: 365 Total reward: 41.0 Training loss: 26.4660 Explore P: 0.3816",
        rows=one(365, 26.466),
    ),
    shape(
        "what people print: no. 13",
        "    Epoch: 8 \tTraining Loss: 0.676868 \tValidation Loss: 0.443686",
        "    Validation loss decreased (0.504320 --> 0.443686).  Saving model ...",
        rows=one(None, 0.676868, epoch=8),
    ),
    shape(
        "what people print: no. 14",
        "Epoch: 1, Training Loss: 0.678",
        rows=one(None, 0.678, epoch=1),
    ),
    shape(
        "what people print: no. 15",
        "train-1  | Epoch 1/5 completed | Training Loss: 0.6092 | Epsilon: 0.3496",
        "train-1  | Epoch 1/5 completed | Validation Loss: 0.7853",
        rows=[(None, 0, 1, None, 0.6092, None)],
    ),
    shape(
        "what people print: no. 16",
        "Epoch 0 complete! Average Training loss: 0.6012711593408903",
        "Validation loss is: 0.44860514781827615",
        rows=one(None, 0.6012711593408903, epoch=0),
    ),
    shape(
        "what people print: no. 19",
        "Stage 1 | Epoch 1/5 | Train Loss 1.2345 Acc 45.23% | Val Loss 0.9876 Acc 52.34% | LR 1.00e-04",
        rows=one(None, 1.2345, epoch=1),
    ),
    shape(
        "what people print: no. 20",
        "epoch[2/20], iter[56] cost: 7573.483, per step time: 135.241, avg loss: 0.880",
        rows=one(56, 0.88, epoch=2),
    ),
    shape(
        "what people print: no. 21",
        "Epoch 20/100, Avg Loss: 1.2985",
        rows=one(None, 1.2985, epoch=20),
    ),
    shape(
        "what people print: no. 22",
        "Batch 250/252 | Loss: 1.1191 | Samples/sec: 149 | LR: 1.0e-04",
        "Test Results | Accuracy: 59.7% | Avg loss: 1.0893",
        rows=one(250, 1.1191, 149.0),
    ),
    shape(
        "what people print: no. 23",
        "Epoch 10 Summary:",
        "   - Avg Loss: 1.450000      Decreasing",
        rows=one(None, 1.45, epoch=10),
    ),
    shape(
        "what people print: no. 24",
        "Epoch: [5]  [ 0/60]  eta: 0:00:35  lr: 0.000500  loss: 0.1728 (0.1728)  loss_classifier: 0.0262 (0.0262)",
        rows=one(0, 0.1728, epoch=5),
    ),
    shape(
        "what people print: no. 27",
        "Epoch: [5][300/312]\tLoss.avg: 0.3615\tRecall(%): 21.622\tPrecision num. corners (%): (22.591, 18.563)",
        rows=one(300, 0.3615, epoch=5),
    ),
    shape(
        "what people print: no. 28",
        "2020-05-17 07:20:21,323 SSD.trainer INFO: iter: 119940, lr: 0.00001, total_loss: 1.961 (2.557), reg_loss: 0.593 (0.754), cls_loss: 1.368 (1.803), time: 0.589 (0.605), eta: 0:00:36, mem: 8288M",
        rows=one(119940, 1.961),
    ),
    shape(
        "what people print: no. 29",
        "  epoch: 1 step: 4 total_loss: 1.3917351",
        rows=one(4, 1.3917351, epoch=1),
    ),
    shape(
        "what people print: no. 31",
        "Iteration 3, loss = 0.50314510",
        rows=one(3, 0.5031451),
    ),
    shape(
        "what people print: no. 32",
        "grad_step = 000002, loss = 0.5961",
        rows=one(2, 0.5961),
    ),
    shape(
        "what people print: no. 33",
        "2018-10-16 05:49:42.966512: step 32800, loss = 0.59, group lasso = 29.12, fake sparsity = 0.34, (5044.4 examples/sec; 0.025 sec/batch)",
        rows=one(32800, 0.59, 5044.4),
    ),
    shape(
        "what people print: no. 34",
        "I0529 17:21:44.564350 25389 solver.cpp:189] Iteration 1000, loss = 0.561665",
        "I0529 17:21:44.564379 25389 solver.cpp:204]     Train net output #0: loss = 0.571665 (* 1 = 0.561665 loss)",
        rows=one(1000, 0.561665),
    ),
    shape(
        "jiesutd/NCRFpp#100",
        "     Instance: 5500; Time: 5.38s; loss: 390.2033; acc: 63247/75573=0.8369",
        rows=one(5500, 390.2033),
    ),
    shape(
        "what people print: no. 7",
        "Train Loss for batch 200/264 @epoch10/12: 0.02839 in 0 mins 2.45 secs",
        rows=one(200, 0.02839, epoch=10),
    ),
    shape(
        "what people print: no. 18",
        "## epoch 0",
        "## training loss: 0.684962 precision: 0.000001 recall: 1.000000",
        "## test loss: 0.684593 precision: 0.000001 recall: 1.000000",
        rows=one(None, 0.684962, epoch=0),
    ),
    shape(
        'what people print: steps of how many, ms/step',
        '|   120/600 steps |  5.21 ms/step | loss 8.3210',
        rows=[(None, None, None, 120, 8.321, 1000 / 5.21)],
    ),
    shape(
        'what people print: [12/600] s/step',
        '[12/600] 29.8s/step | loss=0.6100 ploss=0.3000 kl=0.1000 | r=0.310 task=a | skip=5% | ETA=9.1min | VRAM=900MB',
        rows=[(None, None, None, 12, 0.61, 1 / 29.8)],
    ),
    shape(
        "what people print: a bar in Keras' manner",
        '20/20 [==================== 100%] - 2.31s 115ms/step | loss: 0.4132 | acc: 0.8101 | val_loss: 0.5100 | val_acc: 0.8000',
        rows=[(None, None, None, 20, 0.4132, 1000 / 115)],
    ),
]  # fmt: skip

HOMEMADE_CARRIED: list[Shape] = [
    shape(
        "spellml/examples#17: another tool's date around Open MPI's tags",
        "May 18, 2020, 11:47:13: running: [1,1]<stdout>:Train Epoch: 10 [7680/30000 (26%)]\tLoss: 0.161335",
        "May 18, 2020, 11:47:13: running: [1,0]<stdout>:Train Epoch: 10 [7680/30000 (26%)]\tLoss: 0.127660",
        rows=[(None, 0, 10, 7680, 0.12766, None), (None, 1, 10, 7680, 0.161335, None)],
    ),
    shape(
        "srun --label around what people print",
        "0: Epoch 1, Batch 100, Loss: 2.5",
        "1: Epoch 1, Batch 100, Loss: 2.25",
        rows=[(None, 0, 1, 100, 2.5, None), (None, 1, 1, 100, 2.25, None)],
    ),
    shape(
        "pdsh around what people print",
        "tpu-w-1: Epoch [2/5], Step [300/600], Loss: 0.3125",
        "tpu-w-1: saving",
        rows=[(None, 0, 2, 300, 0.3125, None)],
    ),
    shape(
        "docker compose around what people print",
        "trainer-1  | step 100 | loss 2.5 | 12.1 samples/s",
        "trainer-2  | step 100 | loss 2.25 | 12.0 samples/s",
        rows=[(None, 0, None, 100, 2.5, 12.1), (None, 1, None, 100, 2.25, 12.0)],
    ),
    shape(
        "kubectl logs --prefix around what people print",
        "[pod/trainer-0/main] [Step 100] Loss: 2.5",
        "[pod/trainer-1/main] [Step 100] Loss: 2.25",
        rows=[(None, 0, None, 100, 2.5, None), (None, 1, None, 100, 2.25, None)],
    ),
    shape(
        "ts, from moreutils",
        "May 01 12:00:00 step 100 loss 2.5",
        "May 01 12:00:01 step 110 loss 2.25",
        rows=one(110, 2.25),
    ),
    shape(
        "ts with a year",
        "2024-05-01 12:00:00.123456 Epoch 1 Step 10 Loss 2.5",
        rows=one(10, 2.5, epoch=1),
    ),
    shape(
        "loguru",
        "2024-05-01 12:00:00.123 | INFO     | __main__:train:123 - step 100/5000 loss=1.23 lr=0.001",
        rows=one(100, 1.23),
    ),
    shape(
        "Rich's logging handler",
        "[05/01/24 12:00:00] INFO     Epoch 1 Step 100 Loss 2.5                 train.py:123",
        "                    INFO     Epoch 1 Step 110 Loss 2.25                train.py:123",
        rows=one(110, 2.25, epoch=1),
    ),
    shape(
        "logging.basicConfig",
        "INFO:__main__:Epoch 3 - step 100 - loss: 2.5",
        rows=one(100, 2.5, epoch=3),
    ),
    shape(
        "absl around what people print",
        "I0501 12:00:00.123456 140110937163584 train.py:88] step 100, loss 2.5, 1250.5 tokens/sec",
        rows=one(100, 2.5, 1250.5),
    ),
    shape(
        "Cloud Logging around what people print",
        '{"insertId":"a1","resource":{"labels":{"pod_name":"train-0"}},"textPayload":"step 100 loss 2.5\\n","timestamp":"2024-05-01T12:00:00Z"}',
        rows=[(None, 0, None, 100, 2.5, None)],
    ),
    shape(
        "SkyPilot around what people print",
        "(head, rank=0, pid=123) Epoch: 1 | Batch: 100 | Loss: 2.30",
        "(worker1, rank=1, pid=123, ip=10.0.0.2) Epoch: 1 | Batch: 100 | Loss: 2.31",
        rows=[(None, 0, 1, 100, 2.3, None), (None, 1, 1, 100, 2.31, None)],
    ),
    shape(
        "Ray around what people print",
        "\x1b[36m(RayTrainWorker pid=354, ip=10.72.1.31)\x1b[0m epoch=3 step=100 loss=2.5",
        rows=[(None, 0, 3, 100, 2.5, None)],
    ),
    shape(
        "mpirun around what people print",
        "[1,3]<stdout>:epoch 2, iter 40, loss 0.75",
        rows=[(None, 3, 2, 40, 0.75, None)],
    ),
    shape(
        "torchrun around what people print",
        "[default3]:[rank3]: iter 40 | loss 0.75",
        rows=[(None, 3, None, 40, 0.75, None)],
    ),
]  # fmt: skip
"""With what other tools and loggers put before them."""
