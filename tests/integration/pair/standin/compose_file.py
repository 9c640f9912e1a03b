"""Compose files -> one project, as `docker compose config` has it: merged, interpolated, with absolute paths."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.pair.standin.dotenv import DotenvError, parse_dotenv
from tests.integration.pair.standin.interpolation import InterpolationError, Unset, interpolate

Tree = dict[str, Any]
_DEFAULT_FILES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
_REPLACED = ("command", "entrypoint")  # of the lists in a service; the others are put together


class ComposeError(Exception):
    """The project cannot be loaded."""


class _Loader(yaml.SafeLoader):
    """Every scalar stays the text that was written, but for null."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A compose project."""

    name: str
    directory: Path
    files: tuple[Path, ...]
    services: Mapping[str, Tree]
    tree: Tree


def load_project(
    files: Sequence[str],
    *,
    name: str | None,
    directory: str | None,
    env_files: Sequence[str],
    environment: Mapping[str, str],
    on_unset: Unset,
) -> Project:
    """Read a project.

    Args:
        files: of ``-f``; empty: COMPOSE_FILE, else what lies in the working directory.
        name: of ``-p``.
        directory: of ``--project-directory``; None: where the first file lies.
        env_files: of ``--env-file``; empty: ``.env`` of the project, unless COMPOSE_DISABLE_ENV_FILE says no.
        environment: of the process. It wins over env files.
        on_unset: gets the names of variables that are not set.

    Raises:
        ComposeError: with compose's own words, more or less.
    """
    paths = _paths(files, environment)
    folder = Path(directory).resolve() if directory else paths[0].parent
    variables = _variables(env_files, folder, environment)
    tree: Tree = {}
    for path in paths:
        tree = _merged(tree, _normal(_loaded(path)), ())
    tree = _interpolated(tree, variables, on_unset, where="")
    chosen = name or environment.get("COMPOSE_PROJECT_NAME") or tree.get("name") or folder.name
    services = {
        service: _service(service, entry, folder, variables) for service, entry in (tree.get("services") or {}).items()
    }
    if not services:
        raise ComposeError("empty compose file: no service is declared")
    return Project(
        name=_project_name(str(chosen), given=name is not None),
        directory=folder,
        files=tuple(paths),
        services=services,
        tree={"name": str(chosen), **{key: each for key, each in tree.items() if key != "name"}, "services": services},
    )


def shown(project: Project) -> str:
    """Return it as `compose config` prints it: dollars are doubled, so that it can be read again."""
    return yaml.safe_dump(_escaped(project.tree), sort_keys=True, width=1_000_000)


def _paths(files: Sequence[str], environment: Mapping[str, str]) -> list[Path]:
    named = list(files) or environment.get("COMPOSE_FILE", "").split(":")
    chosen = [Path(each) for each in named if each]
    if not chosen:
        chosen = [Path(each) for each in _DEFAULT_FILES if Path(each).exists()][:1]
    if not chosen:
        raise ComposeError("no configuration file provided: not found")
    for path in chosen:
        if not path.exists():
            raise ComposeError(f"open {path.absolute()}: no such file or directory")
    return [path.absolute() for path in chosen]


def _variables(env_files: Sequence[str], folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    paths = [Path(each) for each in env_files]
    if not paths and environment.get("COMPOSE_DISABLE_ENV_FILE", "") not in ("1", "true"):
        paths = [path for path in (folder / ".env",) if path.exists()]
    found: dict[str, str] = {}
    for path in paths:
        if not path.exists():
            raise ComposeError(f"couldn't find env file: {path.absolute()}")
        try:
            found |= parse_dotenv(path.read_text(), {**found, **environment})
        except (DotenvError, InterpolationError) as problem:
            raise ComposeError(f"failed to read {path.absolute()}: {problem}") from problem
    return found | dict(environment)


def _loaded(path: Path) -> Tree:
    try:
        tree = yaml.load(path.read_text(), Loader=_Loader)  # a safe loader
    except yaml.YAMLError as problem:
        raise ComposeError(f"parsing {path}: {str(problem).splitlines()[0]}") from problem
    if not isinstance(tree, dict):
        raise ComposeError(f"parsing {path}: top-level object must be a mapping")
    return tree


def _normal(tree: Tree) -> Tree:
    """Lists of assignments become maps, so that files can be merged."""
    services = tree.get("services") or {}
    for entry in services.values():
        for key in ("environment", "labels"):
            if isinstance(entry.get(key), list):
                pairs = [str(each).partition("=") for each in entry[key]]
                entry[key] = {name: value if equals else None for name, equals, value in pairs}
    return tree


def _merged(base: Any, override: Any, path: tuple[str, ...]) -> Any:
    if isinstance(base, dict) and isinstance(override, dict):
        both = {key: _merged(base[key], override[key], (*path, key)) for key in base if key in override}
        return {**base, **override, **both}
    if isinstance(base, list) and isinstance(override, list) and path[-1] not in _REPLACED:
        return [*base, *(each for each in override if each not in base)]
    return override


def _interpolated(value: Any, variables: Mapping[str, str], on_unset: Unset, *, where: str) -> Any:
    if isinstance(value, dict):
        return {
            key: _interpolated(each, variables, on_unset, where=f"{where}.{key}".lstrip("."))
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_interpolated(each, variables, on_unset, where=f"{where}.[]") for each in value]
    if not isinstance(value, str):
        return value
    try:
        return interpolate(value, variables, on_unset=on_unset)
    except InterpolationError as problem:
        raise ComposeError(f"error while interpolating {where}: {problem}") from problem


def _service(name: str, entry: Tree, folder: Path, variables: Mapping[str, str]) -> Tree:
    if "image" not in entry:
        raise ComposeError(
            f'service "{name}" has neither an image nor a build context specified: invalid compose project'
        )
    environment = {
        key: variables.get(key) if value is None else value for key, value in entry.get("environment", {}).items()
    }
    files = [str(folder / each) for each in entry.get("env_file") or ()]
    from_files = _variables(files, folder, {}) if files else {}
    return {
        **{key: value for key, value in entry.items() if key != "env_file"},
        "command": _words(entry.get("command")),
        "entrypoint": _words(entry.get("entrypoint")),
        "environment": from_files | environment,
        "volumes": [_volume(each, folder, variables) for each in entry.get("volumes") or ()],
    }


def _words(value: Any) -> list[str] | None:
    if value is None or isinstance(value, list):
        return value
    return [word.strip("\"'") for word in re.findall(r'"[^"]*"|\'[^\']*\'|\S+', str(value))]


def _volume(written: Any, folder: Path, variables: Mapping[str, str]) -> Tree:
    if isinstance(written, dict):
        volume = dict(written)
        if "read_only" in volume:
            volume["read_only"] = volume["read_only"] == "true"
    else:
        source, _, rest = str(written).partition(":")
        target, _, mode = rest.partition(":")
        if not target:
            raise ComposeError(f"invalid spec: {written}: a volume needs a source and a target here")
        volume = {"type": "bind", "source": source, "target": target}
        if "ro" in mode.split(","):
            volume["read_only"] = True
    source = str(volume["source"])
    if source.startswith("~"):
        source = variables.get("HOME", "/root") + source[1:]
    if not source.startswith((".", "/")):
        raise ComposeError(f"volume {source} is a named one, which the stand-in does not have")
    return volume | {"source": str(Path(folder, source).absolute())}


def _project_name(name: str, *, given: bool) -> str:
    plain = re.sub(r"[^a-z0-9_-]", "", name.lower()).lstrip("_-")
    if given and plain != name:
        raise ComposeError(
            f'invalid project name "{name}": must consist only of lowercase alphanumeric characters, hyphens, and '
            "underscores as well as start with a letter or number"
        )
    return plain


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return value.replace("$", "$$") if isinstance(value, str) else value
