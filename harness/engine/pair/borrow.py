"""The operator's own server: what runs, whether it is idle, stopping it, and giving it back as it was."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from harness.engine.pair.clean import in_clean_environment
from harness.engine.pair.containers import Container
from harness.engine.pair.launcher import OnProgress, Pair, ranks_of, remove_ranks
from harness.engine.pair.names import CheckoutNames
from harness.engine.pair.node import Role
from harness.engine.pair.state import BorrowedRank, BorrowedServer
from harness.engine.redact import redacted_text, secrets_in
from harness.engine.shell import Completed
from harness.errors import EngineError
from harness.records.clock import Clock
from harness.units import format_seconds

_LOOK_EVERY_S = 2.0
_IN_FLIGHT = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_TOLD_EVERY_S = 60.0
_SCRIPT_TIMEOUT_S = 3000.0  # a boot of the operator's server
_SMOKE_TIMEOUT_S = 900.0  # it thinks without a limit
_WAITING = {"WAIT_SECONDS": "1", "WAIT_ATTEMPTS": "2400"}  # looks more often than the script by itself, and longer
# Of the container's environment, what a start works out anew each time.
_VOLATILE = ("HOSTNAME", "NCCL_IB_GID_INDEX")
ACCEPT_SMOKE_FAILURE = "--accept-smoke-failure"
_RUNS_PROJECT = re.compile(r"harness-[0-9a-f]{8}")


class SmokeTestError(EngineError):
    """The operator's server runs again, and its own smoke test does not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lender:
    """What is known of the operator's server before anything is asked of it."""

    pair: Pair
    project: str
    service: str  # of a compose file that serves this engine, in whatever project
    ours: str  # the project of ranks under test, which are no server of the operator
    port: int
    host: str  # that it answers on, as seen from the head
    checkout: str | None  # on the head, with the operator's own files
    names: CheckoutNames | None  # of its files; None: it was not started by a checkout
    clock: Clock
    on_progress: OnProgress

    async def running(self) -> BorrowedServer | None:
        """Return the operator's server as it runs; None where there is none on either host.

        Raises:
            EngineError: a host or its docker does not answer.
        """
        ranks: list[BorrowedRank] = []
        projects: list[str] = []
        for node in self.pair.nodes:
            for container in await node.containers():
                if container.is_up and self._is_the_operators(container):
                    ranks.append(_rank(node.role, container))
                    projects.append(container.project or self.project)
        if not ranks:
            return None
        return BorrowedServer(project=projects[0], port=self.port, host=self.host, ranks=tuple(ranks))

    def _is_the_operators(self, container: Container) -> bool:
        if container.project == self.ours or is_of_a_run(container):
            return False
        return container.project == self.project or container.service == self.service

    async def wait_until_idle(self, idle_for_s: float, *, limit_s: float | None = None) -> None:
        """Return once no request has been in flight for that long.

        Raises:
            EngineError: the server does not say how many requests it has, or is in use for longer than ``limit_s``.
        """
        started_s = quiet_since_s = self.clock.now_s()
        told_s = quiet_since_s - _TOLD_EVERY_S
        while True:
            now_s = self.clock.now_s()
            in_flight = await self._requests_in_flight()
            if in_flight:
                quiet_since_s = now_s
            if now_s - quiet_since_s >= idle_for_s:
                return
            if limit_s is not None and now_s - started_s >= limit_s:
                raise EngineError(
                    f"the running server was not idle for {format_seconds(idle_for_s)} while there was time to measure",
                    where=self.pair.head.name,
                    hint="It runs on. Try again when it is less busy, or set a shorter --idle-for.",
                )
            if now_s - told_s >= _TOLD_EVERY_S:
                told_s = now_s
                state = f"{in_flight} requests in flight" if in_flight else "idle"
                self.on_progress(
                    f"waiting until the running server has been idle for {format_seconds(idle_for_s)}: {state}"
                )
            await self.clock.sleep(min(_LOOK_EVERY_S, idle_for_s))

    async def stop(self, borrowed: BorrowedServer) -> None:
        """Stop the operator's server and see that it is gone. Raises EngineError where a rank is left."""
        if self.names is None:
            for rank in borrowed.ranks:
                await self.pair.node(rank.role).run("docker", "stop", rank.name, timeout_s=180.0)
        else:
            await self._script(self.names.stop, borrowed, timeout_s=180.0)
            if (await ranks_of(self.pair, borrowed.project)).by_role:
                await remove_ranks(self.pair, borrowed.project)
        if (left := await self.running()) is not None:
            raise EngineError(f"a server is still there after it was stopped: {describe(left)}")

    async def give_back(self, borrowed: BorrowedServer, *, accept_smoke_failure: bool = False) -> tuple[str, ...]:
        """Start the operator's server with the operator's own files, and return how it differs from what ran.

        Args:
            borrowed: what ran.
            accept_smoke_failure: take it for given back where only its smoke test fails; that is told.

        Raises:
            SmokeTestError: it runs, and does not answer its smoke test.
            EngineError: it does not come up, or not on every host.
        """
        running = await self.running()
        if running is None:
            await self._start(borrowed)
        elif len(running.ranks) < len(borrowed.ranks):
            # What a start leaves that was killed, or a reboot of one host; no start goes on from there.
            await self.stop(running)
            await self._start(borrowed)
        else:
            await self._answers()  # it may be booting still
        accepted = await self._smoked(borrowed, accept_failure=accept_smoke_failure)
        running = await self.running()
        if running is None:
            raise EngineError("the operator's server came up and is gone again", where=self.pair.head.name)
        if accepted and len(running.ranks) < len(borrowed.ranks):
            raise EngineError("the operator's server does not run on every host", where=self.pair.head.name)
        return (*accepted, *differences(borrowed, running))

    async def _smoked(self, borrowed: BorrowedServer, *, accept_failure: bool) -> tuple[str, ...]:
        try:
            await self._smoke(borrowed)
        except SmokeTestError as error:
            if not accept_failure:
                raise
            return (f"{error.what} (accepted)",)
        return ()

    async def _start(self, borrowed: BorrowedServer) -> None:
        self.on_progress("starting the operator's server again")
        if self.names is None:
            for rank in reversed(borrowed.ranks):  # the worker first, as the ranks need it
                await self.pair.node(rank.role).run("docker", "start", rank.name)
            return
        done = await self._script(self.names.start, borrowed, timeout_s=_SCRIPT_TIMEOUT_S)
        if done.returncode != 0:
            raise EngineError(
                f"the operator's server did not start ({self.names.start}: {done.returncode}): {_last(done, borrowed)}",
                where=self.pair.head.name,
                hint=f"On the head: cd {self.checkout} && ./{self.names.stop}; ./{self.names.start}",
            )

    async def _smoke(self, borrowed: BorrowedServer) -> None:
        if self.names is None or self.names.smoke is None:
            await self._answers()
            return
        self.on_progress("smoke test of the operator's server")
        done = await self._script(self.names.smoke, borrowed, timeout_s=_SMOKE_TIMEOUT_S)
        if done.returncode != 0:
            raise SmokeTestError(
                f"its smoke test ended with {done.returncode}: {_last(done, borrowed)}",
                where=self.pair.head.name,
                hint=f"The server runs. On the head: cd {self.checkout} && ./{self.names.smoke}\nIf it did not pass "
                f"before either, have done with it: harness engine restore {ACCEPT_SMOKE_FAILURE}",
            )

    async def _answers(self) -> None:
        until_s = self.clock.now_s() + _SCRIPT_TIMEOUT_S
        while self.clock.now_s() < until_s:
            done = await self.pair.head.attempt("curl", "-fsS", "--max-time", "5", f"{self._url}/health")
            if done.returncode == 0:
                return
            if await self.running() is None:
                break
            await self.clock.sleep(_LOOK_EVERY_S)
        raise EngineError("the operator's server was started and does not answer", where=self.pair.head.name)

    async def _requests_in_flight(self) -> int:
        done = await self.pair.head.attempt("curl", "-fsS", "--max-time", "5", f"{self._url}/metrics")
        if done.returncode != 0:
            raise EngineError(
                f"the running server does not say whether it is in use: {done.output.strip()[-200:]}",
                where=f"{self._url}/metrics on {self.pair.head.name}",
                hint="Stop it yourself, or correct VLLM_HOST and VLLM_PORT in the env file.",
            )
        return requests_in_flight(done.stdout)

    @property
    def _url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def _script(self, name: str, borrowed: BorrowedServer, *, timeout_s: float) -> Completed:
        """Run a script of the checkout as the operator would: nothing of ours in its environment."""
        assert self.checkout is not None
        words = in_clean_environment(
            ("bash", posixpath.join(self.checkout, name)), {"PROJECT_NAME": borrowed.project, **_WAITING}
        )
        return await self.pair.head.attempt(*words, timeout_s=timeout_s)


def is_of_a_run(container: Container) -> bool:
    """It is a rank under test, of whatever run of this tool."""
    return container.project is not None and _RUNS_PROJECT.fullmatch(container.project) is not None


def requests_in_flight(exposition: str) -> int:
    """Return the requests that run or wait, from a /metrics document."""
    return int(
        sum(
            sample.value
            for family in text_string_to_metric_families(exposition)
            for sample in family.samples
            if sample.name in _IN_FLIGHT
        )
    )


def differences(before: BorrowedServer, after: BorrowedServer) -> tuple[str, ...]:
    """Return in which variables and images the ranks differ, by name: values may be keys."""
    found: list[str] = []
    now = {(rank.role, rank.name): rank for rank in after.ranks}
    for rank in before.ranks:
        other = now.get((rank.role, rank.name))
        if other is None:
            found.append(f"{rank.name} does not run on the {rank.role}")
            continue
        names = sorted({*rank.environment, *other.environment} - set(_VOLATILE))
        changed = [name for name in names if rank.environment.get(name) != other.environment.get(name)]
        if changed:
            found.append(f"the {rank.role} rank has another {', '.join(changed)}")
        if rank.image_id != other.image_id:
            found.append(f"the {rank.role} rank runs another image")
    return tuple(found)


def describe(server: BorrowedServer) -> str:
    """Return what runs, in a line without keys."""
    env = next((rank.environment for rank in server.ranks if "MTP_NUM_TOKENS" in rank.environment), {})
    roles = " and ".join(dict.fromkeys(rank.role for rank in server.ranks))
    known = ", ".join(f"{name}={env[name]}" for name in ("MTP_NUM_TOKENS", "DRAFT_SAMPLE_METHOD") if name in env)
    return f"project {server.project} on {roles}, port {server.port}" + (f" ({known})" if known else "")


def _last(done: Completed, borrowed: BorrowedServer) -> str:
    hidden = (value for rank in borrowed.ranks for value in secrets_in((), rank.environment))
    secrets = tuple(key for value in hidden for key in value.split())
    said = [line.strip() for line in redacted_text(done.output, secrets).splitlines() if line.strip()]
    return said[-1][-200:] if said else "it said nothing"


def _rank(role: Role, container: Container) -> BorrowedRank:
    return BorrowedRank(
        role=role, name=container.name, image_id=container.image_id, environment=dict(container.environment)
    )
