# ruff: noqa: E501 - lines of logs are as long as they are
"""Still more shapes of public logs: trainers by name, each written anew."""

from __future__ import annotations

from tests.logs.public_shapes import Shape, shape
from tests.logs.public_trainers import one

FRAMEWORKS: list[Shape] = [
    shape(
        "pytorch/xla docs",
        "Epoch 3 step 40 loss 2.296875",
        rows=one(40, 2.296875, epoch=3),
    ),
    shape(
        "TPU notebook of a public repository",
        "Starting TPU training on all available TPU cores...",
        "Epoch 0 | Step 100 | Loss: 3.2456 | LR: 3.00e-04",
        rows=one(100, 3.2456, epoch=0),
    ),
    shape(
        "tpuz README",
        "step 100 | loss 4.82 | dt 0.55s",
        rows=one(100, 4.82),
    ),
    shape(
        "pytorch-tpu/transformers#11",
        "04/02/2020 10:11:12 - INFO - __main__ -   global_step: 50, lr: 0.010, loss: 1.234",
        rows=one(50, 1.234),
    ),
    shape(
        "Physical-Intelligence/openpi",
        "Step 100: grad_norm=0.1234, loss=0.0456, param_norm=1802.3811",
        rows=one(100, 0.0456),
    ),
    shape(
        "google-deepmind/acme#269",
        "I0925 18:52:06.416487 140563283464576 terminal.py:91] [Learner] Actor Episodes = 1 | Actor Steps = 825 | Critic Loss = 0.097 | Entropy = -2.768 | Learner Steps = 2 | Learner Time Elapsed = 10.830 | Loss = -0.375 | Param Norm = 48.738",
        rows=one(2, -0.375),
    ),
    shape(
        "AI-Hypercomputer/maxdiffusion",
        "completed step: 12, seconds: 1.812, TFLOP/s/device: 142.875, loss: 0.141",
        rows=one(12, 0.141),
    ),
    shape(
        "tensorflow/tensorflow#40042, tensorflow/models#1264",
        "2020-06-11 12:31:12.179689: step 2600, loss = 1.36 (4606.2 examples/sec; 0.028 sec/batch)",
        "INFO:tensorflow:global_step/sec: 67.4188",
        rows=one(2600, 1.36, 4606.2),
    ),
    shape(
        "InsightFace on Paddle",
        "    => 2021-11-01 16:54:06.938361: step 900, loss = 7.849339, learning_rate = 0.090000 (2278.9 examples/sec)",
        rows=one(900, 7.849339, 2278.9),
    ),
    shape(
        "tensorflow/benchmarks#63",
        "Step\tImg/sec\tloss",
        "1\timages/sec: 140.0 +/- 0.0 (jitter = 0.0)\t8.186",
        "10\timages/sec: 139.6 +/- 0.1 (jitter = 0.3)\t8.137",
        "----------------",
        "total images/sec: 138.95",
        rows=one(10, 8.137, 139.6),
    ),
    shape(
        "utcs-scea/ava#65: blanks for tabs",
        "Step    Img/sec total_loss",
        "20      images/sec: 133.6 +/- 1.4 (jitter = 5.5)        7.696",
        rows=one(20, 7.696, 133.6),
    ),
    shape(
        "tensorflow/agents#316",
        "step = 73000: Average Return = 200.0",
        "step = 73200: loss = 1953.25",
        "step = 73200: Average Return = 200.0",
        rows=one(73200, 1953.25),
    ),
    shape(
        "NifTK/NiftyNet#47",
        "INFO:niftynet:2018-02-04 05:22:25,146: Training iter 3151, loss=0.31178414821624756 (3.145937s)",
        "INFO:niftynet:2018-02-04 05:22:26,146: Validation iter 3151, loss=0.41 (1.1s)",
        rows=one(3151, 0.31178414821624756),
    ),
    shape(
        "wy1iu/sphereface#103: Caffe",
        "I0718 01:37:31.993999 23375 solver.cpp:218] Iteration 9800 (0.986216 iter/s, 101.398s/100 iters), loss = 9.61773",
        "I0718 01:37:31.994319 23375 solver.cpp:237]     Train net output #1: softmax_loss = 9.60000 (* 1 = 9.61773 loss)",
        "I0718 01:37:31.994367 23375 sgd_solver.cpp:105] Iteration 9800, lr = 0.001",
        rows=one(9800, 9.61773, 0.986216),
    ),
    shape(
        "BVLC/caffe#361: Caffe of 2014",
        "I0425 10:13:04.672341  9167 solver.cpp:208] Iteration 200, lr = 0.01",
        "I0425 10:13:04.672637  9167 solver.cpp:65] Iteration 200, loss = 6.55622",
        rows=one(200, 6.55622),
    ),
    shape(
        "AlexeyAB/darknet#4813",
        " 957: 0.660188, 0.689227 avg loss, 0.000839 rate, 3.315456 seconds, 61248 images",
        "Loaded: 0.000047 seconds",
        "Region 16 Avg IOU: 0.535812, Class: 0.996776, Obj: 0.792847, No Obj: 0.005005, .5R: 0.666667, .75R: 0.205128,  count: 39",
        rows=one(957, 0.660188),
    ),
    shape(
        "AlexeyAB/darknet#1464: earlier, the next line glued to it",
        "9002: 0.211667, 0.060730 avg, 0.001000 rate, 3.868000 seconds, 576128 images Loaded: 0.000000 seconds",
        rows=one(9002, 0.211667),
    ),
    shape(
        "tflearn/tflearn#486",
        "Training Step: 8  | total loss: 2.03040 | time: 0.275s",
        rows=one(8, 2.0304),
    ),
    shape(
        "deepinsight/insightface#807: MXNet, a loss of another name",
        "INFO:root:Epoch[0] Batch [31440-31460]\tSpeed: 237.97 samples/sec\tacc=0.001429\tlossvalue=13.728182",
        "[lfw][31500]XNorm: 4.225483",
        "[lfw][31500]Accuracy-Flip: 0.49917+-0.00271",
        rows=one(31460, 13.728182, 237.97, epoch=0),
    ),
    shape(
        "dmlc/gluon-cv: parts of a loss and no whole",
        "INFO:root:[Epoch 3][Batch 99], Speed: 28.025 samples/sec, CrossEntropy=3.125, SmoothL1=1.250",
        rows=one(99, None, 28.025, epoch=3),
    ),
    shape(
        "PrimeIntellect-ai/prime-diloco#25",
        "17:45:05 [INFO] [Rank 0] step: 1, loss: 10.8585, tokens_per_second: 49722.00, mfu: 4.02",
        "17:45:05 [INFO] [Rank 1] step: 1, loss: 10.7585, tokens_per_second: 49721.00, mfu: 4.02",
        rows=[(0, None, None, 1, 10.8585, 49722.0), (1, None, None, 1, 10.7585, 49721.0)],
    ),
    shape(
        "PrimeIntellect-ai/prime-rl#20",
        "03:22:14 [INFO] [TRAIN] [Rank 0] step: 289, loss: 0.4310, tokens_per_second: 76477.73, mfu: 337.59",
        rows=[(0, None, None, 289, 0.431, 76477.73)],
    ),
    shape(
        "facebookresearch/XLM#209",
        "INFO - 10/04/19 14:41:25 - 0:11:11 -    1135 -   56.12 sent/s -  2143.80 words/s - MLM-en:  7.7416 -  - model LR: 3.8795e-06",
        rows=one(1135, 7.7416, 2143.8),
    ),
    shape(
        "marian-nmt/marian#120",
        "[2017-10-18 18:14:31] Ep. 7 : Up. 306350 : Sen. 5630845 : Cost 34.46 : Time 6.91s : 13596.73 words/s",
        rows=one(306350, 34.46, 13596.73, epoch=7),
    ),
    shape(
        "marian-nmt/marian#376: thousands' commas, and validation",
        "[2021-07-17 13:49:01] Ep. 1 : Up. 20000 : Sen. 1,212,903 : Cost 5.85167885 : Time 984.07s : 2382.72 words/s",
        "[2021-07-17 13:49:01] Saving model weights and runtime parameters to model/model.iter20000.npz",
        "[2021-07-17 13:50:36] [valid] Ep. 1 : Up. 20000 : cross-entropy : 130.97 : new best",
        rows=one(20000, 5.85167885, 2382.72, epoch=1),
    ),
    shape(
        "facebookresearch/ParlAI#1716",
        "[ time:72.0s total_exs:16032 epochs:0.15 ] {'exs': 544, 'lr': 1, 'num_updates': 501, 'loss': 119.9, 'token_acc': 0.2372, 'nll_loss': 7.074, 'ppl': 1181.0}",
        rows=one(501, 119.9, epoch=0),
    ),
    shape(
        "facebookresearch/ParlAI#2433: ranks, the step last",
        "[rank:  1] [ time:4.0s total_exs:2114 epochs:4.23 time_left:15.0s ] {'exs': 1134, 'loss': 0.949, 'ppl': 2.583, 'updates': 81, 'lr': 0.007, 'total_train_updates': 151}",
        rows=[(None, 1, 4, 151, 0.949, None)],
    ),
    shape(
        "PaddlePaddle/PaddleNLP: the step after the loss",
        "[2022-08-31 15:41:18,173] [    INFO] - loss: 0.02356675, learning_rate: 0.0, global_step: 1000, interval_runtime: 0.9387, interval_samples_per_second: 8.522, interval_steps_per_second: 10.653, epoch: 50.0",
        rows=one(1000, 0.02356675, 8.522, epoch=50),
    ),
    shape(
        "huminghao16/RE3QA#8",
        "08/21/2019 22:41:36 - INFO - __main__ -   ***** Epoch: 2 *****",
        "08/21/2019 22:44:47 - INFO - __main__ -   step: 71000, loss: 1.856",
        rows=one(71000, 1.856),
    ),
    shape(
        "modelscope/ms-swift#4146",
        "{'loss': 0.4850769, 'grad_norm': 25.86640167, 'learning_rate': 1e-06, 'memory(GiB)': 69.19, 'train_speed(iter/s)': 0.010367, 'rewards/chosen': -0.0615, 'epoch': 0.26, 'global_step/max_steps': '12/94', 'percentage': '12.77%', 'elapsed_time': '18m 26s', 'remaining_time': '2h 5m 59s'}",
        rows=one(12, 0.4850769, epoch=0),
    ),
    shape(
        "axolotl-ai-cloud/axolotl#3196",
        "{'loss': 4.75, 'grad_norm': 98.5, 'learning_rate': 5e-06, 'memory/max_mem_active(gib)': 25.45, 'memory/device_mem_reserved(gib)': 30.22, 'epoch': 1.0}",
        rows=one(None, 4.75, epoch=1),
    ),
    shape(
        "axolotl-ai-cloud/axolotl#592: beside its own lines",
        "[2023-09-17 13:15:13,336] [INFO] [axolotl.utils.dataloader._len_est:264] [PID:11100] [RANK:0] packing_efficiency_estimate: 0.77 total_num_tokens per device: 26275",
        " 30%|███▋       | 258/873 [22:15<43:27,  4.24s/it]",
        "{'loss': 1.0226, 'learning_rate': 0.00014229432213209734, 'epoch': 0.89}",
        rows=one(None, 1.0226, epoch=0),
    ),
    shape(
        "hpcaitech/ColossalAI#1400",
        "[Epoch 5 / Train]: 100%|██████████| 1/1 [00:00<00:00,  2.05it/s, loss=107, lr=0.00015, throughput=8.2047 sample_per_sec, 7.6092 Tflops]",
        rows=one(1, 107.0, 8.2047, epoch=5),
    ),
    shape(
        "marin-community/levanter#363: its bar of 2023",
        "train:   0%|          | 1/200 [01:24<4:40:36, 84.60s/it, loss=11]",
        "2023-11-06T20:43:38 - 0 - levanter.callbacks - callbacks.py:57 - INFO :: validation loss: nan",
        rows=one(1, 11.0, 1 / 84.60),
    ),
    shape(
        "DoReMi of a public repository",
        "Proxy Pre-train Step  250/1000 | Loss: 6.239",
        "Proxy Pre-train Step  500/1000 | Loss: 5.580",
        rows=one(500, 5.58),
    ),
    shape(
        "omnivoice",
        "Step 1500 | train/loss: 2.3145 | train/learning_rate: 1.00e-04 | train/grad_norm: 0.5",
        rows=one(1500, 2.3145),
    ),
    shape(
        "a dashboard's example",
        "[2026-04-08 14:15:01] INFO: Epoch 1, Step 1000, Loss: 3.521, Throughput: 130.5 tokens/s",
        rows=one(1000, 3.521, 130.5, epoch=1),
    ),
    shape(
        "minimaxir/gpt-2-simple",
        "[1000 | 1234.56] loss=2.34 avg=2.40",
        rows=one(1000, 2.34),
    ),
    shape(
        "torchspec",
        "[2025-01-15 10:30:00] train_actor.py:123 INFO Training step 100, loss=2.345",
        rows=one(100, 2.345),
    ),
    shape(
        "facebookresearch/vissl#480",
        "INFO 2021-12-02 18:52:20,806 log_hooks.py: 277: Rank: 3; [ep: 0] iter: 57; lr: 0.71785; loss: 2.94718; btime(ms): 192; eta: 0:00:08; peak_mem(M): 4176;",
        rows=[(3, None, 0, 57, 2.94718, None)],
    ),
    shape(
        "tiandunx/loss_function_search#5",
        "INFO 2021-06-10 18:58:19 search.py: 62] rank 0, epoch 8, iter 304, lr 0.001000, loss 5.849984",
        "INFO 2021-06-10 19:05:32 search.py: 67] save checkpoint epoch_8_batch_504.pt to disk...",
        "INFO 2021-06-10 19:31:48 search.py: 99] rank: 0, acc = 0.831333",
        rows=[(0, None, 8, 304, 5.849984, None)],
    ),
    shape(
        "Kronos",
        "[Rank 0, Epoch 1/1, Step 451000/4701721] LR 0.000198, Loss: -0.0299",
        rows=[(0, None, 1, 451000, -0.0299, None)],
    ),
    shape(
        "gloo on MNIST",
        "Rank 0: Using pre-downloaded MNIST dataset (60000 train, 10000 test)",
        "Rank 0, Epoch 0, Batch 20: Loss: 0.524573, Accuracy: 84.38%",
        "Rank 0: Final Training Accuracy: 90.61%",
        rows=[(0, None, 0, 20, 0.524573, None)],
    ),
    shape(
        "ranks between bars",
        "Rank 0 | Epoch 0 | Batch 10/195 | Loss: 2.245",
        "Rank 1 | Epoch 0 | Batch 10/195 | Loss: 2.256",
        "Average Throughput: 2450 samples/s",
        rows=[(0, None, 0, 10, 2.245, None), (1, None, 0, 10, 2.256, None)],
    ),
    shape(
        "open-mmlab/OpenPCDet#1229",
        "2023-01-05 16:34:49,377   INFO  Train:    1/3 ( 33%) [  49/323 ( 15%)]  Loss: 36.77 (81.7)  LR: 1.351e-04  Time cost: 00:15/01:25 [00:15/04:48]  Acc_iter 50          Data time: 0.00(0.02)",
        rows=one(49, 36.77, epoch=1),
    ),
    shape(
        "whai362/PVT#24: DeiT's log.txt",
        '{"train_lr": 0.0004153, "train_loss": 3.0828, "test_loss": 0.858423, "test_acc1": 80.016, "test_acc5": 95.336, "epoch": 280, "n_parameters": 81956008}',
        rows=one(None, 3.0828, epoch=280),
    ),
    shape(
        "caiyuanhao1998/Retinexformer#6: BasicSR",
        "2022-12-29 10:44:45,100 INFO: [Retin..][epoch: 16, iter:   1,000, lr:(2.001e-04,)] [eta: 6:22:59, time (data): 0.142 (0.001)] l_pix: 1.0709e-01 ",
        "2022-12-29 10:44:47,801 INFO: Validation ValSet,\t\t # psnr: 19.6031",
        rows=one(1000, None, epoch=16),
    ),
    shape(
        "XPixelGroup/BasicSR#269: an adversary's too",
        "2020-08-15 15:50:30,390 INFO: [My_ES..][epoch:207, iter:  20,100, lr:(1.000e-04,)] [eta: 1 day, 18:13:17, time (data): 0.365 (0.002)] l_g_pix: 3.1516e-04 l_g_percep: 5.2308e-01 l_g_gan: 4.2322e-02",
        rows=one(20100, None, epoch=207),
    ),
    shape(
        "chxy95/HDRUNet#12: BasicSR of 2019",
        "21-08-10 11:12:37.463 - INFO: <epoch:193, iter: 505,000, lr:5.000e-05, , time:51.837> l_pix: 7.5744e-03",
        "21-08-10 11:30:17.503 - INFO: <epoch:193, iter: 505,000> psnr: 2.0776e+01 norm_PSNR: 4.0822e+01",
        rows=one(505000, None, epoch=193),
    ),
    shape(
        "junyanz/pytorch-CycleGAN-and-pix2pix#510",
        "(epoch: 1, iters: 100, time: 0.507, data: 0.091) D_A: 0.201 G_A: 0.297 cycle_A: 4.741 idt_A: 0.712 D_B: 0.250",
        "saving the model at the end of epoch 1, iters 800",
        "End of epoch 1 / 400   Time Taken: 88 sec",
        rows=one(100, None, epoch=1),
    ),
    shape(
        "modelscope/scepter#48",
        "scepter [INFO] 2024-10-06 20:19:51,817 [File: log.py Function: _print_iter_log at line 71]  Stage [train] iter: [10/500], data_time: 1.0402(1.0402), time: 1.4696(1.4696), loss: 0.0978(0.0978), pg0_lr: 0.000100",
        "scepter [INFO] 2024-10-06 20:19:52,817 [File: log.py Function: _print_iter_log at line 71]  Stage [eval] iter: [10/50], loss: 0.1978(0.1978)",
        rows=one(10, 0.0978),
    ),
    shape(
        "ultralytics/yolov5#1485: its total, cut off by the terminal",
        "Epoch   gpu_mem       box       obj       cls     total   targets  img_size",
        "     5/249    0.868G   0.06393   0.01588  0.009617   0.08943        36       640: 100%|█| 211/211 [00:48<00:",
        rows=one(211, None, epoch=5),
    ),
]  # fmt: skip
