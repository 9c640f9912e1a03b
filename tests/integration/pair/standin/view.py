"""Containers and images as docker shows them: `inspect` trees, rows of `ps`, and lines of logs."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.integration.pair.standin.store import Tree, read_stamp

_UNITS = (
    (86400 * 365, "year"),
    (86400 * 30, "month"),
    (86400 * 7, "week"),
    (86400, "day"),
    (3600, "hour"),
    (60, "minute"),
)
_AGO = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_AGO_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def inspected(container_id: str, config: Tree, state: Tree) -> Tree:
    """Return one container as `docker inspect` has it."""
    status = state["Status"]
    return {
        "Id": container_id,
        "Created": config["Created"],
        "Path": ([*(config["Entrypoint"] or ()), *(config["Cmd"] or ())] or [""])[0],
        "Args": [*(config["Entrypoint"] or ()), *(config["Cmd"] or ())][1:],
        "State": {
            "Status": status,
            "Running": status in ("running", "restarting"),
            "Paused": False,
            "Restarting": status == "restarting",
            "OOMKilled": False,
            "Dead": False,
            **{name: state[name] for name in ("Pid", "ExitCode", "Error", "StartedAt", "FinishedAt")},
        },
        "Image": config["ImageId"],
        "Name": f"/{config['Name']}",
        "RestartCount": state["RestartCount"],
        "HostConfig": {
            "NetworkMode": config["NetworkMode"],
            "RestartPolicy": config["RestartPolicy"],
            "Binds": [_bound(volume) for volume in config["Volumes"]],
            "IpcMode": "host",
        },
        "Mounts": [
            {
                "Type": "bind",
                "Source": volume["source"],
                "Destination": volume["target"],
                "Mode": "ro" if volume.get("read_only") else "",
                "RW": not volume.get("read_only"),
            }
            for volume in config["Volumes"]
        ],
        "Config": {name: config[name] for name in ("Image", "Env", "Labels", "Entrypoint", "Cmd", "WorkingDir")},
    }


def row(container_id: str, config: Tree, state: Tree) -> Tree:
    """Return one container as `docker ps --format` has it."""
    command = " ".join([*(config["Entrypoint"] or ()), *(config["Cmd"] or ())])
    return {
        "ID": container_id[:12],
        "Names": config["Name"],
        "Image": config["Image"],
        "Command": f'"{command[:19]}…"',
        "CreatedAt": config["Created"],
        "RunningFor": f"{_duration(config['Created'])} ago",
        "Ports": "",
        "Status": status_text(state),
        "State": state["Status"],
        "Labels": ",".join(f"{key}={value}" for key, value in sorted(config["Labels"].items())),
        "Label": lambda name: config["Labels"].get(name, ""),
        "Mounts": "",
        "Networks": config["NetworkMode"],
        "LocalVolumes": "0",
        "Size": "0B",
        # of compose's own ps
        "Name": config["Name"],
        "Service": config["Labels"].get("com.docker.compose.service", ""),
        "Project": config["Labels"].get("com.docker.compose.project", ""),
        "ExitCode": state["ExitCode"],
        "Health": "",
    }


def as_json(tree: Tree) -> Tree:
    """Return what of a row can be written as JSON."""
    return {key: value for key, value in tree.items() if not callable(value)}


def status_text(state: Tree) -> str:
    """Return the words of the STATUS column."""
    if state["Status"] == "running":
        return f"Up {_duration(state['StartedAt'])}"
    if state["Status"] == "restarting":
        return f"Restarting ({state['ExitCode']}) {_duration(state['FinishedAt'])} ago"
    if state["Status"] == "created":
        return "Created"
    return f"Exited ({state['ExitCode']}) {_duration(state['FinishedAt'])} ago"


def matches(container_id: str, config: Tree, state: Tree, wanted: str) -> bool:
    """Whether a container passes one `--filter`. Raises ValueError: there is no such filter."""
    kind, _, value = wanted.partition("=")
    if kind == "label":
        name, equals, text = value.partition("=")
        return name in config["Labels"] and (not equals or config["Labels"][name] == text)
    if kind == "name":
        return re.search(value, config["Name"]) is not None or re.search(value, f"/{config['Name']}") is not None
    if kind == "status":
        return bool(state["Status"] == value)
    if kind == "id":
        return container_id.startswith(value)
    if kind == "ancestor":
        return value in (config["Image"], config["ImageId"])
    if kind == "exited":
        return bool(state["Status"] == "exited" and str(state["ExitCode"]) == value)
    raise ValueError(f"invalid filter '{kind}'")


class ContainerLog:
    """A container's log, read from where the last reading ended."""

    def __init__(self, path: Path) -> None:
        """``path`` need not be there yet."""
        self._path = path
        self._offset = 0

    def more(self) -> list[Tree]:
        """Return the entries that were written since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]


def chosen(entries: list[Tree], *, since: str | None, tail: int | None) -> list[Tree]:
    """Return the entries that ``--since`` and ``--tail`` leave."""
    if since:
        begin = _moment(since)
        entries = [entry for entry in entries if read_stamp(entry["time"]) >= begin]
    return entries if tail is None else entries[len(entries) - min(tail, len(entries)) :]


def _bound(volume: Tree) -> str:
    return f"{volume['source']}:{volume['target']}:{'ro' if volume.get('read_only') else 'rw'}"


def _moment(text: str) -> datetime:
    """A time, or how long ago, or seconds since 1970."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return datetime.fromtimestamp(float(text), UTC)
    parts = _AGO.findall(text)
    if parts and "".join(f"{number}{unit}" for number, unit in parts) == text:
        ago_s = sum(float(number) * _AGO_S[unit] for number, unit in parts)
        return datetime.now(UTC) - timedelta(seconds=ago_s)
    return read_stamp(text)


def _duration(since: str) -> str:
    seconds = (datetime.now(UTC) - read_stamp(since)).total_seconds()
    if seconds < 1:
        return "Less than a second"
    for size, name in _UNITS:
        if seconds >= size:
            count = int(seconds // size)
            if count == 1 and name in ("minute", "hour"):
                return f"About {'an' if name == 'hour' else 'a'} {name}"
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{int(seconds)} second{'s' if int(seconds) > 1 else ''}"


def table(rows: list[list[str]]) -> str:
    """Return columns, three spaces apart, as docker's own tables."""
    widths = [max(len(line[column]) for line in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "   ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in rows
    )


def size_of(value: Any) -> str:
    """Return bytes as docker shows an image's size."""
    return f"{int(value) / 1e9:.3g}GB"
