"""A port for the engine to listen on."""

from __future__ import annotations

import socket

import psutil

from harness.errors import LaunchError

HOST = "127.0.0.1"


def choose_port(fixed: int | None) -> int:
    """Return ``fixed`` if it is free, else any free port.

    Raises:
        LaunchError: ``fixed`` is taken; says by whom, if that can be seen.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a closed connection is no tenant
        try:
            probe.bind((HOST, fixed or 0))
        except OSError as error:
            raise LaunchError(
                f"port {fixed} is taken{_tenant(fixed)}" if fixed else f"no free port: {error.strerror}",
                hint="Stop that program, or choose another port. `harness engine status` lists what we started.",
            ) from error
        return int(probe.getsockname()[1])


def _tenant(port: int | None) -> str:
    """ " by NAME (process N)", or nothing where it belongs to another user."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.AccessDenied, OSError):
        return ""
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            return f" by {_name(connection.pid)}" if connection.pid else ""
    return ""


def _name(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).name()} (process {pid})"
    except psutil.NoSuchProcess:
        return f"process {pid}"
