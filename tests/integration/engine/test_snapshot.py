"""The operator's files come back whatever they are: links, second names, files that cannot be read, folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.engine.pair.node import Node, NodeError
from harness.engine.pair.snapshot import put_back, take_snapshot
from harness.engine.shell import LocalShell

pytestmark = pytest.mark.anyio
NAMES = (".env", "compose.yml", "patches", "recipe/vllm")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def node() -> Node:
    return Node(role="worker", name="this machine", shell=LocalShell(), is_local=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "their folder"
    (path / "patches").mkdir(parents=True)
    (path / "patches" / "one.sh").write_text("one")
    (path / ".env").write_text("A=1\n")
    return path


def tree(folder: Path) -> dict[str, object]:
    """Every name below a folder, with what makes it what it is."""
    return {
        str(path.relative_to(folder)): path.readlink()
        if path.is_symlink()
        else (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


def copy_over(path: Path) -> None:
    """As scp does: into what is there."""
    path.write_text("of a trial")


def move_over(path: Path) -> None:
    """As the checkouts do with the env file: another file takes the name."""
    (part := path.with_name("part")).write_text("of a trial")
    part.replace(path)


@pytest.mark.parametrize("overwrite", [copy_over, move_over])
@pytest.mark.parametrize("target", ["/elsewhere/env", "other/env"])
async def test_what_lies_behind_a_link_comes_back(
    node: Node, folder: Path, overwrite: Callable[[Path], None], target: str
) -> None:
    elsewhere = folder.parent / "elsewhere" / "env" if target.startswith("/") else folder / target
    elsewhere.parent.mkdir()
    (folder / ".env").rename(elsewhere)
    elsewhere.chmod(0o640)
    (folder / ".env").symlink_to(elsewhere if target.startswith("/") else target)
    was = tree(folder.parent)
    archive = await take_snapshot(node, str(folder), NAMES)

    overwrite(folder / ".env")
    await put_back(node, str(folder), NAMES, archive)

    assert tree(folder.parent) == was


async def test_a_folder_behind_a_link_and_links_in_a_folder_come_back(node: Node, folder: Path) -> None:
    (folder / "patches").rename(folder.parent / "patches of all")
    (folder / "patches").symlink_to("../patches of all")
    (folder / "patches" / "two.sh").symlink_to("one.sh")
    (folder / "patches" / "gone.sh").symlink_to("nowhere")
    was = tree(folder.parent)
    archive = await take_snapshot(node, str(folder), NAMES)

    for name in ("one.sh", "three.sh", "gone.sh"):
        copy_over(folder / "patches" / name)
    move_over(folder / "patches" / "two.sh")
    await put_back(node, str(folder), NAMES, archive)

    assert tree(folder.parent) == was


async def test_a_file_of_two_names_comes_back_under_both(node: Node, folder: Path) -> None:
    os.link(folder / "patches" / "one.sh", folder / "patches" / "two.sh")
    was = tree(folder)
    archive = await take_snapshot(node, str(folder), NAMES)

    move_over(folder / "patches" / "one.sh")
    move_over(folder / "patches" / "two.sh")
    await put_back(node, str(folder), NAMES, archive)

    assert tree(folder) == was


async def test_folders_that_came_since_go_and_a_folder_in_the_place_of_a_file_too(node: Node, folder: Path) -> None:
    (folder / "compose.yml").write_text("services: {}")
    was = tree(folder)
    archive = await take_snapshot(node, str(folder), NAMES)

    (folder / "recipe" / "vllm" / "v1").mkdir(parents=True)
    copy_over(folder / "recipe" / "vllm" / "v1" / "x.py")
    (folder / "compose.yml").unlink()
    (folder / "compose.yml").mkdir()  # docker does so for what it has to mount
    await put_back(node, str(folder), NAMES, archive)

    assert tree(folder) == was


async def test_a_folder_that_was_not_there_is_not_there_again(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    archive = await take_snapshot(node, str(folder), NAMES)

    (folder / "recipe" / "vllm").mkdir(parents=True)
    copy_over(folder / "recipe" / "vllm" / "x.py")
    copy_over(folder / ".env")
    await put_back(node, str(folder), NAMES, archive)

    assert list(tmp_path.iterdir()) == []


async def test_what_somebody_else_put_beside_them_stays(node: Node, folder: Path) -> None:
    archive = await take_snapshot(node, str(folder), NAMES)

    (folder / "recipe" / "vllm").mkdir(parents=True)
    copy_over(folder / "recipe" / "vllm" / "x.py")
    copy_over(folder / "recipe" / "notes.txt")
    await put_back(node, str(folder), NAMES, archive)

    assert [path.name for path in (folder / "recipe").iterdir()] == ["notes.txt"]


async def test_time_and_owner_come_back_where_they_may(node: Node, folder: Path) -> None:
    os.utime(folder / ".env", (1_600_000_000, 1_600_000_000))
    was = (folder / ".env").stat()
    archive = await take_snapshot(node, str(folder), NAMES)

    move_over(folder / ".env")
    await put_back(node, str(folder), NAMES, archive)

    now = (folder / ".env").stat()
    assert (now.st_mtime, now.st_uid, now.st_gid) == (was.st_mtime, was.st_uid, was.st_gid)


async def test_an_edit_of_the_operator_is_kept_aside(node: Node, folder: Path) -> None:
    archive = await take_snapshot(node, str(folder), NAMES)

    (folder / ".env").write_text("A=2 # better\n")
    await put_back(node, str(folder), NAMES, archive, aside=".edited")

    assert (folder / ".env").read_text() == "A=1\n"
    assert (folder / ".env.edited").read_text() == "A=2 # better\n"


async def test_half_an_archive_is_never_taken_for_a_whole_one(
    node: Node, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it lacks would be removed at the end. A file that may not be read is refused before anything is changed."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tar"
    real = shutil.which("tar")
    program.write_text(f"#!/bin/sh\n{real} \"$@\"; echo 'one.sh: Permission denied' >&2; exit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    with pytest.raises(NodeError, match=r"cannot save the files in .* on worker: one.sh: Permission denied"):
        await take_snapshot(node, str(folder), NAMES)


async def test_a_damaged_archive_removes_nothing(node: Node, folder: Path) -> None:
    was = tree(folder)
    archive = await take_snapshot(node, str(folder), NAMES)

    for damaged in (archive[: len(archive) // 3], b"x" * 2048):
        with pytest.raises(NodeError, match="is no use"):
            await put_back(node, str(folder), NAMES, damaged)

    assert tree(folder) == was
