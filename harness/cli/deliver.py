"""A night to whoever waits for it: a JUnit file, a GitHub summary, a Prometheus file, a webhook.

Nothing here changes the verdict or the exit code: what could not be delivered is a warning. Where a webhook lies, and
its key, come from the environment alone; no file, log or warning holds them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from harness.errors import HarnessError
from harness.report.markdown import render_night
from harness.report.night_junit import junit_xml
from harness.report.night_message import message_json
from harness.report.night_prometheus import prometheus_text
from harness.report.night_result import NightResult
from harness.store.files import disk_error, write_whole

WEBHOOK_URL, WEBHOOK_TOKEN = "HARNESS_WEBHOOK_URL", "HARNESS_WEBHOOK_TOKEN"
GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"
_DEVICES = Path("/dev")
_TRIES = 3
_TIMEOUT_S = 5.0  # of connecting, and of each wait for bytes
_PAUSES_S = (1.0, 3.0)  # between tries
_DEADLINE_S = 25.0  # of all tries together, name servers and slow answers included
_WORTH_A_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryWishes:
    """Where a night goes."""

    junit: Path | None = None
    prometheus: Path | None = None
    environment: Mapping[str, str]


def deliver(
    result: NightResult,
    wishes: DeliveryWishes,
    *,
    pause: Callable[[float], None] = time.sleep,
    deadline_s: float = _DEADLINE_S,
) -> tuple[str, ...]:
    """Deliver a night and return what went wrong, a sentence each. Raises nothing of it.

    Args:
        result: the night.
        wishes: where it goes.
        pause: waits between two tries of the webhook.
        deadline_s: after which the webhook is given up.
    """
    warnings = []
    if wishes.junit is not None:
        warnings.append(_file(wishes.junit, junit_xml(result), "JUnit"))
    if wishes.prometheus is not None:
        warnings.append(_file(wishes.prometheus, prometheus_text(result), "Prometheus"))
        warnings.append(_unseen(wishes.prometheus))
    if summary := wishes.environment.get(GITHUB_SUMMARY):
        warnings.append(_append(Path(summary), render_night(result)))
    if url := wishes.environment.get(WEBHOOK_URL):
        token = wishes.environment.get(WEBHOOK_TOKEN, "").strip()
        warnings.append(_webhook(_Webhook(url=url.strip(), token=token, pause=pause), result, deadline_s))
    return tuple(one for one in warnings if one)


def _file(path: Path, text: str, what: str) -> str:
    """Whole or not at all: a collector may read at any moment."""
    try:
        if _is_device(path):
            with path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(text)
            return ""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8", "replace"))
    except OSError as error:
        return f"the {what} file was not written: {disk_error(error, path.parent)}"
    except HarnessError as error:
        return f"the {what} file was not written: {error}"
    return ""


def _is_device(path: Path) -> bool:
    """As /dev/stdout: to put a file in its place, which root may, would take it from every other program."""
    return path.absolute().is_relative_to(_DEVICES) and (path.is_symlink() or (path.exists() and not path.is_file()))


def _unseen(path: Path) -> str:
    return "" if path.suffix == ".prom" else f"{path.name}: node_exporter reads files that end in .prom alone"


def _append(path: Path, text: str) -> str:
    try:
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        return f"the summary for {GITHUB_SUMMARY} was not written: {error.strerror or error}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Webhook:
    """Where to post, and with what key."""

    url: str
    token: str  # empty: none is sent
    pause: Callable[[float], None]

    def __repr__(self) -> str:
        return "a webhook"  # a trace may print it

    def post(self, body: bytes) -> str:
        """Try until it is taken; return why it was not, without a word of the address."""
        if not self._is_well_formed():
            return "its address or key is not well formed"
        tried = _Tried(problem="", again=True)
        for number in range(_TRIES):
            if number:
                self.pause(_PAUSES_S[number - 1])
            tried = self._once(body)
            if not tried.again:
                return tried.problem
        return f"{tried.problem}, {_TRIES} times"

    def _is_well_formed(self) -> bool:
        try:
            parts = urlsplit(self.url)
            port = parts.port  # raises where it is none
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and _is_header(self.token)

    def _once(self, body: bytes) -> _Tried:
        import httpx

        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            # What it answers beside the status is not wanted, and may be long.
            with httpx.stream("POST", self.url, content=body, headers=headers, timeout=_TIMEOUT_S) as answer:
                return _answered(answer.status_code)
        except httpx.TimeoutException:
            return _Tried(problem="it did not answer in time", again=True)
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, ValueError):
            return _Tried(problem="its address or proxy is not well formed", again=False)
        except (httpx.HTTPError, OSError):  # also a certificate store that is not there
            return _Tried(problem="it cannot be reached", again=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """How one try ended; without a problem the night was taken."""

    problem: str
    again: bool  # another try may help


def _is_header(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value)


def _answered(status: int) -> _Tried:
    if 200 <= status < 300:
        return _Tried(problem="", again=False)
    return _Tried(problem=f"it answered {status}", again=status in _WORTH_A_RETRY)


def _webhook(hook: _Webhook, result: NightResult, deadline_s: float) -> str:
    """Post in a thread of its own: neither a name server nor an answer that trickles in holds up the verdict."""
    body = message_json(result).encode()
    said: list[str] = []

    def post() -> None:
        said.append(hook.post(body))

    thread = threading.Thread(target=post, name="webhook", daemon=True)
    thread.start()
    thread.join(deadline_s)
    problem = said[0] if said else f"no answer within {deadline_s:g} s"
    return f"the webhook of {WEBHOOK_URL} did not take the night: {problem}" if problem else ""
