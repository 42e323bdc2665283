"""Tests of the pixels that decoding and augmentation yield, compared with PIL, torchvision and slow references."""

from __future__ import annotations

import io
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch", reason="torch is not installed")

from trainer.bench_input import photo_like
from trainer.data import image_decode

DRAWS = 1500
MOST_DISTANCE = 0.08  # two samples of 1,500 from one distribution are closer in 9,999 of 10,000 cases


def encoded(image: Image.Image, kind: str = "png", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def noise(width: int, height: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def opened(pixels: np.ndarray) -> image_decode.Picture:
    return image_decode.open_picture(encoded(Image.fromarray(pixels)))


def augmented(picture: image_decode.Picture, size: int, seed: int) -> np.ndarray:
    out = np.empty((3, size, size), dtype=np.uint8)
    image_decode.augment_into(out, picture, random.Random(seed))
    return out.transpose(1, 2, 0)


def centred(picture: image_decode.Picture, size: int) -> np.ndarray:
    out = np.empty((3, size, size), dtype=np.uint8)
    image_decode.centre_into(out, picture)
    return out.transpose(1, 2, 0)


def shifted_slowly(pixels: np.ndarray, down: int, right: int, flip: bool) -> np.ndarray:
    """Return the crop of a picture with a black border of four pixels, computed pixel by pixel."""
    size = len(pixels)
    result = np.zeros_like(pixels)
    for row in range(size):
        for column in range(size):
            y, x = row + down, (size - 1 - column if flip else column) + right
            if 0 <= y < size and 0 <= x < size:
                result[row, column] = pixels[y, x]
    return result


def test_a_small_image_is_cropped_and_flipped_as_a_slow_reference_does_it() -> None:
    pixels = noise(16, 16)
    picture = opened(pixels)
    references = {
        shifted_slowly(pixels, down, right, flip).tobytes(): (down, right, flip)
        for down in range(-4, 5)
        for right in range(-4, 5)
        for flip in (False, True)
    }
    seen = [references[augmented(picture, 16, seed).tobytes()] for seed in range(1500)]
    assert set(seen) == set(references.values())  # each of the 162 occurs
    assert 0.44 < sum(flip for _, _, flip in seen) / len(seen) < 0.56


def ks_distance(first: list[float], second: list[float]) -> float:
    """Return the Kolmogorov-Smirnov distance, the largest between two samples' distribution functions."""
    places = np.union1d(first, second)
    cumulated = [np.searchsorted(np.sort(values), places, side="right") / len(values) for values in (first, second)]
    return float(np.abs(cumulated[0] - cumulated[1]).max())


@pytest.mark.parametrize(("width", "height"), [(256, 256), (500, 375), (300, 900), (1000, 120)])
def test_the_random_crop_is_distributed_as_torchvisions(width: int, height: int) -> None:
    transforms = pytest.importorskip("torchvision.transforms", reason="torchvision is not installed")
    torch.manual_seed(3)
    shape = torch.empty(3, height, width, dtype=torch.uint8)
    own = [image_decode.random_box(width, height, random.Random(seed)) for seed in range(DRAWS)]
    torchvisions = []
    for _ in range(DRAWS):
        top, left, high, wide = transforms.RandomResizedCrop.get_params(
            shape, image_decode.CROP_AREA, image_decode.CROP_RATIO
        )
        torchvisions.append((left, top, wide, high))
    measures = {
        "area": lambda box: box[2] * box[3] / (width * height),
        "ratio": lambda box: np.log(box[2] / box[3]),
        "left": lambda box: box[0] / width,
        "top": lambda box: box[1] / height,
    }
    for name, measure in measures.items():
        values, reference = ([float(measure(box)) for box in boxes] for boxes in (own, torchvisions))
        assert ks_distance(values, reference) < MOST_DISTANCE, name
    assert all(min(x, y) >= 0 and x + w <= width and y + h <= height for x, y, w, h in own)


def test_a_picture_too_long_for_any_crop_gives_its_middle() -> None:
    boxes = {image_decode.random_box(4000, 20, random.Random(seed)) for seed in range(50)}
    assert ((4000 - 27) // 2, 0, 27, 20) in boxes


def test_a_resized_crop_is_what_pil_makes_of_the_same_part() -> None:
    content = photo_like.picture("same part")
    image = Image.open(io.BytesIO(content))
    for seed in range(20):
        out = augmented(image_decode.open_picture(content), 224, seed)
        rng = random.Random(seed)
        left, top, wide, high = image_decode.random_box(image.width, image.height, rng)
        part = image.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + wide, top + high))
        expected = np.asarray(part)[:, ::-1] if rng.random() < 0.5 else np.asarray(part)
        assert (
            np.abs(out.astype(int) - expected.astype(int)).mean() < 2.5
        )  # levels of 255; fast decoding of colours included
    out = centred(image_decode.open_picture(content), 224)
    side = round(min(image.size) / image_decode.EVALUATION_MARGIN)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    expected = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + side, top + side)))
    assert np.abs(out.astype(int) - expected.astype(int)).mean() < 1.0


def test_shrinking_loses_no_pixel_to_aliasing() -> None:
    stripes = np.zeros((512, 512, 3), dtype=np.uint8)
    stripes[:, ::2] = 255  # finer than the requested size: the result is grey, unless aliasing adds a pattern
    small = centred(opened(stripes), 64)
    assert np.abs(small.astype(int) - 127).max() < 20


def test_a_jpeg_is_decoded_as_pil_does_it_bit_by_bit() -> None:
    for number in range(3):
        content = photo_like.picture(f"bits {number}")
        assert np.array_equal(image_decode.decode(content), np.asarray(Image.open(io.BytesIO(content))))


def test_a_jpeg_that_is_cut_off_is_refused_and_not_filled_up_with_grey() -> None:
    content = encoded(Image.fromarray(noise(200, 120)), "jpeg")
    for length in (len(content) // 2, len(content) - 20):
        with pytest.raises(ValueError, match="Premature end"):
            image_decode.decode(content[:length])


@pytest.mark.parametrize(("width", "height"), [(500, 300), (40, 400), (8, 8)])
def test_images_of_any_size_become_squares(width: int, height: int) -> None:
    picture = opened(np.maximum(noise(width, height), 1))
    assert centred(picture, 64).all()
    assert all(augmented(picture, 64, seed).all() for seed in range(20))


def test_the_centre_is_what_an_evaluation_sees() -> None:
    image = Image.new("RGB", (300, 100), (255, 0, 0))
    image.paste((0, 255, 0), (100, 0, 200, 100))
    assert (centred(opened(np.asarray(image)), 32)[:, :, 1] == 255).all()


def test_quick_decoding_is_off_by_about_a_level_on_average() -> None:
    for number in range(5):
        picture = image_decode.open_picture(photo_like.picture(f"quick {number}"))
        difference = picture.pixels().astype(int) - picture.pixels(quick=True).astype(int)
        assert 0 < np.abs(difference).mean() < 1.5


def test_a_large_jpeg_is_decoded_at_a_reduced_size_for_a_small_result_and_looks_the_same() -> None:
    large = Image.fromarray(noise(40, 30)).resize((1200, 900), Image.Resampling.BICUBIC)
    content = encoded(large, "jpeg", quality=95)
    picture = image_decode.open_picture(content)
    assert picture.pixels(8.5, quick=True).shape[0] < 200
    assert picture.pixels(1.9, quick=True).shape == picture.pixels(8.5).shape == (900, 1200, 3)
    box = (200, 96, 640, 640)
    reduced, whole = (image_decode._part(picture, box, 64, quick=quick) for quick in (True, False))
    assert np.abs(reduced.astype(int) - whole.astype(int)).mean() < 3


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
def test_jpegs_of_any_colour_space_become_rgb(mode: str) -> None:
    image = Image.new("RGB", (300, 260), (200, 40, 90)).convert(mode)
    expected = np.asarray(image.convert("RGB"))[0, 0].astype(int)
    picture = image_decode.open_picture(encoded(image, "jpeg", quality=95))
    for result in (centred(picture, 224), augmented(picture, 224, 1)):
        assert np.abs(result[100, 100].astype(int) - expected).max() < 8


@pytest.mark.parametrize(
    "content", [b"", b"GIF89a", b"\xff\xd8\xff", b"\xff\xd8\xff\xe0" + bytes(200), b"P6\n9 9\n255\n"]
)
def test_what_is_no_image_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"image|empty|OpenCV|remature"):
        image_decode.decode(content)


def test_a_small_file_that_claims_to_be_a_huge_image_is_refused_before_memory_is_allocated() -> None:
    sides = struct.pack(">HH", 30_000, 30_000)
    jpeg = bytearray(encoded(Image.new("RGB", (64, 64)), "jpeg"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = sides
    header = b"IHDR" + struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    for content in (bytes(jpeg), png + encoded(Image.new("RGB", (64, 64)))[33:]):
        with pytest.raises(ValueError, match=f"it has more than {image_decode.MOST_PIXELS} pixels"):
            image_decode.decode(content)


def test_a_png_that_claims_a_chunk_of_gigabytes_is_refused_before_memory_is_allocated() -> None:
    png = encoded(Image.new("RGB", (64, 64)))
    assert png[37:41] == b"IDAT"
    with pytest.raises(ValueError, match="it ends in the middle of a chunk"):
        image_decode.decode(png[:33] + b"\x63" + png[34:])
    assert image_decode.decode(png + b"\xff" * 100).shape == (64, 64, 3)
