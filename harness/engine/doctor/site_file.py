"""The site file that the doctor writes: where the checkout and its worker are, and nothing that opens a door."""

from __future__ import annotations

from pathlib import Path

import yaml

from harness.engine.doctor.place import PairPlace
from harness.errors import InputError, StoreError
from harness.sweep.site import Site, default_site_path

_HEAD = "# Hosts and folders of this place. Written by harness doctor --write.\n"


def site_text(place: PairPlace, site: Site) -> str:
    """Return the site file of a place; what the present site file says besides stays."""
    hosts = {
        node.role: {"address": "localhost" if node.is_local else node.name.rpartition("@")[2]}
        | ({"user": node.name.rpartition("@")[0]} if "@" in node.name else {})
        for node in place.nodes
    }
    kept = site.model_dump(mode="json", exclude_defaults=True)
    document = {**kept, "checkout": place.checkout, "hosts": hosts, "trial_port": place.trial_port}
    return _HEAD + yaml.safe_dump(document, sort_keys=False)


def write_site(path: Path | None, text: str, *, force: bool) -> Path:
    """Write it and return where. Raises InputError where one is there, StoreError where it cannot be written."""
    file = path or default_site_path()
    if file.exists() and not force:
        raise InputError("there is a site file already", where=str(file), hint="Add --force to write over it.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write the site file: {error.strerror}", where=str(file)) from error
    return file
