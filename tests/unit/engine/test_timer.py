"""A nightly run as a timer: what is written, what is asked of the system, and names that mean something to a parser."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.shell import Command, Completed, RunningProcess
from harness.engine.timer import TimerPlace, install_timer, kept_environment, remove_timer, this_program
from harness.engine.timer_units import TimerRequest, cron_line, require_installable, service_text, timer_text
from harness.errors import HostError, InputError, LaunchError

REQUEST = TimerRequest(
    slug="small",
    file=Path("/srv/sweeps/small.yaml"),
    arguments=("--root", "/srv/data"),
    program=("/opt/harness/bin/harness",),
    working_directory=Path("/srv"),
    environment={"PATH": "/usr/bin:/bin"},
)
HOSTILE = (
    "a b",
    "100%",
    "%i",
    "$HOME",
    "${HOME}",
    "$$",
    'say "hi"',
    "it's",
    "back\\slash",
    "\\",
    ";",
    "-x",
    "~",
    "#1",
    "a=b",
    " ",
)
UNIT = "harness-nightly-small"


@dataclass
class FakeSystem:
    """systemctl and loginctl as they answer, and what they were asked."""

    bus: bool = True
    linger: str = "no"
    programs: bool = True
    refuses: str = ""  # a verb that fails
    asked: list[tuple[str, ...]] = field(default_factory=list)
    on_start: Callable[[], None] = lambda: None

    async def run(self, command: Command, *, timeout_s: float | None = None) -> Completed:
        assert timeout_s is not None
        self.asked.append(command.argv)
        if not self.programs:
            raise LaunchError(f"cannot run {command.argv[0]}: No such file or directory")
        if command.argv[0] == "loginctl":
            return Completed(returncode=0, stdout=f"Linger={self.linger}\n", stderr="")
        if not self.bus:
            return Completed(returncode=1, stdout="", stderr="Failed to connect to bus: No medium found\n")
        if command.argv[2] == self.refuses:
            return Completed(returncode=1, stdout="", stderr="Failed: Unit is bad\n")
        if command.argv[2] == "enable":
            self.on_start()
        return Completed(returncode=0, stdout="Version=252\n", stderr="")

    async def spawn(self, command: Command, *, log_path: Path) -> RunningProcess:
        raise AssertionError("nothing is started")

    @property
    def verbs(self) -> list[str]:
        return [argv[2] for argv in self.asked if argv[0] == "systemctl" and argv[2] != "show"]


@pytest.fixture
def system() -> FakeSystem:
    return FakeSystem()


@pytest.fixture
def place(tmp_path: Path, system: FakeSystem) -> TimerPlace:
    return TimerPlace(folder=tmp_path / "user", stamps=tmp_path / "stamps", user="ada", shell=system)


def setting(text: str, name: str) -> list[str]:
    return [line.partition("=")[2] for line in text.split("\n") if line.startswith(f"{name}=")]


def as_systemd_reads(line: str) -> list[str]:
    """The words of an Exec line by systemd.syntax(7) and systemd.service(5), for words in double quotes."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    unescaped = [re.sub(r"\\(.)", r"\1", quoted) if quoted or not plain else plain for quoted, plain in words]
    specified = [re.sub(r"%(.)", lambda found: {"%": "%"}[found[1]], word) for word in unescaped]
    return [re.sub(r"\$(.)", lambda found: {"$": "$"}[found[1]], word) for word in specified]


def test_the_service_says_what_runs_where_and_how_it_ends() -> None:
    text = service_text(replace(REQUEST, time_limit_s=5400))

    assert as_systemd_reads(setting(text, "ExecStart")[0]) == [
        "/opt/harness/bin/harness",
        "nightly",
        "--root",
        "/srv/data",
        "/srv/sweeps/small.yaml",
    ]
    assert [as_systemd_reads(line)[1:] for line in setting(text, "ExecStopPost")] == [
        ["engine", "down"],
        ["engine", "restore"],
    ]
    expected = {
        "Type": "oneshot",
        "WorkingDirectory": "/srv/",
        "EnvironmentFile": "-%h/.config/harness/nightly.env",
        "Environment": '"PATH=/usr/bin:/bin"',
        "TimeoutStartSec": "5400",
        "TimeoutStopSec": "1800",
        "KillSignal": "SIGINT",
        "KillMode": "process",
        "SuccessExitStatus": "4",
        "Nice": "0",
        "OOMPolicy": "continue",
    }
    assert {name: setting(text, name) for name in expected} == {name: [value] for name, value in expected.items()}


def test_the_timer_fires_at_its_time_and_makes_up_for_a_night_that_was_missed() -> None:
    text = timer_text(replace(REQUEST, at="4:05"))

    assert setting(text, "OnCalendar") == ["*-*-* 04:05:00"]
    assert setting(text, "Persistent") == ["true"]
    assert setting(text, "WantedBy") == ["timers.target"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_arrive_as_they_are(name: str) -> None:
    folder = Path("/srv") / name
    request = replace(
        REQUEST,
        file=folder / f"{name}.yaml",
        arguments=("--root", str(folder), name),
        program=(str(folder / "harness"),),
        working_directory=folder,
    )
    text = service_text(request)

    words = as_systemd_reads(setting(text, "ExecStart")[0])
    if words[0] == "/bin/sh":
        assert words[1:3] == ["-c", 'exec "$0" "$@"']
        words = words[3:]
    assert words == list(request.command)
    (directory,) = setting(text, "WorkingDirectory")
    assert directory == str(folder).replace("%", "%%") + "/"
    assert text.count("\n") == service_text(REQUEST).count("\n")


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"])), max_size=5))
def test_any_text_arrives_as_it_is(arguments: list[str]) -> None:
    request = replace(REQUEST, arguments=tuple(arguments))
    (line,) = setting(service_text(request), "ExecStart")

    assert as_systemd_reads(line) == list(request.command)


@pytest.mark.parametrize("where", ["file", "working_directory", "program", "arguments"])
@pytest.mark.parametrize("bad", ["a\nExecStartPre=/bin/evil", "tab\t", "nul\0", "\udcff"])
def test_what_cannot_be_written_down_is_refused(where: str, bad: str) -> None:
    path = Path("/srv") / bad
    changes: dict[str, TimerRequest] = {
        "file": replace(REQUEST, file=path),
        "working_directory": replace(REQUEST, working_directory=path),
        "program": replace(REQUEST, program=(str(path),)),
        "arguments": replace(REQUEST, arguments=(bad,)),
    }
    require_installable(REQUEST)
    with pytest.raises(InputError, match="cannot be written into a unit"):
        require_installable(changes[where])


@pytest.mark.parametrize(
    "changes",
    [
        {"at": "25:00"},
        {"at": "2"},
        {"at": "02:30\nPersistent=false"},
        {"time_limit_s": 0.0},
        {"time_limit_s": float("nan")},
        {"file": Path("small.yaml")},
        {"working_directory": Path()},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        require_installable(replace(REQUEST, **changes))  # type: ignore[arg-type]  # of the cases above


@pytest.mark.parametrize(
    "arguments",
    [
        ("--api-key", "sk-secret"),
        ("--api-key=sk-secret",),
        ("--set", "api_key=sk-secret"),
        ("--set=env.HF_TOKEN=sk-secret",),
        ("--set", "url=http://me:sk-secret@host/"),
    ],
)
def test_a_secret_is_never_written_down(arguments: tuple[str, ...], place: TimerPlace, system: FakeSystem) -> None:
    with pytest.raises(InputError, match="key or password") as caught:
        install_timer(replace(REQUEST, arguments=arguments), place)

    assert "sk-secret" not in str(caught.value)
    assert "nightly.env" in str(caught.value)
    assert not place.folder.exists()
    assert system.asked == []


@pytest.mark.parametrize("arguments", [("--set", "max_tokens=5"), ("--set", "context_tokens=8K"), ("--seed", "3")])
def test_what_is_no_secret_is_taken(arguments: tuple[str, ...]) -> None:
    require_installable(replace(REQUEST, arguments=arguments))


def test_installing_writes_both_files_and_starts_the_timer(place: TimerPlace, system: FakeSystem) -> None:
    seen: list[list[str]] = []
    system.on_start = lambda: seen.append(sorted(path.name for path in place.folder.iterdir()))

    lines = install_timer(REQUEST, place)

    service, timer = place.files(UNIT)
    assert service.read_text() == service_text(REQUEST)
    assert timer.read_text() == timer_text(REQUEST)
    assert seen == [[f"{UNIT}.service", f"{UNIT}.timer"]]  # before it is started
    assert system.verbs == ["daemon-reload", "enable"]
    assert ("systemctl", "--user", "enable", "--now", f"{UNIT}.timer") in system.asked
    text = "\n".join(lines)
    assert f"{UNIT}.timer is new: every night at 02:30, for at most 2 h" in text
    assert "It runs only while ada is logged in. To run it always: loginctl enable-linger ada" in text
    assert str(service) in text


def test_installing_twice_changes_nothing(place: TimerPlace, system: FakeSystem) -> None:
    install_timer(REQUEST, place)
    before = {path: path.stat().st_mtime_ns for path in (*place.files(UNIT), place.stamp(UNIT))}

    lines = install_timer(REQUEST, place)

    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "installed already" in lines[0]
    assert system.verbs == ["daemon-reload", "enable"] * 2


def test_another_time_of_day_takes_effect_and_does_not_start_a_night_at_once(
    place: TimerPlace, system: FakeSystem
) -> None:
    install_timer(REQUEST, place)
    stamp = place.stamp(UNIT)
    os.utime(stamp, (1_000_000, 1_000_000))  # it ran last long ago: systemd would make up for that
    system.asked.clear()
    dates: list[float] = []
    system.on_start = lambda: dates.append(stamp.stat().st_mtime)

    lines = install_timer(replace(REQUEST, at="05:00"), place)

    assert system.verbs == ["stop", "daemon-reload", "enable"]  # a running timer does not look at the date again
    assert abs(dates[0] - time.clock_gettime(time.CLOCK_REALTIME)) < 600
    assert "renewed: every night at 05:00" in lines[0]
    assert "OnCalendar=*-*-* 05:00:00" in place.files(UNIT)[1].read_text()


@pytest.mark.parametrize(("linger", "hint"), [("yes", None), ("no", "only while ada"), ("", "could not be found out")])
def test_whether_it_runs_without_a_login_is_looked_up(
    place: TimerPlace, system: FakeSystem, linger: str, hint: str | None
) -> None:
    system.linger = linger
    last = install_timer(REQUEST, place)[-1]

    assert ("enable-linger" in last) == (hint is not None)
    assert hint is None or hint in last


@pytest.mark.parametrize(("programs", "why"), [(False, "there is no systemctl"), (True, "No medium found")])
def test_without_systemd_of_the_user_a_line_for_cron_is_said_and_nothing_is_written(
    place: TimerPlace, system: FakeSystem, programs: bool, why: str
) -> None:
    system.bus, system.programs = False, programs

    lines = install_timer(REQUEST, place)

    assert why in lines[0]
    assert "no timer is installed" in lines[0]
    assert cron_line(REQUEST) in lines
    assert not place.folder.exists()
    assert any(line.endswith("| crontab -") for line in lines)


def test_a_line_that_is_longer_than_cron_takes_is_said_to_be(place: TimerPlace, system: FakeSystem) -> None:
    system.bus = False

    assert not any("put what follows * * * into a script" in line for line in install_timer(REQUEST, place))
    long = replace(REQUEST, environment={"PATH": "/a" * 500})
    assert any("put what follows * * * into a script" in line for line in install_timer(long, place))


def test_what_systemd_refuses_is_said(place: TimerPlace, system: FakeSystem) -> None:
    system.refuses = "enable"

    with pytest.raises(HostError, match=r"enable --now harness-nightly-small\.timer failed: Failed: Unit is bad"):
        install_timer(REQUEST, place)


def test_a_folder_that_cannot_be_written_is_said(place: TimerPlace) -> None:
    place.folder.write_text("a file")

    with pytest.raises(HostError, match="cannot"):
        install_timer(REQUEST, place)


def test_removing_undoes_installing(place: TimerPlace, system: FakeSystem) -> None:
    install_timer(REQUEST, place)
    wanted = place.folder / "timers.target.wants" / f"{UNIT}.timer"
    wanted.parent.mkdir()
    wanted.symlink_to(place.files(UNIT)[1])  # as systemctl enable makes it
    system.asked.clear()

    lines = remove_timer("small", place)

    assert [path for path in place.folder.rglob("*") if not path.is_dir()] == []
    assert system.verbs == ["disable", "daemon-reload", "reset-failed"]
    assert "removed" in lines[0]
    assert "nothing to remove" in remove_timer("small", place)[0]


def test_removing_works_where_systemd_has_gone(place: TimerPlace, system: FakeSystem) -> None:
    install_timer(REQUEST, place)
    system.bus = False

    assert "removed" in remove_timer("small", place)[0]
    assert not any(path.exists() for path in place.files(UNIT))
    assert "crontab -e" in remove_timer("small", place)[0]


PROGRAM = """\
#!{python}
import json, os, sys
with open(os.environ["SAID"], "a") as file:
    print(json.dumps({{"argv": sys.argv[1:], "cwd": os.getcwd(), "own": os.environ.get("OWN"),
                      "key": os.environ.get("THE_KEY")}}), file=file)
"""


def cron_runs(line: str, home: Path, said: Path) -> list[dict[str, object]]:
    """What the command of a crontab's line does: cron ends a line at a bare %, and takes the backslash off others."""
    command = line.split(" ", 5)[5]
    assert re.search(r"(?<!\\)%", command) is None
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "SAID": str(said)}
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace(r"\%", "%")], env=environment, cwd="/", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(each) for each in said.read_text().splitlines()]


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != " "])
def test_a_line_for_cron_runs_what_was_asked_for(tmp_path: Path, name: str) -> None:
    folder = tmp_path / f"x{name}"
    folder.mkdir()
    program, sweep, said = folder / "harness", folder / f"{name}.yaml", tmp_path / "said"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    sweep.write_text("")
    home = tmp_path / "home"
    (home / ".config" / "harness").mkdir(parents=True)
    (home / ".config" / "harness" / "nightly.env").write_text("THE_KEY=sk-secret\n")
    request = TimerRequest(
        slug="small",
        file=sweep,
        arguments=("--root", str(folder), name),
        at="04:07",
        program=(str(program),),
        working_directory=folder,
        environment={"OWN": name},
    )
    line = cron_line(request)

    runs = cron_runs(line, home, said)

    assert line.startswith("7 4 * * * ")
    assert " timeout --foreground --signal=INT " in line  # without it Ctrl-C comes twice, and the second one kills
    assert "\n" not in line
    assert "sk-secret" not in line
    assert [run["argv"] for run in runs] == [
        ["nightly", "--root", str(folder), name, str(sweep)],
        ["engine", "down"],
        ["engine", "restore"],
    ]
    assert all((run["cwd"], run["own"], run["key"]) == (str(folder), name, "sk-secret") for run in runs)
    assert shlex.quote(line)


def test_a_second_night_of_the_same_file_does_not_start_under_cron(tmp_path: Path) -> None:
    program, sweep, said = tmp_path / "harness", tmp_path / "small.yaml", tmp_path / "said"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    sweep.write_text("")
    line = cron_line(replace(REQUEST, file=sweep, program=(str(program),), working_directory=tmp_path, environment={}))
    with subprocess.Popen(["flock", str(sweep), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(b"held\n")
        first.stdin.flush()
        assert first.stdout.readline() == b"held\n"
        runs = cron_runs(line, tmp_path, said)
        first.stdin.close()

    assert [run["argv"] for run in runs] == [["engine", "down"], ["engine", "restore"]]


def test_the_program_is_the_harness_of_this_environment() -> None:
    program = this_program()

    assert Path(program[0]).is_absolute()
    done = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True, cwd="/")
    assert "harness" in done.stdout


def test_of_the_environment_places_are_kept_and_no_keys() -> None:
    environment = {
        "PATH": "/bin:/sbin:/bin",
        "HARNESS_STATE_DIR": "/s",
        "HARNESS_API_KEY": "sk",
        "HF_TOKEN": "t",
        "LANG": "C",
    }

    assert kept_environment(environment) == {"PATH": "/bin:/sbin", "HARNESS_STATE_DIR": "/s"}
