"""The site file: hosts, folders and commands of one place, so that sweeps can be shared without them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self

import platformdirs
from pydantic import Field, model_validator

from harness.errors import InputError
from harness.sweep.values import Seconds
from harness.yaml_model import FileModel, did_you_mean, validated
from harness.yaml_source import read_source

SITE_FILE = "site.yaml"
LOCAL_ADDRESSES = ("localhost", "127.0.0.1", "::1")


class Host(FileModel):
    """A machine of the rig."""

    address: str = Field(min_length=1, description="A name or address that ssh understands; localhost: this machine.")
    user: str | None = Field(default=None, description="Where it is not the one of the ssh configuration.")
    fabric: tuple[str, ...] = Field(default=(), description="Network interfaces between the nodes.")

    @property
    def is_local(self) -> bool:
        """It is the machine that the harness runs on."""
        return self.address in LOCAL_ADDRESSES

    @property
    def ssh_target(self) -> str:
        """What ssh is given."""
        return f"{self.user}@{self.address}" if self.user else self.address


class Check(FileModel):
    """A command that judges a configuration after its cells; not 0 vetoes "better".

    It runs on the machine of the harness, in the folder where that was started, and finds HARNESS_BASE_URL (without
    /v1), HARNESS_MODEL and, where the engine has a key, HARNESS_API_KEY in its environment.
    """

    command: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="Words; {base_url} and {model} are filled in."
    )
    shell: str | None = Field(default=None, min_length=1, description="The same as one line for /bin/sh.")
    timeout: Seconds = Field(default=600.0, gt=0, description="Then it counts as failed.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.command is None) == (self.shell is None):
            raise ValueError("expected either command (a list of words) or shell (one line)")
        return self

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of ``command``, ~ in the first one worked out; () where it is a line for a shell."""
        if self.command is None:
            return ()
        program, *words = self.command
        return (str(Path(program).expanduser()) if program.startswith("~") else program, *words)


class Borrow(FileModel):
    """Whether a server of the operator may be stopped for a while, and started again."""

    allowed: bool = Field(default=False, description="The same as --borrow on every run.")
    idle_for: Seconds = Field(default=120.0, description="Only after no request was in flight for so long.")


class Site(FileModel):
    """A site file. Every key may be left out."""

    checkout: str | None = Field(default=None, description="Folder on the head of the recipe that starts the engine.")
    inventory: str | None = Field(default=None, description="The pair.yaml of a launch without a checkout.")
    hosts: dict[str, Host] = Field(
        default={},
        description="By role, for example head and worker; a head that is not "
        "named is this machine, a worker that is not named is WORKER_HOST of the checkout's env file.",
    )
    project: str = Field(default="deepseek-v4-flash", description="Compose project of the operator's own server.")
    trial_port: int = Field(default=18888, ge=1024, le=65535, description="Where ranks under test listen on the head.")
    results: str | None = Field(default=None, description="Where results/ and reports/ are made.")
    checks: dict[str, Check] = Field(default={}, description="By the name that sweeps use.")
    borrow: Borrow = Field(default=Borrow(), description="What may be borrowed.")
    may_drop: tuple[str, ...] = Field(default=(), description="What may be dropped between launches: page_cache.")

    @property
    def results_folder(self) -> Path | None:
        """The results folder with ~ worked out; None: the current one."""
        return Path(self.results).expanduser() if self.results else None

    @property
    def inventory_file(self) -> Path | None:
        """The pair.yaml with ~ worked out; None: there is none."""
        return Path(self.inventory).expanduser() if self.inventory else None


def default_site_path() -> Path:
    """Return where the site file lies if nobody says otherwise."""
    return platformdirs.user_config_path("harness") / SITE_FILE


def load_site(path: Path | None = None) -> Site:
    """Return the site file at ``path``, or at its usual place, where it may be missing or empty.

    Raises:
        InputError: a named file cannot be read, or something in one is wrong.
    """
    file = path or default_site_path()
    if path is None and (not file.is_file() or not file.read_bytes().strip()):
        return Site()
    return validated(Site, read_source(file))


def require_check(site: Site, name: str, *, where: str | None = None) -> Check:
    """Return a check that a sweep names. Raises InputError at ``where`` if the site lacks it or its program."""
    check = site.checks.get(name)
    if check is None:
        raise InputError(f'no check "{name}" in the site file', where=where, hint=did_you_mean(name, site.checks))
    if check.argv and shutil.which(check.argv[0]) is None:
        hint = f"Correct checks.{name}.command in the site file; a relative path begins in the current folder."
        raise InputError(f'check "{name}": there is no program {check.argv[0]}', where=where, hint=hint)
    return check
