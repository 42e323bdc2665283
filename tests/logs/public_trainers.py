# ruff: noqa: E501 - lines of logs are as long as they are
"""More shapes of public logs: language models and JAX. Each is written anew with other numbers."""

from __future__ import annotations

from tests.logs.public_shapes import ESC, Shape, shape


def one(
    step: int | None, loss: float | None, rate: float | None = None, *, epoch: int | None = None
) -> list[tuple[object, ...]]:
    """What a log without core numbers and workers tells: one row."""
    return [(None, None, epoch, step, loss, rate)]


LANGUAGE: list[Shape] = [
    shape(
        "karpathy/nanoGPT#110: before it told its MFU",
        "iter 1631: loss 4.1863, time 561.94ms",
        "iter 1632: loss 3.8441, time 563.15ms",
        rows=one(1632, 3.8441),
    ),
    shape(
        "karpathy/nanoGPT#215: a nan, a date before it, and the evaluation between",
        "2023-03-22 09:32:32 step 3000: train loss 4.1390, val loss 4.1427",
        "saving checkpoint to out",
        "2023-03-22 09:32:41 iter 3000: loss 4.3490, time 35392.33ms, mfu 13.85%",
        "2023-03-22 09:33:02 step 3020: train loss 4.0000, val loss 4.1000",
        rows=one(3000, 4.349),
    ),
    shape(
        "karpathy/nanochat: pretraining",
        "Step 00250 | Validation bpb: 1.0123",
        "step 00250/05568 (4.49%) | loss: 4.397663 | grad norm: 0.1200 | lrm: 1.00 | dt: 779.27ms | tok/sec: 672,448 | "
        "mfu: 42.57 | total time: 3.00m",
        "Step 00250 | CORE metric: 0.1000",
        rows=one(250, 4.397663, 672448.0),
    ),
    shape(
        "karpathy/nanochat: fine-tuning and its descendants, no total",
        "step 00192 (62.3%) | loss: 4.268331 | lrm: 0.66 | dt: 1001ms | tok/sec: 32,737 | mfu: 23.0% | epoch: 1 | remaining: 118s",
        rows=one(192, 4.268331, 32737.0),
    ),
    shape(
        "karpathy/nanochat: chat_sft of the first months",
        "Step 00030 | Validation loss: 1.101000",
        "Step 00030/00701 | Training loss: 1.234500| lrm: 1.000000| num_tokens: 10,122",
        rows=one(30, 1.2345),
    ),
    shape(
        "karpathy/llm.c",
        "step   10/18865 | loss 7.009123 (+nanz)| norm 15.3812 (+nanz)| lr 8.57e-06 | 3056.36 ms | 42.6% bf16 MFU | 171535 tok/s",
        "val loss 7.123456",
        rows=one(10, 7.009123, 171535.0),
    ),
    shape(
        "anthonix/llm.c#2: nothing but nan, and not a number",
        "step   11/74 | loss     nan (+nanz)| norm    nan (+nanz)| lr 3.00e-04 | 36.58 ms | 9.2% bf16 MFU | 112241 tok/s",
        "step   12/74 | loss 5.500000 (-0.12z)| norm 1.2 (+0.00z)| lr 3.00e-04 | 36.58 ms | 9.2% bf16 MFU | 112241 tok/s",
        rows=one(12, 5.5, 112241.0),
    ),
    shape(
        "KellerJordan/modded-nanogpt, openai/parameter-golf#839: evaluation in the dress of a step",
        "step:5200/20000 train_loss:2.1972 train_time:226182ms step_avg:43.50ms",
        "step:5200/20000 val_loss:2.2501 val_bpb:1.2701 train_time:226207ms step_avg:43.50ms",
        rows=one(5200, 2.1972),
    ),
    shape(
        "KellerJordan/modded-nanogpt#65: its source, and steps without a loss",
        "        print0(f'step:{step}/{args.num_iterations} val_loss:{val_loss:.4f} train_time:{training_time_ms:.0f}ms')",
        "step:0/1480 val_loss:10.8258 train_time:0ms step_avg:nanms",
        "step:1/1480 train_time:33118ms step_avg:nanms",
        "step:2/1480 train_time:33219ms step_avg:nanms",
        rows=one(2, None),
    ),
    shape(
        "Lightning-AI/litgpt#689",
        "iter 76 step 38: loss 10.8259, iter time: 197.87ms",
        "iter 77 step 39: loss 10.7259, iter time: 214.40ms (optimizer.step)",
        rows=one(39, 10.7259),
    ),
    shape(
        "Lightning-AI/litgpt#1042: and its evaluation",
        "iter 4810 | step 601: loss 0.2745, iter time: 131.68 ms",
        "iter 4816: val loss 1.7258, val time: 3778.02 ms",
        rows=one(601, 0.2745),
    ),
    shape(
        "Lightning-AI/litgpt#1055",
        "Ep 1 | iter 119 | step 29: loss train (curr): 1.199, val (prev val iter): None | iter time: 166.23 ms",
        "Epoch 2 | iter 480 step 120 | loss train: 1.125, val: 1.250 | iter time: 88.90 ms (step)",
        rows=one(120, 1.125, epoch=2),
    ),
    shape(
        "Lightning-AI/litgpt#519: eight processes on a TPU, no loss",
        "[rank: 0] iter 34 step 35: iter time: 3372.20ms (optimizer.step)",
        "[rank: 3] iter 34 step 35: iter time: 3372.20ms (optimizer.step)",
        rows=[(None, 0, None, 35, None, None), (None, 3, None, 35, None, None)],
    ),
    shape(
        "meta-pytorch/torchtune#1358: its log file",
        "INFO:torchtune.utils.logging:Model is initialized with precision torch.bfloat16.",
        "Step 10 | loss:1.0359036922454834 lr:2e-05 tokens_per_second_per_gpu:962.2259327743811 ",
        rows=one(10, 1.0359036922454834, 962.2259327743811),
    ),
    shape(
        "meta-pytorch/torchtune: its bar",
        "1|10|Loss: 1.0359036922454834:   1%|          | 10/1000 [00:11<18:12,  1.10s/it]",
        "1|11|Loss: 1.125:   1%|          | 11/1000 [00:12<18:12,  1.10s/it]",
        rows=one(11, 1.125, epoch=1),
    ),
    shape(
        "deepspeedai/DeepSpeed#3742: GPT-NeoX, and what DeepSpeed tells beside it",
        "[2023-07-25 21:03:17,269] [INFO] [timer.py:215:stop] epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=7.86, CurrSamplesPerSec=8.0, MemAllocated=59.65GB",
        "[2023-07-25 21:03:17,269] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | forward_microstep: 652.42 | backward_microstep: 2164.53",
        " samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 | learning rate: 2.111E-06 | approx flops per GPU: 112.9TFLOPS | lm_loss: 1.118665E+01 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        "time (ms) | forward: 659.86 | backward: 2164.69 | optimizer: 1172.51 | batch generator: 0.83",
        rows=one(34, 11.18665, 7.799),
    ),
    shape(
        "deepspeedai/DeepSpeed#1934: pipelines",
        "steps: 10 loss: 2.1034 iter time (s): 0.512 samples/sec: 31.250",
        "[2022-03-11 02:06:58,985] [INFO] [logging.py:69:log_dist] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]",
        rows=one(10, 2.1034, 31.25),
    ),
    shape(
        "huggingface/nanotron#390, #23: short numbers",
        "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | consumed_tokens: 85.8G | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K | global_batch_size: 64 | lm_loss: 2.38 | lr: 1e-05 | grad_norm: 1.25",
        rows=one(327281, 2.38, 22800.0),
    ),
    shape(
        "NVIDIA-NeMo/Automodel#3473",
        "2026-08-10 15:55:20 | INFO | root | step 9 | epoch 0 | loss 0.7974 | grad_norm 1.5436 | lr 1.00e-05 | mem 24.90 GiB | tps 11278.56(1409.82/gpu) | num_label_tokens 21541",
        "2026-08-10 15:55:21 | INFO | root | [val] default | step 9 | epoch 0 | loss 0.9000 | lr 1.00e-05 | num_label_tokens 1000",
        rows=one(9, 0.7974, 11278.56, epoch=0),
    ),
    shape(
        "NVIDIA-NeMo/Automodel#3173: names and equals signs",
        "2026-07-26 19:37:11 | INFO | nemo_automodel.recipes.llm.train_eagle1 | epoch=0 step=1070 loss=2.5104 acc=0.3245 lr=2.61109e-05 grad_norm=0.123 hidden_loss=1.805",
        rows=one(1070, 2.5104, epoch=0),
    ),
    shape(
        "mlc-ai/pith-train#7",
        "2026-04-01 14:06:36 | INFO | step 00000002/00000015 | step-time 73.352 sec | cross-entropy-loss 2.6736 | load-balance-loss 0.001807 | learning-rate 1.000000e-06 | gradient-norm 20.2657 | tokens-per-second 28,590 | peak-gpu-memory 63.65 GB",
        rows=one(2, 2.6736, 28590.0),
    ),
    shape(
        "nwyin/modded-llama2#10: the number of the step alone",
        "340 | loss 3.7344 | lr 3.000000e-04 | 13860.83ms",
        rows=one(340, 3.7344),
    ),
    shape(
        "ml-explore/mlx-lm#326",
        "Iter 70: Val loss 2.900, Val took 3.210s",
        "Iter 70: Train loss 2.786, Learning Rate 1.000e-05, It/sec 17.598, Tokens/sec 1728.137, Trained Tokens 6521, Peak mem 1.437 GB",
        rows=one(70, 2.786, 1728.137),
    ),
    shape(
        "NVIDIA/DeepLearningExamples#1107: behind a bar",
        "Iteration:  23%|███      | 650/2771 [01:23<04:25,  7.98it/s]DLL 2022-04-05 05:10:36.324733 - Training Epoch: 0 Training Iteration: 651  step_loss : 2.0611345863342285  learning_rate : 2.93e-05      ",
        rows=one(651, 2.0611345863342285, epoch=0),
    ),
    shape(
        "hiyouga/LlamaFactory#774: JSON, and the last one without a loss",
        '{"current_steps": 3230, "total_steps": 3235, "loss": 4.4698, "eval_loss": null, "predict_loss": null, "reward": null, "learning_rate": 2.9e-10, "epoch": 1.0, "percentage": 99.85, "elapsed_time": "5:16:20", "remaining_time": "0:00:29"}',
        '{"current_steps": 3235, "total_steps": 3235, "loss": null, "eval_loss": null, "learning_rate": null, "epoch": 1.0, "percentage": 100.0}',
        '{"current_steps": 3240, "total_steps": 3235, "eval_loss": 1.5, "epoch": 1.0, "percentage": 100.0}',
        rows=one(3230, 4.4698, epoch=1),
    ),
    shape(
        "caikit/caikit-nlp#208: JSON of another kind",
        '{"name": "loss", "data": {"epoch": 0.01, "step": 2, "value": 4.5904, "timestamp": "2023-09-26T19:25:19.316729"}}',
        rows=one(2, 4.5904, epoch=0),
    ),
    shape(
        "huggingface/trl#3452: rewards between",
        "{'loss': 0.25, 'grad_norm': 0.0865, 'learning_rate': 6.91e-06, 'completion_length': 232.825, 'rewards/format_reward2': 1.0, 'reward': 1.71, 'reward_std': 0.57, 'kl': 0.0005, 'epoch': 2.31}",
        rows=one(None, 0.25, epoch=2),
    ),
    shape(
        "linkedin/Liger-Kernel#110: throughput after the epoch",
        "{'loss': 75.18, 'grad_norm': 9.36, 'learning_rate': 9.9e-06, 'epoch': 1.0, 'num_input_tokens_seen': 65536, 'step_peak_memory_allocated_MB': 26279.24, 'step_tokens_per_second': 18801.85, 'avg_tokens_per_second': 18801.85}",
        rows=one(None, 75.18, epoch=1),
    ),
    shape(
        "hiyouga/LlamaFactory#10488: a summary of the newest versions",
        "{'loss': '0.9228', 'grad_norm': '0.5', 'learning_rate': '1e-05', 'epoch': '2.5'}",
        "{'train_runtime': '2219', 'train_samples_per_second': '1.474', 'train_steps_per_second': '0.185', 'train_loss': '0.7228', 'epoch': '3'}",
        "  train_loss               =     0.7228",
        rows=one(None, 0.9228, epoch=2),
    ),
    shape(
        "NVIDIA/NeMo-Framework-Launcher#55",
        "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6]",
        rows=one(795, 3.1, 1 / 41.36, epoch=0),
    ),
    shape(
        "NVIDIA/NeMo of 2024: no other loss, and a name with blanks",
        "Epoch 0: :   0%|          | 3/100 [00:10<05:23, v_num=, reduced_train_loss=10.90, global_step=2.000, consumed_samples=768.0, train_step_timing in s=1.500]",
        rows=one(3, 10.9, epoch=0),
    ),
    shape(
        "NVIDIA-BioNeMo/bionemo-recipes#740: the last validation told with each step",
        "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106",
        "Epoch 0, global step 199: 'val_loss' was not in top 10",
        rows=one(120, 1.233, epoch=0),
    ),
    shape(
        "facebookresearch/fairseq#301: of 2018, with the average in brackets",
        "| epoch 010  2000 / 8223 loss=1.37 (1.50), wps=962, wpb=908, bsz=32, lr=0.001, clip=100%, gnorm=2.1427",
        "| epoch 010 | train loss 1.44 | train ppl 2.72 | s/checkpoint    7747 | words/s    961 | words/batch    906",
        "| epoch 010 | valid on 'valid' subset  1000 / 1311 loss=1.60",
        "| epoch 010 | valid on 'valid' subset | valid loss 1.94 | valid ppl 3.83",
        rows=one(2000, 1.37, 962.0, epoch=10),
    ),
    shape(
        "facebookresearch/fairseq: its bar",
        "epoch 001:   5%|▍         | 10/200 [00:05<01:30,  2.10it/s, loss=12.125, nll_loss=11.9, ppl=3821, wps=100, num_updates=10]",
        rows=one(10, 12.125, 100.0, epoch=1),
    ),
    shape(
        "OpenNMT/OpenNMT-py#1663: cross entropy is its loss",
        "[2019-12-04 15:33:53,389 INFO] Step 50/10000; acc:   0.01; ppl: 9227.77; xent: 9.13; lr: 0.00001; 6909/7255 tok/s;    206 sec",
        "[2019-12-04 15:33:58,389 INFO] Validation perplexity: 9.5",
        rows=one(50, 9.13, 7255.0),
    ),
    shape(
        "OpenNMT/OpenNMT-py#1072: not a number",
        "[2018-11-26 15:06:01,481 INFO] Step 5600/50000; acc:   1.19; ppl: 12.1; xent: 2.50; lr: 0.00070; 1928/2310 tok/s;  21110 sec",
        "[2018-11-26 15:09:03,577 INFO] Loading train dataset from ./disc_data/data.train.1.pt, number of examples: 221287",
        rows=one(5600, 2.5, 2310.0),
    ),
    shape(
        "OpenNMT/OpenNMT-py#709: of early 2018",
        "Epoch  1, 12850/37527; acc:   3.99; ppl: 12792.57; xent:   9.46; 3438 src tok/s; 3517 tgt tok/s;   9823 s elapsed",
        rows=one(12850, 9.46, 3517.0, epoch=1),
    ),
    shape(
        "OpenNMT/OpenNMT-tf",
        "INFO:tensorflow:Step = 100 ; steps/s = 1.24, tokens/s = 34567 (12345 source, 22222 target) ; Learning rate = 0.000012 ; Loss = 9.876123",
        rows=one(100, 9.876123, 34567.0),
    ),
    shape(
        "verl-project/verl#2060, zhaochenyang20/Awesome-ML-SYS-Tutorial#106: a hundred figures, and those of an evaluation",
        "(TaskRunner pid=87031) step:0 - val-aux/openai/gsm8k/reward/mean@1:0.565 - val-core/openai/gsm8k/acc/mean@1:0.508",
        "(TaskRunner pid=87031) step:83 - global_seqlen/min:340538.000 - "
        + "".join(f"perf/figure_{place}/max:{place}.500 - " for place in range(120))
        + "actor/kl_loss:0.024 - actor/pg_loss:0.125 - actor/grad_norm:0.006 - training/global_step:83.000 - "
        "training/epoch:2.000 - critic/score/mean:0.906 - perf/throughput:1650.5",
        rows=one(83, 0.125, 1650.5, epoch=2),
    ),
    shape(
        "Lightning-AI/pytorch-lightning 2: no loss on the bar",
        "Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00,  3.00it/s]",
        "Epoch 3:  22%|██▏       | 4/18 [00:17<01:02,  0.22it/s, v_num=3]",
        "Validation DataLoader 0:  50%|█████     | 1/2 [00:00<00:00,  3.00it/s]",
        rows=one(4, None, 0.22, epoch=3),
    ),
    shape(
        "facebookresearch/lingua",
        "0: INFO    25-01-01 10:00:00.123456 - 0:01:00 - step: 10  acc: 0  loss: 10.1234  grad: 1.23e+00  flops: 2.10e+14  wps: 4.25e+04  iter: 0.5  data: 0.001  lr: 3.00e-05  mem: 50%  pow: 500.0",
        rows=one(10, 10.1234, 42500.0),
    ),
]
"""Trainers of language models."""

JAX: list[Shape] = [
    shape(
        "google/flax#3364: clu's LoggingWriter, a process each",
        "I1002 21:38:13.425730 139917864867392 logging_writer.py:35] [400] steps_per_second=1.583725, train_accuracy=0.372, train_learning_rate=0.358, train_loss=3.229879150390625",
        "I1002 21:39:09.572115 140400640460352 logging_writer.py:35] [400] eval_accuracy=0.8, eval_loss=0.9868171572685242",
        rows=one(400, 3.229879150390625),
    ),
    shape(
        "google/flax examples: metrics of other kinds in the same dress",
        "I1002 21:38:13.425730 1399 logging_writer.py:48] [0] Hyperparameters: {'learning_rate': 0.1, 'loss': 'mse'}",
        "I1002 21:38:13.425730 1399 logging_writer.py:48] [100] accuracy=0.125, examples_per_second=512.5, loss=2.25",
        "I1002 21:38:14.425730 1399 logging_writer.py:48] [100] uptime=12.5",
        rows=one(100, 2.25, 512.5),
    ),
    shape(
        "skypilot-org/skypilot#1318: Flax's MNIST tells epochs alone",
        "(mnist-tpu-vm pid=10155) I0823 07:49:25.468526 139641357117440 train.py:146] epoch:  9, train_loss: 0.0220, train_accuracy: 99.64, test_loss: 0.0278, test_accuracy: 99.02",
        rows=one(None, 0.022, epoch=9),
    ),
    shape(
        "skypilot-org/skypilot#1318: a TPU pod's hosts",
        "(node-0 pid=57977, ip=10.164.0.24) [  1000/100000]      time  0.034 ( 0.063)    data  0.008 ( 0.008)    loss  1.225 ( 1.489)    acc 68.750 (46.163)",
        "(node-1 pid=63223) JAX process: 0 / 4",
        rows=[(None, 0, None, 1000, 1.225, None)],
    ),
    shape(
        "huggingface/transformers, flax/language-modeling",
        "Step... (500 | Loss: 9.125, Learning Rate: 0.0001)",
        "Step... (500 | Eval Loss: 8.9 | Eval Perplexity: 7500.1)",
        "Epoch... (1/3 | Loss: 9.0, Learning Rate: 0.0001)",
        rows=one(500, 9.125),
    ),
    shape(
        "huggingface/distil-whisper: of how many",
        "Step... (25 / 1000 | Loss: 2.125, Learning Rate: 1e-05)",
        "Step... (30/1000 | Training Loss: 2.0, Learning Rate: 1e-05)",
        rows=one(30, 2.0),
    ),
    shape(
        "google-research/big_vision: a line for each metric",
        f"I0601 10:00:00.000000 1400 utils.py:1007] {ESC}[35m[50]{ESC}[0m l2_params = 161.25",
        f"I0601 10:00:00.000000 1400 utils.py:1007] {ESC}[35m[50]{ESC}[0m training_loss = 0.6931",
        f"I0601 10:00:00.000000 1400 utils.py:1007] {ESC}[35m[50]{ESC}[0m img/sec/core = 812.5",
        f"I0601 10:00:00.000000 1400 utils.py:1007] {ESC}[35m[50]{ESC}[0m val/loss = 0.7",
        rows=one(50, 0.6931, 812.5),
    ),
    shape(
        "google-research/vision_transformer",
        "I0601 10:00:00.000000 1400 train.py:250] Step: 100/20000 0.5%, Train loss: 6.5432, Train acc: 0.0123, img/sec/core: 93.5, ETA: 2.50h",
        "I0601 10:00:00.000000 1400 train.py:270] Step: 100 Learning rate: 0.0300000, Test accuracy: 0.5, img/sec/core: 500.0",
        rows=one(100, 6.5432, 93.5),
    ),
    shape(
        "tensorflow/lingvo#42: and the rate of the other thread",
        "I0308 16:13:45.249138 140304451606272 trainer.py:521] step:   905 fraction_of_correct_next_step_preds:0.008 log_pplx:4.97068 log_pplx/logits:4.97068 loss:4.97068 loss/logits:4.97068 num_samples_in_batch:48",
        "I0308 16:13:49.943696 140304032200448 trainer.py:371] Steps/second: 0.014225, Examples/second: 0.731300",
        rows=one(905, 4.97068),
    ),
    shape(
        "tensorflow/models#2980: each line twice",
        "INFO:tensorflow:global step 2940: loss = 5.6220 (0.898 sec/step)",
        "INFO:tensorflow:global step 2940: loss = 5.6220 (0.898 sec/step)",
        "INFO:tensorflow:Recording summary at step 2999.",
        rows=one(2940, 5.622, 1 / 0.898),
    ),
    shape(
        "tensorflow/models#4090: an estimator's neighbours",
        "INFO:tensorflow:Average examples/sec: 2841.23 (3118.56), step = 60",
        "INFO:tensorflow:loss = 2.8537786, step = 101 (8.626 sec)",
        "INFO:tensorflow:learning_rate = 0.1, loss = 2.9537786 (8.626 sec)",
        "INFO:tensorflow:global_step/sec: 12.2695",
        rows=one(101, 2.8537786),
    ),
    shape(
        "erfanzar/EasyDeL#71: a bar that nothing names",
        "  2%|▏         | 94/6000 [16:00<15:02:43,  9.17s/it, accuracy=0.6707478, learning_rate=4.92e-5, loss=1.3651037, perplexity=3.88, step=94]",
        rows=one(94, 1.3651037, 1 / 9.17),
    ),
    shape(
        "young-geng/EasyLM: a dictionary over many lines, the step after the loss",
        "",
        "{'accuracy': 0.4875,",
        " 'eval_loss': 3.5,",
        " 'gradient_norm': 0.925,",
        " 'learning_rate': 0.0003,",
        " 'loss': 2.4375,",
        " 'param_norm': 812.5,",
        " 'step': 150}",
        "",
        rows=one(150, 2.4375),
    ),
    shape(
        "young-geng/EasyLM with JAX's own numbers",
        "{'accuracy': Array(0.25, dtype=float32),",
        " 'loss': Array(3.125, dtype=float32),",
        " 'step': 200}",
        "{'loss': array(3.0625, dtype=float32), 'step': 210}",
        rows=one(210, 3.0625),
    ),
    shape(
        "allenai/OLMo#692: a step, and its metrics beneath",
        "2024-08-06 09:59:26.181 host:0  olmo.train:908  INFO    [step=2/739328,epoch=0]",
        "    optim/total_grad_norm=231.7",
        "    train/CrossEntropyLoss=10.18",
        "    train/Perplexity=26,153",
        "    throughput/total_tokens=2,097,152",
        "    throughput/device/tokens_per_second=26,668",
        "    throughput/device/batches_per_second=0.0254",
        "    System/Peak GPU Memory (MB)=46,911",
        rows=one(2, 10.18, 26668.0, epoch=0),
    ),
    shape(
        "mosaicml/composer#1884: the same, told otherwise",
        "[epoch=1][batch=3/10]:",
        "\t Train trainer/global_step: 2",
        "\t Train loss/train/total: 11.0570",
        "\t Train metrics/train/LanguageCrossEntropy: 11.0570",
        "\t Train throughput/samples_per_sec: 3.2217",
        "\t Train throughput/device/samples_per_sec: 0.2014",
        "[Eval batch=1/5] Eval on eval data",
        rows=one(3, 11.057, 3.2217, epoch=1),
    ),
    shape(
        "huggingface/diffusers, research_projects/pytorch_xla",
        "Step: 10, Loss: 0.125",
        "Average step time: 0.25 at step 10, time since start: 12.5",
        rows=one(10, 0.125),
    ),
    shape(
        "MaxText's own log around its steps (2026)",
        "XPK Start: Tue Apr 21 14:56:52 UTC 2026",
        "I0421 14:57:34.339706 137649491269440 max_utils.py:800] System Information: Jax Version: 0.9.2",
        "Per train step:",
        " Total TFLOPs: 104.77 ",
        " split as 55.92% learnable weight flops and 44.08% attention flops",
        "I0421 14:58:34.339706 137649491269440 metric_logger.py:226] completed step: 2, seconds: 10.228, TFLOP/s/device: 350.869, Tokens/s/device: 19222.175, total_weights: 1572864, loss: 12.990, lm_loss: 12.990, perplexity: 433463.719",
        "I0421 14:58:35.339706 137649491269440 metric_logger.py:333] To see full metrics 'tensorboard --logdir=gs://b/t/'",
        rows=one(2, 12.99, 19222.175),
    ),
    shape(
        "AI-Hypercomputer/maxtext#3791: distillation",
        "I0501 10:00:00.000000 1400 train_distill.py:500] step 12 | step_time=1.250s | TFLOPs/s/device: 101.25 (student=60.5, teacher=40.75)",
        rows=one(12, None),
    ),
]
"""JAX, and TPUs before it."""
