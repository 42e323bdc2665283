"""Draw pictures that cost a decoder as much as photographs: with their measure of edges, textures and noise.

They are for benchmarks on machines that have no photographs; nothing can be learned from them.
"""

from __future__ import annotations

import io
import random
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

SIDE = 256  # pixels, as ImageNet is often stored
QUALITY = 83  # of the JPEGs; with the detail below, a picture takes about 16 KB
CANVASES, CANVAS_SIDE = 6, 512  # large pictures from which small ones are cut
STEEPNESS = 1.15  # amplitudes fall with frequency as 1/f^this: photographs lie around 1
EDGES = 12  # flat patches with sharp borders on each canvas


def picture(seed: str) -> bytes:
    """Return a JPEG of about 256×256 pixels: a part of a canvas, at another scale and in other colours each time."""
    rng = random.Random(seed)
    canvas = _canvas(rng.randrange(CANVASES))
    width, height = (round(SIDE * rng.uniform(0.9, 1.1)) for _ in range(2))
    scale = rng.uniform(0.7, 1.6)
    wide, high = round(width * scale), round(height * scale)
    left, top = rng.randrange(CANVAS_SIDE - wide), rng.randrange(CANVAS_SIDE - high)
    part = canvas.crop((left, top, left + wide, top + high)).resize((width, height), Image.Resampling.BILINEAR)
    order = [0, 1, 2]
    rng.shuffle(order)
    bands = part.split()
    stream = io.BytesIO()
    Image.merge("RGB", [bands[band] for band in order]).save(stream, "jpeg", quality=QUALITY)
    return stream.getvalue()


@lru_cache(maxsize=CANVASES)
def _canvas(number: int) -> Image.Image:
    noise = np.random.default_rng(number)
    frequencies = np.hypot(np.fft.fftfreq(CANVAS_SIDE)[:, None], np.fft.rfftfreq(CANVAS_SIDE)[None, :])
    frequencies[0, 0] = 1.0
    grey, *tints = (_texture(noise, frequencies) for _ in range(3))
    pixels = np.stack([grey + 0.35 * tint for tint in (tints[0], -tints[0], tints[1])], axis=-1)
    _add_edges(pixels, noise)
    return Image.fromarray(np.clip(128 + 48 * pixels, 0, 255).astype(np.uint8))


def _texture(noise: np.random.Generator, frequencies: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    spectrum = np.fft.rfft2(noise.standard_normal((CANVAS_SIDE, CANVAS_SIDE))) / frequencies**STEEPNESS
    texture = np.fft.irfft2(spectrum, (CANVAS_SIDE, CANVAS_SIDE))
    return texture / texture.std()  # type: ignore[no-any-return]


def _add_edges(pixels: np.ndarray[Any, Any], noise: np.random.Generator) -> None:
    rows, columns = np.mgrid[:CANVAS_SIDE, :CANVAS_SIDE]
    for _ in range(EDGES):
        row, column = noise.uniform(0, CANVAS_SIDE, 2)
        half_high, half_wide = noise.uniform(15, 120, 2)
        inside = ((rows - row) / half_high) ** 2 + ((columns - column) / half_wide) ** 2 < 1
        pixels[inside] = 0.4 * pixels[inside] + noise.uniform(-1.5, 1.5, 3)
