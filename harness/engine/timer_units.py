"""A nightly run as what the system starts by itself: a systemd user service with its timer, or a line for cron. Pure.

Every file name and argument is quoted for the reader of that file, so that it arrives as it is: systemd expands ``%``
and ``$`` and reads backslashes, cron cuts a line at ``%``, and a shell sees the rest.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path

from harness.engine.redact import HIDDEN, redacted_argv, redacted_environment
from harness.errors import InputError

DEFAULT_AT = "02:30"
DEFAULT_TIME_LIMIT_S = 7200.0
GIVING_BACK_S = 1800  # stopping the engine and starting the operator's server at its slowest, twice over
SECRETS_FILE = ".config/harness/nightly.env"  # in the home folder; not in the unit, which anybody may read
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9/._+@,: -]*[A-Za-z0-9/._+@,:-]")
_NOT_TEXT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_URL_WITH_PASSWORD = re.compile(r"\w+://[^/\s:@]*:[^/\s@]+@")
_SETTING = re.compile(r"(?:--set=)?(?P<name>[A-Za-z0-9_.-]+)=(?P<value>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerRequest:
    """What is to run every night."""

    slug: str  # of the sweep, as in file names: letters, digits, underscores
    file: Path  # the sweep, absolute
    arguments: tuple[str, ...] = ()  # options of `harness nightly`; FILE is added
    at: str = DEFAULT_AT  # HH:MM, this machine's time
    time_limit_s: float = DEFAULT_TIME_LIMIT_S  # then it is interrupted as by Ctrl-C
    program: tuple[str, ...]  # the harness of this environment; its first word is an absolute path
    working_directory: Path  # absolute
    environment: Mapping[str, str] = field(default_factory=dict)  # of the service besides the user's; no secrets

    @property
    def unit(self) -> str:
        """The name of service and timer without their endings."""
        return f"harness-nightly-{self.slug}"

    @property
    def command(self) -> tuple[str, ...]:
        """What is run."""
        return (*self.program, "nightly", *self.arguments, str(self.file))


def require_installable(request: TimerRequest) -> None:
    """Raise InputError where the request cannot be written down as it is meant, or would write a secret down."""
    _time_of_day(request.at)
    if not request.time_limit_s >= 1:
        raise InputError("a night needs some time", where="--time-limit", hint="As in 2h.")
    for path in (request.program[0], str(request.working_directory), str(request.file)):
        if not path.startswith("/"):
            raise InputError("not an absolute path", where=repr(path), hint="Name it from / on.")
    for text in (*request.command, str(request.working_directory)):
        if _NOT_TEXT.search(text):
            raise InputError(
                "a name with a control character or broken text cannot be written into a unit or a crontab",
                where=repr(text),
                hint="Rename it.",
            )
    for argument, shown in zip(request.arguments, redacted_argv(request.arguments), strict=True):
        if argument != shown or _holds_secret(argument):
            raise InputError(
                "a key or password would stand in a file that anybody may read",
                where="--install-timer",
                hint=f"Take it out of the command line; put it into ~/{SECRETS_FILE} as NAME=VALUE, chmod 600.",
            )


def service_text(request: TimerRequest) -> str:
    """Return the service. Its exit codes: 4 (cannot tell) is no failure, 1 (regressed) and 3 (could not run) are."""
    command = _exec(request.command)
    clean_up = "\n".join(f"ExecStopPost={_exec((*request.program, 'engine', word))}" for word in ("down", "restore"))
    environment = "".join(
        f"Environment={_quoted(f'{name}={value}', dollar='$')}\n" for name, value in sorted(request.environment.items())
    )
    return f"""\
# Written by harness nightly --install-timer; harness nightly --remove-timer takes it away.
[Unit]
Description=Nightly regression run of {request.slug} (harness)

[Service]
Type=oneshot
WorkingDirectory={_path(request.working_directory)}
# Keys go here, as NAME=VALUE, readable by you alone. The file may be missing.
EnvironmentFile=-%h/{SECRETS_FILE}
{environment}ExecStart={command}
# The hard limit of the night, then the same as Ctrl-C for the harness alone, and time to give the machines back.
TimeoutStartSec={_whole(request.time_limit_s)}
KillSignal=SIGINT
KillMode=process
TimeoutStopSec={GIVING_BACK_S}
# Whatever became of the harness: engines that it left, and machines that are not as they were.
{clean_up}
# "Cannot tell" is no failure of the unit; a regression (1) and a night that could not run (3) are.
SuccessExitStatus=4
# The engine inherits these, and a night must run as a run by hand does.
Nice=0
IOSchedulingClass=best-effort
IOSchedulingPriority=4
# An engine out of memory is an outcome of the night: the harness must live to write it down and give back.
OOMPolicy=continue
"""


def timer_text(request: TimerRequest) -> str:
    """Return the timer: every night, and as soon as possible after a night in which the machine was off."""
    return f"""\
# Written by harness nightly --install-timer; harness nightly --remove-timer takes it away.
[Unit]
Description=Every night: regression run of {request.slug} (harness)

[Timer]
OnCalendar=*-*-* {_time_of_day(request.at):%H:%M}:00
Persistent=true
AccuracySec=1min

[Install]
WantedBy=timers.target
"""


def cron_line(request: TimerRequest) -> str:
    """Return the line of a crontab that does the same, as well as cron can."""
    moment = _time_of_day(request.at)
    secrets = f'"$HOME"/{SECRETS_FILE}'
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(request.environment.items()))
    # --foreground: else timeout signals twice, and the second Ctrl-C kills without giving anything back.
    limit = f"timeout --foreground --signal=INT --kill-after={GIVING_BACK_S} {_whole(request.time_limit_s)}"
    clean_up = "; ".join(shlex.join((*request.program, "engine", word)) for word in ("down", "restore"))
    steps = (
        f"cd {shlex.quote(str(request.working_directory))} || exit 3",
        f"set -a; [ ! -r {secrets} ] || . {secrets}",
        *([variables] if variables else []),
        f"set +a; flock -n {shlex.quote(str(request.file))} {limit} {shlex.join(request.command)}",
        clean_up,
    )
    line = "; ".join(steps).replace("%", r"\%")
    return f"{moment.minute} {moment.hour} * * * {line}"


def _time_of_day(text: str) -> time:
    if re.fullmatch(r"\d{1,2}:\d{2}", text):
        try:
            return time.fromisoformat(text.zfill(5))
        except ValueError:
            pass
    raise InputError(f"not a time of day: {text!r}", where="--at", hint="As in 02:30.")


def _holds_secret(argument: str) -> bool:
    if _URL_WITH_PASSWORD.search(argument):
        return True
    setting = _SETTING.fullmatch(argument)
    if setting is None:
        return False
    name = setting["name"].rsplit(".", 1)[-1]
    return redacted_environment({name: setting["value"]})[name] == HIDDEN


def _exec(argv: tuple[str, ...]) -> str:
    """A command of a unit. systemd takes no program whose name holds quotes, dollars and such: a shell runs those."""
    program, *words = argv
    if not _PLAIN_PATH.fullmatch(program):
        return " ".join(("/bin/sh -c", _quoted('exec "$0" "$@"'), *map(_quoted, argv)))
    return " ".join(map(_quoted, (program, *words)))


def _quoted(text: str, *, dollar: str = "$$") -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("%", "%%").replace("$", dollar)
    return f'"{escaped}"'


def _path(path: Path) -> str:
    """A setting that is one path takes no quotes. The slash keeps a last space or backslash from meaning something."""
    return f"{path}/".replace("//", "/").replace("%", "%%")


def _whole(seconds: float) -> int:
    return round(seconds)
