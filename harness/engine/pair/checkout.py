"""Launch a pair with the scripts of a checkout of the public two-node recipe, as owners of a pair have it.

What the scripts say is taken for a hint, never for proof: an exit code of 0 from stop may leave a rank running, a
failed start leaves both, and nothing but the containers themselves tells which environment a rank has.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from harness.engine.diagnosis import remedy_for, root_cause
from harness.engine.pair.clean import in_clean_environment
from harness.engine.pair.derived import merged, without_speculation
from harness.engine.pair.envfile import normalised, parse_env, problems_of, with_values
from harness.engine.pair.jobs import Job, start_job
from harness.engine.pair.launcher import (
    OnOutput,
    OnProgress,
    Pair,
    TrialLaunch,
    dead_ranks,
    rank_tail,
    ranks_of,
    remove_ranks,
)
from harness.engine.pair.messages import StartFailure, explain_start, progress_of
from harness.engine.pair.names import CheckoutNames
from harness.engine.redact import redacted_text
from harness.engine.shell import Completed
from harness.engine.ssh import HostUnreachableError
from harness.errors import EngineError, HostError, InputError, LaunchError, WrongConfigurationError
from harness.records.clock import Clock
from harness.units import format_seconds

_LOOK_EVERY_S = 0.5
_RANKS_EVERY_S = 3.0
_GIVE_UP_S = 20.0  # of a script that was told to end: longer than its own sleeps
_VALIDATE_TIMEOUT_S = 60.0
_STOP_ATTEMPTS = 3
_SMOKE_TIMEOUT_S = 240  # the script gives each of its requests, all sent at once, 180 s
_LATE = 124  # the exit code of `timeout`
_SAID_LINES = 3


@dataclass(slots=True, kw_only=True)
class CheckoutLauncher:
    """Starts and stops trial ranks through the scripts in ``folder`` on the head."""

    pair: Pair
    folder: str
    work_folder: str  # on the head, ours alone: env files, and what scripts print
    clock: Clock
    names: CheckoutNames
    compose_file: str  # in the folder: the checkout's, or what the operator's env file names
    wait_seconds: int = 1  # between two looks of the start script for the API

    async def start(self, launch: TrialLaunch, on_progress: OnProgress) -> None:
        """Write the files of the launch, validate, start, watch both ranks until the script ends.

        Raises:
            LaunchError, HostUnreachableError: see PairLauncher.
            InputError: the operator's env file cannot be used.
        """
        await self._write_files(launch)
        await self._validate(launch)
        failure = await self._attempt(launch, on_progress)
        if failure is not None and failure.returncode == self.names.already_running:
            on_progress("ranks of an earlier launch were still there: stopped, starting again")
            await self.stop(launch)
            await self._write_files(launch)
            failure = await self._attempt(launch, on_progress)
        if failure is not None:
            raise failure.error()
        await self._require_same_environment(launch)

    async def smoke_test(self, launch: TrialLaunch, on_progress: OnProgress, on_output: OnOutput) -> None:
        """Run the checkout's smoke test against the trial, as its bring-up asks for after each start.

        Raises:
            LaunchError: it failed, or took too long; says what it printed.
            HostUnreachableError: the head did not answer.
        """
        name = self.names.smoke
        if name is None:
            return
        on_progress("smoke test of the launch")
        limit = ("timeout", "--kill-after=5", str(_SMOKE_TIMEOUT_S))
        done = await self._run_script(name, launch, timeout_s=_SMOKE_TIMEOUT_S + 30, before=limit)
        lines = [line for line in redacted_text(done.output, launch.secrets).splitlines() if line.strip()]
        on_output(tuple(f"{name}: {line}" for line in lines))
        if done.returncode == 0:
            return
        how = f"ended with exit code {done.returncode}"
        if done.returncode == _LATE:
            how = f"did not end within {format_seconds(_SMOKE_TIMEOUT_S)}"
        ranks = await ranks_of(self.pair, launch.project)
        dead = f", and {found}" if (found := ranks.dead()) is not None else ""
        said = " / ".join(lines[-_SAID_LINES:]) or "it said nothing"
        raise LaunchError(
            f"the pair came up, and its smoke test {how}{dead}: {said}",
            where=posixpath.join(self.folder, name),
            hint="The launch is not measured. The last lines of both ranks tell why; if your own server fails it too, "
            "mend that first.",
            log_tail=(*lines, *await rank_tail(self.pair, ranks, launch.secrets)),
        )

    async def stop(self, launch: TrialLaunch) -> None:
        """Run the stop script until it and both hosts agree that nothing is left, then remove the launch's files."""
        last: EngineError | None = None
        for _ in range(_STOP_ATTEMPTS):
            try:
                await self._run_script(self.names.stop, launch, timeout_s=launch.stop_timeout_s)
                ranks = await ranks_of(self.pair, launch.project)
            except EngineError as error:
                last = error
                await self.clock.sleep(_LOOK_EVERY_S)
                continue
            if not ranks.by_role:
                break
        try:
            await remove_ranks(self.pair, launch.project)
        except EngineError as error:
            raise HostError(
                f"a rank of the launch may still run: {error.what}",
                where=error.where,
                hint="Nothing more is launched: a start would mix ranks. When the host is back: harness engine restore",
            ) from (last or error)
        await self._remove_files(launch)

    def files_of(self, launch: TrialLaunch) -> tuple[str, ...]:
        """Return the files that a launch makes on the head."""
        return (self._env_path(launch), self._compose_path(launch))

    # --- files -----------------------------------------------------------------------------------------------------

    async def _write_files(self, launch: TrialLaunch) -> None:
        text = await operator_env(self.pair, self.folder, self.names)
        await self.pair.head.run("mkdir", "-p", "-m", "700", self.work_folder)
        derived = await self._derived_compose(launch)
        compose = posixpath.join(self.folder, self.compose_file)
        if derived is not None:
            compose = self._compose_path(launch)
            await self.pair.head.write_file(compose, derived.encode(), mode=0o644)
        content = with_values(text, {**launch.variables, **self._apart(launch), "COMPOSE_FILE": compose})
        await self.pair.head.write_file(self._env_path(launch), content.encode(errors="replace"), mode=0o600)

    def _apart(self, launch: TrialLaunch) -> dict[str, str]:
        """What keeps a trial apart from the operator's server. The file wins over the process environment of the
        scripts, so what they take from there is in it too: the operator's own file may name another project or URL."""
        return {
            "VLLM_HOST": launch.host,
            "VLLM_PORT": str(launch.port),
            "PORT": str(launch.port),
            "API_HOST": launch.host,
            "API_URL": f"{launch.base_url}/v1/models",
            "CHAT_URL": f"{launch.base_url}/v1/chat/completions",
            "VLLM_API_KEY": launch.api_key or "",
            "DSPARK_API_KEYS": "",
            "DSPARK_RESTART_POLICY": "no",
            "INSTALL_VISION_MCP": "0",  # else a start with a vision sidecar writes into the operator's home
            **self._process_variables(launch),
        }

    def _process_variables(self, launch: TrialLaunch) -> dict[str, str]:
        return {
            "PROJECT_NAME": launch.project,
            "LEGACY_PROJECT_NAME": launch.project,  # stop would also take down a project named like the folder
            "WAIT_ATTEMPTS": str(max(1, round(launch.ready_timeout_s / self.wait_seconds))),
            "WAIT_SECONDS": str(self.wait_seconds),
        }

    async def _derived_compose(self, launch: TrialLaunch) -> str | None:
        """The compose file of the launch; None where the checkout's own will do."""
        base_path = posixpath.join(self.folder, self.compose_file)
        if not launch.overrides and launch.num_speculative_tokens != 0:
            return None
        text = await self._read(base_path)
        for name in launch.overrides:
            override = posixpath.join(self.folder, name)
            text = merged(text, await self._read(override), where=override)
        if launch.num_speculative_tokens == 0:
            flag = self.names.speculative_flag
            text = without_speculation(text, service=self.names.service, flag=flag, where=base_path)
        return text

    async def _read(self, path: str) -> str:
        content = await self.pair.head.read_file(path)
        if content is None:
            raise InputError("the checkout has no such file", where=path, hint="Is `checkout` the recipe's folder?")
        return content.decode(errors="replace")  # what is not UTF-8 there is in a comment

    async def _remove_files(self, launch: TrialLaunch) -> None:
        await self.pair.head.run("rm", "-rf", "--", *self.files_of(launch), self._job_folder(launch))

    def _env_path(self, launch: TrialLaunch) -> str:
        return posixpath.join(self.work_folder, f"{launch.launch_id}.env")

    def _compose_path(self, launch: TrialLaunch) -> str:
        # Beside the original: ./patches and the like are resolved from where the compose file lies.
        return posixpath.join(self.folder, f".harness-{launch.launch_id}.compose.yml")

    def _job_folder(self, launch: TrialLaunch) -> str:
        return posixpath.join(self.work_folder, launch.launch_id)

    # --- scripts ---------------------------------------------------------------------------------------------------

    async def _environment(self, launch: TrialLaunch) -> dict[str, str]:
        environment = {
            **self._process_variables(launch),
            "ENV_FILE": self._env_path(launch),
            "TMPDIR": self._job_folder(launch),  # a killed start leaves a copy of the env file, keys inside, there
        }
        if await self.pair.head.file_mode(self._compose_path(launch)) is not None:
            environment["COMPOSE_FILE"] = self._compose_path(launch)
        return environment

    async def _words(self, script: str, launch: TrialLaunch, *, before: tuple[str, ...] = ()) -> tuple[str, ...]:
        words = (*before, "bash", posixpath.join(self.folder, script))
        return in_clean_environment(words, await self._environment(launch))

    async def _run_script(
        self, name: str, launch: TrialLaunch, *, timeout_s: float, before: tuple[str, ...] = ()
    ) -> Completed:
        """Run a script to its end; ``before`` are words that it is run by."""
        await self.pair.head.run("mkdir", "-p", "-m", "700", self._job_folder(launch))
        return await self.pair.head.attempt(*await self._words(name, launch, before=before), timeout_s=timeout_s)

    async def _validate(self, launch: TrialLaunch) -> None:
        if self.names.validate is None:
            return
        done = await self._run_script(self.names.validate, launch, timeout_s=_VALIDATE_TIMEOUT_S)
        if done.returncode != 0:
            said = redacted_text(done.output, launch.secrets)
            raise explain_start(done.returncode, said, where=self.folder).error(doing=self.names.validate)

    async def _attempt(self, launch: TrialLaunch, on_progress: OnProgress) -> StartFailure | None:
        job = await start_job(
            self.pair.head,
            await self._words(self.names.start, launch),
            environment={},
            working_directory=self.folder,
            folder=self._job_folder(launch),
            launch_id=launch.launch_id,
        )
        try:
            return await self._follow(job, launch, on_progress)
        except BaseException:
            await self._end(job)
            raise

    async def _follow(self, job: Job, launch: TrialLaunch, on_progress: OnProgress) -> StartFailure | None:
        started_s = self.clock.now_s()
        looked_s = started_s
        output = ""
        while True:
            state = await job.look()
            output += state.new_output
            for line in progress_of(state.new_output):
                on_progress(redacted_text(line, launch.secrets))
            if state.returncode == 0:
                return None
            if state.returncode is not None or state.vanished:
                code = state.returncode if state.returncode is not None else 137
                return explain_start(code, redacted_text(output, launch.secrets), where=self.folder)
            now_s = self.clock.now_s()
            if now_s - looked_s >= _RANKS_EVERY_S:
                looked_s = now_s
                await self._refuse_dead_ranks(launch)
            if now_s - started_s > launch.ready_timeout_s + 60:
                raise LaunchError(f"the pair was not ready after {format_seconds(launch.ready_timeout_s)}")
            await self.clock.sleep(_LOOK_EVERY_S)

    async def _refuse_dead_ranks(self, launch: TrialLaunch) -> None:
        """The script waits its whole time for ranks that crash again and again; their state tells at once."""
        try:
            found = await dead_ranks(self.pair, launch.project)
        except HostUnreachableError:
            return  # the script will tell, or the next look
        if found is not None:
            ranks, dead = found
            tail = await rank_tail(self.pair, ranks, launch.secrets)
            cause = root_cause(tail)
            what = f"the pair failed to boot: {dead}" + (f": {cause}" if cause else "")
            raise LaunchError(what, where=self.folder, hint=remedy_for(tail, None), log_tail=tail)

    async def _end(self, job: Job) -> None:
        """TERM to the group and, if it stays, KILL. The stop script that follows needs the start script gone."""
        try:
            await job.signal("TERM")
            until_s = self.clock.now_s() + _GIVE_UP_S
            while self.clock.now_s() < until_s:
                state = await job.look()
                if state.returncode is not None or state.vanished:
                    return
                await self.clock.sleep(0.2)
            await job.signal("KILL")
        except EngineError:
            return  # the host is gone: nothing can be said to it now, and stop will tell

    async def _require_same_environment(self, launch: TrialLaunch) -> None:
        """A variable that one rank did not get splits the pair, and the API shows the head's only."""
        ranks = await ranks_of(self.pair, launch.project)
        for node in self.pair.nodes:
            container = ranks.by_role.get(node.role)
            if container is None:
                raise LaunchError(f"the start script reported success and no {node.role} rank runs", where=node.name)
            for name, wanted in launch.variables.items():
                found = container.environment.get(name)
                if found is not None and found != wanted:
                    raise WrongConfigurationError(
                        f"the {node.role} rank runs with {name}={found}, not {wanted}",
                        where=node.name,
                        hint="The checkout's scripts did not pass the variable on: is it set somewhere else too?",
                    )


async def operator_env(pair: Pair, folder: str, names: CheckoutNames) -> str:
    """Return the operator's own env file, LF only.

    Raises:
        InputError: it is missing, or the scripts would run part of it as a command.
    """
    path = posixpath.join(folder, names.env_file)
    content = await pair.head.read_file(path)
    if content is None:
        raise InputError("the checkout has no env file", where=path, hint="Copy the example and fill it in first.")
    text = normalised(content.decode(errors="surrogateescape"))
    for problem in problems_of(text):
        raise InputError(problem.what, where=f"{path}:{problem.line}", hint="Quote the value, or correct the line.")
    env = parse_env(text)
    if env.get("VLLM_API_KEY") and env.get("DSPARK_API_KEYS", "").strip():
        raise InputError(
            "VLLM_API_KEY and DSPARK_API_KEYS are both set", where=path, hint="The engine takes one of them."
        )
    return text
