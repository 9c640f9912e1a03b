"""The packaged text that prompts are cut from: public domain or the project's own, checked against its SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from harness.errors import InputError
from harness.workload.classes import content_class_named
from harness.workload.pictures import PICTURE_VERSION

SEPARATOR = "\n%%\n"  # between passages
MANIFEST = "manifest.json"
_LOOPED_PHRASE = "the next line reads just like the line before it and "
_REMARKS = (
    "I will look at where this is defined before I change anything.",
    "The failing check points here, so this is the next file to read.",
    "That explains the first symptom; the second one needs another look.",
    "Before editing I want to see who calls it.",
    "The report and the source disagree. I take the source as the truth.",
    "This part is fine. What is left is the path that runs after an error.",
    "Two callers depend on the old order, so I keep it and add a test.",
    "The record below is what the service returned for that request.",
    "I have what I need from this file and move on to its neighbour.",
    "Nothing here writes to disk, which narrows it down.",
    "The name suggests a cache; let me make sure that it is one.",
)


class CorpusFacts(BaseModel):
    """What the manifest says of one corpus file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    file: str
    sha256: str
    licence: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Passages of one content class, each whole enough to be read alone."""

    name: str
    passages: tuple[str, ...]
    sha256: str  # of the files that it was made from, so that a changed corpus is another workload
    characters: int


def load_corpus(name: str, *, folder: Traversable | None = None) -> Corpus:
    """Return the corpus of a content class.

    Args:
        name: of the class.
        folder: where manifest and texts are; the packaged ones if None.

    Raises:
        InputError: no such class, a file is missing, or its content is not what the manifest promises.
    """
    content_class_named(name)
    return _packaged(name) if folder is None else _COMPOSED[name](folder)


@cache
def _packaged(name: str) -> Corpus:
    return _COMPOSED[name](files("harness.workload") / "corpora")


def _from_file(name: str) -> Callable[[Traversable], Corpus]:
    def read(folder: Traversable) -> Corpus:
        facts = _manifest(folder).get(name)
        if facts is None:
            raise _damaged(f"{MANIFEST} has no entry {name}")
        content = _read(folder / facts.file)
        digest = hashlib.sha256(content).hexdigest()
        if digest != facts.sha256:
            raise _damaged(f"{facts.file} is not the text of the manifest (SHA-256 {digest[:12]}…)")
        return _corpus(name, tuple(content.decode().rstrip("\n").split(SEPARATOR)), digest)

    return read


def _agentic(folder: Traversable) -> Corpus:
    """Interleave remarks, tool calls and results, as a coding agent's context does."""
    code, records = _COMPOSED["code"](folder), _COMPOSED["structured"](folder)
    steps = []
    for index, source in enumerate(code.passages):
        remark = _REMARKS[index % len(_REMARKS)]
        # Two passages make a step: the record is the argument of the call, the source its result.
        argument = records.passages[index % len(records.passages)].split("\n")[0]
        steps.append(f"Assistant: {remark}\n<tool_call>\n{argument}\n</tool_call>\nTool:\n{source}")
    digest = hashlib.sha256(f"{code.sha256} {records.sha256}".encode()).hexdigest()
    return _corpus("agentic", tuple(steps), digest)


def _vision(folder: Traversable) -> Corpus:
    """The text beside a picture is prose."""
    prose = _COMPOSED["prose"](folder)
    digest = hashlib.sha256(f"{prose.sha256} pictures {PICTURE_VERSION}".encode()).hexdigest()
    return _corpus("vision", prose.passages, digest)


def _repetitive(folder: Traversable) -> Corpus:
    del folder
    text = (_LOOPED_PHRASE * 40).strip()
    return _corpus("repetitive", (text,), hashlib.sha256(text.encode()).hexdigest())


_COMPOSED: dict[str, Callable[[Traversable], Corpus]] = {
    "prose": _from_file("prose"),
    "code": _from_file("code"),
    "structured": _from_file("structured"),
    "agentic": _agentic,
    "repetitive": _repetitive,
    "vision": _vision,
}


def _corpus(name: str, passages: tuple[str, ...], digest: str) -> Corpus:
    return Corpus(name=name, passages=passages, sha256=digest, characters=sum(map(len, passages)))


def _manifest(folder: Traversable) -> dict[str, CorpusFacts]:
    try:
        return TypeAdapter(dict[str, CorpusFacts]).validate_json(_read(folder / MANIFEST))
    except ValidationError as error:
        raise _damaged(f"{MANIFEST} is not valid ({error.error_count()} errors)") from error


def _read(file: Traversable) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _damaged(f"{file.name} cannot be read ({error.strerror or type(error).__name__})") from error


def _damaged(what: str) -> InputError:
    return InputError(f"the packaged corpus is damaged: {what}", hint="Install the package again.")
