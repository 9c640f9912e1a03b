"""The head of a GGUF file, whole, cut and damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.gguf import NotGgufError, read_metadata
from tests.fakes.gguf_file import gguf

WHOLE = gguf({"general.name": "Flash", "deepseek4.block_count": 43, "general.size": 1.5, "flag": True})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gguf") / "model.gguf"


def test_scalars_are_read_and_arrays_passed_over(file: Path) -> None:
    file.write_bytes(WHOLE)

    assert read_metadata(file) == {
        "general.name": "Flash",
        "deepseek4.block_count": 43,
        "general.size": 1.5,
        "flag": True,
    }


@given(st.integers(0, len(WHOLE) - 1))
def test_a_head_that_was_cut_says_so(file: Path, at: int) -> None:
    file.write_bytes(WHOLE[:at])

    with pytest.raises(NotGgufError):
        read_metadata(file)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(file: Path, data: bytes, magic: bool) -> None:
    file.write_bytes((b"GGUF" + struct.pack("<I", 3) if magic else b"") + data)

    try:
        assert isinstance(read_metadata(file), dict)
    except NotGgufError as refused:
        assert str(refused)
