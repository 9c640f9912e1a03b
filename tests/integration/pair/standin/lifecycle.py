"""What happens to containers: made, started, stopped, killed, removed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tests.integration.pair.standin import faults
from tests.integration.pair.standin.store import Store, Tree
from tests.integration.pair.standin.supervisor import start_supervisor

if TYPE_CHECKING:  # it loads YAML, which few commands need
    from tests.integration.pair.standin.compose_file import Project

UP = ("running", "restarting")
LABEL = "com.docker.compose."
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GRACE_S = 10.0
_PATIENCE_S = 20.0
_POLL_S = 0.02
_VERSION = "2.40.3"
_SECONDS = re.compile(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")

Say = Callable[[str], None]


class DaemonError(Exception):
    """What dockerd refuses."""


def refuse(what: str) -> DaemonError:
    """Return the error in dockerd's words."""
    return DaemonError(f"Error response from daemon: {what}")


def compose_up(store: Store, project: Project, wanted: Iterable[str], say: Say) -> None:
    """Make and start the containers of a project. Those that run with the same configuration are left alone.

    Raises:
        DaemonError: there is no such image, or the stand-in is told to fail.
    """
    for name in wanted:
        service = project.services[name]
        if store.faults.happens(faults.UP_FAILS):
            raise refuse('could not select device driver "nvidia" with capabilities: [[gpu]]')
        config = _config(store, project, name, service)
        existing = next((each for each in of_project(store, project.name) if _service_of(store, each) == name), None)
        if existing is not None:
            same = store.config(existing)["Labels"][f"{LABEL}config-hash"] == config["Labels"][f"{LABEL}config-hash"]
            if same and store.state(existing)["Status"] in UP:
                say(f" Container {config['Name']}  Running")
                continue
            if same:
                start(store, existing)
                say(f" Container {config['Name']}  Started")
                continue
            say(f" Container {config['Name']}  Recreate")
            stop(store, existing)
            remove(store, existing, force=True)
        say(f" Container {config['Name']}  Creating")
        with store.locked():
            made = store.add(config)
        say(f" Container {config['Name']}  Created\n Container {config['Name']}  Starting")
        start(store, made)
        say(f" Container {config['Name']}  Started")


def compose_down(store: Store, project: str, say: Say, *, timeout_s: float | None) -> None:
    """Stop and remove every container of a project. Raises DaemonError."""
    found = of_project(store, project)
    if not found:
        say(f'Warning: No resource found to remove for project "{project}".')
    for container_id in found:
        name = store.config(container_id)["Name"]
        say(f" Container {name}  Stopping")
        stop(store, container_id, timeout_s=timeout_s)
        say(f" Container {name}  Stopped\n Container {name}  Removing")
        remove(store, container_id, force=False)
        say(f" Container {name}  Removed")


def of_project(store: Store, project: str) -> list[str]:
    """The ids of a project's containers."""
    with store.locked():
        return [each for each in store.ids() if store.config(each)["Labels"].get(f"{LABEL}project") == project]


def start(store: Store, container_id: str) -> None:
    """Start a container that does not run; returns when its process is there."""
    with store.locked():
        if store.state(container_id)["Status"] in UP:
            return
        store.change(container_id, Status="created", StoppedByHand=False, RestartCount=0)
    start_supervisor(store, container_id)
    _wait(lambda: _status(store, container_id) != "created", "did not start")


def stop(store: Store, container_id: str, *, timeout_s: float | None = None) -> None:
    """Ask a container to end, and after a while make it end. It then stays down, whatever its policy."""
    grace_s = seconds(store.config(container_id).get("StopGrace"), _GRACE_S) if timeout_s is None else timeout_s
    _require_stops(store, container_id)
    pid = _stopped_by_hand(store, container_id)
    if pid:
        _signal(pid, signal.SIGTERM)
        _wait(lambda: _status(store, container_id) not in UP, None, patience_s=grace_s)
    kill(store, container_id)


def kill(store: Store, container_id: str, number: int = signal.SIGKILL) -> None:
    """Send a signal to a container's process. SIGKILL is waited for."""
    _require_stops(store, container_id)
    pid = _stopped_by_hand(store, container_id) if number == signal.SIGKILL else store.state(container_id)["Pid"]
    if pid:
        _signal(pid, number)
    if number == signal.SIGKILL:
        _wait(lambda: _status(store, container_id) not in UP, "did not end")


def remove(store: Store, container_id: str, *, force: bool) -> None:
    """Remove a container. Raises DaemonError: it runs and ``force`` is not set."""
    name = store.config(container_id)["Name"]
    if store.faults.happens(faults.RM_FAILS):
        raise refuse(f'cannot remove container "/{name}": could not kill: did not receive an exit event')
    if _status(store, container_id) in UP:
        if not force:
            raise refuse(f'cannot remove container "/{name}": container is running: stop it first, or force remove')
        pid = _stopped_by_hand(store, container_id)
        if pid:
            _signal(pid, signal.SIGKILL)
        _wait(lambda: _status(store, container_id) not in UP, "did not end")
    with store.locked():
        store.remove(container_id)


def seconds(text: str | None, default: float) -> float:
    """Return a duration such as 10s or 1m30s."""
    match = _SECONDS.fullmatch(text or "")
    if not text or match is None:
        return default
    return 60.0 * int(match[1] or 0) + float(match[2] or 0)


def _require_stops(store: Store, container_id: str) -> None:
    if _status(store, container_id) in UP and store.faults.happens(faults.STOP_FAILS):
        name = store.config(container_id)["Name"]
        raise refuse(f"cannot stop container: {name}: tried to kill container, but did not receive an exit event")


def _stopped_by_hand(store: Store, container_id: str) -> int:
    with store.locked():
        pid = store.change(container_id, StoppedByHand=True)["Pid"]
    return int(pid)


def _status(store: Store, container_id: str) -> str:
    with store.locked():
        return str(store.state(container_id)["Status"]) if store.exists(container_id) else "removed"


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _wait(reached: Callable[[], bool], otherwise: str | None, *, patience_s: float = _PATIENCE_S) -> None:
    until_s = time.monotonic() + patience_s
    while not reached():
        if time.monotonic() >= until_s:
            if otherwise is not None:
                raise refuse(f"container {otherwise} within {patience_s:.0f} s")
            return
        time.sleep(_POLL_S)


def _service_of(store: Store, container_id: str) -> str:
    return str(store.config(container_id)["Labels"].get(f"{LABEL}service"))


def _config(store: Store, project: Project, name: str, service: Tree) -> Tree:
    image = store.image(service["image"])
    if image is None:
        raise refuse(f'failed to resolve reference "{service["image"]}": not found')
    environment = [f"{key}={value}" for key, value in service["environment"].items() if value is not None]
    config: Tree = {
        "Name": service.get("container_name") or f"{project.name}-{name}-1",
        "Image": service["image"],
        "ImageId": image["Id"],
        "Entrypoint": service["entrypoint"] or None,
        "Cmd": service["command"],
        "Env": [*environment, _PATH],
        "WorkingDir": service.get("working_dir", ""),
        "Volumes": service["volumes"],
        "NetworkMode": service.get("network_mode", "default"),
        "RestartPolicy": _policy(str(service.get("restart", "no"))),
        "StopGrace": service.get("stop_grace_period"),
    }
    digest = hashlib.sha256(json.dumps([service, image["Id"]], sort_keys=True).encode()).hexdigest()
    return config | {"Labels": _labels(project, name, service.get("labels") or {}, digest)}


def _labels(project: Project, name: str, own: dict[str, Any], digest: str) -> dict[str, str]:
    said = {
        "config-hash": digest,
        "container-number": "1",
        "oneoff": "False",
        "project": project.name,
        "project.config_files": ",".join(map(str, project.files)),
        "project.working_dir": str(project.directory),
        "service": name,
        "version": _VERSION,
    }
    return {**own, **{f"{LABEL}{key}": value for key, value in said.items()}}


def _policy(written: str) -> Tree:
    name, _, count = written.partition(":")
    return {"Name": name or "no", "MaximumRetryCount": int(count or 0)}


def signal_number(name: str) -> int:
    """Return the number of TERM, SIGTERM or 15. Raises DaemonError."""
    if name.isdigit():
        return int(name)
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        raise refuse(f"invalid signal: {name}") from None
