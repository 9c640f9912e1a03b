"""The one way to fail: what is wrong, where, and what to do. Caught in cli.main only.

HarnessError
├── InputError        exit 2: the sweep, recipe, site file or command line is wrong; nothing was launched
├── EngineError       exit 3: the engine or its host failed
│   ├── LaunchError           it did not come up
│   │   └── WrongConfigurationError   it came up as something else than was asked for
│   └── EndpointError         it runs, but does not answer as an engine should
├── HostError         exit 3: the machines cannot be used any further: the run ends here, and can be resumed
├── StoreError        exit 3: results cannot be read or written (disk full, another process writes them)
│   └── UnreadableRunError    exit 2: the run that was named is damaged, or a newer harness wrote it
└── Interrupted       exit 130: Ctrl-C or SIGTERM; what was measured is saved
"""

from __future__ import annotations

from typing import ClassVar


class HarnessError(Exception):
    """A failure that its reader can act on."""

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  {self.hint}" if self.hint else head


class InputError(HarnessError):
    """The user's file or arguments are wrong; no launch was paid for."""

    exit_code = 2


class EngineError(HarnessError):
    """The engine or its host failed."""


class LaunchError(EngineError):
    """The engine did not become ready, or is not the configuration that was asked for."""

    def __init__(
        self, what: str, *, where: str | None = None, hint: str | None = None, log_tail: tuple[str, ...] = ()
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.log_tail = log_tail


class WrongConfigurationError(LaunchError):
    """The engine runs, but its live configuration is not the one that was asked for."""


class EndpointError(EngineError):
    """The engine answers, but not as one."""


class HostError(HarnessError):
    """A machine that engines run on failed, or was left in a state in which nothing more may be launched on it."""


class StoreError(HarnessError):
    """Results cannot be read or written."""


class UnreadableRunError(StoreError):
    """A stored run is not one that this harness can use; the disk works, the input is wrong."""

    exit_code = 2


class Interrupted(HarnessError):  # noqa: N818 - it is an outcome, not a defect
    """The user stopped the run; everything measured so far is in the journal."""

    exit_code = 130
