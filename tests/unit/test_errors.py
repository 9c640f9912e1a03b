"""The error tree: what a reader sees, and the exit codes that scripts rely on."""

from __future__ import annotations

import inspect

import pytest

from harness import errors
from harness.errors import (
    EndpointError,
    EngineError,
    HarnessError,
    InputError,
    Interrupted,
    LaunchError,
    StoreError,
)


def test_an_error_says_where_what_and_what_to_do() -> None:
    error = InputError('unknown key "k"', where="sweep.yaml:3:5", hint='Did you mean "knobs"?')

    assert str(error) == 'sweep.yaml:3:5: unknown key "k"\n  Did you mean "knobs"?'
    assert (error.what, error.where, error.hint) == ('unknown key "k"', "sweep.yaml:3:5", 'Did you mean "knobs"?')


def test_place_and_hint_may_be_absent() -> None:
    assert str(StoreError("disk full")) == "disk full"
    assert str(StoreError("disk full", where="results")) == "results: disk full"
    assert str(StoreError("disk full", hint="Make room.")) == "disk full\n  Make room."


@pytest.mark.parametrize(
    ("kind", "code"),
    [(InputError, 2), (EngineError, 3), (LaunchError, 3), (EndpointError, 3), (StoreError, 3), (Interrupted, 130)],
)
def test_exit_codes(kind: type[HarnessError], code: int) -> None:
    assert kind("x").exit_code == code


def test_a_launch_keeps_the_last_lines_of_its_log() -> None:
    error = LaunchError("died while booting", log_tail=("one", "two"))

    assert error.log_tail == ("one", "two")
    assert isinstance(error, EngineError)
    assert LaunchError("x").log_tail == ()


def test_every_error_is_one_tree_with_a_known_exit_code() -> None:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    kinds = [kind for kind in found if issubclass(kind, HarnessError)]

    assert kinds == found
    assert {kind.exit_code for kind in kinds} == {2, 3, 130}
