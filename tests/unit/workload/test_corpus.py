"""The packaged texts are what their manifest says, large enough, and checked."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from harness.errors import InputError
from harness.workload.classes import CONTENT_CLASSES, content_class_named
from harness.workload.corpus import MANIFEST, CorpusFacts, load_corpus

PACKAGED = Path(str(files("harness.workload") / "corpora"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PACKAGED, tmp_path / "corpora"))


@pytest.mark.parametrize("name", sorted(CONTENT_CLASSES))
def test_each_class_has_text(name: str) -> None:
    corpus = load_corpus(name)

    assert corpus.characters == sum(map(len, corpus.passages))
    assert all(passage.strip() == passage for passage in corpus.passages if name != "code")
    if content_class_named(name).natural:
        assert corpus.characters > 200_000
        assert len(set(corpus.passages)) == len(corpus.passages) > 100


@pytest.mark.parametrize("name", ["prose", "code", "structured"])
def test_each_file_states_its_licence_and_source(name: str) -> None:
    facts = CorpusFacts.model_validate(json.loads((PACKAGED / MANIFEST).read_text())[name])

    assert facts.licence in ("public domain", "MIT")
    assert facts.source
    assert (PACKAGED / facts.file).read_text().isascii()


def test_structured_text_is_json_line_by_line() -> None:
    for passage in load_corpus("structured").passages:
        for line in passage.split("\n"):
            assert isinstance(json.loads(line), dict)


def test_one_changed_byte_is_found(folder: Path) -> None:
    content = bytearray((folder / "prose.txt").read_bytes())
    content[1000] ^= 1
    (folder / "prose.txt").write_bytes(content)

    with pytest.raises(InputError, match=r"prose\.txt is not the text of the manifest"):
        load_corpus("prose", folder=folder)


def test_a_damaged_part_is_found_in_what_is_composed_of_it(folder: Path) -> None:
    (folder / "structured.txt").write_text("{}\n")

    with pytest.raises(InputError, match=r"structured\.txt is not the text"):
        load_corpus("agentic", folder=folder)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: (folder / "code.txt").unlink(), r"code\.txt cannot be read"),
        (lambda folder: (folder / MANIFEST).unlink(), r"manifest\.json cannot be read"),
        (lambda folder: (folder / MANIFEST).write_text("{"), r"manifest\.json is not valid"),
        (lambda folder: (folder / MANIFEST).write_text('{"code": {"file": 3}}'), r"manifest\.json is not valid"),
        (lambda folder: (folder / MANIFEST).write_text("{}"), r"manifest\.json has no entry code"),
    ],
)
def test_a_broken_package_is_an_input_error(folder: Path, break_it, message: str) -> None:  # type: ignore[no-untyped-def]
    break_it(folder)

    with pytest.raises(InputError, match=message):
        load_corpus("code", folder=folder)


def test_an_unknown_class_names_its_neighbour_and_the_list() -> None:
    with pytest.raises(InputError) as caught:
        load_corpus("pros")

    assert str(caught.value) == (
        'unknown content class "pros"\n'
        '  Did you mean "prose"? Known here: agentic, code, prose, repetitive, structured, vision.'
    )


def test_a_class_far_from_all_gets_the_list_alone() -> None:
    with pytest.raises(InputError) as caught:
        content_class_named("xyzzy", where="sweep.yaml:7:3")

    assert str(caught.value).startswith('sweep.yaml:7:3: unknown content class "xyzzy"\n  Known here: agentic')


def test_as_recorded_asks_for_a_trace() -> None:
    with pytest.raises(InputError, match="needs a workload trace"):
        content_class_named("as_recorded")
