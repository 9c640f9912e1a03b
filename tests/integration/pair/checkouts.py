"""Checkouts of the two-node recipe on the hosts of a bed: our own stand-in, or a public one as it is.

Our own (checkout/) keeps the public one's contract in other words: variables, options, exit codes, messages that a
driver looks at, and side effects. One set of files holds both generations; lines between ``#[august]`` or
``#[september]`` and the next mark are of that generation alone.

A public one is copied byte for byte, but for the bodies under ``patches/``: those rewrite files of the real image,
which is not there, so each becomes a program of the same name that does nothing but leave the mark that keys are kept
out of the log. Its git history stays behind.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.integration.pair.host import Completed, Host
from tests.integration.pair.tree import DEVICE, IMAGE, INTERFACE

Generation = Literal["august", "september"]
OURS = Path(__file__).with_name("checkout")
ENV_FILE, COMPOSE_FILE = ".env.dspark", "docker-compose.dspark.yml"
PROJECT = "deepseek-v4-flash"
SERVICE = "vllm-dspark"
HEAD_FOLDER, WORKER_FOLDER = "~/dspark", "~/spark-worker"
_MARK = re.compile(r"\s*#\[(\w+)\]\s*")
_END = "end"
_NAME = "{}-deepseek-v4-flash-dspark.sh"
_OTHER_NAMES = {"validate": "validate-dspark-config.sh", "prepare": "prepare-dspark-model-cache.sh"}
_NO_OPERATION = {
    ".sh": "#!/usr/bin/env bash\ntouch /opt/.patched /opt/.api-key-log-redacted 2>/dev/null || true\n",
    ".py": "#!/usr/bin/env python3\n",
}
_CHECKPOINTS = {
    "august": ("deepseek-ai/DeepSeek-V4-Flash-0731", "9e165c30e2704aec5d9d593cce3eebd58bbef1cb"),
    "september": ("deepseek-ai/DeepSeek-V4-Flash-Vision-Exp", "86f746b36186f0e567729a5c06a8c918caba82a9"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A checkout on both hosts, with the operator's files in it."""

    head: Host
    worker: Host
    head_folder: str  # absolute, on the head
    worker_folder: str  # absolute, on the worker

    @property
    def env_file(self) -> str:
        """The operator's, on the head."""
        return f"{self.head_folder}/{ENV_FILE}"

    def run(
        self,
        name: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        check: bool = True,
        timeout_s: float = 120.0,
    ) -> Completed:
        """Run one of the scripts on the head: start, stop, status, smoke, validate, prepare.

        Between two looks at the API it waits a fifth of a second, not fifteen, unless ``environment`` says otherwise.
        """
        script = f"{self.head_folder}/{_OTHER_NAMES.get(name, _NAME.format(name))}"
        variables = {"WAIT_SECONDS": "0.2", "WAIT_ATTEMPTS": "60", **(environment or {})}
        argv = [script, *arguments]
        return self.head.run(argv, environment=variables, folder=self.head_folder, check=check, timeout_s=timeout_s)

    def set_variables(self, changes: Mapping[str, str | None]) -> None:
        """Change the operator's env file on the head; None takes a variable out."""
        text = with_variables(self.head.read(self.env_file), changes)
        self.head.write(self.env_file, text, mode=0o600)

    def worker_files(self) -> dict[str, bytes]:
        """The two files of the worker that a start overwrites, by name."""
        folder = self.worker.path(self.worker_folder)
        return {name: (folder / name).read_bytes() for name in (ENV_FILE, COMPOSE_FILE) if (folder / name).exists()}


def install_ours(head: Host, worker: Host, generation: Generation, changes: Mapping[str, str | None]) -> Checkout:
    """Put our own checkout on both hosts."""
    for host, folder in ((head, HEAD_FOLDER), (worker, WORKER_FOLDER)):
        write_generation(host.path(folder), generation)
    return _configured(head, worker, generation, changes)


def install_public(head: Host, worker: Host, source: Path, changes: Mapping[str, str | None]) -> Checkout:
    """Put a public checkout on both hosts."""
    for host, folder in ((head, HEAD_FOLDER), (worker, WORKER_FOLDER)):
        target = host.path(folder)
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        for patch in (target / "patches").rglob("*"):
            if patch.suffix in _NO_OPERATION:
                patch.write_text(_NO_OPERATION[patch.suffix])
    return _configured(head, worker, "august", changes)


def write_generation(target: Path, generation: Generation) -> None:
    """Write one generation of our own checkout into a new folder."""
    for source in sorted(OURS.rglob("*")):
        if source.is_file():
            path = target / source.relative_to(OURS)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(of_generation(source.read_text(), generation))
            path.chmod(source.stat().st_mode & 0o777)


def of_generation(text: str, generation: Generation) -> str:
    """Return the lines of one generation."""
    kept, current = [], _END
    for line in text.splitlines(keepends=True):
        if match := _MARK.fullmatch(line):
            current = match[1]
        elif current in (_END, generation):
            kept.append(line)
    return "".join(kept)


def with_variables(text: str, changes: Mapping[str, str | None]) -> str:
    """Return an env file with variables set, where they stand or at the end; values are quoted for the shell."""
    lines = text.splitlines()
    for name, value in changes.items():
        pattern = re.compile(rf"\s*(?:export\s+)?{re.escape(name)}=")
        assignment = [] if value is None else [f"{name}={quoted(value)}"]
        at = next((index for index, line in enumerate(lines) if pattern.match(line)), len(lines))
        lines[at : at + 1] = assignment
    return "\n".join(lines) + "\n"


def quoted(value: str) -> str:
    """Return a value as it has to stand in a file that both bash and compose read.

    Raises:
        ValueError: there is no such spelling.
    """
    if re.fullmatch(r"[\w./:@%+,=-]*", value, re.ASCII):
        return value
    if "'" not in value and "\\" not in value:
        return f"'{value}'"
    if "`" in value:
        raise ValueError("bash and compose read a grave accent beside a quote or a backslash in different ways")
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'


def add_checkpoint(host: Host, repository: str, revision: str, *, cache: str = "~/.cache/huggingface") -> None:
    """Let a checkpoint lie in the model cache of a host, with tiny weights."""
    folder = f"{cache}/hub/models--{repository.replace('/', '--')}"
    snapshot = f"{folder}/snapshots/{revision}"
    shard = "model-00001-of-00001.safetensors"
    host.write(f"{snapshot}/config.json", '{"model_type": "deepseek_v4", "dspark_block_size": 5}\n')
    host.write(f"{snapshot}/model.safetensors.index.json", f'{{"weight_map": {{"w": "{shard}"}}}}\n')
    host.write(f"{snapshot}/{shard}", "weights")
    host.write(f"{folder}/refs/main", f"{revision}\n")


def _configured(head: Host, worker: Host, generation: Generation, changes: Mapping[str, str | None]) -> Checkout:
    """Write the operator's files; the worker's are its own, other bytes than the head's."""
    checkout = Checkout(
        head=head, worker=worker, head_folder=head.absolute(HEAD_FOLDER), worker_folder=worker.absolute(WORKER_FOLDER)
    )
    repository, revision = _CHECKPOINTS[generation]
    mine: dict[str, str | None] = {
        "WORKER_HOST": worker.address,
        "WORKER_DIR": checkout.worker_folder,
        "MASTER_ADDR": head.address,
        "VLLM_HOST_IP": head.address,
        "WORKER_VLLM_HOST_IP": worker.address,
        "NCCL_IB_HCA": DEVICE,
        "NCCL_SOCKET_IFNAME": INTERFACE,
        "TP_SOCKET_IFNAME": INTERFACE,
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "DSPARK_REVISION": revision,
    }
    example = head.read(f"{checkout.head_folder}/.env.dspark.example")
    head.write(checkout.env_file, with_variables(example, {**mine, **changes}), mode=0o600)
    theirs = {**mine, "NODE_RANK": "1", "HEADLESS": "1", "VLLM_HOST_IP": worker.address}
    text = f"# This is the worker of {IMAGE}.\n{with_variables(example, theirs)}"
    worker.write(f"{checkout.worker_folder}/{ENV_FILE}", text, mode=0o640)
    for host in (head, worker):
        add_checkpoint(host, repository, revision)
    return checkout
