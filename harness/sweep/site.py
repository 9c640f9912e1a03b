"""The site file: hosts, folders and commands of one place, so that sweeps can be shared without them."""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import Field

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
    """A command that judges a configuration after its cells; not 0 vetoes "better"."""

    command: tuple[str, ...] = Field(min_length=1, description="Words; {base_url} and {model} are filled in.")
    timeout: Seconds = Field(default=600.0, description="Then it counts as failed.")


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


def require_checks(site: Site, names: tuple[str, ...], *, where: str | None = None) -> dict[str, Check]:
    """Return the checks that a sweep names. Raises InputError at ``where`` for one that the site does not have."""
    for name in names:
        if name not in site.checks:
            raise InputError(f'no check "{name}" in the site file', where=where, hint=did_you_mean(name, site.checks))
    return {name: site.checks[name] for name in names}
