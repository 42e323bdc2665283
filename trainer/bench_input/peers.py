"""Feed the same images through other loaders, as their documentation shows it: PIL, float32, normalised on the CPU.

`litdata` and `mosaicml-streaming` are measured where they are installed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from trainer.bench_input.rows import Epoch, Material, Row
from trainer.config import BUCKET as SCHEME
from trainer.storage import objects

WORKERS = 2  # loader processes of every peer
CHUNK_BYTES = 4_000_000  # of their formats' files: as large as the shards of the others
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's channels


def installed(module: str) -> bool:
    """Return whether a peer's package is installed."""
    return importlib.util.find_spec(module) is not None


def plain_webdataset(material: Material) -> Epoch:
    """Read local shards with webdataset, PIL and torchvision's transforms."""
    return _webdataset(material, [str(path) for path in sorted(Path(material.shards).glob("*-train-*.tar"))])


def webdataset_by_curl(material: Material) -> Epoch:
    """Read shards over `pipe:curl`, as webdataset's tutorial does over `pipe:gsutil`."""
    from urllib.parse import quote

    bucket, _, prefix = material.bucket.removeprefix(SCHEME).partition("/")
    root = f"{objects.storage_address()}/storage/v1/b/{bucket}/o/"
    names = [path.name for path in sorted(Path(material.shards).glob("*-train-*.tar"))]
    addresses = [f"{root}{quote(f'{prefix}/shards/{name}', safe='')}?alt=media" for name in names]
    return _webdataset(material, [f"pipe:curl -sfL '{address}'" for address in addresses])


def image_folder(material: Material) -> Epoch:
    """Read files with torchvision's ImageFolder and PyTorch's DataLoader."""
    from torchvision.datasets import ImageFolder

    return _loaded(material, ImageFolder(str(material.files), _transform(material)), shuffle=True)


def litdata(material: Material) -> Epoch:
    """Read chunks that Lightning's litdata wrote itself."""
    litdata: Any = importlib.import_module("litdata")
    transform = _transform(material)

    class LitdataImages(litdata.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            content, label = super().__getitem__(index)
            return transform(_opened(content)), label

    images = LitdataImages(str(_written(material, "litdata", _write_litdata)), shuffle=True)
    loader = litdata.StreamingDataLoader(images, batch_size=material.batch, num_workers=WORKERS)
    return lambda: _count_samples(loader)


def streaming(material: Material) -> Epoch:
    """Read MDS shards on the local disk with MosaicML's streaming."""
    streaming: Any = importlib.import_module("streaming")
    transform = _transform(material)

    class MdsImages(streaming.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            sample = super().__getitem__(index)
            return transform(_opened(sample["image"])), sample["label"]

    directory = str(_written(material, "mds", _write_mds))
    return _loaded(material, MdsImages(local=directory, shuffle=True, batch_size=material.batch))


def write_formats(material: Material, wanted: Sequence[Row]) -> None:
    """Write the formats of the wanted peers that are installed, so that no measurement includes it.

    A peer whose format cannot be written reports that in its row, which tries once more.
    """
    for row, module, name, write in (
        (litdata, "litdata", "litdata", _write_litdata),
        (streaming, "streaming", "mds", _write_mds),
    ):
        if row in wanted and installed(module):
            with contextlib.suppress(Exception):  # whatever fails in a peer, the other rows are still measured
                _written(material, name, write)


def _written(material: Material, name: str, write: Callable[[Path, list[Path]], None]) -> Path:
    directory = material.files.parent / name
    if not directory.exists():
        try:
            write(directory, sorted(material.files.glob("*/*")))
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)  # an incomplete directory would pass for a complete one
            raise
    return directory


def _write_litdata(directory: Path, paths: list[Path]) -> None:
    directory.mkdir()
    cache = importlib.import_module("litdata.streaming.cache").Cache(str(directory), chunk_bytes=CHUNK_BYTES)
    for number, (path, label) in enumerate(_labelled(paths)):
        cache[number] = (path.read_bytes(), label)
    cache.done()
    cache.merge()


def _write_mds(directory: Path, paths: list[Path]) -> None:
    columns = {"image": "bytes", "label": "int"}
    streaming: Any = importlib.import_module("streaming")
    with streaming.MDSWriter(out=str(directory), columns=columns, size_limit=CHUNK_BYTES) as writer:
        for path, label in _labelled(paths):
            writer.write({"image": path.read_bytes(), "label": label})


def _labelled(paths: list[Path]) -> list[tuple[Path, int]]:
    names = sorted({path.parent.name for path in paths})
    return [(path, names.index(path.parent.name)) for path in paths]


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


def _loaded(material: Material, images: Any, **options: Any) -> Epoch:
    from torch.utils.data import DataLoader

    loader = DataLoader(images, batch_size=material.batch, num_workers=WORKERS, **options)
    return lambda: _count_samples(loader)


def _count_samples(loader: Iterable[Any]) -> int:
    return sum(len(labels) for _, labels in loader)


def _opened(content: bytes) -> Any:
    import io

    from PIL import Image

    return Image.open(io.BytesIO(content)).convert("RGB")


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
