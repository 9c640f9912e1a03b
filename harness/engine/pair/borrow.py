"""The operator's own server: what runs, whether it is idle, stopping it, and giving it back as it was."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from harness.engine.pair.containers import Container, of_project
from harness.engine.pair.launcher import OnProgress, Pair, ranks_of, remove_ranks
from harness.engine.pair.names import CheckoutNames
from harness.engine.pair.node import Role
from harness.engine.pair.state import BorrowedRank, BorrowedServer
from harness.errors import EngineError
from harness.records.clock import Clock
from harness.units import format_seconds

_LOOK_EVERY_S = 2.0
_IN_FLIGHT = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_TOLD_EVERY_S = 60.0
_SCRIPT_TIMEOUT_S = 3000.0  # a boot of the operator's server
_SMOKE_TIMEOUT_S = 900.0  # it thinks without a limit
_WAITING = ("WAIT_SECONDS=2", "WAIT_ATTEMPTS=1200")  # looks more often than the script by itself, and longer
# Of the container's environment, what a start works out anew each time.
_VOLATILE = ("HOSTNAME", "NCCL_IB_GID_INDEX")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lender:
    """What is known of the operator's server before anything is asked of it."""

    pair: Pair
    project: str
    service: str  # of a compose file that serves this engine, in whatever project
    ours: str  # the project of ranks under test, which are no server of the operator
    port: int
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
        return BorrowedServer(project=projects[0], port=self.port, ranks=tuple(ranks))

    def _is_the_operators(self, container: Container) -> bool:
        if container.project == self.ours:
            return False
        return container.project == self.project or container.service == self.service

    async def wait_until_idle(self, idle_for_s: float) -> None:
        """Return once no request has been in flight for that long.

        Raises:
            EngineError: the server does not say how many requests it has.
        """
        quiet_since_s = self.clock.now_s()
        told_s = quiet_since_s - _TOLD_EVERY_S
        while True:
            now_s = self.clock.now_s()
            in_flight = await self._requests_in_flight()
            if in_flight:
                quiet_since_s = now_s
            if now_s - quiet_since_s >= idle_for_s:
                return
            if now_s - told_s >= _TOLD_EVERY_S:
                told_s = now_s
                state = f"{in_flight} requests in flight" if in_flight else "idle"
                self.on_progress(
                    f"waiting until the running server has been idle for {format_seconds(idle_for_s)}: {state}"
                )
            await self.clock.sleep(_LOOK_EVERY_S)

    async def stop(self) -> None:
        """Stop the operator's server and see that both ranks are gone. Raises EngineError where one is left."""
        if self.names is None:
            for node in self.pair.nodes:
                for container in of_project(await node.containers(), self.project):
                    await node.attempt("docker", "stop", container.container_id, timeout_s=180.0)
            return
        await self._script(self.names.stop, timeout_s=180.0)
        if (await ranks_of(self.pair, self.project)).by_role:
            await remove_ranks(self.pair, self.project)

    async def give_back(self, borrowed: BorrowedServer) -> tuple[str, ...]:
        """Start the operator's server with the operator's own files, and return how it differs from what ran.

        Raises:
            EngineError: it does not come up, or does not answer its smoke test.
        """
        running = await self.running()
        if running is None or len(running.ranks) < len(borrowed.ranks):
            await self._start()
        await self._smoke()
        running = await self.running()
        if running is None:
            raise EngineError("the operator's server came up and is gone again", where=self.pair.head.name)
        return differences(borrowed, running)

    async def _start(self) -> None:
        self.on_progress("starting the operator's server again")
        if self.names is None:
            for node in reversed(self.pair.nodes):  # the worker first, as the ranks need it
                for container in of_project(await node.containers(), self.project):
                    await node.run("docker", "start", container.container_id)
            return
        done = await self._script(self.names.start, timeout_s=_SCRIPT_TIMEOUT_S)
        if done == self.names.already_running:  # half of it runs: what a reboot of one host leaves
            await self._script(self.names.stop, timeout_s=180.0)
            done = await self._script(self.names.start, timeout_s=_SCRIPT_TIMEOUT_S)
        if done != 0:
            raise EngineError(
                f"the operator's server did not start: {self.names.start} ended with {done}",
                where=self.pair.head.name,
                hint=f"On the head: cd {self.checkout} && ./{self.names.stop}; ./{self.names.start}",
            )

    async def _smoke(self) -> None:
        if self.names is None or self.names.smoke is None:
            await self._answers()
            return
        self.on_progress("smoke test of the operator's server")
        code = await self._script(self.names.smoke, timeout_s=_SMOKE_TIMEOUT_S)
        if code != 0:
            raise EngineError(
                f"the operator's server runs, and its smoke test ended with {code}",
                where=self.pair.head.name,
                hint=f"On the head: cd {self.checkout} && ./{self.names.smoke}",
            )

    async def _answers(self) -> None:
        until_s = self.clock.now_s() + _SCRIPT_TIMEOUT_S
        while self.clock.now_s() < until_s:
            done = await self.pair.head.attempt(
                "curl", "-fsS", "--max-time", "5", f"http://127.0.0.1:{self.port}/health"
            )
            if done.returncode == 0:
                return
            await self.clock.sleep(_LOOK_EVERY_S)
        raise EngineError("the operator's server was started and does not answer", where=self.pair.head.name)

    async def _requests_in_flight(self) -> int:
        done = await self.pair.head.attempt("curl", "-fsS", "--max-time", "5", f"http://127.0.0.1:{self.port}/metrics")
        if done.returncode != 0:
            raise EngineError(
                f"the running server does not say whether it is in use: {done.output.strip()[-200:]}",
                where=f"http://127.0.0.1:{self.port}/metrics on {self.pair.head.name}",
                hint="Stop it yourself, or correct the port in the env file.",
            )
        return requests_in_flight(done.stdout)

    async def _script(self, name: str, *, timeout_s: float) -> int:
        """Run a script of the checkout as the operator would: nothing of ours in its environment."""
        assert self.checkout is not None
        unset = ("ENV_FILE", "COMPOSE_FILE", "API_URL", "CHAT_URL", "VLLM_API_KEY", "DSPARK_API_KEYS", "MTP_NUM_TOKENS")
        words = [word for variable in unset for word in ("-u", variable)]
        script = posixpath.join(self.checkout, name)
        done = await self.pair.head.attempt(
            "env", *words, f"PROJECT_NAME={self.project}", *_WAITING, "bash", script, timeout_s=timeout_s
        )
        return done.returncode


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
    now = {rank.role: rank for rank in after.ranks}
    for rank in before.ranks:
        other = now.get(rank.role)
        if other is None:
            found.append(f"the {rank.role} rank does not run")
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
    ranks = " and ".join(rank.role for rank in server.ranks)
    env = next((rank.environment for rank in server.ranks), {})
    known = ", ".join(f"{name}={env[name]}" for name in ("MTP_NUM_TOKENS", "DRAFT_SAMPLE_METHOD") if name in env)
    return f"project {server.project} on {ranks}, port {server.port}" + (f" ({known})" if known else "")


def _rank(role: Role, container: Container) -> BorrowedRank:
    return BorrowedRank(
        role=role, name=container.name, image_id=container.image_id, environment=dict(container.environment)
    )
