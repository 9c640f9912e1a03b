"""Kept texts: what comes back is what was put in, or nothing."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from harness.workload.cache import PromptCache, cache_folder
from harness.workload.texts import Text, Texts


def texts(word: str, count: int = 3) -> Texts:
    stream = tuple(Text(text=f"{word} {index}\u2028\n", tokens=index + 1) for index in range(count))
    return Texts(fills=(Text(text="fill", tokens=1),), streams=(stream,), nonce_is_constant=True)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    PromptCache(tmp_path).store("key", texts("é"))

    assert PromptCache(tmp_path).load("key") == texts("é")
    assert PromptCache(tmp_path).load("other") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b"fill", b"full"),
        lambda content: b"",
        lambda content: b"\xff\xfe",
        lambda content: b"[]",
        lambda content: json.dumps({"sha256": "0", "texts": "{}", "more": 1}).encode(),
    ],
)
def test_a_damaged_file_counts_as_absent(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    cache = PromptCache(tmp_path)
    cache.store("key", texts("a"))
    (file,) = (tmp_path / "prompts").iterdir()
    file.write_bytes(damage(file.read_bytes()))

    assert cache.load("key") is None
    cache.store("key", texts("b"))
    assert cache.load("key") == texts("b")


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = PromptCache(tmp_path / "file")

    cache.store("key", texts("a"))

    assert cache.load("key") is None


def test_concurrent_writers_leave_one_whole_file(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4) as pool:
        seen = list(pool.map(_store_and_load, [tmp_path] * 24, range(24)))

    assert all(seen)
    assert [path.name for path in (tmp_path / "prompts").iterdir()] == ["key.json"]


def test_the_folder_is_named_by_the_environment_or_the_platform(tmp_path: Path) -> None:
    assert cache_folder({"HARNESS_CACHE_DIR": str(tmp_path)}) == tmp_path
    assert cache_folder({}).name == "harness"


def _store_and_load(folder: Path, writer: int) -> bool:
    cache = PromptCache(folder)
    cache.store("key", texts(f"writer {writer} ", count=200))
    found = cache.load("key")
    return found is not None and len(found.streams[0]) == 200
