"""Feed the same images through other loaders, as their documentation shows it: PIL, and float32 made on the CPU."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainer.bench_input.rows import Epoch, Material
from trainer.storage import objects
from trainer.storage.urls import BUCKET_PREFIX

WORKERS = 2  # loader processes of every peer
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's channels


def plain_webdataset(material: Material) -> Epoch:
    """Read local shards with webdataset, PIL and torchvision's transforms."""
    return _webdataset(material, [str(path) for path in sorted(Path(material.shards).glob("*-train-*.tar"))])


def webdataset_by_curl(material: Material) -> Epoch:
    """Read shards over `pipe:curl`, as webdataset's tutorial does over `pipe:gsutil`."""
    from urllib.parse import quote

    bucket, _, prefix = material.bucket.removeprefix(BUCKET_PREFIX).partition("/")
    root = f"{objects.storage_address()}/storage/v1/b/{bucket}/o/"
    names = [path.name for path in sorted(Path(material.shards).glob("*-train-*.tar"))]
    addresses = [f"{root}{quote(f'{prefix}/shards/{name}', safe='')}?alt=media" for name in names]
    return _webdataset(material, [f"pipe:curl -sfL '{address}'" for address in addresses])


def image_folder(material: Material) -> Epoch:
    """Read files with torchvision's ImageFolder and PyTorch's DataLoader."""
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    images = ImageFolder(str(material.files), _transform(material))
    loader = DataLoader(images, batch_size=material.batch, num_workers=WORKERS, shuffle=True)
    return lambda: _count_samples(loader)


def _webdataset(material: Material, urls: list[str]) -> Epoch:
    import webdataset
    from torch.utils.data import DataLoader

    images = (
        webdataset.WebDataset(urls, shardshuffle=len(urls), empty_check=False)
        .shuffle(material.buffer)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(_transform(material), int)
        .batched(material.batch)
    )
    loader = DataLoader(images, batch_size=None, num_workers=WORKERS)
    return lambda: _count_samples(loader)


def _count_samples(loader: Iterable[Any]) -> int:
    return sum(len(labels) for _, labels in loader)


def _transform(material: Material) -> Any:
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(material.size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, DEVIATION),
        ]
    )
