"""Still pictures, drawn by this project: hills, a house and a sky of their own for each seed. Pure.

A picture is the same on every machine, and so are the tokens that a model makes of it: those follow from its size.
A nonce colours the frame, so that no cache of pictures or prefixes knows one that was sent before.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from typing import Any

import numpy as np

WIDTH, HEIGHT = 448, 336  # a size that models take as it is, in whole patches of 14, 16 or 28
FRAME = 14  # pixels around the scene
_CELL = 28  # of the frame: each has a colour of the nonce
PICTURE_VERSION = 1  # another one draws other pictures
MEDIA_TYPE = "image/png"

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def picture_uri(subject: str, nonce: str) -> str:
    """Return a picture as a data URI.

    Args:
        subject: decides the scene.
        nonce: decides the frame around it.
    """
    return f"data:{MEDIA_TYPE};base64,{base64.b64encode(png(draw(subject, nonce))).decode('ascii')}"


def draw(subject: str, nonce: str) -> Pixels:
    """Return the pixels of a picture, by row and column, in red, green and blue."""
    dice = _Dice(f"{PICTURE_VERSION} {subject}")
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    pixels: Pixels = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
    pixels[:] = _sky(dice, rows)
    x, y, radius = dice.between(60, 388), dice.between(40, 110), dice.between(14, 34)
    pixels[(columns - x) ** 2 + (rows - y) ** 2 < radius**2] = (250, dice.between(190, 245), dice.between(60, 150))
    for depth in range(3):
        # In whole numbers: a sine of another library would move an edge by a pixel.
        width, height = dice.between(160, 420), dice.between(30, 80)
        from_peak = (columns + dice.between(0, width)) % width - width // 2
        ridge = 150 + 50 * depth + 4 * height * from_peak**2 // width**2
        pixels[rows > ridge] = (dice.between(30, 80), 90 + 35 * depth, dice.between(30, 90))
    _house(dice, pixels)
    _frame(nonce, pixels)
    return pixels


def png(pixels: Pixels) -> bytes:
    """Return pixels as a PNG file of eight bits a colour, without a filter."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


class _Dice:
    """Whole numbers out of a text, the same on every machine."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._thrown = 0

    def between(self, low: int, high: int) -> int:
        """Return one from ``low`` up to, not including, ``high``."""
        self._thrown += 1
        digest = hashlib.sha256(f"{self._text}\x1f{self._thrown}".encode()).digest()
        return low + int.from_bytes(digest[:8], "big") % (high - low)


def _sky(dice: _Dice, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    top = np.array([dice.between(40, 140), dice.between(90, 170), dice.between(170, 240)])
    bottom = np.array([dice.between(180, 250), dice.between(180, 230), dice.between(190, 250)])
    sky: np.ndarray[Any, Any] = top + (bottom - top) * rows[..., np.newaxis] // HEIGHT
    return sky


def _house(dice: _Dice, pixels: Pixels) -> None:
    width, height = dice.between(60, 130), dice.between(40, 80)
    left, top = dice.between(40, WIDTH - 180), dice.between(190, 230)
    pixels[top : top + height, left : left + width] = [dice.between(120, 240) for _ in range(3)]
    roof = [dice.between(90, 180), dice.between(30, 80), dice.between(20, 60)]
    for row in range(width // 4):
        inset = 2 * row
        pixels[top - row, left + inset : left + width - inset] = roof
    door = left + width // 2
    pixels[top + height // 2 : top + height, door - 8 : door + 8] = (70, 45, 30)
    for window in range(dice.between(1, 4)):
        at = left + 8 + window * 22
        pixels[top + 10 : top + 24, at : at + 14] = (240, 220, 130)


def _frame(nonce: str, pixels: Pixels) -> None:
    dice = _Dice(nonce)
    for left in range(0, WIDTH, _CELL):
        for rows in (slice(0, FRAME), slice(HEIGHT - FRAME, HEIGHT)):
            pixels[rows, left : left + _CELL] = [dice.between(0, 256) for _ in range(3)]
    for top in range(FRAME, HEIGHT - FRAME, _CELL):
        for columns in (slice(0, FRAME), slice(WIDTH - FRAME, WIDTH)):
            pixels[top : top + _CELL, columns] = [dice.between(0, 256) for _ in range(3)]


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
