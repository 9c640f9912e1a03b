"""A small docker for a folder on PATH: images are files, containers are records. No daemon, and nothing ever runs.

What it was asked is in ``calls``, one JSON list a line. A file ``fail-WORD`` makes the command with that word fail.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.engine.shell import Command, Completed, LocalShell, RunningProcess

_DOCKER = """\
#!{python}
import json, sys
from pathlib import Path
import yaml

state = Path({state!r})
words = sys.argv[1:]
with (state / "calls").open("a") as log:
    log.write(json.dumps(words) + "\\n")


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)


for word in words:
    if (state / f"fail-{{word}}").exists():
        fail((state / f"fail-{{word}}").read_text())
containers = state / "containers"
if words[0] == "version":
    print("28.5.1")
elif words[:2] == ["image", "inspect"]:
    image = state / "images" / words[2].replace("/", "!")
    if not image.exists():
        fail(f"Error response from daemon: No such image: {{words[2]}}")
    print(image.read_text())
elif words[0] == "ps":
    for path in sorted(containers.iterdir()):
        print(path.name)
elif words[0] == "inspect":
    print(json.dumps([json.loads((containers / name).read_text()) for name in words[1:]]))
elif words[0] == "rm":
    for name in words[2:]:
        if not (state / "sticky").exists():
            (containers / name).unlink(missing_ok=True)
elif words[0] == "compose":
    project, file, verb = words[2], Path(words[4]), words[5]
    document = yaml.safe_load(file.read_text().replace("$$", "$"))
    for service, entry in document["services"].items():
        name = f"{{project}}-{{service}}-1"
        environment = dict(entry["environment"])
        for key_file in entry.get("env_file", ()):
            environment |= dict(line.split("=", 1) for line in (file.parent / key_file).read_text().splitlines())
        if verb == "up":
            labels = {{"com.docker.compose.project": project, "com.docker.compose.service": service}}
            (containers / name).write_text(json.dumps({{
                "Id": name, "Name": "/" + name, "Image": "sha256:x", "RestartCount": 0,
                "State": {{"Status": "running", "ExitCode": 0, "StartedAt": "now"}},
                "HostConfig": {{"RestartPolicy": {{"Name": entry["restart"]}}}},
                "Config": {{
                    "Image": entry["image"], "Cmd": entry["command"], "Labels": labels,
                    "Env": [f"{{key}}={{value}}" for key, value in environment.items()],
                }},
            }}))
        elif verb == "down" and not (state / "sticky").exists():
            (containers / name).unlink(missing_ok=True)
else:
    fail(f"unknown: {{words}}")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeHost:
    """A host on this machine with a home folder, a docker and RDMA devices of its own."""

    root: Path

    @property
    def home(self) -> Path:
        """Its user's home folder."""
        return self.root / "home"

    @property
    def state(self) -> Path:
        """What its docker knows."""
        return self.root / "docker"

    @property
    def calls(self) -> list[list[str]]:
        """What docker was asked."""
        log = self.state / "calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def containers(self) -> dict[str, Any]:
        """The containers that exist, by name."""
        return {path.name: json.loads(path.read_text()) for path in (self.state / "containers").iterdir()}

    @property
    def shell(self) -> HostShell:
        """What runs commands there."""
        path = f"{self.root / 'programs'}:/usr/local/bin:/usr/bin:/bin"
        return HostShell(environment={"PATH": path, "HOME": str(self.home)})

    def add_image(self, reference: str, *, image_id: str, digests: tuple[str, ...] = ()) -> None:
        """Have an image."""
        file = self.state / "images" / reference.replace("/", "!")
        file.write_text(json.dumps([{"Id": image_id, "RepoDigests": list(digests)}]))

    def add_snapshot(self, repository: str, commit: str, *, ref: str | None = None) -> Path:
        """Have a checkpoint of two shards, as the hub's cache keeps it: links to blobs. Return its folder."""
        model = self.home / ".cache/huggingface/hub" / f"models--{repository.replace('/', '--')}"
        snapshot = model / "snapshots" / commit
        (model / "blobs").mkdir(parents=True, exist_ok=True)
        (snapshot / "encoding").mkdir(parents=True)
        shards = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
        for shard in shards:
            (model / "blobs" / shard).write_text("weights")
            (snapshot / shard).symlink_to(model / "blobs" / shard)
        weight_map = {f"layer.{number}": shard for number, shard in enumerate(shards)}
        (snapshot / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        (snapshot / "encoding" / "encoding_dsv4.py").write_text("")
        if ref is not None:
            (model / "refs").mkdir(exist_ok=True)
            (model / "refs" / ref).write_text(commit)  # without a line end, as the hub writes it
        return snapshot

    def fail(self, word: str, text: str) -> None:
        """Make docker's commands with this word fail, until the file is removed."""
        (self.state / f"fail-{word}").write_text(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShell:
    """LocalShell with an environment of its own."""

    environment: Mapping[str, str]

    async def run(self, command: Command, *, timeout_s: float | None = None) -> Completed:
        """Run to the end."""
        return await LocalShell().run(self._there(command), timeout_s=timeout_s)

    async def spawn(self, command: Command, *, log_path: Path) -> RunningProcess:
        """Start a process."""
        return await LocalShell().spawn(self._there(command), log_path=log_path)

    def _there(self, command: Command) -> Command:
        return replace(command, environment={**self.environment, **command.environment})


def make_host(root: Path) -> FakeHost:
    """Return a host without images, containers and checkpoints."""
    host = FakeHost(root=root)
    for folder in (host.home, host.state / "images", host.state / "containers", root / "programs"):
        folder.mkdir(parents=True)
    docker = root / "programs" / "docker"
    docker.write_text(_DOCKER.format(python=sys.executable, state=str(host.state)))
    docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
    return host
