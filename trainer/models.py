"""torchvision's ResNets, and what has to be known of them beforehand."""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models import resnet
from torchvision.models.resnet import BasicBlock, ResNet

# ImageNet's, as everywhere; close enough for any photographs
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Normalised(nn.Module):
    """Takes uint8 images as they come from the loader, and normalises them on the device."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("scale", (1 / (255 * torch.tensor(STD))).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("shift", (torch.tensor(MEAN) / torch.tensor(STD)).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Class scores [batch, classes] of images uint8 [batch, 3, size, size]."""
        scores: torch.Tensor = self.body(images.float() * self.scale - self.shift)
        return scores


def build(name: str, classes: int, seed: int) -> Normalised:
    """A fresh model; the same seed gives the same weights on every rank."""
    torch.manual_seed(seed)
    if name == "tiny":
        return Normalised(_tiny(classes))
    if name == "resnet10":  # one block a stage: for trying things out on CPUs
        return Normalised(ResNet(BasicBlock, [1, 1, 1, 1], num_classes=classes))
    body: ResNet = getattr(resnet, name)(num_classes=classes)
    return Normalised(body)


def _tiny(classes: int) -> nn.Module:
    """Three convolutions: compiles in a second, and has no batch statistics that depend on how a batch is split."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, classes),
    )
