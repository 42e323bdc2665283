"""Decode an image file with libjpeg-turbo and OpenCV, and crop and resize its pixels.

Both libraries release Python's interpreter lock. OpenCV is held to one thread, since the cores belong to the loaders.

Quality: an evaluation sees exactly what PIL would decode. In training, colour (which JPEGs mostly store at half the
size) is enlarged without interpolation, a third faster and off by about one level of 255 on average; and a JPEG whose
crop is needed at less than half its resolution is decoded at a half, a quarter or an eighth of it.

Resizing: a part larger than the crop in both directions is shrunk by area averaging, which uses every pixel, as PIL's
antialiased resize does; everything else is interpolated linearly, which equals PIL's result wherever a picture grows.
(Where one direction grows and the other shrinks, it shrinks by 4/3 at most, where the two hardly differ.)
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_PIXELS = 1 << 27  # 400 MB; a file of 3 MB may claim to hold ten times as many
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(MOST_PIXELS))  # OpenCV reads it when it is imported

import cv2  # noqa: E402
import numpy as np  # noqa: E402
import simplejpeg  # noqa: E402

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Box = tuple[int, int, int, int]  # left, top, width, height
Planes = Pixels  # [3, size, size]: a row of a batch

CROP_MARGIN = 4  # pixels that a small image is padded with before it is cropped back
CROP_AREA, CROP_RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of a large image, as ImageNet's usual training crop
LOG_RATIO = math.log(CROP_RATIO[0]), math.log(CROP_RATIO[1])
CROP_TRIES = 10  # tries to draw a box that fits, as in torchvision's RandomResizedCrop
EVALUATION_MARGIN = 256 / 224  # the image's shorter side before the centre crop, divided by the crop's
JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
CHUNK_BYTES = 12  # of a PNG's chunk beside its data: length, kind and checksum
PLAIN_HEADER = re.compile(rb"P6\s+([1-9]\d{0,8})\s+([1-9]\d{0,8})\s+255\s")  # without comments
SMALL = 3 * 64 * 64  # values; copying so few takes less time than releasing the interpreter lock
HALF = 2.0  # decoding at 7/8 … 5/8 of the size takes longer than at full size

cv2.setNumThreads(0)
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # errors are reported by the caller


@dataclass(frozen=True)
class Picture:
    """An opened image file; a JPEG is decoded once it is known which part is wanted, and how large."""

    width: int
    height: int
    _jpeg: bytes | None
    _pixels: Pixels | None

    def pixels(self, reduction: float = 1.0, *, quick: bool = False) -> Pixels:
        """Return RGB [height, width, 3]; raise ValueError. `quick` allows up to `reduction` times less each way."""
        if self._jpeg is None:
            assert self._pixels is not None
            return self._pixels
        least = {}
        if quick and reduction >= HALF:
            least = {"min_height": math.ceil(self.height / reduction), "min_width": math.ceil(self.width / reduction)}
        try:
            return simplejpeg.decode_jpeg(  # type: ignore[no-any-return]
                self._jpeg, "RGB", fastupsample=quick, min_factor=HALF if least else 1.0, **least
            )
        except ValueError as error:
            if "remature" in str(error):  # it is cut off, and OpenCV would fill up the rest with grey
                raise
        return _by_opencv(self._jpeg)


def open_picture(content: bytes) -> Picture:
    """Open an image file of any kind that OpenCV knows; raise ValueError."""
    if content[:3] == JPEG:
        try:
            height, width, _, _ = simplejpeg.decode_jpeg_header(content)
            if width * height <= MOST_PIXELS:
                return Picture(width, height, content, None)
        except ValueError:
            pass  # something about it is unusual; OpenCV may know it
    decoded = decode_plain_ppms([content])
    pixels = _by_opencv(content) if decoded is None else decoded[0]
    return Picture(pixels.shape[1], pixels.shape[0], None, pixels)


def decode(content: bytes) -> Pixels:
    """Decode a whole image file to RGB [height, width, 3]; raise ValueError."""
    return open_picture(content).pixels()


def decode_plain_ppms(contents: Sequence[bytes], side: int | None = None) -> Pixels | None:
    """Return the pixels [image, height, width, 3] of PPMs of one size; with `side`, only of squares of that size.

    Returns None for anything else, and for PPMs with comments or unusual headers.
    """
    header = PLAIN_HEADER.match(contents[0])
    if header is None:
        return None
    width, height = int(header[1]), int(header[2])
    begins, size = header.end(), header.end() + 3 * width * height
    if side not in (None, width) or side not in (None, height):
        return None
    if not all(len(content) == size and content.startswith(header[0]) for content in contents):
        return None
    files = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), size)
    return files[:, begins:].reshape(-1, height, width, 3)


def _by_opencv(content: bytes) -> Pixels:
    if not content:
        raise ValueError("it is empty")
    if content.startswith(PNG):
        _check_chunks(content)
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as error:
        if "MAX_IMAGE_PIXELS" in error.err:
            raise ValueError(f"it has more than {MOST_PIXELS} pixels") from error
        raise ValueError(f"OpenCV: {error.err}") from error
    if pixels is None:
        raise ValueError("it is not an image that OpenCV knows")
    return pixels  # type: ignore[return-value]


def _check_chunks(png: bytes) -> None:
    """Raise ValueError where a chunk of a PNG would end beyond the file: OpenCV reserves up to 4 GB for it first."""
    offset = len(PNG)
    while offset < len(png):
        size = int.from_bytes(png[offset : offset + 4], "big")
        if offset + size > len(png):
            raise ValueError("it ends in the middle of a chunk")
        if png[offset + 4 : offset + 8] == b"IEND":
            return  # anything may follow
        offset += CHUNK_BYTES + size


def augment_into(out: Planes, picture: Picture, rng: random.Random) -> None:
    """Write a random crop, flipped or not: shifted by a few pixels if the image has the size, else any part."""
    size = out.shape[1]
    if (picture.width, picture.height) == (size, size):
        shift_into(out[None], picture.pixels()[None], rng)
    else:
        pixels = _part(picture, random_box(picture.width, picture.height, rng), size, quick=True)
        _write(out, pixels, flipped=rng.random() < 0.5)


def centre_into(out: Planes, picture: Picture) -> None:
    """Write the image itself if it has the size, else its centre."""
    size, width, height = out.shape[1], picture.width, picture.height
    if (width, height) == (size, size):
        _write(out, picture.pixels())
        return
    side = max(1, round(min(height, width) / EVALUATION_MARGIN))
    _write(out, _part(picture, ((width - side) // 2, (height - side) // 2, side, side), size, quick=False))


def random_box(width: int, height: int, rng: random.Random) -> Box:
    """Return a random part of a picture, distributed as torchvision's RandomResizedCrop draws it."""
    for _ in range(CROP_TRIES):
        area = width * height * rng.uniform(*CROP_AREA)
        ratio = math.exp(rng.uniform(*LOG_RATIO))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            return rng.randint(0, width - wide), rng.randint(0, height - high), wide, high
    # No box fitted into a very long or high picture: take the largest centred one within the ratios.
    wide = min(width, max(1, round(height * CROP_RATIO[1])))
    high = min(height, max(1, round(width / CROP_RATIO[0])))
    return (width - wide) // 2, (height - high) // 2, wide, high


def shift_into(rows: Pixels, images: Pixels, rng: random.Random) -> None:
    """Crop images [image, size, size, 3] at random out of a black border of CROP_MARGIN pixels; flip half of them.

    For small images calls cost more than pixels, so the border and the colour planes are handled for all at once.
    """
    count, size, edge = len(images), images.shape[1], CROP_MARGIN
    bordered = np.zeros((count, size + 2 * edge, size + 2 * edge, 3), np.uint8)
    bordered[:, edge:-edge, edge:-edge] = images
    shifted, positions = np.empty((count, size, size, 3), np.uint8), 2 * edge + 1
    for out, image in zip(shifted, bordered, strict=True):
        top, left = int(rng.random() * positions), int(rng.random() * positions)
        part = image[top : top + size, left : left + size]
        if rng.random() < 0.5:
            cv2.flip(part, 1, out)
        else:
            out[...] = part
    colours = np.empty((3, count * size, size), np.uint8)
    cv2.split(shifted.reshape(-1, size, 3), list(colours))  # images below each other form one picture
    rows[:count] = colours.reshape(3, count, size, size).swapaxes(0, 1)


def _part(picture: Picture, box: Box, size: int, *, quick: bool) -> Pixels:
    """Return a part of a picture, resized to a square."""
    left, top, width, height = box
    pixels = picture.pixels(min(width, height) / size, quick=quick)
    across, down = pixels.shape[1] / picture.width, pixels.shape[0] / picture.height
    columns = slice(int(left * across), max(int(left * across) + 1, round((left + width) * across)))
    rows = slice(int(top * down), max(int(top * down) + 1, round((top + height) * down)))
    part = pixels[rows, columns]
    shrinks = part.shape[0] > size and part.shape[1] > size
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR  # linear interpolation skips pixels when it shrinks
    return cv2.resize(part, (size, size), interpolation=method)  # type: ignore[return-value]


def _write(out: Planes, pixels: Pixels, *, flipped: bool = False) -> None:
    """Write pixels as separate colour planes, as models take them; ten times as fast here as for a whole batch."""
    if pixels.size <= SMALL:
        out[...] = (pixels[:, ::-1] if flipped else pixels).transpose(2, 0, 1)
        return
    turned = np.asarray(cv2.flip(pixels, 1), dtype=np.uint8) if flipped else pixels
    cv2.split(turned, [out[0], out[1], out[2]])
