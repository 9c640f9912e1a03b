"""Bring an engine up, hold it while it is measured, and leave nothing of it behind."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.engine.bootlog import parse_boot_log
from harness.engine.diagnosis import ending
from harness.engine.endpoint import Endpoint, ServedModel, api_key, endpoint_for
from harness.engine.logfile import LogReader
from harness.engine.orphans import LAUNCH_ID_VARIABLE, kill_launch, processes_of, stop_launch, with_members
from harness.engine.over_ssh import wrapped
from harness.engine.ports import HOST, choose_port
from harness.engine.readiness import Boot, wait_until_ready
from harness.engine.redact import redacted_argv, redacted_environment, secrets_in
from harness.engine.registry import RegisteredLaunch, Registry, new_launch, with_leader
from harness.engine.running import HostAccount
from harness.engine.shell import Command, RunningProcess, Shell
from harness.errors import EngineError
from harness.recipe.spec import PORT, LaunchSpec
from harness.records.clock import Clock
from harness.records.events import OnEvent
from harness.records.launch import BootFacts

_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSetting:
    """What a launch runs with, besides what the recipe and the configuration say."""

    run_id: str
    launch_id: str  # unique among all launches of this machine
    log_path: Path
    shell: Shell
    clock: Clock
    on_event: OnEvent
    registry: Registry
    port: int | None = None  # None: any free one


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEngine:
    """An engine that answers. ``process`` is None where the harness attached to it."""

    spec: LaunchSpec
    base_url: str
    model: str
    max_model_len: int | None
    ready_s: float  # from the start of the process; 0 where attached
    log: LogReader  # of an empty file where attached
    command: tuple[str, ...] = ()  # redacted
    environment: dict[str, str] = field(default_factory=dict)  # what the harness set; redacted
    process: RunningProcess | None = None
    untested: str | None = None
    hosts: HostAccount | None = None

    def alive(self) -> bool:
        """False once the process has ended. An attached engine is taken to be alive."""
        return self.process is None or self.process.returncode is None

    async def died(self) -> str:
        """Return how it ended, once it has; never, where attached."""
        if self.process is None:
            await asyncio.Event().wait()
            raise AssertionError("unreachable")
        return f"the engine {ending(await self.process.wait())}"

    def boot_facts(self) -> BootFacts | None:
        """Return what the log has said so far; None where attached."""
        return None if self.process is None else parse_boot_log(self.log.since(0).lines)

    def jit_lines(self, since: int) -> tuple[str, ...]:
        """Return the log lines after the offset ``since`` that report compilation while serving."""
        return self.log.matching(since, self.spec.boot.jit)

    def endpoint(self) -> Endpoint:
        """Return a client for short questions; close it with ``async with``."""
        return endpoint_for(self.spec, self.base_url)


@asynccontextmanager
async def launched(spec: LaunchSpec, setting: LaunchSetting) -> AsyncIterator[RunningEngine]:
    """Start the engine of ``spec``, or attach to it, and stop what was started on every way out.

    Raises:
        LaunchError: it did not come up: port taken, early end, fatal log line, too slow. ``log_tail`` has its last
            lines, the hint a remedy where the cause is known.
        EngineError: attach: nothing answers. On the way out: something could not be stopped.
    """
    if spec.style == "attach":
        yield await _attached(spec, setting)
        return
    port = choose_port(setting.port)
    spec = _at_port(spec, port)
    launch = new_launch(
        launch_id=setting.launch_id,
        run_id=setting.run_id,
        recipe=spec.recipe,
        log_path=setting.log_path,
        port=port,
    )
    setting.registry.record(launch)
    started = _Started(launch=launch, registry=setting.registry, clock=setting.clock)
    try:
        yield await _up(spec, setting, started)
    finally:
        await _stop(started, spec, setting)


@dataclass(slots=True, kw_only=True)
class _Started:
    """The record of the launch as it stands, for whoever has to stop it."""

    launch: RegisteredLaunch
    registry: Registry
    clock: Clock
    looked_s: float = -_LOOK_EVERY_S
    process: RunningProcess | None = None

    def spawned(self, process: RunningProcess) -> None:
        """Write down the leader."""
        self.process = process
        self._update(with_leader(self.launch, process.pid))

    def look(self, *, now: bool = False) -> None:
        """Write down the children that there are, at most every second."""
        if now or self.clock.now_s() - self.looked_s >= _LOOK_EVERY_S:
            self.looked_s = self.clock.now_s()
            self._update(with_members(self.launch))

    def _update(self, launch: RegisteredLaunch) -> None:
        if launch != self.launch:
            self.launch = launch
            self.registry.record(launch)


async def _up(spec: LaunchSpec, setting: LaunchSetting, started: _Started) -> RunningEngine:
    port = started.launch.port
    base_url = f"http://{HOST}:{port}"
    environment = {**spec.environment, LAUNCH_ID_VARIABLE: setting.launch_id}
    log = LogReader(path=setting.log_path)
    offset = log.size()
    started_s = setting.clock.now_s()
    process = await setting.shell.spawn(
        Command(argv=_argv(spec, port), environment=environment, working_directory=spec.working_directory),
        log_path=setting.log_path,
    )
    started.spawned(process)
    boot = Boot(
        spec=spec,
        process=process,
        log=log,
        offset=offset,
        clock=setting.clock,
        on_event=setting.on_event,
        on_progress=started.look,
        secrets=secrets_of(spec),
    )
    async with endpoint_for(spec, base_url) as endpoint:
        model = await wait_until_ready(boot, endpoint)
    started.look(now=True)
    return RunningEngine(
        spec=spec,
        base_url=base_url,
        model=model.name,
        max_model_len=model.max_model_len,
        ready_s=setting.clock.now_s() - started_s,
        log=log,
        command=redacted_argv(spec.argv),
        environment=redacted_environment(spec.environment),
        process=process,
    )


def _argv(spec: LaunchSpec, port: int | None) -> tuple[str, ...]:
    """Of the process on this machine: the engine, or what holds it on another one."""
    if spec.over_ssh is None or port is None:
        return spec.argv
    return wrapped(spec.argv, spec.environment, python=sys.executable, host=spec.over_ssh, port=port)


async def _stop(started: _Started, spec: LaunchSpec, setting: LaunchSetting) -> None:
    """Stop everything, also while being cancelled again; then forget the launch."""
    stopping = asyncio.ensure_future(_end(started, spec.stop_timeout_s))
    try:
        await asyncio.shield(stopping)
    except BaseException:
        kill_launch(started.launch)  # a second Ctrl-C: no more patience, and still nothing left behind
        await asyncio.gather(stopping, return_exceptions=True)
        raise
    finally:
        kill_launch(started.launch)
        if not processes_of(started.launch):  # else its record stays, so that it can still be found
            setting.registry.forget(started.launch.launch_id)


async def _end(started: _Started, timeout_s: float) -> None:
    await stop_launch(started.launch, clock=started.clock, timeout_s=timeout_s)
    if started.process is not None:
        await started.process.wait()  # its exit status may come a moment after its end


async def _attached(spec: LaunchSpec, setting: LaunchSetting) -> RunningEngine:
    base_url = (spec.base_url or "").rstrip("/").removesuffix("/v1")
    remedy = "Start the server, or correct the address (`base_url`, without /v1)."
    if not base_url:
        raise EngineError("no address to attach to", where=spec.recipe, hint="Set `base_url` to the server's address.")
    async with endpoint_for(spec, base_url) as endpoint:
        if await endpoint.health() == 503:
            raise EngineError("the server answers, but its engine is dead", where=base_url, hint="Restart the server.")
        models = await endpoint.models()
        if models is None:
            raise EngineError("no server answers", where=base_url, hint=remedy)
        model = named_model(models, spec.served_model, base_url)
    return RunningEngine(
        spec=spec,
        base_url=base_url,
        model=model.name,
        max_model_len=model.max_model_len,
        ready_s=0.0,
        log=LogReader(path=setting.log_path),
    )


def secrets_of(spec: LaunchSpec) -> tuple[str, ...]:
    """Return what an engine of ``spec`` may print and nobody may read: keys that it is given, and that it inherits."""
    key = api_key(spec)
    return secrets_in(spec.argv, {**os.environ, **({"api_key": key} if key else {}), **spec.environment})


def named_model(models: tuple[ServedModel, ...], wanted: str | None, base_url: str) -> ServedModel:
    """Return the model that is wanted, or the first.

    Raises:
        EngineError: it is not served.
    """
    for model in models:
        if wanted is None or model.name == wanted:
            return model
    served = ", ".join(model.name for model in models) or "nothing"
    raise EngineError(
        f"the server does not serve {wanted or 'any model'}",
        where=base_url,
        hint=f"It serves {served}: correct `served_model` in the recipe.",
    )


def _at_port(spec: LaunchSpec, port: int) -> LaunchSpec:
    argv = tuple(argument.replace(PORT, str(port)) for argument in spec.argv)
    environment = {name: value.replace(PORT, str(port)) for name, value in spec.environment.items()}
    return replace(spec, argv=argv, environment=environment)
