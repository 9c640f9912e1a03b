"""The site file."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from harness.errors import InputError
from harness.sweep.site import Borrow, Check, Host, Site, load_site, require_checks

TEXT = """\
checkout: ~/dspark
hosts:
  head: {address: 127.0.0.1, fabric: [enp1s0f0np0]}
  worker: {address: spark-2, user: someone}
results: ~/measured
checks:
  tool_battery: {command: [./tools.sh, "{base_url}"], timeout: 5m}
borrow: {allowed: true, idle_for: 2m}
may_drop: [page_cache]
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "site.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_whole_site_file(tmp_path: Path) -> None:
    site = load_site(written(tmp_path, TEXT))
    assert site == Site(
        checkout="~/dspark",
        hosts={
            "head": Host(address="127.0.0.1", fabric=("enp1s0f0np0",)),
            "worker": Host(address="spark-2", user="someone"),
        },
        results="~/measured",
        checks={"tool_battery": Check(command=("./tools.sh", "{base_url}"), timeout=300.0)},
        borrow=Borrow(allowed=True, idle_for=120.0),
        may_drop=("page_cache",),
    )
    assert site.results_folder == Path.home() / "measured"


def test_what_is_wrong_in_a_site_file(tmp_path: Path) -> None:
    file = written(tmp_path, "host: {}\nborrow: {allowed: maybe}\nchecks: {a: {command: []}}\n")
    with pytest.raises(InputError) as caught:
        load_site(file)
    assert str(caught.value).replace(f"{tmp_path}/", "") == snapshot("""\
site.yaml:1:1: unknown key "host"
  Did you mean "hosts"? Known here: borrow, checkout, checks, hosts, inventory, may_drop, project, results, trial_port.
  Also: site.yaml:2:19: borrow.allowed: expected true or false, not "maybe"
  Also: site.yaml:3:23: checks.a.command: [] is not allowed (it must not be empty)\
""")


def test_a_named_site_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_site(tmp_path / "absent.yaml")


def test_checks_come_from_the_site_alone(tmp_path: Path) -> None:
    site = load_site(written(tmp_path, TEXT))
    assert list(require_checks(site, ("tool_battery",))) == ["tool_battery"]
    with pytest.raises(InputError) as caught:
        require_checks(site, ("tool_batery",), where="s.yaml:9:1")
    assert str(caught.value) == snapshot("""\
s.yaml:9:1: no check "tool_batery" in the site file
  Did you mean "tool_battery"? Known here: tool_battery.\
""")


def test_a_site_without_anything() -> None:
    assert Site().results_folder is None
    assert not Site().borrow.allowed
