"""The site file."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from harness.errors import InputError
from harness.sweep.site import Borrow, Check, Host, Site, load_site, require_check

TEXT = """\
checkout: ~/dspark
hosts:
  head: {address: 127.0.0.1, fabric: [enp1s0f0np0]}
  worker: {address: spark-2, user: someone}
results: ~/measured
checks:
  tool_battery: {command: [./tools.sh, "{base_url}"], timeout: 5m}
  garble: {shell: 'curl -sf "$HARNESS_BASE_URL/health"'}
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
        checks={
            "tool_battery": Check(command=("./tools.sh", "{base_url}"), timeout=300.0),
            "garble": Check(shell='curl -sf "$HARNESS_BASE_URL/health"'),
        },
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
    assert require_check(site, "garble").argv == ()
    with pytest.raises(InputError) as caught:
        require_check(site, "tool_batery", where="s.yaml:9:1")
    assert str(caught.value) == snapshot("""\
s.yaml:9:1: no check "tool_batery" in the site file
  Did you mean "tool_battery"? Known here: garble, tool_battery.\
""")


def test_a_check_whose_program_is_not_there_is_said_before_anything_runs(tmp_path: Path) -> None:
    site = load_site(written(tmp_path, TEXT))
    with pytest.raises(InputError) as caught:
        require_check(site, "tool_battery", where="s.yaml:9:1")
    assert str(caught.value) == snapshot("""\
s.yaml:9:1: check "tool_battery": there is no program ./tools.sh
  Correct checks.tool_battery.command in the site file; a relative path begins in the current folder.\
""")


@pytest.mark.parametrize("check", ["{}", "{command: [ls], shell: ls}", "{timeout: 5s}"])
def test_a_check_is_a_list_of_words_or_a_line(tmp_path: Path, check: str) -> None:
    with pytest.raises(InputError, match=r"site.yaml:1:\d+: checks.a: expected either command .* or shell"):
        load_site(written(tmp_path, f"checks: {{a: {check}}}\n"))


def test_the_home_of_a_program_is_worked_out() -> None:
    assert Check(command=("~/tools.sh", "~")).argv == (str(Path.home() / "tools.sh"), "~")


def test_a_site_without_anything() -> None:
    assert Site().results_folder is None
    assert not Site().borrow.allowed
