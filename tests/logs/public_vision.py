# ruff: noqa: E501 - lines of logs are as long as they are
"""More shapes of public logs: pictures, speech, and what people print themselves. Each is written anew."""

from __future__ import annotations

from tests.logs.public_shapes import Shape, shape
from tests.logs.public_trainers import one

VISION: list[Shape] = [
    shape(
        "microsoft/Swin-Transformer#183",
        "[2022-03-14 09:05:16 swin_tiny] (main.py 226): INFO Train: [14/300][250/1251]\teta 0:10:52 lr 0.000710\ttime 0.6408 (0.6516)\tloss 6.6584 (6.3074)\tgrad_norm 6.5613 (10.6225)\tmem 14764MB",
        "[2022-03-14 09:15:16 swin_tiny] (main.py 282): INFO Test: [0/98]\tTime 1.5 (1.5)\tLoss 2.5 (2.5)\tAcc@1 50.1 (50.1)",
        "[2022-03-14 09:15:17 swin_tiny] (main.py 240): INFO EPOCH 14 training takes 0:13:30",
        rows=one(250, 6.6584, epoch=14),
    ),
    shape(
        "MzeroMiko/VMamba#273: more columns",
        "[2024-07-27 03:37:34 vssm1] (main.py 295): INFO Train: [30/300][210/2859]\teta 0:25:26 lr 0.000872\t wd 0.0500\ttime 0.4205 (0.5761)\tdata time 0.0010 (0.1443)\tmodel time 0.4195 (0.4317)\tloss 2.1993 (1.9758)\tgrad_norm 2.1558 (2.5588)\tloss_scale 32768.0000 (32768.0000)\tmem 16138MB",
        rows=one(210, 2.1993, epoch=30),
    ),
    shape(
        "pytorch/examples, imagenet, and its evaluation",
        "Epoch: [0][  10/5005]\tTime  0.366 ( 1.234)\tData  0.012 ( 0.345)\tLoss 6.9876e+00 (6.9999e+00)\tAcc@1   0.00 (  0.12)\tAcc@5   0.78 (  0.71)",
        "Test: [ 0/196]\tTime  1.366 ( 1.366)\tLoss 5.9876e+00 (5.9876e+00)\tAcc@1   0.00 (  0.00)",
        " *   Acc@1 10.100 Acc@5 25.200",
        rows=one(10, 6.9876, epoch=0),
    ),
    shape(
        "NVIDIA/apex, imagenet: a speed",
        "Epoch: [2][10/5005]\tTime 0.3 (1.2)\tSpeed 823.400 (700.1)\tLoss 6.9812340736 (7.0123)\tPrec@1 0.391 (0.213)\tPrec@5 1.953 (0.994)",
        rows=one(10, 6.9812340736, 823.4, epoch=2),
    ),
    shape(
        "facebookresearch/deit#76: torchvision's MetricLogger behind Azure's dates and Open MPI's tags",
        "2021-03-10T13:17:11.883Z: [1,0]<stdout>:Epoch: [2]  [ 150/1251]  eta: 0:20:52  lr: 0.000201  loss: 6.8710 (6.8841)  time: 1.0552  data: 0.0035  max mem: 8249",
        rows=[(None, 0, 2, 150, 6.871, None)],
    ),
    shape(
        "facebookresearch/dino#69, facebookresearch/mae: totals and averages around it",
        "Epoch: [0/100]  [2240/2502]  eta: 0:02:44  loss: 5.485776 (7.546279)  lr: 0.000089 (0.000045)  wd: 0.040071 (0.040024)  time: 0.618063  data: 0.000170  max mem: 13871",
        "Epoch: [0/100] Total time: 0:25:03 (0.6012 s / it)",
        "Averaged stats: loss: 5.300000 (7.300000)  lr: 0.000100 (0.000050)",
        "Test:  [  0/79]  eta: 0:01:00  loss: 0.9 (0.9)  acc1: 80.0 (80.0)  time: 0.8  data: 0.5",
        rows=one(2240, 5.485776, epoch=0),
    ),
    shape(
        "pytorch/vision, references/classification: images a second",
        "Epoch: [1]  [  10/1000]  eta: 0:10:00  lr: 0.1  img/s: 300.25  loss: 6.9375 (7.0)  acc1: 0.0 (0.1)  acc5: 0.0 (0.5)  time: 0.1  data: 0.01  max mem: 100",
        rows=one(10, 6.9375, 300.25, epoch=1),
    ),
    shape(
        "facebookresearch/dinov2",
        "I20230401 10:00:00 1234 dinov2 helpers.py:102] Training  [    10/125000]  eta: 1 day, 3:00:00  lr: 0.0000 (0.0000)  wd: 0.0400 (0.0400)  total_loss: 13.2500 (13.5)  dino_local_crops_loss: 10.1 (10.2)  time: 0.8 data: 0.1 max mem: 20000",
        rows=one(10, 13.25),
    ),
    shape(
        "pytorch/examples#1416 (mnist and vae, on XLA)",
        "Train Epoch: 10 [3840/60000 (6%)]\tLoss: 106.680338",
        "====> Epoch: 10 Average loss: 106.2000",
        "Test set: Average loss: 0.0500, Accuracy: 9800/10000 (98%)",
        rows=one(3840, 106.680338, epoch=10),
    ),
    shape(
        "kubeflow/katib#2560: an equals sign",
        "2025-08-14T23:41:27Z INFO     Train Epoch: 1 [1920/60000 (3%)]    loss=2.3376",
        "2025-08-14T23:51:27Z INFO     accuracy=0.5",
        rows=one(1920, 2.3376, epoch=1),
    ),
    shape(
        "mertyg/vision-language-models-are-bows#27: OpenCLIP of 2022",
        "2023-06-29,15:44:40 | INFO | Train Epoch: 0 [    64/109468 (0%)] Loss: 1.0772 (1.067) Data (t): 14.173 Batch (t): 18.240, 1.75441/s LR: 0.000000 Logit Scale: 100.000 - V4",
        "2023-06-29,15:54:40 | INFO | Eval Epoch: 1 [256 / 5000]\tClip Loss: 0.900000",
        rows=one(64, 1.0772, 1.75441, epoch=0),
    ),
    shape(
        "mlfoundations/open_clip: of today, losses last and twice",
        "2025-11-19,10:00:00 | INFO | Train Epoch: 3 [  20480/1000000 (2%)] Data (t): 0.101 Batch (t): 0.512, 4001.25/s, 500.156/s/gpu LR: 0.000500 Logit Scale: 14.286 Contrastive_loss: 5.5000 (5.6000) Loss: 5.4375 (5.6000)",
        rows=one(20480, 5.4375, 4001.25, epoch=3),
    ),
    shape(
        "facebookresearch/detectron2#195",
        "[11/01 11:27:04 d2.utils.events]: eta: 8:05:12  iter: 1259  total_loss: 1.112  loss_cls: 0.714  loss_box_reg: 0.291  time: 0.3322  data_time: 0.0334  lr: 0.010000  max_mem: 3961M",
        rows=one(1259, 1.112),
    ),
    shape(
        "facebookresearch/detectron2#1345, ChenhongyiYang/QueryDet-PyTorch#17: no estimate; another logger",
        "\x1b[32m[05/01 07:04:51 d2.utils.events]: \x1b[0m eta: N/A  iter: 197900  total_loss: 0.045  loss_box_reg: 0.015  loss_cls: 0.017      lr: 0.002500  max_mem: 5937M",
        "[04/14 09:05:02] d2.utils.events INFO:  eta: 1 day, 0:11:54  iter: 197919  total_loss: 0.125  loss_cls: 2.549  time: 0.8153",
        rows=one(197919, 0.125),
    ),
    shape(
        "facebookresearch/Detectron#610: JSON",
        'json_stats: {"accuracy_cls": 1.000000, "eta": "0:21:51", "iter": 55080, "loss": 0.034404, "loss_bbox": 0.000645, "loss_cls": 0.001896, "lr": 0.000025, "mb_qsize": 64, "mem": 3084, "time": 0.266505}',
        rows=one(55080, 0.034404),
    ),
    shape(
        "open-mmlab/mmengine#155: losses below zero, and its validation",
        "04/21 21:03:53 - mmengine - INFO - Epoch(train)  [1][ 50/90]  lr: 1.000e-02  eta: 0:00:05  time: 0.003  data_time: 0.000  memory: 0  loss: -22.9178",
        "2024/06/16 20:02:03 - mmengine - INFO - Epoch(val) [1][60/90]    eta: 0:06:54  time: 0.5256  data_time: 0.0006  memory: 979  loss: 3.5",
        rows=one(50, -22.9178, epoch=1),
    ),
    shape(
        "InternLM/xtuner#658: iterations alone",
        "2024/05/07 12:12:19 - mmengine - INFO - Iter(train) [1010/2046]  lr: 1.0704e-04  eta: 0:56:54  time: 18.9265  data_time: 16.0600  memory: 15266  loss: 0.7875  grad_norm: 0.0009",
        rows=one(1010, 0.7875),
    ),
    shape(
        "open-mmlab/mmdetection#2672: mmcv, the loss last of many",
        "2020-05-08 18:44:23,494 - mmdet - INFO - Epoch [1][1200/7517]\tlr: 0.00125, eta: 4:44:04, time: 0.593, data_time: 0.031, memory: 6836, loss_rpn_cls: 0.0927, loss_rpn_bbox: 0.0444, loss_cls: 0.1861, acc: 94.0625, loss_bbox: 0.1375, loss: 0.4706",
        "2020-05-08 19:44:23,494 - mmdet - INFO - Epoch(val) [1][7517]\tbbox_mAP: 0.1, loss: 0.5",
        rows=one(1200, 0.4706, epoch=1),
    ),
    shape(
        "open-mmlab/mmsegmentation: mmcv by iterations",
        "2021-05-08 18:44:23,494 - mmseg - INFO - Iter [50/80000]\tlr: 9.994e-03, eta: 9:44:04, time: 0.593, data_time: 0.031, memory: 6836, decode.loss_seg: 1.5, decode.acc_seg: 40.0625, loss: 2.1250",
        rows=one(50, 2.125),
    ),
    shape(
        "ultralytics/ultralytics#7653: parts of a loss and no whole",
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
        "    70/1000      6.73G      1.081     0.4706      1.084         10        640: 100%|██████████| 16/16 [00:05<00:00,  2.78it/s]",
        "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 8/8 [00:03<00:00,  2.17it/s]",
        "                   all        722       1444      0.989       0.99      0.993      0.681",
        rows=one(16, None, epoch=70),
    ),
    shape(
        "Megvii-BaseDetection/YOLOX#782",
        "2021-10-11 14:38:12 | INFO     | yolox.core.trainer:246 - epoch: 1/80, iter: 2/57, mem: 6736Mb, iter_time: 0.306s, data_time: 0.012s, total_loss: 14.9, iou_loss: 3.8, l1_loss: 0.0, conf_loss: 9.2, cls_loss: 1.8, lr: 2.462e-07, size: 640, ETA: 1:58:38",
        rows=one(2, 14.9, epoch=1),
    ),
    shape(
        "Megvii-BaseDetection/YOLOX#1803: and more memory",
        "2024-11-07 11:16:48 | INFO     | yolox.core.trainer:270 - epoch: 1/300, iter: 10/134, gpu mem: 9301Mb, mem: 24.6Gb, iter_time: 0.677s, data_time: 0.059s, total_loss: 15.8, iou_loss: 3.8, lr: 1.392e-07, size: 1280, ETA: 7:33:23",
        rows=one(10, 15.8, epoch=1),
    ),
    shape(
        "PaddlePaddle/PaddleSeg#928",
        "2021-03-30 06:55:57 [INFO]\t[TRAIN] epoch: 1, iter: 20/500, loss: 2.0959, lr: 0.009657, batch_cost: 0.5344, reader_cost: 0.07273, ips: 3.7425 samples/sec | ETA 00:04:16",
        "2021-03-30 06:57:57 [INFO]\t[EVAL] #Images: 500, mIoU: 0.1, Acc: 0.5, loss: 1.5",
        rows=one(20, 2.0959, 3.7425, epoch=1),
    ),
    shape(
        "PaddlePaddle/PaddleSeg#792, #303: equals signs",
        "2021-01-19 07:02:41 [INFO]\t[TRAIN] epoch=1, iter=5/100, loss=2.8835, lr=0.009639, batch_cost=0.8913, reader_cost=0.2592 | ETA 00:01:24",
        "epoch=1 step=170 lr=0.00093 loss=0.0591 step/sec=5.027 | ETA 00:07:06",
        rows=one(170, 0.0591, 5.027, epoch=1),
    ),
    shape(
        "PaddlePaddle/PaddleOCR#1181",
        "[2020/11/16 11:11:26] root INFO: epoch: [0/100], iter: 10, lr: 0.001000, acc: 0.507812, loss: 0.798222, reader_cost: 6.01444 s, batch_cost: 6.29982 s, samples: 5632, ips: 89.39943",
        rows=one(10, 0.798222, 89.39943, epoch=0),
    ),
    shape(
        "PaddlePaddle/PaddleX#2884: PaddleDetection",
        "[02/04 22:46:24] ppdet.engine.callbacks INFO: Epoch: [0] [2087/7312] learning_rate: 0.000029 loss: 4.604654 loss_cls: 1.374781 loss_iou: 0.142509 eta: 67 days, 10:28:48 batch_cost: 0.1664 data_cost: 0.0034 ips: 96.1758 images/s, max_mem_reserved: 42653 MB",
        rows=one(2087, 4.604654, 96.1758, epoch=0),
    ),
    shape(
        "PaddlePaddle/PaddleClas#369: and its validation",
        "2020-11-04 17:25:52 INFO: epoch:0  , train step:50  , loss: 6.93608, top1: 0.00000, top5: 0.00000, lr: 0.100000, batch_cost: 0.28419 s, reader_cost: 0.00056 s, ips: 225.20036 images/sec.",
        "2020-11-04 17:35:52 INFO: epoch:0  , valid step:50  , loss: 5.93608, top1: 0.00000, top5: 0.00000",
        rows=one(50, 6.93608, 225.20036, epoch=0),
    ),
    shape(
        "deepinsight/insightface, arcface_torch",
        "Training: 2021-10-11 14:38:12,000-Speed 1200.12 samples/sec   Loss 21.5000   LearningRate 0.100000   Epoch: 0   Global Step: 100   Fp16 Grad Scale: 8192   Required: 10 hours",
        rows=one(100, 21.5, 1200.12, epoch=0),
    ),
    shape(
        "apache/mxnet: Module.fit",
        "INFO:root:Epoch[0] Batch [50]\tSpeed: 1234.56 samples/sec\taccuracy=0.1\tcross-entropy=2.25",
        "INFO:root:Epoch[0] Validation-accuracy=0.5",
        rows=one(50, 2.25, 1234.56, epoch=0),
    ),
    shape(
        "pytorch/ignite examples, JDAI-CV/fast-reid's ancestor",
        "2019-10-11 14:38:12,000 reid_baseline.train INFO: Epoch[1] Iteration[20/185] Loss: 13.925, Acc: 0.010, Base Lr: 3.50e-05",
        "Validation Results - Epoch: 1  Avg accuracy: 0.95 Avg loss: 0.15",
        rows=one(20, 13.925, epoch=1),
    ),
]
"""Pictures."""

OTHERS: list[Shape] = [
    shape(
        "k2-fsa/icefall#399, #569: the batch before the running total; ranks in brackets",
        "2022-10-03 21:05:24,891 INFO [train.py:908] (1/4) Epoch 1, batch 5950, loss[loss=0.4741, simple_loss=0.7553, pruned_loss=0.8645, over 2402.00 frames. utt_duration=1069 frames, utt_pad_proportion=0.04948, over 9.00 utterances.], tot_loss[loss=0.4736, simple_loss=0.7719, over 468996.04 frames.], batch size: 9, lr: 2.41e-03",
        "2022-10-03 21:05:24,896 INFO [train.py:908] (0/4) Epoch 1, batch 5950, loss[loss=0.4962, simple_loss=0.8107, pruned_loss=0.909, over 2408.00 frames.], tot_loss[loss=0.4729, over 469162.56 frames.], batch size: 9, lr: 2.41e-03",
        "2022-10-03 21:06:24,896 INFO [train.py:930] (0/4) Epoch 1, validation: loss=0.3, simple_loss=0.5, over 100.00 frames.",
        rows=[(0, None, 1, 5950, 0.4962, None), (1, None, 1, 5950, 0.4741, None)],
    ),
    shape(
        "k2-fsa/icefall#320: one process, other losses first",
        "2022-04-21 06:21:16,518 INFO [train.py:518] Epoch 0, batch 500, loss[ctc_loss=0.7647, att_loss=0.7367, loss=0.7523, over 2223 frames.], tot_loss[ctc_loss=1.098, att_loss=1.086, loss=1.088, over 438207.72 frames.], batch size: 8",
        rows=one(500, 0.7523, epoch=0),
    ),
    shape(
        "espnet/espnet#2183, #5147",
        "[gpu01:0/2] 2020-07-19 08:49:04,080 (trainer:464) INFO: 1epoch:train:683-1364batch: iter_time=5.862e-05, forward_time=0.134, loss_ctc=75.235, loss=68.822, acc=0.125, backward_time=0.111, lr_0=1.028e-05, train_time=1.790",
        "[gpu01:0/2] 2020-07-19 09:49:04,080 (trainer:240) INFO: 1epoch results: [train] iter_time=5.8e-05, loss=60.1, [valid] loss=50.1",
        rows=one(1364, 68.822, epoch=1),
    ),
    shape(
        "TensorFlow's own Transformer tutorial",
        "Epoch 3 Batch 250 Loss 2.1250 Accuracy 0.5000",
        "Epoch 3 Loss 2.3000 Accuracy 0.4800",
        rows=one(250, 2.125, epoch=3),
    ),
    shape(
        "yunjey/pytorch-tutorial",
        "Epoch [2/5], Step [300/600], Loss: 0.3125",
        "Test Accuracy of the model on the 10000 test images: 97 %",
        rows=one(300, 0.3125, epoch=2),
    ),
    shape(
        "what people print: commas and colons",
        "Epoch: 1, Step: 100, Loss: 2.3125",
        "Validation - Epoch: 1, Step: 100, Loss: 2.5",
        "Epoch 1, Step 200, Loss: 2.25, LR: 1e-4, Tokens/s: 1,250.5",
        rows=one(200, 2.25, 1250.5, epoch=1),
    ),
    shape(
        "what people print: a step in brackets, a throughput",
        "[step  7/100] loss=3.1250 step_time=120.5ms throughput=4096 tok/s",
        rows=one(7, 3.125, 4096.0),
    ),
    shape(
        "what people print: JSON",
        '{"step": 100, "train/loss": 2.125, "train/lr": 0.001}',
        '{"step": 110, "val/loss": 2.5}',
        '{"epoch": 1, "global_step": 120, "train_loss": 2.0625}',
        '{"mode": "val", "epoch": 1, "iter": 130, "loss": 1.5}',
        rows=one(120, 2.0625, epoch=1),
    ),
    shape(
        "keras-team/keras-core and cellfinder#627: Keras 3 in a file",
        "Epoch 41/190",
        "244/244 ━━━━━━━━━━━━━━━━━━━━ 270s 911ms/step - accuracy: 0.8183 - loss: 0.4164 - val_accuracy: 0.8208 - val_loss: 0.4372 - learning_rate: 0.0010",
        rows=one(244, 0.4164, 1000 / 911, epoch=41),
    ),
]
"""Speech, tutorials, and what people print themselves."""

MORE_NO_SAMPLES = [
    ("nanoGPT: its source", 'print(f"iter {iter_num}: loss {lossf:.4f}, time {dt*1000:.2f}ms, mfu {running_mfu*100:.2f}%")'),
    ("modded-nanogpt: evaluation", "step:125/1480 val_loss:4.3719 train_time:29736ms step_avg:258.57ms"),
    ("llm.c: evaluation", "val loss 4.5"),
    ("clu: evaluation", "I1 10:00:00.000000 1 logging_writer.py:48] [400] eval_accuracy=0.8, eval_loss=0.9"),
    ("clu: test", "I1 10:00:00.000000 1 logging_writer.py:48] [400] test_loss=0.9, steps_per_second=1.5"),
    ("big_vision: evaluation", "[50] val/loss = 0.7"),
    ("Flax examples of transformers: evaluation", "Step... (500 | Eval Loss: 8.9, Eval Acc: 0.1)"),
    ("fairseq: an epoch's summary", "| epoch 082 | loss 4.711 | nll_loss 2.119 | ppl 4.34 | wps 18465 | ups 0 | num_updates 10164 | lr 0.0006"),
    ("fairseq: evaluation", "| epoch 010 | valid on 'valid' subset | loss 6.860 | nll_loss 4.625 | num_updates 10164 | best_loss 6.84"),
    ("fairseq: an evaluation's bar", "epoch 001 | valid on 'valid' subset:  50%|█████     | 5/10 [00:01<00:01, 5.0it/s, loss=9.5]"),
    ("mmengine: evaluation", "mmengine - INFO - Epoch(val) [10][4000/4809]    eta: 0:06:54  time: 0.5256  memory: 979  loss: 1.5"),
    ("mmengine: test", "mmengine - INFO - Epoch(test) [4000/4809]    eta: 0:06:54  time: 0.5256  memory: 979  loss: 1.5"),
    ("torchvision: evaluation", "Test:  [  0/79]  eta: 0:01:00  loss: 0.9 (0.9)  acc1: 80.0 (80.0)  time: 0.8"),
    ("torchvision: averages", "Averaged stats: lr: 0.000201  loss: 6.8623 (6.8804)"),
    ("pytorch/examples: evaluation", "Test: [ 0/196]\tTime  1.3 ( 1.3)\tLoss 5.9e+00 (5.9e+00)\tAcc@1   0.00 (  0.00)"),
    ("Swin: evaluation", "INFO Test: [0/98]\tTime 1.5 (1.5)\tLoss 2.5 (2.5)\tAcc@1 50.1 (50.1)\tMem 500MB"),
    ("OpenCLIP: evaluation", "| INFO | Eval Epoch: 1 [256 / 5000]\tClip Loss: 0.900000"),
    ("OpenNMT: evaluation", "[2019-12-04 15:33:58,389 INFO] Validation perplexity: 9.5"),
    ("icefall: evaluation", "INFO [train.py:930] (0/4) Epoch 1, validation: loss=0.3, simple_loss=0.5, over 100.00 frames."),
    ("ESPnet: evaluation", "INFO: 1epoch:valid:1-100batch: iter_time=5.862e-05, loss=50.1"),
    ("DeepSpeed: no loss", "[logging.py:69:log_dist] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]"),
    ("verl: before training", "step:0 - val-aux/openai/gsm8k/reward/mean@1:0.565 - val-core/openai/gsm8k/acc/mean@1:0.508"),
    ("Ultralytics: evaluation", "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 8/8 [00:03<00:00,  2.17it/s]"),
    ("Ultralytics: a model's layers", "  9                  -1  1    831168  ultralytics.nn.modules.block.SPPF            [576, 576, 5]"),
    ("JSON: evaluation", '{"mode": "val", "epoch": 1, "iter": 130, "loss": 1.5}'),
    ("JSON: a configuration", '{"step": 10, "loss": "mse"}'),
    ("JSON: a configuration", '{"max_steps": 100, "loss": 0.5}'),
    ("JSON: no loss", '{"current_steps": 3235, "total_steps": 3235, "loss": null, "epoch": 1.0}'),
    ("a configuration over lines", " 'loss': 'cross_entropy',"),
    ("what people print: the best", "Best Epoch: 3, Step: 100, Loss: 2.5"),
    ("what people print: evaluation", "Eval | Epoch: 3, Step: 100, Loss: 2.5"),
    ("what people print: evaluation", "[Validation] step 100 loss 2.5"),
    ("what people print: evaluation", "test epoch=1 step=100 loss=2.5"),
    ("a checkpoint's name", "saved ckpt-step=100-loss=2.50.pt"),
    ("Lightning: a checkpoint's note", "Epoch 0, global step 199: 'val_loss' was not in top 10"),
    ("a training script's source", 'logger.info(f"Epoch {epoch}, Step {step}, Loss: {loss.item():.4f}")'),
    ("a training script's source", 'print("epoch=%d step=%d loss=%f" % (epoch, step, loss))'),
    ("MLPerf", ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": 0.7, "metadata": {"epoch_num": 3}}'),
    ("Weights & Biases: a summary", "wandb:   step 100"),
    ("Ray Tune: a result over lines", "  training_iteration: 10"),
    ("a compiler's note", "NOTE: XLA compilation detected; too many of these can lead to slow training, but we expect a few in the beginning"),
    ("MaxText: a checkpoint", "I0421 14:57:34.339706 137 checkpointing.py:677] saved a checkpoint at step 100"),
]  # fmt: skip
"""Neighbours of samples that are none."""
