"""Make the optimizer, SGD with momentum, and compute its learning rate."""

from __future__ import annotations

import math

import torch
from torch import nn

from trainer.config import OptimizerConfig

LEARNING_RATE_BATCH = 256  # samples per step that --learning-rate is meant for
ALMOST_ONE = 1 - 1e-6


def learning_rate(config: OptimizerConfig, world: int, step: int, steps_per_epoch: int) -> float:
    """Return the rate of a step of the whole run: scaled to the global batch, warmed up, then half a cosine to 0.

    Linear scaling and gradual warm-up follow Goyal et al., "Accurate, Large Minibatch SGD" (2017).
    """
    peak = config.learning_rate * config.batch_size * world / LEARNING_RATE_BATCH
    rate = peak
    if (step + 1) / steps_per_epoch < config.warmup_epochs:
        rate = peak * (step + 1) / steps_per_epoch / config.warmup_epochs
    elif config.epochs > config.warmup_epochs:
        fraction = (step / steps_per_epoch - config.warmup_epochs) / (config.epochs - config.warmup_epochs)
        rate = peak * 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, fraction))))
    # PyTorch/XLA makes a factor of 1 a constant of the graph, and would compile another graph for that step.
    return ALMOST_ONE if rate == 1 else rate


def sgd(model: nn.Module, config: OptimizerConfig) -> torch.optim.SGD:
    """Return the optimizer of a model that is already on its device."""
    optimizer = torch.optim.SGD(
        model.parameters(), lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay
    )
    if config.momentum:
        # SGD itself would do so in its first step, and the second step would then be another graph to compile.
        for p in model.parameters():
            optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    return optimizer


def set_rate(optimizer: torch.optim.SGD, rate: float) -> None:
    """Set the learning rate of the next step; it is an input of the step's graph, not a part of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate
