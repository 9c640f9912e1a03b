"""Every engine that this harness starts, written down before it is started, so that a killed harness leaves a trace.

One JSON file per launch under the user's state directory (or HARNESS_STATE_DIR). A file without a process id means
that the harness died while it was starting the engine: the launch id in the engine's environment still finds it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs

from harness.errors import StoreError
from harness.records.codec import from_json, to_json

STATE_DIRECTORY_VARIABLE = "HARNESS_STATE_DIR"
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """A process that cannot be taken for another one that got its id later, within one boot of the machine."""

    pid: int
    started_ticks: int  # since boot, in kernel clock ticks: unlike a wall-clock time, no clock adjustment moves it


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredLaunch:
    """What is known of one engine."""

    launch_id: str
    run_id: str
    recipe: str
    boot_id: str  # of the machine: after a reboot no process id means anything
    owner: ProcessMark  # the harness that started it
    log_path: str
    port: int | None
    leader: ProcessMark | None = None  # None until it is spawned
    members: tuple[ProcessMark, ...] = ()  # its children, as far as they were seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The files of one state directory."""

    directory: Path

    def record(self, launch: RegisteredLaunch) -> None:
        """Write the launch down so that it survives a power cut.

        Raises:
            StoreError: the state directory cannot be written.
        """
        path = self._path(launch.launch_id)
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with part.open("w", encoding="utf-8") as file:
                file.write(to_json(launch) + "\n")
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            sync_directory(self.directory)
        except OSError as error:
            raise StoreError(
                f"cannot write down the engine that is about to start: {error.strerror}",
                where=str(path),
                hint=f"Make room or set {STATE_DIRECTORY_VARIABLE} to a directory that can be written.",
            ) from error

    def forget(self, launch_id: str) -> None:
        """Remove the record of an engine that is gone."""
        self._path(launch_id).unlink(missing_ok=True)

    def launches(self) -> Iterator[RegisteredLaunch]:
        """Every record that can be read, by launch id. A torn or foreign file is left alone."""
        for path in sorted(self.directory.glob("*.json")) if self.directory.is_dir() else []:
            try:
                yield from_json(RegisteredLaunch, path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue

    def _path(self, launch_id: str) -> Path:
        if not _SAFE_ID.fullmatch(launch_id):
            raise ValueError(f"not a launch id: {launch_id!r}")
        return self.directory / f"{launch_id}.json"


def default_registry() -> Registry:
    """The registry of this user, or of HARNESS_STATE_DIR."""
    return Registry(directory=state_directory() / "launches")


def state_directory() -> Path:
    """Where what must survive a killed harness lies: of this user, or HARNESS_STATE_DIR."""
    named = os.environ.get(STATE_DIRECTORY_VARIABLE)
    return Path(named) if named else Path(platformdirs.user_state_dir("harness"))


def new_launch(*, launch_id: str, run_id: str, recipe: str, log_path: Path, port: int | None) -> RegisteredLaunch:
    """Return the record of an engine that this process is about to start."""
    return RegisteredLaunch(
        launch_id=launch_id,
        run_id=run_id,
        recipe=recipe,
        boot_id=boot_id(),
        owner=mark_of(os.getpid()),
        log_path=str(log_path),
        port=port,
    )


def with_leader(launch: RegisteredLaunch, pid: int) -> RegisteredLaunch:
    """Return the record with the spawned process in it; unchanged if that process is gone already."""
    try:
        return replace(launch, leader=mark_of(pid))
    except ProcessLookupError:
        return launch


def mark_of(pid: int) -> ProcessMark:
    """Return what identifies the process. Raises ProcessLookupError if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise ProcessLookupError(pid) from error
    fields = stat[stat.rindex(")") + 2 :].split()  # the name before it may hold spaces and brackets
    return ProcessMark(pid=pid, started_ticks=int(fields[19]))


def boot_id() -> str:
    """What changes with every boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def sync_directory(directory: Path) -> None:
    """Make renames in it survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
