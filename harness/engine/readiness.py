"""Wait until a started engine answers, and tell why it does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.engine.diagnosis import ending, own_remedy, remedy_for, root_cause
from harness.engine.endpoint import Endpoint, ServedModel
from harness.engine.logfile import LogReader
from harness.engine.redact import redacted_text
from harness.engine.shell import RunningProcess
from harness.errors import LaunchError
from harness.recipe.spec import LaunchSpec
from harness.records.clock import Clock
from harness.records.events import LaunchProgress, OnEvent
from harness.units import format_seconds

_POLL_S = 0.1
_LAST_WORDS_S = 3.0  # after a fatal line: time for the engine to write why
_TAIL_LINES = 30
_READ_LINES = 400  # the cause stands above the tracebacks of the processes that followed it


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """An engine that is coming up."""

    spec: LaunchSpec
    process: RunningProcess
    log: LogReader
    offset: int  # where its part of the log begins
    clock: Clock
    on_event: OnEvent
    on_progress: Callable[[], None]  # called when the log has grown: the engine may have new children
    secrets: tuple[str, ...] = ()  # never to appear in an error


async def wait_until_ready(boot: Boot, endpoint: Endpoint) -> ServedModel:
    """Return the served model once /health (where there is one) and /v1/models agree that the engine is up.

    Raises:
        LaunchError: it ended, said something fatal, was too slow, or serves another model.
    """
    deadline_s = boot.clock.now_s() + boot.spec.ready_timeout_s
    offset = boot.offset
    while True:
        returncode = boot.process.returncode
        window = boot.log.since(offset)
        offset = window.end
        if window.lines:
            boot.on_progress()
            _tell(boot, window.lines)
            await _refuse_fatal(boot, window.lines)
        if returncode is not None:
            raise _failure(boot, f"the engine {ending(returncode)} while booting", returncode)
        if (model := await _answer(boot, endpoint)) is not None:
            return model
        if boot.clock.now_s() > deadline_s:
            raise _too_slow(boot)
        await boot.clock.sleep(_POLL_S)


async def _answer(boot: Boot, endpoint: Endpoint) -> ServedModel | None:
    # /v1/models answers as soon as there is a front end, and still does after the engine's death: /health decides.
    if boot.spec.manners.ready_by == "health" and await endpoint.health() != 200:
        return None
    models = await endpoint.models()
    if not models or boot.process.returncode is not None:
        return None
    for model in models:
        if boot.spec.served_model in (None, model.name):
            return model
    served = ", ".join(model.name for model in models)
    raise _failure(boot, f"the engine serves {served}, not {boot.spec.served_model}", None)


def _tell(boot: Boot, lines: tuple[str, ...]) -> None:
    for pattern in boot.spec.boot.progress:
        for line in lines:
            if match := re.search(pattern, line):
                text = match.group("text") if "text" in match.re.groupindex else match.group(0)
                boot.on_event(LaunchProgress(text=redacted_text(text.strip(), boot.secrets)))


async def _refuse_fatal(boot: Boot, lines: tuple[str, ...]) -> None:
    fatal = [line for line in lines if any(re.search(pattern, line) for pattern in boot.spec.boot.fatal)]
    if not fatal:
        return
    until_s = boot.clock.now_s() + _LAST_WORDS_S
    while boot.process.returncode is None and boot.clock.now_s() < until_s:
        await boot.clock.sleep(_POLL_S)
    raise _failure(boot, "the engine failed to boot", boot.process.returncode)


def _too_slow(boot: Boot) -> LaunchError:
    error = _failure(boot, f"the engine was not ready after {format_seconds(boot.spec.ready_timeout_s)}", None)
    slow = "If it only needs longer, raise ready_timeout_s in the recipe."
    return LaunchError(error.what, where=error.where, hint=error.hint or slow, log_tail=error.log_tail)


def _failure(boot: Boot, what: str, returncode: int | None) -> LaunchError:
    lines = boot.log.since(boot.offset, with_partial=True).lines[-_READ_LINES:]
    cause = root_cause(lines) or _own_words(boot, lines)
    text = f"{what}: {cause}" if cause else what
    tail = tuple(redacted_text(line, boot.secrets) for line in lines if line.strip())[-_TAIL_LINES:]
    return LaunchError(
        redacted_text(text, boot.secrets),
        where=boot.spec.recipe,
        hint=own_remedy(lines, boot.spec.boot.remedies) or remedy_for(lines, returncode),
        log_tail=tail,
    )


def _own_words(boot: Boot, lines: Sequence[str]) -> str | None:
    """The first line that the recipe calls fatal: an engine that raises no exceptions says why in a line."""
    fatal = boot.spec.boot.fatal
    return next((line.strip() for line in lines if any(re.search(pattern, line) for pattern in fatal)), None)
