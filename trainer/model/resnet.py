"""Build torchvision's ResNets and two tiny networks."""

from __future__ import annotations

import threading

import torch
from torch import nn
from torchvision.models import resnet
from torchvision.models.resnet import BasicBlock, ResNet

# of ImageNet, as usual; close enough for any photographs
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# On TPU v2 and v3 two replicas are threads of one process, and share its generator.
_SEEDING = threading.Lock()


class NormalisedModel(nn.Module):
    """A network that takes uint8 images as the loaders make them, and normalises them on the device."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("scale", (1 / (255 * torch.tensor(STD))).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("shift", (torch.tensor(MEAN) / torch.tensor(STD)).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return class scores [batch, classes] of images uint8 [batch, 3, size, size]."""
        scores: torch.Tensor = self.body(images.float() * self.scale - self.shift)
        return scores


def build(name: str, classes: int, seed: int) -> NormalisedModel:
    """Return a fresh model; the same seed gives the same weights on every rank."""
    with _SEEDING:
        torch.manual_seed(seed)
        return NormalisedModel(_body(name, classes))


def _body(name: str, classes: int) -> nn.Module:
    if name.startswith("tiny"):
        return _tiny(classes, nn.BatchNorm2d if name == "tiny-batchnorm" else nn.Identity)
    if name == "resnet10":  # one block per stage, for experiments on CPUs
        small: nn.Module = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=classes)
        return small
    body: nn.Module = getattr(resnet, name)(num_classes=classes)
    return body


def _tiny(classes: int, norm: type[nn.Module]) -> nn.Module:
    """Return three convolutions, which compile in a second.

    Without batch norm nothing in it depends on how a global batch is split: the loss is the same on any number of
    replicas. ResNets normalise over each replica's own batch, as is usual, and so learn a little differently.
    """
    layers: list[nn.Module] = []
    for inner, outer in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inner, outer, 3, stride=2, padding=1), norm(outer), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))
