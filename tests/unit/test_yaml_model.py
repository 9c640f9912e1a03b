"""Pydantic's errors in the words of a file that people write."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from inline_snapshot import snapshot
from pydantic import Field

from harness.errors import InputError
from harness.yaml_model import FileModel, did_you_mean, editor_schema, shared, validated
from harness.yaml_source import parse_source


class Inner(FileModel):
    depth: int = Field(ge=0)
    yields: bool = Field(default=False, alias="yield")
    names: tuple[str, ...] = ()


class Outer(FileModel):
    title: str
    inner: Inner | None = None
    many: dict[str, Inner] = Field(default={})
    rows: tuple[Inner, ...] = ()
    mode: Literal["skip", "stop"] = "skip"
    share: float = 0.5


def error_of(text: str) -> str:
    with pytest.raises(InputError) as caught:
        validated(Outer, parse_source(text, name="f.yaml"))
    return str(caught.value)


def test_a_right_file_becomes_the_model() -> None:
    text = "title: t\ninner: {depth: 3, yield: true, names: [a]}\nshare: 1\n"
    model = validated(Outer, parse_source(text, name="f.yaml"))
    assert model == Outer(
        title="t", inner=Inner.model_validate({"depth": 3, "yield": True, "names": ("a",)}), share=1.0
    )


def test_unknown_key_at_each_depth() -> None:
    text = """\
title: t
modes: skip
inner: {depht: 1, depth: 1}
many: {a: {depth: 1, yields_: 1}}
rows:
- depth: 1
  x: 2
"""
    assert error_of(text) == snapshot("""\
f.yaml:2:1: unknown key "modes"
  Did you mean "mode"? Known here: inner, many, mode, rows, share, title.
  Also: f.yaml:3:9: unknown key "depht" in inner
    Did you mean "depth"?
  Also: f.yaml:4:22: unknown key "yields_" in many.a
    Did you mean "yield"?
  Also: f.yaml:7:3: unknown key "x" in rows[0]\
""")


def test_missing_keys() -> None:
    assert error_of("inner: {yield: true}\n") == snapshot("""\
f.yaml:1:1: "title" is missing
  Also: f.yaml:1:1: "depth" is missing in inner\
""")


def test_wrong_types() -> None:
    text = """\
title: 3
inner: [1]
many: {a: {depth: 1.5, yield: 1, names: text}}
rows: {depth: 1}
mode: skipp
share: half
"""
    assert error_of(text) == snapshot("""\
f.yaml:1:8: title: expected text, not 3
  Also: f.yaml:2:8: inner: expected a mapping, not [1]
  Also: f.yaml:3:19: many.a.depth: expected a whole number, not 1.5
  Also: f.yaml:3:31: many.a.yield: expected true or false, not 1
  Also: f.yaml:3:41: many.a.names: expected a list, not "text"
  Also: f.yaml:4:7: rows: expected a list, not {"depth": 1}
  Also: f.yaml:5:7: mode: "skipp" is not allowed (allowed: 'skip' or 'stop')
  Also: f.yaml:6:8: share: expected a number, not "half"\
""")


def test_a_text_is_no_truth_and_a_number_no_text() -> None:
    assert error_of("title: t\ninner: {depth: '1', yield: off, names: [1]}\n") == snapshot("""\
f.yaml:2:16: inner.depth: expected a whole number, not "1"
  Also: f.yaml:2:28: inner.yield: expected true or false, not "off"
  Also: f.yaml:2:41: inner.names[0]: expected text, not 1\
""")


def test_out_of_range() -> None:
    assert error_of("title: t\nrows:\n  - {depth: 1}\n  - {depth: -1}\n") == snapshot(
        "f.yaml:4:13: rows[1].depth: -1 is not allowed (at least 0)"
    )


def test_did_you_mean() -> None:
    assert did_you_mean("concurency", ["cache", "concurrency"]) == (
        'Did you mean "concurrency"? Known here: cache, concurrency.'
    )
    assert did_you_mean("zzz", ["cache"]) == "Known here: cache."
    assert did_you_mean("zzz", []) == "Known here: nothing."
    assert did_you_mean("zzz", [f"k{number}" for number in range(5)], limit=2) == "Known here: k0, k1 and 3 more."


def test_schema_for_editors_keeps_properties_that_are_called_title() -> None:
    schema = editor_schema(Outer, title="outer", definitions={"extra": {"anyOf": [shared("extra")]}})
    assert schema["title"] == "outer"
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["$defs"]["extra"] == {"anyOf": [{"$ref": "#/$defs/extra"}]}
    assert "x-shared" not in json.dumps(schema)
