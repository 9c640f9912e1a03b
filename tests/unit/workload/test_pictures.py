"""Drawn pictures: the same everywhere, readable by anybody, and new at the frame alone."""

from __future__ import annotations

import base64
import hashlib
import io

import numpy as np
from matplotlib.image import imread

from harness.workload.pictures import FRAME, HEIGHT, WIDTH, draw, picture_uri, png


def test_a_picture_is_a_png_that_others_read() -> None:
    pixels = draw("a subject", "a nonce")

    read = imread(io.BytesIO(png(pixels)), format="png")

    assert read.shape == (HEIGHT, WIDTH, 3)
    assert (np.rint(read * 255).astype(np.uint8) == pixels).all()


def test_a_picture_is_the_same_on_every_machine() -> None:
    digest = hashlib.sha256(draw("a subject", "a nonce").tobytes()).hexdigest()

    assert digest == "5c2279041dfe565fc8267ae6e53c819941b8876fcbabeff349db853464c10c1e"


def test_a_nonce_changes_the_frame_and_a_subject_the_scene() -> None:
    inner = (slice(FRAME, HEIGHT - FRAME), slice(FRAME, WIDTH - FRAME))
    one, again = draw("one", "first"), draw("one", "second")

    assert (one[inner] == again[inner]).all()
    assert (one[:FRAME] != again[:FRAME]).any()
    assert (one[inner] != draw("another", "first")[inner]).any()


def test_a_picture_travels_as_text_and_is_small() -> None:
    uri = picture_uri("one", "first")

    head, _, data = uri.partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data).startswith(b"\x89PNG")
    assert len(uri) < 20_000
