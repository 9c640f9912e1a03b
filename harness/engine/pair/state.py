"""What has to be put back on a pair, written down before anything is changed, so that a power cut loses none of it.

One folder per pair under the state directory: state.json, and the saved files beside it. The borrowed containers'
environment is in it, keys included: the folder is for its owner alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.engine.pair.names import CheckoutNames
from harness.engine.pair.node import Role
from harness.engine.registry import ProcessMark, state_directory, sync_directory
from harness.errors import LaunchError, StoreError
from harness.records.codec import from_json, to_json
from harness.records.identity import content_id

_STATE = "state.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFolder:
    """Files of the operator as they were, in one archive."""

    role: Role
    folder: str
    names: tuple[str, ...]  # files and folders in it, whether they existed or not
    archive: str  # name of the copy


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowedRank:
    """A container of the operator's server as it ran."""

    role: Role
    name: str
    image_id: str
    environment: dict[str, str]  # may hold keys


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowedServer:
    """The operator's server, which has to run again at the end."""

    project: str
    port: int
    ranks: tuple[BorrowedRank, ...]
    host: str = "127.0.0.1"  # that it answers on, as seen from the head
    stopped: bool = False  # False: it still runs, or may


@dataclass(frozen=True, slots=True, kw_only=True)
class PairState:
    """A pair that this tool is changing, or has changed and not put back."""

    pair_id: str
    run_id: str
    recipe: str
    owner: ProcessMark  # the harness that does it
    boot_id: str  # of the machine that the owner runs on
    head: str  # ssh target; "this machine" where the harness runs on it
    worker: str  # ssh target; empty: there is none
    checkout: str | None
    trial_project: str
    work_folder: str  # on the head: env files and scripts' output of launches
    saved: tuple[SavedFolder, ...]
    names: CheckoutNames | None = None  # of the checkout's files
    borrowed: BorrowedServer | None = None
    format: int = _FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStates:
    """All of them."""

    directory: Path

    def record(self, state: PairState) -> None:
        """Write it so that it survives a power cut. Raises StoreError."""
        folder = self.folder(state.pair_id)
        part = folder / f".{_STATE}.{os.getpid()}.part"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
            _write(part, (to_json(state) + "\n").encode())
            part.replace(folder / _STATE)
            sync_directory(folder)
        except OSError as error:
            raise _cannot_write(folder, error) from error

    def keep(self, pair_id: str, name: str, content: bytes) -> None:
        """Keep the copy of a file. Raises StoreError."""
        folder = self.folder(pair_id)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(folder / name, content)
            sync_directory(folder)
        except OSError as error:
            raise _cannot_write(folder, error) from error

    def kept(self, pair_id: str, name: str) -> bytes:
        """Return the copy of a file. Raises StoreError where it cannot be read."""
        path = self.folder(pair_id) / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"the saved copy cannot be read: {error.strerror}", where=str(path)) from error

    def find(self, pair_id: str) -> PairState | None:
        """Return the state of a pair; None where nothing has to be put back."""
        return _read(self.folder(pair_id) / _STATE)

    def each(self) -> Iterator[PairState | StoreError]:
        """Every pair that has something to be put back; where its record cannot be read, why."""
        for path in sorted(self.directory.glob(f"*/{_STATE}")):
            try:
                state = _read(path)
            except StoreError as error:
                yield error
                continue
            if state is not None:
                yield state

    @contextmanager
    def locked(self, pair_id: str) -> Iterator[None]:
        """Have a pair for oneself; the kernel lets it go when this process dies. Raises LaunchError, StoreError."""
        try:
            locks = self.directory.with_name("locks")
            locks.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(locks / f"{pair_id}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _cannot_write(self.directory, error) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                what = "another run of this user has the pair"
                raise LaunchError(what, hint="Wait for it, or stop it with Ctrl-C: it puts the pair back.") from None
            yield
        finally:
            os.close(descriptor)

    def forget(self, pair_id: str) -> None:
        """Everything is back: remove the record and the copies. Raises StoreError where it stays."""
        folder = self.folder(pair_id)
        try:
            # First and for good: a record without its copies could never be followed, and one that stays would later
            # put old files in the place of newer ones.
            (folder / _STATE).unlink(missing_ok=True)
            sync_directory(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            what = f"the pair is back as it was, and that cannot be written down: {error.strerror}"
            raise StoreError(what, where=str(folder), hint="Remove that folder.") from error
        shutil.rmtree(folder, ignore_errors=True)

    def remove_unused(self) -> None:
        """Remove copies of a run that died before it changed anything: there may be keys in them."""
        for folder in self.directory.glob("*"):
            with suppress(LaunchError), self.locked(folder.name):
                if not (folder / _STATE).exists():
                    shutil.rmtree(folder, ignore_errors=True)

    def folder(self, pair_id: str) -> Path:
        """Return the folder of one pair."""
        return self.directory / pair_id


def default_states() -> PairStates:
    """Those of this user, or of HARNESS_STATE_DIR."""
    return PairStates(directory=state_directory() / "pairs")


def pair_id_of(head: str, worker: str) -> str:
    """Return what names a pair in the state directory."""
    return content_id(["pair", head, worker])


def _read(path: Path) -> PairState | None:
    try:
        state = from_json(PairState, path.read_text(encoding="utf-8"))
        if state.format > _FORMAT:
            raise ValueError("a newer harness wrote it; restore with that one")
        return state
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(
            f"what has to be put back on the pair cannot be read: {error}",
            where=str(path),
            hint="The operator's files lie beside it; put them back by hand, then remove the folder.",
        ) from error


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _cannot_write(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write down what has to be put back on the pair: {error.strerror}",
        where=str(folder),
        hint="Nothing was changed. Make room, or set HARNESS_STATE_DIR to a directory that can be written.",
    )
