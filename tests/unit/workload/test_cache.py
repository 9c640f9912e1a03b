"""Kept texts: what comes back is what was put in, or nothing."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from harness.workload.cache import PromptCache, SessionTexts, cache_folder
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


def test_a_session_reads_what_it_has_seen_once(tmp_path: Path) -> None:
    PromptCache(tmp_path).store("key", texts("a"))
    session = SessionTexts(PromptCache(tmp_path))

    first = session.load("key")
    (tmp_path / "prompts" / "key.json").unlink()

    assert first == texts("a")
    assert session.load("key") is first
    assert session.load("other") is None


def test_what_a_session_stores_is_there_for_the_next_one(tmp_path: Path) -> None:
    session = SessionTexts(PromptCache(tmp_path))
    session.store("key", made := texts("a"))

    assert session.load("key") is made
    assert SessionTexts(PromptCache(tmp_path)).load("key") == made


def test_a_session_forgets_what_was_not_used_for_longest(tmp_path: Path) -> None:
    session = SessionTexts(PromptCache(tmp_path), most_characters=3 * len("fill" + "a 0\u2028\n") + 1)
    for key in ("a", "b", "c"):
        session.store(key, texts(key, count=1))
        session.load("a")
    session.store("d", texts("d", count=1))
    for file in (tmp_path / "prompts").iterdir():
        file.unlink()

    assert [key for key in "abcd" if session.load(key) is not None] == ["a", "c", "d"]


def test_texts_beyond_all_memory_are_still_kept_on_disk(tmp_path: Path) -> None:
    session = SessionTexts(PromptCache(tmp_path), most_characters=3)
    session.store("key", texts("a"))

    assert session.load("key") == texts("a")


def _store_and_load(folder: Path, writer: int) -> bool:
    cache = PromptCache(folder)
    cache.store("key", texts(f"writer {writer} ", count=200))
    found = cache.load("key")
    return found is not None and len(found.streams[0]) == 200
