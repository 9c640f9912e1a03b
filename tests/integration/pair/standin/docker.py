"""A stand-in for docker, as far as the scripts of a pair and its driver use it. Containers are real processes.

No daemon: each command works on the state in a folder of its host (store.py), and a detached supervisor keeps each
container (supervisor.py). Every command is written down, so that a test can tell what was asked for.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tests.integration.pair.standin import faults, lifecycle, places, view
from tests.integration.pair.standin.arguments import Arguments, UsageError, parse
from tests.integration.pair.standin.go_template import TemplateError, render
from tests.integration.pair.standin.lifecycle import DaemonError, refuse
from tests.integration.pair.standin.logs import print_log
from tests.integration.pair.standin.store import Store, Tree
from tests.integration.pair.standin.supervisor import restore_after_boot

VERSION = "28.5.1"
_NO_DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
_PS_HEADINGS = {
    "ID": "CONTAINER ID",
    "Image": "IMAGE",
    "Command": "COMMAND",
    "RunningFor": "CREATED",
    "Status": "STATUS",
    "Ports": "PORTS",
    "Names": "NAMES",
}
_IGNORED_OF_RUN = (
    "-v --volume -e --env --entrypoint --name --network --gpus --ipc --shm-size -w --workdir --user -u --mount"
)

Handler = Callable[[Store, list[str]], int]


def main(words: list[str]) -> int:
    """Run one command, and return its exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as a Go program: whoever stops reading ends it, without a word
    store = Store()
    _write_down(words)
    try:
        return _run(store, words)
    except DaemonError as problem:
        return _fail(str(problem), 1)
    except UsageError as problem:
        return _fail(f"{problem}\n\nUsage:  docker [OPTIONS] COMMAND", 125)
    except TemplateError as problem:
        return _fail(str(problem), 64)


def boot() -> int:
    """Be dockerd that has just come up."""
    restore_after_boot(Store())
    return 0


def _run(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-H --host --context -c -l --log-level", switches="-v --version", mixed=False)
    if given.has("-v", "--version"):
        print(f"Docker version {VERSION}, build stand-in")
        return 0
    name, rest = (given.words[0], given.words[1:]) if given.words else ("help", [])
    if name in ("container", "image") and rest and f"{name} {rest[0]}" in _COMMANDS:
        name, rest = f"{name} {rest[0]}", rest[1:]
    if name not in _COMMANDS:
        return _fail(f"docker: '{name}' is not a docker command.\nSee 'docker --help'", 1)
    needs_daemon = name not in ("version", "compose", "help")
    if needs_daemon and not daemon_runs(store):
        return _fail(_NO_DAEMON, 1)
    return _COMMANDS[name](store, rest)


def daemon_runs(store: Store) -> bool:
    """Whether dockerd answers."""
    return places.DAEMON.exists() and not store.faults.happens(faults.DAEMON_DOWN)


def _write_down(words: list[str]) -> None:
    with (places.FOLDER / places.CALLS).open("a") as file:
        file.write(json.dumps(words) + "\n")


def _fail(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def _ps(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-f --filter --format -n --last", switches="-a --all -q --quiet --no-trunc -l --latest")
    with store.locked():
        known = [(each, store.config(each), store.state(each)) for each in store.ids()]
    wanted = given.every("-f", "--filter")
    everything = given.has("-a", "--all") or any(each.startswith(("status=", "exited=")) for each in wanted)
    kinds: dict[str, list[str]] = {}
    for each in wanted:
        kinds.setdefault(each.partition("=")[0], []).append(each)
    found = []
    for one in known:
        if not everything and one[2]["Status"] not in lifecycle.UP:
            continue
        # Filters of one kind are alternatives, but for labels.
        passes = [
            (all if kind == "label" else any)(view.matches(*one, each) for each in values)
            for kind, values in kinds.items()
        ]
        if all(passes):
            found.append(one)
    full = given.has("--no-trunc")
    if given.has("-q", "--quiet"):
        print("".join(f"{each[0] if full else each[0][:12]}\n" for each in found), end="")
        return 0
    rows = [view.row(*each) | ({"ID": each[0]} if full else {}) for each in found]
    _print_rows(rows, given.last("--format"))
    return 0


def _print_rows(rows: list[Tree], form: str | None) -> None:
    if form is None:
        lines = [[str(each[name]) for name in _PS_HEADINGS] for each in rows]
        print(view.table([list(_PS_HEADINGS.values()), *lines]))
    elif form == "json":
        print("".join(json.dumps(view.as_json(each)) + "\n" for each in rows), end="")
    else:
        if form.startswith("table "):
            form = form.removeprefix("table ")
            headings = {**dict.fromkeys(rows[0] if rows else (), ""), **_PS_HEADINGS}
            print(render(form, headings).replace("\\t", "\t"))
        print("".join(render(form, each).replace("\\t", "\t") + "\n" for each in rows), end="")


def _inspect(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-f --format --type", switches="-s --size")
    trees, missing = [], []
    for word in given.words:
        container_id = find(store, word)
        image = store.image(word) if container_id is None and given.last("--type") != "container" else None
        if container_id is not None:
            trees.append(view.inspected(container_id, store.config(container_id), store.state(container_id)))
        elif image is not None:
            trees.append(image)
        else:
            missing.append(word)
    return _print_inspected(trees, missing, given.last("-f", "--format"), "error: no such object: {}")


def _image_inspect(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-f --format --platform")
    found = {word: store.image(word) for word in given.words}
    trees = [image for image in found.values() if image is not None]
    missing = [word for word, image in found.items() if image is None]
    said = "Error response from daemon: No such image: {}"
    return _print_inspected(trees, missing, given.last("-f", "--format"), said)


def _print_inspected(trees: list[Tree], missing: list[str], form: str | None, otherwise: str) -> int:
    if form is None:
        print(json.dumps(trees, indent=4))
    elif form == "json":
        print(json.dumps(trees[0] if len(trees) == 1 else trees))
    else:
        for tree in trees:
            print(render(form, tree))
    for word in missing:
        print(otherwise.format(word), file=sys.stderr)
    return 1 if missing else 0


def find(store: Store, word: str) -> str | None:
    """Return the id of the container with that name or beginning of an id."""
    with store.locked():
        ids = store.ids()
        names = {store.config(each)["Name"]: each for each in ids}
        found: str | None = names.get(word.removeprefix("/"))
        return found or next((each for each in ids if word and each.startswith(word)), None)


def _each(store: Store, words: list[str], action: Callable[[str], None]) -> int:
    """Do something to each container that is named, whatever becomes of the others."""
    if not words:
        raise UsageError("this command requires at least 1 argument")
    code = 0
    for word in words:
        container_id = find(store, word)
        try:
            if container_id is None:
                raise refuse(f"No such container: {word}")
            action(container_id)
            print(word)
        except DaemonError as problem:
            code = _fail(str(problem), 1)
    return code


def _stop(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-t --time --timeout -s --signal")
    grace = given.last("-t", "--time", "--timeout")
    timeout_s = None if grace is None else float(grace)
    return _each(store, given.words, lambda each: lifecycle.stop(store, each, timeout_s=timeout_s))


def _start(store: Store, words: list[str]) -> int:
    return _each(store, parse(words).words, lambda each: lifecycle.start(store, each))


def _restart(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-t --time --timeout -s --signal")

    def again(container_id: str) -> None:
        lifecycle.stop(store, container_id)
        lifecycle.start(store, container_id)

    return _each(store, given.words, again)


def _kill(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-s --signal")
    number = lifecycle.signal_number(given.last("-s", "--signal") or "KILL")
    return _each(store, given.words, lambda each: lifecycle.kill(store, each, number))


def _rm(store: Store, words: list[str]) -> int:
    given = parse(words, switches="-f --force -v --volumes")
    force = given.has("-f", "--force")
    known = [word for word in given.words if not force or find(store, word) is not None]
    if given.words and not known:
        return 0  # with -f a container that is not there is removed already
    return _each(store, known, lambda each: lifecycle.remove(store, each, force=force))


def _update(store: Store, words: list[str]) -> int:
    given = parse(words, valued="--restart -m --memory --cpus")

    def change(container_id: str) -> None:
        policy, _, count = (given.last("--restart") or "no").partition(":")
        with store.locked():
            known = store.config(container_id)
            store.rewrite(
                container_id, known | {"RestartPolicy": {"Name": policy, "MaximumRetryCount": int(count or 0)}}
            )

    return _each(store, given.words, change)


def _logs(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-n --tail --since --until", switches="-f --follow -t --timestamps --details")
    (word,) = given.words or [""]
    container_id = find(store, word)
    if container_id is None:
        raise refuse(f"No such container: {word}")
    print_log(store, container_id, given)
    return 0


def _exec(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-e --env -u --user -w --workdir", switches="-i -t -d --interactive --tty", mixed=False)
    container_id = find(store, given.words[0]) if given.words else None
    if container_id is None or store.state(container_id)["Status"] != "running":
        raise refuse(f"No such container, or it does not run: {' '.join(given.words[:1])}")
    pid = str(store.state(container_id)["Pid"])
    variables = dict(line.split("=", 1) for line in store.config(container_id)["Env"])
    os.execvpe("nsenter", ["nsenter", "-t", pid, "-m", "-p", "-r", "-w", *given.words[1:]], {**os.environ, **variables})


def _images(store: Store, words: list[str]) -> int:
    given = parse(words, valued="--format -f --filter", switches="-a --all -q --quiet --no-trunc --digests")
    rows = []
    for image in store.images():
        repository, _, tag = (image["RepoTags"] or ["<none>:<none>"])[0].rpartition(":")
        digests = [each.partition("@")[2] for each in image["RepoDigests"]]
        short = str(image["Id"]).removeprefix("sha256:")[:12]
        row = {"Repository": repository, "Tag": tag, "ID": short, "Digest": (digests or ["<none>"])[0]}
        rows.append(row | {"CreatedSince": "5 weeks ago", "Size": view.size_of(image["Size"])})
    form = given.last("--format")
    if given.has("-q", "--quiet"):
        print("".join(f"{each['ID']}\n" for each in rows), end="")
    elif form:
        print("".join((json.dumps(each) if form == "json" else render(form, each)) + "\n" for each in rows), end="")
    else:
        head = ["REPOSITORY", "TAG", "IMAGE ID", "SIZE"]
        print(view.table([head, *([each["Repository"], each["Tag"], each["ID"], each["Size"]] for each in rows)]))
    return 0


def _nothing(store: Store, words: list[str]) -> int:
    """There are no networks and volumes."""
    if words[:1] == ["inspect"]:
        print("[]")
        return _fail(f"Error response from daemon: network {' '.join(words[1:])} not found", 1)
    return 0


def _run_once(store: Store, words: list[str]) -> int:
    given = parse(words, valued=_IGNORED_OF_RUN, switches="--rm -i -t --interactive --tty --privileged -d", mixed=False)
    if not given.words or store.image(given.words[0]) is None:
        return _fail(f"docker: Error response from daemon: No such image: {' '.join(given.words[:1])}", 125)
    if given.has("-i", "--interactive") and not sys.stdin.isatty():
        sys.stdin.buffer.read()
    return 0


def _pull(store: Store, words: list[str]) -> int:
    given = parse(words, valued="--platform", switches="-q --quiet -a")
    (reference,) = given.words
    if store.image(reference) is None:
        raise refuse(f"failed to resolve reference {reference}: not found")
    print(f"Status: Image is up to date for {reference}")
    return 0


def _version(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-f --format")
    up = daemon_runs(store)
    facts: dict[str, Any] = {"Client": {"Version": VERSION, "ApiVersion": "1.51"}}
    facts["Server"] = {"Version": VERSION, "ApiVersion": "1.51", "Os": "linux", "Arch": "arm64"} if up else None
    _print_facts(facts, given, f"Client: stand-in\n Version:  {VERSION}")
    return 0 if up else _fail(_NO_DAEMON, 1)


def _info(store: Store, words: list[str]) -> int:
    given = parse(words, valued="-f --format")
    facts = {"ServerVersion": VERSION, "DockerRootDir": str(places.FOLDER), "Name": os.uname().nodename}
    facts |= {"LoggingDriver": "json-file", "Driver": "overlay2", "Runtimes": ["nvidia", "runc"]}  # type: ignore[dict-item] # a tree
    _print_facts(facts, given, f"Server Version: {VERSION}\nDocker Root Dir: {places.FOLDER}")
    return 0


def _print_facts(facts: dict[str, Any], given: Arguments, text: str) -> None:
    form = given.last("-f", "--format")
    if form == "json":
        print(json.dumps(facts))
    else:
        print(text if form is None else render(form, facts))


def _compose(store: Store, words: list[str]) -> int:
    # Here, since it loads YAML, which takes as long as all the rest.
    from tests.integration.pair.standin.compose import compose

    return compose(store, words, daemon_runs=lambda: daemon_runs(store), no_daemon=_NO_DAEMON)


def _help(store: Store, words: list[str]) -> int:
    print("Usage:  docker [OPTIONS] COMMAND\n\nA stand-in: " + ", ".join(sorted(_COMMANDS)))
    return 0


_COMMANDS: dict[str, Handler] = {
    "compose": _compose,
    "exec": _exec,
    "help": _help,
    "image inspect": _image_inspect,
    "image ls": _images,
    "images": _images,
    "info": _info,
    "inspect": _inspect,
    "kill": _kill,
    "logs": _logs,
    "network": _nothing,
    "ps": _ps,
    "pull": _pull,
    "restart": _restart,
    "rm": _rm,
    "run": _run_once,
    "start": _start,
    "stop": _stop,
    "update": _update,
    "version": _version,
    "volume": _nothing,
}
_COMMANDS |= {
    f"container {name}": _COMMANDS[name]
    for name in ("exec", "inspect", "kill", "logs", "restart", "rm", "start", "stop", "update")
}
_COMMANDS["container ls"] = _ps
