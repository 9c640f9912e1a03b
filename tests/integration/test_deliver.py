"""A night delivered for real: files that are whole or not there, and a webhook that answers, fails, or never does."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.cli import deliver as delivering
from harness.cli.deliver import DeliveryWishes, deliver
from harness.metrics.exposition import parse
from harness.report.night_result import NightResult
from tests.fakes.webhook import webhook
from tests.unit.report.night_build import SWEEP, fine, regressed

NIGHT = NightResult(
    sweep=SWEEP, at=regressed().night.at, exit_code=1, mornings=(("k=4", regressed()),), run_id="run-1", took_s=9.0
)
TOKEN = "t0ken-of-a-chat"


class Pauses:
    """Counts instead of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def post(url: str, pauses: Pauses | None = None, **more: str) -> tuple[str, ...]:
    environment: Mapping[str, str] = {"HARNESS_WEBHOOK_URL": url, **more}
    return deliver(NIGHT, DeliveryWishes(environment=environment), pause=pauses or Pauses())


def test_files_are_written_whole_and_leave_nothing_beside_them(tmp_path: Path) -> None:
    junit, metrics = tmp_path / "new" / "night.xml", tmp_path / "textfile" / "harness.prom"

    said = deliver(NIGHT, DeliveryWishes(junit=junit, prometheus=metrics, environment={}))
    again = deliver(
        replace(NIGHT, exit_code=0, mornings=(("k=4", fine()),)), DeliveryWishes(junit=junit, environment={})
    )

    assert said == again == ()
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    assert parse(metrics.read_text()).total("harness_nightly_exit_code") == 1
    assert [path.name for path in (*junit.parent.iterdir(), *metrics.parent.iterdir())] == ["night.xml", "harness.prom"]


def test_who_reads_a_file_at_that_moment_reads_it_whole(tmp_path: Path) -> None:
    metrics = tmp_path / "harness.prom"
    deliver(NIGHT, DeliveryWishes(prometheus=metrics, environment={}))
    before = metrics.read_text()

    with metrics.open() as reader:
        assert deliver(replace(NIGHT, exit_code=3), DeliveryWishes(prometheus=metrics, environment={})) == ()
        assert reader.read() == before
    assert metrics.read_text() != before


def test_a_place_that_cannot_be_written_is_a_warning_each_and_the_rest_is_delivered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    summary = tmp_path / "summary.md"
    wishes = DeliveryWishes(
        junit=tmp_path / "file" / "night.xml",
        prometheus=tmp_path / "file" / "night.prom",
        environment={"GITHUB_STEP_SUMMARY": str(summary)},
    )

    said = deliver(NIGHT, wishes)

    assert [line.split(" was not written")[0] for line in said] == ["the JUnit file", "the Prometheus file"]
    assert summary.read_text().startswith("### laptop-nightly")


def test_a_file_that_the_collector_would_not_read_is_pointed_out(tmp_path: Path) -> None:
    (said,) = deliver(NIGHT, DeliveryWishes(prometheus=tmp_path / "night.txt", environment={}))

    assert "end in .prom" in said
    assert (tmp_path / "night.txt").exists()


def test_a_summary_is_added_to_what_a_build_has_said_already(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("earlier step\n")
    wishes = DeliveryWishes(environment={"GITHUB_STEP_SUMMARY": str(summary)})

    assert deliver(NIGHT, wishes) == ()
    assert summary.read_text().startswith("earlier step\n### laptop-nightly")
    (said,) = deliver(NIGHT, DeliveryWishes(environment={"GITHUB_STEP_SUMMARY": str(tmp_path)}))
    assert "GITHUB_STEP_SUMMARY" in said


def test_a_webhook_gets_the_night_once_with_its_key() -> None:
    with webhook(204) as hook:
        assert post(hook.url, HARNESS_WEBHOOK_TOKEN=f"{TOKEN}\n") == ()

    (body,) = hook.bodies
    assert json.loads(body)["verdict"] == "regressed"
    assert hook.headers[0]["content-type"] == "application/json"
    assert hook.headers[0]["authorization"] == f"Bearer {TOKEN}"
    assert hook.paths == ["/hook/s3cret"]


def test_without_a_key_no_key_is_sent() -> None:
    with webhook(200) as hook:
        assert post(hook.url) == ()

    assert "authorization" not in hook.headers[0]


def test_a_webhook_that_is_busy_is_asked_again() -> None:
    pauses = Pauses()
    with webhook(503, 429, 200) as hook:
        assert post(hook.url, pauses) == ()

    assert len(hook.bodies) == 3
    assert len(set(hook.bodies)) == 1
    assert len(pauses.seconds) == 2
    assert sum(pauses.seconds) < 5


@pytest.mark.parametrize(("status", "times", "why"), [(500, 3, "answered 500, 3 times"), (404, 1, "answered 404")])
def test_a_webhook_that_refuses_is_a_warning_without_its_address(status: int, times: int, why: str) -> None:
    with webhook(status) as hook:
        (said,) = post(hook.url, HARNESS_WEBHOOK_TOKEN=TOKEN)

    assert why in said
    assert len(hook.bodies) == times
    for secret in ("s3cret", TOKEN, "127.0.0.1", "http"):
        assert secret not in said


def test_a_redirect_is_not_followed_for_the_key_is_not_for_others() -> None:
    with webhook(200) as other, webhook(302, location=other.url) as hook:
        (said,) = post(hook.url, HARNESS_WEBHOOK_TOKEN=TOKEN)

    assert "answered 302" in said
    assert other.bodies == []


def test_a_webhook_that_never_answers_holds_nobody_up() -> None:
    wishes = DeliveryWishes(environment={})
    with webhook() as hook:
        wishes = replace(wishes, environment={"HARNESS_WEBHOOK_URL": hook.url})
        (said,) = deliver(NIGHT, wishes, pause=Pauses(), deadline_s=0.1)

    assert said.endswith("no answer within 0.1 s")


def test_a_webhook_that_is_not_there_is_a_warning() -> None:
    with webhook(200) as hook:
        url = hook.url
    (said,) = post(url)

    assert said.endswith("it cannot be reached, 3 times")


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("ftp://example.org/s3cret", ""),
        ("not an address s3cret", ""),
        ("http://[s3cret", ""),
        ("http://127.0.0.1:99999/s3cret", ""),
        ("http://127.0.0.1:9/s3cret", "kéy"),
        ("http://127.0.0.1:9/s3cret", "two\nlines"),
    ],
)
def test_an_address_or_key_that_is_none_is_said_to_be_so(url: str, token: str) -> None:
    (said,) = post(url, HARNESS_WEBHOOK_TOKEN=token)

    assert "not well formed" in said
    assert "s3cret" not in said
    assert "lines" not in said


def test_nothing_is_delivered_where_nobody_asked() -> None:
    before = dict(os.environ)

    assert deliver(NIGHT, DeliveryWishes(environment={})) == ()
    assert dict(os.environ) == before


def test_keys_and_addresses_are_in_no_file(tmp_path: Path) -> None:
    with webhook(500) as hook:
        environment = {"HARNESS_WEBHOOK_URL": hook.url, "HARNESS_WEBHOOK_TOKEN": TOKEN}
        summary = tmp_path / "summary.md"
        wishes = DeliveryWishes(
            junit=tmp_path / "night.xml",
            prometheus=tmp_path / "night.prom",
            environment={**environment, "GITHUB_STEP_SUMMARY": str(summary)},
        )
        deliver(NIGHT, wishes, pause=Pauses())

    files = list(tmp_path.iterdir())
    assert len(files) == 3
    for path in files:
        assert TOKEN not in path.read_text()
        assert "s3cret" not in path.read_text()


def test_a_device_is_written_to_and_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivering, "_DEVICES", tmp_path)
    log, stdout = tmp_path / "log", tmp_path / "stdout"
    log.write_text("before\n")
    stdout.symlink_to(log)
    assert deliver(NIGHT, DeliveryWishes(junit=stdout, environment={})) == ()
    assert stdout.is_symlink()
    assert log.read_text().startswith("before\n<?xml")
