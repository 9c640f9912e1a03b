"""`docker compose` of the stand-in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from tests.integration.pair.standin import lifecycle, view
from tests.integration.pair.standin.arguments import Arguments, UsageError, parse
from tests.integration.pair.standin.compose_file import ComposeError, Project, load_project, shown
from tests.integration.pair.standin.go_template import render
from tests.integration.pair.standin.logs import print_log
from tests.integration.pair.standin.store import Store

VERSION = "2.40.3"
_GLOBAL = "-f --file -p --project-name --env-file --project-directory --profile --ansi --progress --parallel"
_PS_HEADINGS = ("NAME", "IMAGE", "COMMAND", "SERVICE", "CREATED", "STATUS", "PORTS")
_PS_COLUMNS = ("Names", "Image", "Command", "Service", "RunningFor", "Status", "Ports")


def compose(store: Store, words: list[str], *, daemon_runs: Callable[[], bool], no_daemon: str) -> int:
    """Run one compose command, and return its exit code. Raises DaemonError, UsageError, TemplateError."""
    given = parse(words, valued=_GLOBAL, switches="--compatibility --dry-run -v --version", mixed=False)
    name, rest = (given.words[0], given.words[1:]) if given.words else ("", [])
    if name == "version" or given.has("-v", "--version"):
        return _version(rest)
    if name == "ls":
        return _ls(store, rest)
    if name not in _COMMANDS:
        raise UsageError(f'unknown docker command: "compose {name}"')
    try:
        project = _project(given)
    except ComposeError as problem:
        print(problem, file=sys.stderr)
        return 14 if "env file" in str(problem) else 1
    if name != "config" and not daemon_runs():
        print(no_daemon, file=sys.stderr)
        return 1
    return _COMMANDS[name](store, project, rest)


def _project(given: Arguments) -> Project:
    warned: set[str] = set()

    def warn(name: str) -> None:
        if name not in warned:
            text = f'The \\"{name}\\" variable is not set. Defaulting to a blank string.'
            print(f'time="now" level=warning msg="{text}"', file=sys.stderr)
        warned.add(name)

    return load_project(
        given.every("-f", "--file"),
        name=given.last("-p", "--project-name"),
        directory=given.last("--project-directory"),
        env_files=given.every("--env-file"),
        environment=os.environ,
        on_unset=warn,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _version(words: list[str]) -> int:
    given = parse(words, valued="-f --format", switches="--short")
    if given.last("-f", "--format") == "json":
        print(json.dumps({"version": f"v{VERSION}"}))
    else:
        print(VERSION if given.has("--short") else f"Docker Compose version v{VERSION}")
    return 0


def _ls(store: Store, words: list[str]) -> int:
    given = parse(words, valued="--format --filter", switches="-a --all -q --quiet")
    with store.locked():
        known = [(store.config(each), store.state(each)) for each in store.ids()]
    projects: dict[str, dict[str, Any]] = {}
    for config, state in known:
        labels = config["Labels"]
        if f"{lifecycle.LABEL}project" in labels and (given.has("-a", "--all") or state["Status"] in lifecycle.UP):
            name = labels[f"{lifecycle.LABEL}project"]
            files = labels[f"{lifecycle.LABEL}project.config_files"]
            projects[name] = {"Name": name, "Status": f"{state['Status']}(1)", "ConfigFiles": files}
    rows = [projects[name] for name in sorted(projects)]
    if given.has("-q", "--quiet"):
        print("".join(f"{each['Name']}\n" for each in rows), end="")
    elif given.last("--format") == "json":
        print(json.dumps(rows))
    else:
        print(view.table([["NAME", "STATUS", "CONFIG FILES"], *(list(each.values()) for each in rows)]))
    return 0


def _config(store: Store, project: Project, words: list[str]) -> int:
    switches = "-q --quiet --services --images --no-interpolate --environment --volumes --profiles"
    given = parse(words, valued="--format --hash -o --output", switches=switches)
    if given.has("-q", "--quiet"):
        return 0
    if given.has("--services"):
        print("\n".join(project.services))
    elif given.has("--images"):
        print("\n".join(each["image"] for each in project.services.values()))
    elif given.last("--format") == "json":
        print(json.dumps(project.tree, indent=2))
    else:
        print(shown(project), end="")
    return 0


def _up(store: Store, project: Project, words: list[str]) -> int:
    switches = "-d --detach --force-recreate --no-deps --remove-orphans --wait --no-build --quiet-pull --no-recreate"
    given = parse(words, valued="--pull -t --timeout --wait-timeout", switches=switches)
    if not given.has("-d", "--detach", "--wait"):
        raise UsageError("the stand-in starts containers in the background only: add -d")
    if given.has("--force-recreate"):
        lifecycle.compose_down(store, project.name, _say, timeout_s=None)
    lifecycle.compose_up(store, project, _services(project, given), _say)
    return 0


def _services(project: Project, given: Arguments) -> list[str]:
    for name in given.words:
        if name not in project.services:
            raise lifecycle.DaemonError(f"no such service: {name}")
    return given.words or list(project.services)


def _down(store: Store, project: Project, words: list[str]) -> int:
    given = parse(words, valued="-t --timeout --rmi", switches="--remove-orphans -v --volumes")
    grace = given.last("-t", "--timeout")
    lifecycle.compose_down(store, project.name, _say, timeout_s=None if grace is None else float(grace))
    return 0


def _stop(store: Store, project: Project, words: list[str]) -> int:
    given = parse(words, valued="-t --timeout")
    grace = given.last("-t", "--timeout")
    for each in lifecycle.of_project(store, project.name):
        lifecycle.stop(store, each, timeout_s=None if grace is None else float(grace))
    return 0


def _start(store: Store, project: Project, words: list[str]) -> int:
    parse(words)
    for each in lifecycle.of_project(store, project.name):
        lifecycle.start(store, each)
    return 0


def _restart(store: Store, project: Project, words: list[str]) -> int:
    return _stop(store, project, words) or _start(store, project, [])


def _kill(store: Store, project: Project, words: list[str]) -> int:
    given = parse(words, valued="-s --signal")
    number = lifecycle.signal_number(given.last("-s", "--signal") or "KILL")
    for each in lifecycle.of_project(store, project.name):
        lifecycle.kill(store, each, number)
    return 0


def _rm(store: Store, project: Project, words: list[str]) -> int:
    given = parse(words, switches="-f --force -s --stop -v --volumes")
    for each in lifecycle.of_project(store, project.name):
        running = store.state(each)["Status"] in lifecycle.UP
        if running and given.has("-s", "--stop"):
            lifecycle.stop(store, each)
        if not running or given.has("-s", "--stop"):
            lifecycle.remove(store, each, force=False)
    return 0


def _ps(store: Store, project: Project, words: list[str]) -> int:
    given = parse(words, valued="--format --filter --status", switches="-a --all -q --quiet --no-trunc --orphans")
    ids = lifecycle.of_project(store, project.name)
    known = [(each, store.config(each), store.state(each)) for each in ids]
    found = [each for each in known if given.has("-a", "--all") or each[2]["Status"] in lifecycle.UP]
    form = given.last("--format")
    rows = [view.row(*each) for each in found]
    if given.has("-q", "--quiet"):
        print("".join(f"{each[0]}\n" for each in found), end="")
    elif form == "json":
        print("".join(json.dumps(view.as_json(each)) + "\n" for each in rows), end="")
    elif form not in (None, "table"):
        print("".join(render(str(form), each) + "\n" for each in rows), end="")
    else:
        print(view.table([list(_PS_HEADINGS), *([str(each[name]) for name in _PS_COLUMNS] for each in rows)]))
    return 0


def _logs(store: Store, project: Project, words: list[str]) -> int:
    switches = "-f --follow -t --timestamps --no-color --no-log-prefix"
    given = parse(words, valued="-n --tail --since --until --index", switches=switches)
    wanted = _services(project, given)
    for each in reversed(lifecycle.of_project(store, project.name)):
        service = store.config(each)["Labels"][f"{lifecycle.LABEL}service"]
        if service in wanted:
            prefix = "" if given.has("--no-log-prefix") else f"{service}-1  | "
            print_log(store, each, given, prefix=prefix)
    return 0


def _images(store: Store, project: Project, words: list[str]) -> int:
    parse(words, valued="--format", switches="-q --quiet")
    print("\n".join(each["image"] for each in project.services.values()))
    return 0


def _pull(store: Store, project: Project, words: list[str]) -> int:
    parse(words, switches="-q --quiet --ignore-pull-failures")
    for service in project.services.values():
        if store.image(service["image"]) is None:
            raise lifecycle.refuse(f"manifest for {service['image']} not found: manifest unknown")
    return 0


_COMMANDS: dict[str, Callable[[Store, Project, list[str]], int]] = {
    "config": _config,
    "down": _down,
    "images": _images,
    "kill": _kill,
    "logs": _logs,
    "ps": _ps,
    "pull": _pull,
    "restart": _restart,
    "rm": _rm,
    "start": _start,
    "stop": _stop,
    "up": _up,
}
