"""The units of a nightly run as systemd itself reads them, without starting any."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engine.timer import this_program
from harness.engine.timer_units import TimerRequest, require_installable, service_text, timer_text

pytestmark = pytest.mark.system

_NOBODY = 65534
_MANAGERS = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
_HOSTILE = 'a 100% %i "q" it\'s $HOME ${X} #; \\'
PLAIN = TimerRequest(
    slug="small",
    file=Path("/srv/sweeps/small.yaml"),
    arguments=("--root", "/srv/data"),
    program=this_program(),
    working_directory=Path("/srv"),
    environment={"PATH": "/usr/bin:/bin"},
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose name means something to every parser, and which another user may enter."""
    with tempfile.TemporaryDirectory(prefix="harness-timer-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def hostile(folder: Path) -> TimerRequest:
    place = folder / _HOSTILE
    place.mkdir()
    program = place / "harness"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return replace(
        PLAIN,
        file=place / f"{_HOSTILE}.yaml",
        arguments=("--root", str(place), "--set", "x=$y ${z} %h \\n", ";"),
        program=(str(program),),
        working_directory=place,
        environment={"PATH": f"{place}:/bin"},
    )


def written(request: TimerRequest, folder: Path) -> tuple[Path, Path]:
    require_installable(request)
    service, timer = folder / f"{request.unit}.service", folder / f"{request.unit}.timer"
    service.write_text(service_text(request))
    timer.write_text(timer_text(request))
    return service, timer


def verified(folder: Path, *units: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "verify", "--user", *map(str, units)],
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("kind", ["plain", "hostile"])
def test_systemd_finds_nothing_wrong_with_the_units(folder: Path, kind: str) -> None:
    request = PLAIN if kind == "plain" else hostile(folder)

    done = verified(folder, *written(request, folder))

    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize(("right", "wrong"), [("=SIGINT", "=SIGWHAT"), ('ExecStart="', 'ExecStart="relative')])
def test_a_unit_that_is_wrong_would_be_found(folder: Path, right: str, wrong: str) -> None:
    service, timer = written(PLAIN, folder)
    service.write_text(service.read_text().replace(right, wrong))

    done = verified(folder, service, timer)

    assert wrong.partition("=")[2].strip('"') in done.stderr


def test_what_systemd_reads_is_what_was_meant(folder: Path) -> None:
    request = hostile(folder)
    home = folder / "home"
    units = home / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    written(request, units)
    shown = manager_reads(f"{request.unit}.service", folder, home)

    assert f"WorkingDirectory: {request.working_directory}\n" in shown
    assert f"Environment: PATH={request.environment['PATH']}\n" in shown
    assert f"EnvironmentFile: -{home}/.config/harness/nightly.env\n" in shown
    assert "TimeoutStartSec: 2h\n" in shown
    assert "TimeoutStopSec: 30min\n" in shown
    assert "KillMode: process\n" in shown
    assert "KillSignal: SIGINT\n" in shown
    start, down, restore = (words_of(line) for line in re.findall(r"Command Line: (.+)\n", shown))
    shell = ["/bin/sh", "-c", 'exec "$0" "$@"']
    assert start == [*shell, *request.command]
    assert down == [*shell, request.program[0], "engine", "down"]
    assert restore == [*shell, request.program[0], "engine", "restore"]


def manager_reads(unit: str, folder: Path, home: Path) -> str:
    """What a manager of another user would make of a unit; it starts nothing. It refuses to do so as root."""
    manager = next(path for path in _MANAGERS if Path(path).exists())
    runtime = folder / "run"
    runtime.mkdir()
    for path in (home, *home.rglob("*"), runtime):
        shutil.chown(path, _NOBODY, _NOBODY)
    done = subprocess.run(
        [manager, "--user", "--test", f"--unit={unit}", "--log-target=console", "--no-pager"],
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(runtime), "HOME": str(home), "LC_ALL": "C"},
        user=_NOBODY,
        group=_NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    _, found, rest = done.stdout.partition(f"-> Unit {unit}:\n")
    assert found, done.stderr
    return rest.partition("-> Unit ")[0]


def words_of(line: str) -> list[str]:
    """The words of a command as the manager shows them, with its $$ as the one dollar that it passes on."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    return [(re.sub(r"\\(.)", r"\1", quoted) or plain).replace("$$", "$") for quoted, plain in words]
