"""The first process of a host: makes its namespaces and its file tree, then reaps. Run as a program, see bed.py.

Usage: python host_init.py SETTINGS.json. The keeper, which stays outside, writes the process id of the host's first
process to stdout. It ends when its stdin does, and the host with it: nothing of a host outlives the test process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.integration.pair.standin import namespaces as ns


def main() -> None:
    """Make the host that the settings describe, and keep it until stdin ends."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    if settings["network"] is None:
        ns.unshare(ns.NEWNET)
    else:
        ns.setns(settings["network"], ns.NEWNET)
    ns.unshare(ns.NEWNS | ns.NEWUTS | ns.NEWIPC | ns.NEWPID | ns.NEWTIME)
    _set_uptime(settings["uptime_s"])
    ready, say_ready = os.pipe()
    keeper = os.getpid()
    first = os.fork()
    if first == 0:
        os.close(ready)
        _become_first(settings, say_ready, keeper)
        os._exit(0)
    os.close(say_ready)
    made = os.read(ready, 1) == b"+"
    print(first if made else 0, flush=True)
    while made and os.read(0, 1):
        pass
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)


def _set_uptime(uptime_s: float) -> None:
    offset_s = int(uptime_s - time.clock_gettime(time.CLOCK_BOOTTIME))
    Path("/proc/self/timens_offsets").write_text(f"boottime {offset_s} 0\n")


def _become_first(settings: dict[str, Any], say_ready: int, keeper: int) -> None:
    ns.die_with_parent(signal.SIGKILL)
    if not Path(f"/proc/{keeper}").exists():
        os._exit(1)
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _make_tree(settings)
    ns.set_host_name(settings["host_name"])
    null = os.open(os.devnull, os.O_RDWR)
    os.write(say_ready, b"+")
    for descriptor in (0, 1, 2, say_ready):
        os.dup2(null, descriptor)
    while True:
        signal.sigwait({signal.SIGCHLD})
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


def _make_tree(settings: dict[str, Any]) -> None:
    """Put the private folders and files of the host over those of the machine."""
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    root = os.open(settings["root"], os.O_PATH | os.O_DIRECTORY)
    kept = [(path, os.open(path, os.O_PATH)) for path in settings["kept"]]
    lent = [(path, os.open(source, os.O_PATH)) for path, source in settings["lent"].items()]
    ns.mount("proc", "/proc", kind="proc")
    ns.mount("sysfs", "/sys", kind="sysfs")
    ns.mount("tmpfs", "/dev/shm", kind="tmpfs", options="mode=1777")
    for folder in settings["private"]:
        ns.bind(f"/proc/self/fd/{root}/{folder}", f"/{folder}")
    for path, descriptor in (*kept, *lent):
        _make_mount_point(path, like=descriptor)
        ns.bind(f"/proc/self/fd/{descriptor}", path)
    _put_devices(f"/proc/self/fd/{root}/{settings['devices']}")
    for path, source in settings["files"].items():
        ns.bind(f"/proc/self/fd/{root}/{source}", path)
    for descriptor in (root, *(each for _, each in (*kept, *lent))):
        os.close(descriptor)


def _make_mount_point(path: str, *, like: int) -> None:
    if Path(f"/proc/self/fd/{like}").is_dir():
        Path(path).mkdir(parents=True, exist_ok=True)
    elif not Path(path).exists():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()


def _put_devices(ours: str) -> None:
    """Let /sys/class have the network of the host, and devices that this machine does not have."""
    classes = Path("/sys/class")
    network = os.open(classes / "net", os.O_PATH)
    ns.mount("tmpfs", str(classes), kind="tmpfs", options="mode=755")
    sources = {path.name: str(path) for path in Path(ours).iterdir()} | {"net": f"/proc/self/fd/{network}"}
    for name, source in sources.items():
        (classes / name).mkdir()
        ns.bind(source, str(classes / name))
    os.close(network)


if __name__ == "__main__":
    main()
