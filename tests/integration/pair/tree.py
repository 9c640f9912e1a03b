"""The file tree of a host before its first boot: what is private, who may log in, and which stand-ins are on PATH."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.integration.pair.standin import faults, places

REPOSITORY = Path(__file__).resolve().parents[3]
HOME = "/root"
PRIVATE = ("etc", "home", "mnt", "opt", "root", "run", "srv", "tmp", "usr/local/sbin", "var/tmp")
_SHARED = ("alternatives", "fonts", "ssl")  # of /etc: hundreds of entries that no host changes
DEVICES = ".devices"  # the host's /sys/class
PORT_STATE = f"{DEVICES}/infiniband/rocep1s0f1/ports/1/state"
PORT_UP, PORT_DOWN = "4: ACTIVE\n", "1: DOWN\n"
INTERFACE = "enp1s0f1np1"
DEVICE = "rocep1s0f1"
IMAGE = "ghcr.io/anemll/dspark-vllm-gx10:0.1.1"
IMAGE_DIGEST = "sha256:a83948492cf13df455170fb42885f5ef4db54fefe0feff0f841ecbff464ac9d8"
STAGE_C_IMAGE = "vllm-dspark-runtime:dspark-nvfp4-stage-c"
_SSHD = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PidFile /run/sshd.pid
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS = {  # on a host
    "docker": ("tests.integration.pair.standin.docker", "main(sys.argv[1:])"),
    "dockerd-standin": ("tests.integration.pair.standin.docker", "boot()"),
    "ibdev2netdev": ("tests.integration.pair.standin.nvidia_smi", "print_infiniband_names()"),
    "nvidia-smi": ("tests.integration.pair.standin.nvidia_smi", "main(sys.argv[1:])"),
    "systemctl": ("tests.integration.pair.standin.systemctl", "main(sys.argv[1:])"),
}
# Half of all docker commands ask for the ids alone. Where nothing is to go wrong and there is at most one, whose place
# in the list needs no thought, sh says it in a thirtieth of the time.
_LIST_AT_ONCE = f"""\
if [ "$*" = 'ps -aq --no-trunc' ] && [ -e {places.DAEMON} ] && [ ! -e {places.FOLDER / faults.FILE} ]; then
  set -- {places.FOLDER / places.CONTAINERS}/*/config.json
  if [ "$#" -eq 1 ]; then
    echo '["ps", "-aq", "--no-trunc"]' >>{places.FOLDER / places.CALLS}
    id=${{1%/*}}
    [ ! -e "$1" ] || echo "${{id##*/}}"
    exit 0
  fi
  set -- ps -aq --no-trunc
fi
"""
_VLLM = ("tests.integration.pair.standin.vllm", "main(sys.argv[1:])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells one host from the other."""

    name: str
    host_name: str
    address: str
    gid_index: int
    machine_id: str
    device_address: str  # the last part of the GIDs of link-local addresses


HEAD = Identity(
    name="head",
    host_name="spark-head",
    address="10.77.0.1",
    gid_index=3,
    machine_id="11111111111111111111111111111111",
    device_address="4ebb:47ff:fe01:0001",
)
WORKER = Identity(
    name="worker",
    host_name="spark-worker",
    address="10.77.0.2",
    gid_index=6,
    machine_id="22222222222222222222222222222222",
    device_address="4ebb:47ff:fe01:0002",
)


def search_path() -> str:
    """Return PATH on a host, the stand-ins first."""
    return _SYSTEM_PATH


def needed_paths() -> list[str]:
    """Return where the interpreter and the harness lie: hosts and containers must have them."""
    executable = Path(sys.executable)
    homes = [Path(sys.prefix), Path(sys.base_prefix), REPOSITORY, executable.parent, executable.resolve().parent]
    homes += [Path(each) for each in _libraries()]
    # A folder inside another one that is needed comes with it.
    return sorted(
        {str(path) for path in homes if not any(path != each and path.is_relative_to(each) for each in homes)}
    )


def kept_paths() -> list[str]:
    """Return what a host's private folders would hide and it has to see: those of them, and some of /etc."""
    hidden = [path for path in needed_paths() if any(Path(path).is_relative_to(Path("/", each)) for each in PRIVATE)]
    return [*hidden, *(str(path) for name in _SHARED if (path := Path("/etc", name)).is_dir())]


def make_keys(folder: Path) -> None:
    """Make the host keys of both hosts and a key for each one's root."""
    for identity in (HEAD, WORKER):
        for kind in ("host", "user"):
            path = folder / f"{identity.name}-{kind}"
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{identity.host_name}", "-f", str(path)]
            subprocess.run(words, check=True)


def make_tree(root: Path, own: Identity, other: Identity, keys: Path) -> None:
    """Make the tree of ``own`` below ``root``, which does not exist yet."""
    shutil.copytree("/etc", root / "etc", symlinks=True, ignore=_not_copied)
    for folder in PRIVATE:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for folder in ("tmp", "var/tmp"):
        (root / folder).chmod(0o1777)
    _make_names(root, own, other)
    _make_ssh(root, own, other, keys)
    _make_hca(root / DEVICES / "infiniband", own)
    _make_firmware(root / DEVICES / "dmi" / "id")
    _make_standins(root)


def _libraries() -> list[str]:
    return [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]


def _not_copied(folder: str, names: list[str]) -> list[str]:
    """What is shared, and what cannot be copied: sockets and the like."""
    paths = {name: Path(folder, name) for name in names}
    special = [name for name, path in paths.items() if not (path.is_symlink() or path.is_dir() or path.is_file())]
    return [*special, *(name for name in names if folder == "/etc" and name in (*_SHARED, "ssh"))]


def _make_names(root: Path, own: Identity, other: Identity) -> None:
    (root / "etc/hosts").write_text(
        f"127.0.0.1 localhost\n{own.address} {own.host_name}\n{other.address} {other.host_name}\n"
    )
    (root / "etc/hostname").write_text(f"{own.host_name}\n")
    machine_id = root / "etc/machine-id"
    machine_id.unlink(missing_ok=True)
    machine_id.write_text(f"{own.machine_id}\n")
    _rewrite(root / "etc/passwd", "root", f"root:x:0:0:root:{HOME}:/bin/bash")
    _rewrite(root / "etc/shadow", "root", "root:*:19000:0:99999:7:::")  # not locked, and no password either
    if not any(line.startswith("sshd:") for line in (root / "etc/passwd").read_text().splitlines()):
        with (root / "etc/passwd").open("a") as file:
            file.write("sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n")


def _rewrite(path: Path, user: str, line: str) -> None:
    lines = [line if each.startswith(f"{user}:") else each for each in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")


def _make_ssh(root: Path, own: Identity, other: Identity, keys: Path) -> None:
    (root / "etc/ssh").mkdir()
    (root / "etc/ssh/sshd_config").write_text(f"{_SSHD}SetEnv PATH={_SYSTEM_PATH}\n")
    for suffix in ("", ".pub"):
        shutil.copy(keys / f"{own.name}-host{suffix}", root / f"etc/ssh/ssh_host_ed25519_key{suffix}")
    folder = root / HOME.lstrip("/") / ".ssh"
    folder.mkdir(mode=0o700)
    (root / HOME.lstrip("/")).chmod(0o700)
    shutil.copy(keys / f"{own.name}-user", folder / "id_ed25519")
    (folder / "id_ed25519").chmod(0o600)
    users = [(keys / f"{each.name}-user.pub").read_text() for each in (own, other)]
    (folder / "authorized_keys").write_text("".join(users))
    known = []
    for each in (own, other):
        kind, key, *_ = (keys / f"{each.name}-host.pub").read_text().split()
        known.append(f"{each.address},{each.host_name} {kind} {key}\n")
    (folder / "known_hosts").write_text("".join(known))
    (folder / "config").write_text(
        "Host *\n  IdentitiesOnly yes\n  IdentityFile ~/.ssh/id_ed25519\n  KexAlgorithms curve25519-sha256\n"
    )
    for name in ("authorized_keys", "known_hosts", "config"):
        (folder / name).chmod(0o600)


def _make_hca(folder: Path, own: Identity) -> None:
    """Write /sys/class/infiniband of a dual-port card of which one port is in use."""
    _write_port(folder / DEVICE / "ports" / "1", own, state=PORT_UP, physical="5: LinkUp\n")
    _write_port(folder / "rocep1s0f0" / "ports" / "1", own, state=PORT_DOWN, physical="3: Disabled\n")


def _write_port(port: Path, own: Identity, *, state: str, physical: str) -> None:
    octets = [int(each) for each in own.address.split(".")]
    mapped = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*octets)
    gids = {
        0: (f"fe80:0000:0000:0000:{own.device_address}", "IB/RoCE v1"),
        1: (f"fe80:0000:0000:0000:{own.device_address}", "RoCE v2"),
        own.gid_index - 1: (mapped, "IB/RoCE v1"),
        own.gid_index: (mapped, "RoCE v2"),
    }
    for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (port / name).mkdir(parents=True)
    for index, (gid, kind) in gids.items():
        (port / "gids" / str(index)).write_text(f"{gid}\n")
        (port / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
        (port / "gid_attrs/ndevs" / str(index)).write_text(f"{INTERFACE}\n")
    for name, value in (("state", state), ("phys_state", physical), ("rate", "200 Gb/sec (4X HDR)\n")):
        (port / name).write_text(value)
    (port / "link_layer").write_text("Ethernet\n")


def _make_firmware(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, value in (
        ("bios_version", "5.36_0ACUM018"),
        ("product_name", "NVIDIA_DGX_Spark"),
        ("sys_vendor", "NVIDIA"),
    ):
        (folder / name).write_text(f"{value}\n")


def _make_standins(root: Path) -> None:
    folder = root / str(places.FOLDER).lstrip("/")
    (folder / "programs").mkdir(parents=True)
    (folder / places.KEPT).write_text(json.dumps(needed_paths()))
    (folder / places.IMAGES).write_text(
        json.dumps([_image(IMAGE, IMAGE_DIGEST), _image(STAGE_C_IMAGE, None)], indent=1)
    )
    for name, (module, call) in _PROGRAMS.items():
        _write_program(root / "usr/local/sbin" / name, module, call, first=_LIST_AT_ONCE if name == "docker" else "")
    _write_program(folder / "programs" / "vllm", *_VLLM)
    python = folder / "programs" / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(str(Path(sys.executable).resolve()))} "$@"\n')
    python.chmod(0o755)


def _write_program(path: Path, module: str, call: str, *, first: str = "") -> None:
    """Write a program that starts without the site module, which takes half of its time; ``first``: lines of sh."""
    folders = [str(REPOSITORY), *dict.fromkeys(_libraries())]
    name = call.partition("(")[0]
    code = f"import sys; sys.path += {folders!r}; from {module} import {name}; sys.exit({call})"
    words = [str(Path(sys.executable).absolute()), "-I", "-S", "-c", code]
    path.write_text(f'#!/bin/sh\n{first}exec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)


def _image(name: str, digest: str | None) -> Mapping[str, object]:
    repository = name.rpartition(":")[0]
    image_id = digest or "sha256:5f1c7f2b0a6d4e8c9b3a1d2e4f6071829a3b4c5d6e7f8091a2b3c4d5e6f70819"
    return {
        "Id": f"sha256:{image_id[-64:][::-1]}",
        "RepoTags": [name],
        "RepoDigests": [f"{repository}@{digest}"] if digest else [],
        "Created": "2026-07-14T09:00:00Z",
        "Size": 31_000_000_000,
        "Architecture": "arm64",
        "Os": "linux",
        "Config": {"Labels": {}},
    }
