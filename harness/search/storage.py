"""Where a study is kept: the URL as the user writes it, as its driver wants it, and as it may be shown."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import optuna
import sqlalchemy
from optuna.storages import BaseStorage

from harness.errors import HarnessError, InputError, StoreError

HIDDEN = "***"
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@\s]*@")
_IN_QUERY = re.compile(r"([?&][a-z]*password=)[^&\s]*", re.IGNORECASE)
_POSTGRESQL = re.compile(r"^postgres(?:ql)?://")
_DRIVER, _PACKAGE = "postgresql+pg8000://", "pg8000"
_PASSWORD_VARIABLE = "PGPASSWORD"
_HINT = "Check that it runs and that you may write there; without --storage a file in results/ is used."


def without_password(text: str) -> str:
    """Return a URL, or any text that has URLs in it, so that it may be shown and stored."""
    return _IN_QUERY.sub(rf"\1{HIDDEN}", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))


def database_url(storage: str, environment: Mapping[str, str]) -> str:
    """Return the URL that opens a database: with the driver that is installed, and the password of PGPASSWORD.

    A command that is printed or stored has *** where the password was: that is none.

    Raises:
        InputError: it is no URL, or the driver is not installed.
    """
    if "://" not in storage:
        hint = "As in postgresql://user@host/database, or sqlite:///FILE."
        raise InputError(f"--storage is no URL: {without_password(storage)}", hint=hint)
    if not _POSTGRESQL.match(storage):
        return storage
    if importlib.util.find_spec(_PACKAGE) is None:
        hint = "pip install 'harness-spec[postgresql]', or leave --storage out: a file in results/ is used then."
        raise InputError(f"a study on PostgreSQL needs the package {_PACKAGE}", where="--storage", hint=hint)
    url = _parsed(_POSTGRESQL.sub(_DRIVER, storage))
    if url.password in (None, HIDDEN):
        url = url.set(password=environment.get(_PASSWORD_VARIABLE))
    return url.render_as_string(hide_password=False)


def opened(url: str) -> BaseStorage:
    """Return the storage, made if it is new. Raises StoreError where it cannot be reached."""
    # A launch takes long: a server may have dropped the connection by then, and another process may hold the file.
    settings = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    with reached(url, "the study cannot be opened"):
        try:
            storage = optuna.storages.RDBStorage(url, engine_kwargs=settings)
        except (sqlalchemy.exc.ProgrammingError, sqlalchemy.exc.IntegrityError):
            # Somebody else makes the tables of a new database at this moment.
            storage = optuna.storages.RDBStorage(url, engine_kwargs=settings)
        return optuna.storages.get_storage(storage)


@contextmanager
def reached(url: str, failing: str = "the study cannot be reached", hint: str = _HINT) -> Iterator[None]:
    """Turn what a database says into a StoreError without its password. Raises StoreError."""
    try:
        yield
    except HarnessError:
        raise
    except (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError, OSError, ImportError) as error:
        raise StoreError(f"{failing}: {_said(error)}", where=without_password(url), hint=hint) from error


def _parsed(url: str) -> sqlalchemy.URL:
    try:
        return sqlalchemy.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError) as error:
        hint = "As in postgresql://user@host:5432/database; an @ in a password is written %40."
        raise InputError("--storage cannot be read", where=without_password(url), hint=hint) from error


def _said(error: BaseException) -> str:
    """The innermost cause, on one line: the outer ones say that there was one."""
    while error.__cause__ is not None:
        error = error.__cause__
    told = error.args[0] if error.args else None
    text = told["M"] if isinstance(told, dict) and "M" in told else error  # of a PostgreSQL server
    lines = str(text).strip().splitlines() or [type(error).__name__]
    return without_password(lines[0])
