"""What the checkout's start script says, put into what is wrong and what to do. Pure.

Its exit codes are no closed set: curl's, ssh's and the shell's own come through as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.errors import HostError, LaunchError

_TAIL_LINES = 25
_SSH = 255
_HOST_FAULT = re.compile(r"Cannot reach worker with passwordless SSH|No space left on device")
_PROGRESS = (
    re.compile(r"^Syncing DSpark deployment files"),
    re.compile(r"^Starting DSpark (?:worker|head)"),
    re.compile(r"^Waiting for DSpark\b.*"),
)
# Message of a script -> what it means, and the remedy. The first that is found counts.
_CAUSES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"Cannot reach worker with passwordless SSH"),
        "the head cannot reach the worker by ssh without a password",
        "On the head: ssh WORKER_HOST true. Is the worker up, and the link between the two?",
    ),
    (
        re.compile(r"(?P<text>[^\n]*No space left on device[^\n]*)"),
        "a disk is full: {text}",
        "Make room on that node.",
    ),
    (
        re.compile(r"Missing (?P<where>local|worker) Docker image (?P<image>\S+?)\.?$", re.MULTILINE),
        "the {where} image {image} is missing",
        "Pull it on that node: docker pull IMAGE.",
    ),
    (
        re.compile(r"Port (?P<port>\d+) is already listening"),
        "port {port} on the head is taken",
        "See what listens there with `ss -ltnp`, or set trial_port in the site file.",
    ),
    (
        re.compile(r"could not resolve (?P<role>\w+) RoCEv2 GID index"),
        "no RoCE v2 GID was found for the {role}",
        "Check NCCL_IB_HCA and the interfaces' addresses in the env file: harness doctor shows them.",
    ),
    (
        re.compile(r"(?P<text>DRAFT_SAMPLE_METHOD must be one of[^\n]*)"),
        "{text}",
        "Correct draft_sample_method.",
    ),
    (
        re.compile(r"(?P<text>Vision-Exp requires MTP_NUM_TOKENS[^\n]*)"),
        "{text}",
        "Choose another num_speculative_tokens, or block_k: 1.",
    ),
    (
        re.compile(r"(?P<text>DEFAULT_THINKING must be one of[^\n]*)"),
        "{text}",
        "Correct default_thinking.",
    ),
    (
        re.compile(r"are both set; set exactly one of them"),
        "VLLM_API_KEY and DSPARK_API_KEYS are both set",
        "Keep one of them in the env file.",
    ),
    (
        re.compile(r"API keys are configured but (?P<file>\S+) is missing"),
        "the checkout lacks {file}, which a start with a key needs",
        "Update the checkout.",
    ),
    (
        re.compile(r"(?P<name>[A-Z_]+) must be set in"),
        "{name} is not set in the env file",
        "Fill it in.",
    ),
    (
        re.compile(r"Timed out waiting for DSpark API"),
        "the API did not come up in time",
        "The last lines of both ranks are below. If it only needs longer, raise ready_timeout_s.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailure:
    """Why a script did not end with 0."""

    returncode: int
    what: str
    hint: str | None
    where: str
    tail: tuple[str, ...]
    is_host_fault: bool  # the machines', not the configuration's: another configuration would fare no better

    def error(self, *, doing: str = "the start script") -> LaunchError | HostError:
        """Return it as the error of a launch, or of the machines."""
        what = f"{doing}: {self.what}"
        if self.is_host_fault:
            return HostError(what, where=self.where, hint=f"{self.hint or 'Mend that'} Then carry on with --resume.")
        return LaunchError(what, where=self.where, hint=self.hint, log_tail=self.tail)


def explain_start(returncode: int, output: str, *, where: str) -> StartFailure:
    """Return what went wrong, from the exit code and everything that the script wrote."""
    tail = tuple(line for line in output.splitlines() if line.strip())[-_TAIL_LINES:]
    what, hint = _cause(returncode, output, tail)
    is_host_fault = returncode == _SSH or _HOST_FAULT.search(output) is not None
    return StartFailure(
        returncode=returncode, what=what, hint=hint, where=where, tail=tail, is_host_fault=is_host_fault
    )


def progress_of(text: str) -> list[str]:
    """Return the lines worth showing while one waits."""
    found = (match for line in text.splitlines() for pattern in _PROGRESS if (match := pattern.search(line)))
    return [match[0].strip() for match in found]


def _cause(returncode: int, output: str, tail: tuple[str, ...]) -> tuple[str, str | None]:
    for pattern, what, hint in _CAUSES:
        if match := pattern.search(output):
            return what.format(**match.groupdict()), hint
    last = f": {tail[-1]}" if tail else ""
    if returncode == 3:
        return "ranks of an earlier launch are still there", "harness engine restore removes them."
    if returncode == 22:
        return "the API came up and refused its first chat request", "The last lines of the ranks tell why."
    if returncode == _SSH:
        return (
            f"the connection to the worker broke{last}",
            "Check the link; the launch is not the configuration's fault.",
        )
    if returncode == 127:
        return f"the env file was run as a command{last}", "Quote the value that holds a space."
    if returncode in (129, 130, 137, 143):
        return f"it was ended by a signal (exit code {returncode})", None
    return f"it ended with exit code {returncode}{last}", None
