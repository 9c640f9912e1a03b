"""What any OpenAI-compatible server is asked: does it live, what does it serve, which version is it?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from harness.errors import EndpointError
from harness.recipe.spec import LaunchSpec

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """An entry of /v1/models."""

    name: str
    max_model_len: int | None  # None where the server does not say


class Endpoint:
    """Short questions to one server. Never used for a measured request."""

    def __init__(self, base_url: str, *, api_key: str | None = None, key_variable: str | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        self._key_variable = key_variable
        self._has_key = bool(api_key)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # Proxies of the environment are for the outside world, not for an engine on this machine.
        self._client = httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_S, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def health(self) -> int | None:
        """Return the status of /health; None where nothing answers. vLLM says 503 once its engine is dead."""
        response = await self._get("/health")
        return None if response is None else response.status_code

    async def models(self) -> tuple[ServedModel, ...] | None:
        """Return what is served; None where nothing answers.

        Raises:
            EndpointError: it wants a key, or what it answers is no list of models.
        """
        response = await self._get("/v1/models")
        if response is None:
            return None
        if response.status_code in (401, 403):
            what = "the server refuses the key" if self._has_key else "the server wants a key"
            raise EndpointError(what, where=self.base_url, hint=self._key_hint())
        try:
            return tuple(_served(entry) for entry in response.raise_for_status().json()["data"])
        except (httpx.HTTPStatusError, ValueError, KeyError, TypeError) as error:
            raise EndpointError(
                f"/v1/models does not list models (status {response.status_code})",
                where=self.base_url,
                hint="Is it an OpenAI-compatible server, and the address its root (without /v1)?",
            ) from error

    async def version(self) -> str | None:
        """Return what /version says; None where the server has none."""
        response = await self._get("/version")
        if response is None or response.status_code != 200:
            return None
        try:
            version = response.json()["version"]
        except (ValueError, KeyError, TypeError):
            return None
        return version if isinstance(version, str) else None

    async def _get(self, path: str) -> httpx.Response | None:
        try:
            return await self._client.get(self.base_url + path)
        except (httpx.TransportError, httpx.InvalidURL):
            return None

    def _key_hint(self) -> str:
        if self._key_variable and self._has_key:
            return f"Check the value of {self._key_variable} in the environment."
        if self._key_variable:
            return f"Set {self._key_variable} in the environment to the server's key."
        return "Name the environment variable that holds its key in the recipe (`api_key_variable`)."


def endpoint_for(spec: LaunchSpec, base_url: str) -> Endpoint:
    """Return the endpoint of a spec at its address, with the key from the environment variable that it names."""
    return Endpoint(base_url, api_key=api_key(spec), key_variable=spec.api_key_variable)


def api_key(spec: LaunchSpec) -> str | None:
    """Return the key itself, from the environment variable that the spec names; None where it is not set."""
    if spec.api_key_variable is None:
        return None
    return os.environ.get(spec.api_key_variable) or spec.environment.get(spec.api_key_variable) or None


def _served(entry: Any) -> ServedModel:
    length = entry.get("max_model_len", entry.get("context_length"))  # vLLM's name, and ds4's
    return ServedModel(name=str(entry["id"]), max_model_len=length if isinstance(length, int) else None)
