"""The YAML loader: the 1.2 core schema, places, and one clear error for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from harness.errors import InputError
from harness.yaml_source import MAX_BYTES, parse_source, parse_value, plain_scalar, raise_all, read_source


def error_of(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_source(text, name="f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("-0", 0),
        ("+12", 12),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1:30:00", "1:30:00"),
        ("2026-11-30", "2026-11-30"),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-2.5E-1", -0.25),
        ("1e", "1e"),
        (".", "."),
        ("~", None),
        ("null", None),
        ("", None),
        ("NuLL", "NuLL"),
        ("=", "="),
        ("128K", "128K"),
        ("3%", "3%"),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    read = parse_source(f"key: {text}\n", name="f.yaml").data["key"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("quoted", ["'{}'", '"{}"'])
@pytest.mark.parametrize("text", ["off", "true", "010", "~", "1.5", ".nan"])
def test_quoted_scalars_are_text(quoted: str, text: str) -> None:
    assert parse_source(f"key: {quoted.format(text)}", name="f.yaml").data == {"key": text}


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_whole_numbers_come_back(number: int) -> None:
    assert plain_scalar(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back(number: float) -> None:
    read = plain_scalar(repr(number))
    assert read == number
    assert isinstance(read, float)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_text_comes_back_in_single_quotes(text: str) -> None:
    quoted = text.replace("'", "''")
    if not any(break_ in text for break_ in "\u2028\u2029\x85\ufeff\ufffe\uffff"):
        assert parse_value(f"'{quoted}'", place="--set x") == text


@given(st.text(max_size=80))
def test_any_text_is_a_mapping_or_an_input_error(text: str) -> None:
    try:
        source = parse_source(text, name="f.yaml")
    except InputError as problem:
        assert str(problem).startswith("f.yaml")
    else:
        assert isinstance(source.data, dict)


YAML_LIKE = st.lists(
    st.sampled_from(
        [*"{}[],:-?&*!|>'\"%@`#~\n\t 0a", ": ", "- ", "\n  ", "a: ", "---\n", "...\n", "<<", "\\x", '"\\U', "%YAML "]
    ),
    max_size=40,
).map("".join)


@given(YAML_LIKE)
def test_yaml_like_text_is_a_mapping_or_an_input_error(text: str) -> None:
    try:
        parse_source(text, name="f.yaml")
    except InputError:
        return


@given(st.binary(max_size=60))
def test_any_bytes_are_a_mapping_or_an_input_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("bytes") / "f.yaml"
    file.write_bytes(content)
    try:
        read_source(file)
    except InputError:
        return


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.integers() | st.booleans() | st.none(), min_size=1, max_size=6
    )
)
def test_every_key_has_its_place(data: dict[str, int | bool | None]) -> None:
    text = "".join(f"{key}: {'null' if value is None else str(value).lower()}\n" for key, value in data.items())
    source = parse_source(text, name="f.yaml")
    assert source.data == data
    for line, key in enumerate(data, start=1):
        assert source.where((key,)) == f"f.yaml:{line}:1"
        assert source.where((key,), value=True) == f"f.yaml:{line}:{len(key) + 3}"


def test_places_of_nested_values() -> None:
    source = parse_source("knobs:\n  k: [1, 22, 3]\n  m: {natural: 5}\n", name="f.yaml")
    assert source.where(("knobs", "k", 2)) == "f.yaml:2:14"
    assert source.where(("knobs", "m", "natural"), value=True) == "f.yaml:3:16"
    assert source.where(("knobs", "absent", "deeper")) == "f.yaml:1:1"


def test_a_value_set_on_top_says_where_it_came_from() -> None:
    source = parse_source("knobs:\n  k: [1, 2]\n", name="f.yaml")
    changed = source.with_value(("knobs", "k"), 5, "--set k=5")
    assert changed.data == {"knobs": {"k": 5}}
    assert changed.where(("knobs", "k", 1)) == "--set k=5"
    assert source.data == {"knobs": {"k": [1, 2]}}


def test_duplicate_keys() -> None:
    assert error_of("a: 1\nb: {c: 1, c: 2}\na: 3\n") == snapshot("""\
f.yaml:2:11: duplicate key "c"
  First written at 2:5.
  Also: f.yaml:3:1: duplicate key "a"
    First written at 1:1.\
""")


def test_anchors_and_aliases() -> None:
    assert error_of("a: &x [1]\nb: *x\n") == snapshot("""\
f.yaml:1:4: anchors and aliases (& and *) are not used here
  Write the value out.\
""")


def test_merge_key() -> None:
    assert error_of("a: 1\n<<: {b: 2}\n") == snapshot("""\
f.yaml:2:1: merge keys (<<) are not used here
  Write the values out.\
""")


def test_quoted_merge_key_is_a_key() -> None:
    assert parse_source("'<<': 1", name="f.yaml").data == {"<<": 1}


def test_tag() -> None:
    assert error_of("a: !!python/object:os.system x\n") == snapshot("""\
f.yaml:1:4: tags (!) are not used here
  Put text that looks like a tag or number in quotes.\
""")


def test_tab() -> None:
    assert error_of("a:\n\tb: 1\n") == snapshot("""\
f.yaml:2:1: a tab where YAML wants spaces
  Indent with spaces.\
""")


def test_empty_file() -> None:
    assert error_of("# nothing but a comment\n") == snapshot("f.yaml: the file is empty")


def test_two_documents() -> None:
    assert error_of("---\na: 1\n---\nb: 2\n") == snapshot("""\
f.yaml:3:1: more than one YAML document
  Keep one document in a file: remove the `---` between them.\
""")


def test_no_mapping() -> None:
    assert error_of("- a\n- b\n") == snapshot("""\
f.yaml:1:1: expected a mapping
  Write keys and values: `key: value`.\
""")


def test_not_closed() -> None:
    assert error_of("a: [1, 2\nb: 3\n") == snapshot(
        "f.yaml:2:2: not valid YAML: while parsing a flow sequence expected ',' or ']', but got ':'"
    )


def test_control_character() -> None:
    assert error_of("a: 1\nb: \x07\n") == snapshot("f.yaml:2:4: a control character that YAML does not allow")


def test_impossible_escape() -> None:
    assert error_of('a: "\\UFFFFFFFF"\n') == snapshot("f.yaml: an escape that is no character")


def test_nul_and_surrogates() -> None:
    assert error_of('a: "\\0"\nb: "\\ud800"\n"\\0": 1\n') == snapshot("""\
f.yaml:1:4: the text holds a character that no program accepts
  Also: f.yaml:2:4: the text holds a character that no program accepts
  Also: f.yaml:3:1: a key holds a character that no program accepts\
""")


def test_not_a_number() -> None:
    assert error_of("a: .nan\nb: -.inf\nc: 1e999\nd: " + "9" * 400) == snapshot("""\
f.yaml:1:4: .nan is not a number to work with
  Also: f.yaml:2:4: -.inf is not a number to work with
  Also: f.yaml:3:4: 1e999 is too large for a number
  Also: f.yaml:4:4: a number of 400 digits is too large\
""")


def test_odd_keys() -> None:
    assert error_of("[1, 2]: a\n'': b\n") == snapshot("""\
f.yaml:1:1: a key must be plain text
  Quote it if it holds brackets or braces.
  Also: f.yaml:2:1: a key is empty\
""")


def test_nested_too_deep() -> None:
    assert error_of("a: " + "[" * 5000) == snapshot("""\
f.yaml:1:35: nested deeper than 32 levels
  No key needs that.\
""")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.yaml: cannot be read: No such file or directory"):
        read_source(tmp_path / "absent.yaml")


def test_folder_instead_of_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_source(tmp_path)


def test_large_file(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="too many for a hand-written file"):
        read_source(file)


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "latin1.yaml"
    file.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(InputError, match=r"latin1\.yaml:2:7: not UTF-8 text"):
        read_source(file)


def test_byte_order_mark_is_no_part_of_the_key(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_source(file).data == {"a": 1}


def test_hash_is_that_of_the_text() -> None:
    one, other = parse_source("a: 1\n", name="x"), parse_source("a: 1 \n", name="x")
    assert one.sha256 == parse_source("a: 1\n", name="y").sha256
    assert one.sha256 != other.sha256


def test_a_value_of_the_command_line() -> None:
    assert parse_value("[1, off]", place="--set x") == [1, "off"]
    assert parse_value("", place="--set x") is None
    with pytest.raises(InputError, match=r"^--set x=\[: not valid YAML"):
        parse_value("[", place="--set x=[")


def test_many_problems_are_cut() -> None:
    problems = [InputError(f"problem {number}", where=f"f.yaml:{number}:1") for number in range(13, 0, -1)]
    with pytest.raises(InputError) as caught:
        raise_all(problems)
    lines = str(caught.value).splitlines()
    assert lines[0] == "f.yaml:1:1: problem 1"
    assert lines[9] == "  Also: f.yaml:10:1: problem 10"
    assert lines[10:] == ["  And 3 more."]


def test_no_problem_is_no_error() -> None:
    raise_all([])
