"""A pair for the length of a run: held once, launched on again and again."""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.engine.endpoint import endpoint_for
from harness.engine.launch import LaunchSetting, named_model, secrets_of
from harness.engine.logfile import LogReader
from harness.engine.pair.engine import PairEngine
from harness.engine.pair.host_facts import read_hosts, sampling
from harness.engine.pair.launcher import ONE_TIME_KEY, Pair, PairLauncher, TrialLaunch
from harness.engine.pair.logs import following, worker_log
from harness.engine.pair.node import Node, Role
from harness.engine.redact import redacted_environment
from harness.engine.running import HostAccount
from harness.engine.shell import Command, LocalShell
from harness.engine.ssh import HostUnreachableError
from harness.errors import EngineError, HostError, LaunchError
from harness.recipe.spec import LaunchSpec
from harness.records.events import LaunchProgress
from harness.units import format_bytes

_LOOPBACK = "127.0.0.1"
_LOG_EVERY_S = 0.5
_CONNECT_S = 5.0
_RUN_THERE = "ssh may take a jump host, or a firewall is between. Run the harness on the head itself, or open the port."
_LOST_MEMORY_BYTES = 4 * 2**30
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class HeldPair:
    """The pair while a run has it."""

    pair: Pair
    launcher: PairLauncher
    project: str
    port: int
    described_as: tuple[str, ...]  # the command of a launch, for the record
    untested: str | None = None  # why nobody knows how these scripts behave
    _available_bytes: dict[Role, int] = field(default_factory=dict)  # before the first launch

    @asynccontextmanager
    async def launched(self, spec: LaunchSpec, setting: LaunchSetting) -> AsyncIterator[PairEngine]:
        """Bring both ranks up, hold them, and take them down on every way out.

        Raises:
            LaunchError: they did not come up as asked.
            HostError: a host was lost, a rank could not be stopped, or memory was: the run cannot go on.
        """
        await self._require_memory()
        address, key = await self._address()
        if key is not None:
            spec = replace(spec, api_key_variable=ONE_TIME_KEY, environment={**spec.environment, ONE_TIME_KEY: key})
        launch = self._launch(spec, setting, address=address, key=key)
        async with following(self.pair, self.project, setting.log_path, setting.clock):
            try:
                facts = await read_hosts(self.pair.nodes, setting.clock)
                ready_s = await self._start(launch, setting)
                async with sampling(self.pair.nodes, setting.clock) as samples:
                    hosts = HostAccount(facts=facts, samples=samples)
                    yield await self._engine(setting, launch, ready_s, hosts)
            finally:
                await self.launcher.stop(launch)

    async def _start(self, launch: TrialLaunch, setting: LaunchSetting) -> float:
        """Bring the ranks up and let them answer a few requests; return how long the first took."""
        telling = asyncio.create_task(_tell_progress(launch.spec, setting))

        def tell(text: str) -> None:
            setting.on_event(LaunchProgress(text=text))

        def log(lines: tuple[str, ...]) -> None:
            _append(setting.log_path, lines)

        started_s = setting.clock.now_s()
        try:
            await self.launcher.start(launch, tell)
            ready_s = setting.clock.now_s() - started_s
            await self.launcher.smoke_test(launch, tell, log)
        except HostUnreachableError as lost:
            hint = f"{lost.hint or ''} Then carry on with --resume.".strip()
            raise HostError(lost.what, where=lost.where, hint=hint) from lost
        finally:
            telling.cancel()
            await asyncio.wait([telling])
        return ready_s

    def _launch(self, spec: LaunchSpec, setting: LaunchSetting, *, address: str, key: str | None) -> TrialLaunch:
        return TrialLaunch(
            launch_id=setting.launch_id,
            project=self.project,
            spec=spec,
            host=address,
            port=self.port,
            api_key=key,
            secrets=(*secrets_of(spec), *((key,) if key else ())),
        )

    async def _engine(
        self, setting: LaunchSetting, launch: TrialLaunch, ready_s: float, hosts: HostAccount
    ) -> PairEngine:
        spec = launch.spec
        base_url = launch.base_url
        async with endpoint_for(spec, base_url) as endpoint:
            models = await endpoint.models()
        if models is None:
            raise LaunchError(
                "the pair came up and does not answer from here",
                where=base_url,
                hint="Is that address of the head reachable from this machine?",
            )
        model = named_model(models, spec.served_model, base_url)
        return PairEngine(
            spec=spec,
            pair=self.pair,
            project=self.project,
            clock=setting.clock,
            base_url=base_url,
            model=model.name,
            max_model_len=model.max_model_len,
            ready_s=ready_s,
            log=LogReader(path=setting.log_path),
            command=self.described_as,
            hosts=hosts,
            untested=self.untested,
            environment=redacted_environment(spec.environment),
        )

    async def _address(self) -> tuple[str, str | None]:
        """Where the trial listens, and the key that keeps others out where that is not the loopback."""
        if self.pair.head.is_local:
            return _LOOPBACK, None
        return await address_of(self.pair.head), secrets.token_urlsafe(24)

    async def _require_memory(self) -> None:
        """A crash loop has leaked memory until both hosts needed a reset; a smaller loss changes the KV cache."""
        for node in self.pair.nodes:
            available = available_bytes(await node.run("cat", "/proc/meminfo"))
            before = self._available_bytes.setdefault(node.role, available)
            if before - available > _LOST_MEMORY_BYTES:
                lost = format_bytes(before - available)
                raise HostError(
                    f"the {node.role} has {lost} less free memory than before the first launch",
                    where=node.name,
                    hint="`free -g` shows what is left. Reboot both hosts, then carry on with --resume.",
                )


def _append(log_path: Path, lines: tuple[str, ...]) -> None:
    """In one write: the head's log is appended to by another process meanwhile."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


async def _tell_progress(spec: LaunchSpec, setting: LaunchSetting) -> None:
    """Show the lines of both ranks' logs that the recipe thinks worth showing."""
    logs = {"": LogReader(path=setting.log_path), "worker: ": LogReader(path=worker_log(setting.log_path))}
    offsets = {rank: log.size() for rank, log in logs.items()}
    while True:
        for rank, log in logs.items():
            window = log.since(offsets[rank])
            offsets[rank] = window.end
            matches = (re.search(pattern, line) for line in window.lines for pattern in spec.boot.progress)
            for match in matches:
                if match:
                    setting.on_event(LaunchProgress(text=f"{rank}{match[0].strip()}"))
        await setting.clock.sleep(_LOG_EVERY_S)


async def address_of(head: Node) -> str:
    """Return the address of the head as this machine knows it, where ssh's configuration names no other.

    A host often takes its own name for its loopback, so a name would not do for what is to listen there.

    Raises:
        EngineError: ssh's configuration cannot be read, or the name has no address.
    """
    done = await LocalShell().run(Command(argv=("ssh", "-G", head.name)), timeout_s=10.0)
    found = re.search(r"^hostname (\S+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise EngineError(f"cannot tell the address of {head.name}: {done.stderr.strip()}", where=head.name)
    try:
        known = await asyncio.get_running_loop().getaddrinfo(found[1], None, type=socket.SOCK_STREAM)
    except OSError as error:
        what = f"requests cannot be sent to {found[1]} from here: {error.strerror}"
        raise EngineError(what, where=head.name, hint=_RUN_THERE) from error
    return str(known[0][4][0])


async def require_reachable(head: Node, port: int) -> None:
    """Refuse a head that ssh reaches and requests do not, before a launch is paid for. Raises EngineError."""
    if head.is_local:
        return
    address = await address_of(head)
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(address, port)
        writer.close()
    except ConnectionRefusedError:
        return  # nothing listens yet, and the host says so
    except OSError as error:
        what = f"port {port} of {address} is not reached from here ({error.strerror or 'no answer'})"
        raise EngineError(what, where=head.name, hint=_RUN_THERE) from error


def available_bytes(meminfo: str) -> int:
    """Return MemAvailable of /proc/meminfo. Raises EngineError where it is missing."""
    found = _AVAILABLE.search(meminfo)
    if found is None:
        raise EngineError("/proc/meminfo has no MemAvailable")
    return int(found[1]) * 1024
