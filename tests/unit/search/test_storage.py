"""URLs of a study: the driver, the password, and what may be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.search.storage import database_url, without_password

WORD = st.text("abcXYZ019-_.%", min_size=1, max_size=12)


@given(user=WORD, password=st.text("abc/:?#&=!%$ 9"[:13], min_size=1).filter(lambda text: " " not in text))
def test_no_password_is_ever_shown(user: str, password: str) -> None:
    secret = f"Q{password}Q"
    shown = without_password(f"--storage=postgresql://{user}:{secret}@host:5432/db")
    assert secret not in shown
    assert shown == f"--storage=postgresql://{user}:***@host:5432/db"


def test_nor_one_in_the_query() -> None:
    shown = without_password("postgresql://host/db?user=me&password=s3cret&sslmode=require")
    assert shown == "postgresql://host/db?user=me&password=***&sslmode=require"


@pytest.mark.parametrize(
    "text", ["sqlite:////tmp/study.db", "sweeps/a.yaml", "url=http://127.0.0.1:8000", "postgresql://user@host/db"]
)
def test_what_has_none_is_left_alone(text: str) -> None:
    assert without_password(text) == text


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_the_driver_that_is_installed_opens_it(scheme: str) -> None:
    pytest.importorskip("pg8000")
    found = database_url(f"{scheme}://me:pw@host:5433/db", {})
    assert found == "postgresql+pg8000://me:pw@host:5433/db"


@pytest.mark.parametrize("given_url", ["postgresql://me@host/db", "postgresql://me:***@host/db"])
def test_a_password_that_is_not_there_is_that_of_the_environment(given_url: str) -> None:
    pytest.importorskip("pg8000")
    assert database_url(given_url, {"PGPASSWORD": "s3cret"}) == "postgresql+pg8000://me:s3cret@host/db"


def test_a_driver_that_the_user_names_is_kept() -> None:
    assert database_url("postgresql+psycopg://me@host/db", {}) == "postgresql+psycopg://me@host/db"


def test_without_the_driver_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pg8000") as failed:
        database_url("postgresql://me:s3cret@host/db", {})
    assert "harness-spec[postgresql]" in str(failed.value)
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize("wrong", ["study.db", "postgresql://me:s3cret@host:port/db"])
def test_what_is_no_url_is_refused(wrong: str) -> None:
    pytest.importorskip("pg8000")
    with pytest.raises(InputError) as failed:
        database_url(wrong, {})
    assert "s3cret" not in str(failed.value)
