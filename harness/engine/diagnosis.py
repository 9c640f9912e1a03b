"""Why an engine did not come up, in a line, from what it left behind. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ROOT_CAUSE = re.compile(r"(?:^|[\s)\]])((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)): (.+)")
_ARGUMENT_ERROR = re.compile(r"error: (.+)$")
_SAYS_NOTHING = ("Engine core initialization failed", "EngineCore encountered an issue", "See root cause above")
_LONGEST = 400

# (what the log says, what to do about it), most specific first
_REMEDIES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), remedy)
    for pattern, remedy in (
        (
            r"address already in use|\[?errno 98\]?",
            "The port is taken by another program: stop it, or choose another port.",
        ),
        (
            r"unrecognized arguments|error: argument |invalid choice|expected one argument|the following arguments are",
            "The engine does not know this argument: check the recipe's `args` against the version that is installed.",
        ),
        (
            r"unknown vllm environment variable",
            "The engine does not know a variable that was set: check the spelling of `env.` knobs for this version.",
        ),
        (
            r"out of memory|OutOfMemoryError|std::bad_alloc|cannot allocate memory|DefaultCPUAllocator",
            "The machine ran out of memory: lower the context length, the number of sequences or the memory share, "
            "or stop what else uses it.",
        ),
        (
            r"no available memory for the cache blocks|larger than the (available )?kv cache|free memory on device",
            "There is no room for the KV cache: lower the context length, or free memory on the device.",
        ),
        (
            r"Repo id must be|not a valid model identifier|Invalid repository ID or local directory|config\.json"
            r"|RepositoryNotFoundError|LocalEntryNotFoundError|couldn't connect to .*huggingface|OfflineModeIsEnabled",
            "The model was not found: check its path, or download it before it is used offline.",
        ),
        (
            r"No module named|ModuleNotFoundError|ImportError",
            "The engine's installation is incomplete: install the missing module into its environment, "
            "or remove the environment so that it is made again.",
        ),
        (
            r"No such file or directory|FileNotFoundError",
            "A file that the engine needs is missing: check the paths in the recipe and the sweep.",
        ),
        (r"No space left on device", "The disk is full: make room."),
    )
)
_KILLED = "The system ended it, most likely because memory ran out: see `dmesg`, and lower what the engine may use."


def root_cause(lines: Sequence[str]) -> str | None:
    """Return the error that the log ends with, without the ones that only point to another; None if there is none.

    An engine of several processes reports the cause in one of them and a consequence in the others, so the last
    error is rarely the cause: the first of the errors that name something is taken from the last traceback on.
    """
    causes = [f"{match[1]}: {match[2]}" for line in lines if (match := _ROOT_CAUSE.search(line))]
    telling = [cause for cause in causes if not any(phrase in cause for phrase in _SAYS_NOTHING)]
    usage = [match[1] for line in lines if (match := _ARGUMENT_ERROR.search(line))]
    for found in (telling, usage, causes):
        if found:
            return found[-1][:_LONGEST]
    return None


def remedy_for(lines: Sequence[str], returncode: int | None) -> str | None:
    """Return what to do about it, for causes that are known; None otherwise.

    Args:
        lines: the end of the log.
        returncode: how the process ended; negative for a signal, None where it still runs.
    """
    cause = root_cause(lines) or ""
    for text in (cause, "\n".join(lines)):
        for pattern, remedy in _REMEDIES:
            if pattern.search(text):
                return remedy
    return _KILLED if returncode == -9 else None


def own_remedy(lines: Sequence[str], remedies: Sequence[tuple[str, str]]) -> str | None:
    """Return what a recipe says to do about its engine's own words; None where none of them fits.

    Args:
        lines: the end of the log.
        remedies: a regular expression and the remedy, most specific first.
    """
    text = "\n".join(lines)
    return next((remedy for pattern, remedy in remedies if re.search(pattern, text)), None)


def ending(returncode: int) -> str:
    """Return how a process ended, in words."""
    return f"was ended by signal {-returncode}" if returncode < 0 else f"ended with exit code {returncode}"
