"""Have a nightly run started by the system: install, renew and remove its timer, or say the line for cron."""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from harness.engine.shell import Command, Completed, LocalShell, Shell
from harness.engine.timer_units import (
    GIVING_BACK_S,
    SECRETS_FILE,
    TimerRequest,
    cron_line,
    require_installable,
    service_text,
    timer_text,
)
from harness.errors import HostError, LaunchError
from harness.units import format_seconds

_PATIENCE_S = 30.0
_MOST_OF_CRON = 998  # bytes of a line, of which Debian's cron takes no more
_TOO_LONG = "Some crons take no line so long: put what follows * * * into a script (\\% is %), and name that."
_KEPT_VARIABLES = ("PATH", "HARNESS_STATE_DIR", "HARNESS_CACHE_DIR", "HARNESS_DATA_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerPlace:
    """Where timers of this user live, and what asks the system."""

    folder: Path = field(default_factory=lambda: platformdirs.user_config_path("systemd") / "user")
    stamps: Path = field(default_factory=lambda: platformdirs.user_data_path("systemd") / "timers")
    user: str = field(default_factory=getpass.getuser)
    shell: Shell = field(default_factory=LocalShell)

    def files(self, unit: str) -> tuple[Path, Path]:
        """Service and timer."""
        return self.folder / f"{unit}.service", self.folder / f"{unit}.timer"

    def stamp(self, unit: str) -> Path:
        """The file by whose date systemd knows when a timer last ran."""
        return self.stamps / f"stamp-{unit}.timer"


def this_program() -> tuple[str, ...]:
    """Return how this environment's harness is started from anywhere."""
    beside = Path(sys.executable).with_name("harness")
    return (str(beside),) if beside.is_file() else (sys.executable, "-m", "harness.cli.main")


def kept_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what a night needs of the environment in which its timer is installed: where programs and files lie."""
    kept = {name: environment[name] for name in _KEPT_VARIABLES if environment.get(name)}
    if "PATH" in kept:
        kept["PATH"] = ":".join(dict.fromkeys(kept["PATH"].split(":")))
    return kept


def install_timer(request: TimerRequest, place: TimerPlace | None = None) -> tuple[str, ...]:
    """Install the timer, or bring it up to date, and return what to tell the user.

    Without systemd, or without a manager of this user that answers, nothing is installed: the lines say what to put
    into a crontab.

    Raises:
        InputError: the request cannot be written down, or would write down a secret.
        HostError: the files cannot be written, or systemd refuses them.
    """
    require_installable(request)
    return asyncio.run(_install(request, place or TimerPlace()))


def remove_timer(slug: str, place: TimerPlace | None = None) -> tuple[str, ...]:
    """Remove the timer of a sweep, and return what to tell the user; nothing to remove is no failure.

    Raises:
        HostError: a file stays, or systemd refuses.
    """
    return asyncio.run(_remove(f"harness-nightly-{slug}", place or TimerPlace()))


async def _install(request: TimerRequest, place: TimerPlace) -> tuple[str, ...]:
    missing = await _why_no_systemd(place.shell)
    if missing is not None:
        return _cron_lines(request, place, missing)
    texts = dict(zip(place.files(request.unit), (service_text(request), timer_text(request)), strict=True))
    before = {path: _read(path) for path in texts}
    timer = f"{request.unit}.timer"
    if before != texts:
        if before[place.files(request.unit)[1]] is not None:
            await _systemctl(place.shell, "stop", timer)
        # A timer makes up for what it missed since it last ran. Another time of day is no reason to run at once.
        _touch(place.stamp(request.unit))
        for path, text in texts.items():
            _write(path, text)
    await _systemctl(place.shell, "daemon-reload")
    await _systemctl(place.shell, "enable", "--now", timer)
    state = "installed already, as it should be" if before == texts else "renewed" if any(before.values()) else "new"
    return (
        f"{timer} is {state}: every night at {request.at}, for at most {format_seconds(request.time_limit_s)} and up "
        f"to {format_seconds(GIVING_BACK_S)} for giving the machines back",
        *(f"file: {path}" for path in texts),
        f"keys: put them into ~/{SECRETS_FILE} as NAME=VALUE, chmod 600; the unit holds none",
        f"next: systemctl --user list-timers {timer}",
        f"log: journalctl --user -u {request.unit}.service",
        "a regression (exit code 1) and a night that could not run (3) show as a failed unit, 4 (cannot tell) does not",
        *await _linger_lines(place),
    )


async def _remove(unit: str, place: TimerPlace) -> tuple[str, ...]:
    files = place.files(unit)
    wanted = place.folder / "timers.target.wants" / f"{unit}.timer"
    there = [path for path in (*files, wanted) if path.exists() or path.is_symlink()]
    missing = await _why_no_systemd(place.shell)
    if not there:
        hint = f"; a line of a crontab is yours to take out: crontab -e ({missing})" if missing else ""
        return (f"no timer {unit}.timer is installed: nothing to remove{hint}",)
    if missing is None:
        await _systemctl(place.shell, "disable", "--now", f"{unit}.timer")
    for path in there:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise HostError(
                f"cannot remove it: {error.strerror}", where=str(path), hint="Remove it by hand."
            ) from error
    if missing is None:
        await _systemctl(place.shell, "daemon-reload")
        # A unit that failed once would be listed as failed for ever.
        with suppress(HostError):
            await _systemctl(place.shell, "reset-failed", f"{unit}.service")
    running = "; a night that is going on ends by itself" if missing is None else f" ({missing})"
    return (f"removed: {', '.join(map(str, there))}{running}",)


async def _why_no_systemd(shell: Shell) -> str | None:
    """Why no timer of this user can be installed; None where one can."""
    try:
        answer = await _asked(shell, "systemctl", "--user", "show", "--property=Version")
    except LaunchError:
        return "there is no systemctl"
    except TimeoutError:
        return "systemctl does not answer"
    if answer.returncode == 0:
        return None
    return f"systemd of this user does not answer: {_last_line(answer) or 'no reason given'}"


async def _systemctl(shell: Shell, *words: str) -> None:
    try:
        answer = await _asked(shell, "systemctl", "--user", *words)
    except (LaunchError, TimeoutError) as error:
        raise HostError("systemctl does not answer", where=shlex.join(words), hint="Try it by hand.") from error
    if answer.returncode != 0:
        raise HostError(
            f"systemctl --user {shlex.join(words)} failed: {_last_line(answer) or answer.returncode}",
            hint="The files are written. Try the command by hand, or take them away with --remove-timer.",
        )


async def _linger_lines(place: TimerPlace) -> tuple[str, ...]:
    command = f"loginctl enable-linger {shlex.quote(place.user)}"
    try:
        answer = await _asked(place.shell, "loginctl", "show-user", place.user, "--property=Linger")
    except (LaunchError, TimeoutError):
        answer = Completed(returncode=1, stdout="", stderr="")
    said = answer.stdout.strip()
    if said == "Linger=yes":
        return ()
    if said == "Linger=no":
        return (f"It runs only while {place.user} is logged in. To run it always: {command}",)
    return (f"Whether it runs while {place.user} is not logged in could not be found out. To be sure: {command}",)


def _cron_lines(request: TimerRequest, place: TimerPlace, missing: str) -> tuple[str, ...]:
    line = cron_line(request)
    absent = [name for name in ("crontab", "flock", "timeout") if shutil.which(name) is None]
    return (
        f"{missing}: no timer is installed. Nothing was written.",
        f"With cron instead, a line for the crontab of {place.user}:",
        line,
        "To add it:",
        f"(crontab -l 2>/dev/null; printf '%s\\n' {shlex.quote(line)}) | crontab -",
        "cron does not make up for a night in which the machine was off.",
        *([_TOO_LONG] if len(line.encode()) > _MOST_OF_CRON else []),
        *(f"{name} is not installed here" for name in absent),
    )


async def _asked(shell: Shell, *argv: str) -> Completed:
    return await shell.run(Command(argv=argv, environment={"LC_ALL": "C"}), timeout_s=_PATIENCE_S)


def _last_line(answer: Completed) -> str:
    lines = [line.strip() for line in answer.output.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    except OSError as error:
        raise HostError(f"cannot read it: {error.strerror}", where=str(path)) from error


def _touch(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise HostError(f"cannot write it: {error.strerror}", where=str(path), hint="Make room there.") from error


def _write(path: Path, text: str) -> None:
    """Whole or not at all: systemd may look at any moment."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise HostError(f"cannot write it: {error.strerror}", where=str(path), hint="Make room there.") from error
