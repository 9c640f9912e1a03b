"""The environment in which scripts of a checkout run: what a login gives and what reaching hosts needs, nothing else.

Whatever else is exported where the harness runs would reach the head rank and not the worker, or win over what the
operator's file leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.engine.orphans import LAUNCH_ID_VARIABLE

_KEPT = (
    *("HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "TZ"),
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "XDG_RUNTIME_DIR"),
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID"),  # the worker may be reached through an agent only
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    LAUNCH_ID_VARIABLE,
)
# $1 names to keep, then what `env` takes: assignments, which win, and the command.
_RUN = (
    'kept=$1; shift; for name in $kept; do value=$(printenv "$name") && set -- "$name=$value" "$@"; done; '
    'exec env -i "$@"'
)


def in_clean_environment(argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that run a program with these variables and a login's own.

    Args:
        argv: the program and its arguments.
        environment: no secrets.
    """
    given = tuple(f"{name}={value}" for name, value in environment.items())
    return ("sh", "-c", _RUN, "sh", " ".join(_KEPT), *given, *argv)
