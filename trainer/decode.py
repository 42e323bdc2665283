"""From a file's bytes to the pixels of a training crop: decoded by libjpeg-turbo, resized by OpenCV.

Both let go of Python's interpreter lock, and OpenCV is held to one thread: the cores are the loaders'.
"""

from __future__ import annotations

import math
import random
from typing import Any

import cv2
import numpy as np
import simplejpeg

Pixels = np.ndarray[Any, np.dtype[np.uint8]]

CROP_MARGIN = 4  # pixels that a small image is padded with before it is cropped back
CROP_AREA, CROP_RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of a large image, as ImageNet's usual training crop
EVALUATION_MARGIN = 256 / 224  # shorter side before the centre crop, over the crop
JPEG = b"\xff\xd8\xff"

cv2.setNumThreads(0)


def decoded(content: bytes) -> Pixels:
    """An image file as RGB [height, width, 3]; raises ValueError."""
    if content[:3] == JPEG:
        try:
            return simplejpeg.decode_jpeg(content, "RGB")  # type: ignore[no-any-return]
        except ValueError as error:
            if "remature" in str(error):  # it is cut off: OpenCV would fill up the rest with grey
                raise
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)
    if pixels is None:
        raise ValueError("it is not an image that OpenCV knows")
    return pixels  # type: ignore[return-value]


def augmented(image: Pixels, size: int, rng: random.Random) -> Pixels:
    """A random crop and flip: by a few pixels where the image has the size already, else of a random part."""
    if image.shape[:2] == (size, size):
        padded = np.pad(image, ((CROP_MARGIN, CROP_MARGIN), (CROP_MARGIN, CROP_MARGIN), (0, 0)))
        top, left = rng.randrange(2 * CROP_MARGIN + 1), rng.randrange(2 * CROP_MARGIN + 1)
        pixels: Pixels = padded[top : top + size, left : left + size]
    else:
        pixels = _resized(image, _random_box(image, rng), size)
    return pixels[:, ::-1] if rng.random() < 0.5 else pixels


def centred(image: Pixels, size: int) -> Pixels:
    """The image itself where it has the size, else its centre."""
    height, width = image.shape[:2]
    if (height, width) == (size, size):
        return image
    side = max(1, round(min(height, width) / EVALUATION_MARGIN))
    return _resized(image, ((width - side) // 2, (height - side) // 2, side, side), size)


def _resized(image: Pixels, box: tuple[int, int, int, int], size: int) -> Pixels:
    left, top, width, height = box
    shrinks = width > size and height > size
    part = image[top : top + height, left : left + width]
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR  # the latter skips pixels when it shrinks
    return cv2.resize(part, (size, size), interpolation=way)  # type: ignore[return-value]


def _random_box(image: Pixels, rng: random.Random) -> tuple[int, int, int, int]:
    height, width = image.shape[:2]
    area = width * height * rng.uniform(*CROP_AREA)
    ratio = math.exp(rng.uniform(*(math.log(bound) for bound in CROP_RATIO)))
    wide = max(1, min(width, round(math.sqrt(area * ratio))))
    high = max(1, min(height, round(math.sqrt(area / ratio))))
    return rng.randint(0, width - wide), rng.randint(0, height - high), wide, high
