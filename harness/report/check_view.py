"""What the checks of the site said, in the words of a report."""

from __future__ import annotations

from harness.records.check import check_words
from harness.report.models import CheckView
from harness.report.reading import Reading


def check_views(reading: Reading) -> tuple[CheckView, ...]:
    """Return one line for each check of each configuration, as it ended last, those that failed first."""
    labels = {
        launch.configuration.configuration_id: reading.labels.configuration(launch.configuration)
        for launch in reading.facts.launches
    }
    last = {(check.configuration_id, check.name): check for check in reading.facts.checks}
    views = [
        CheckView(
            configuration=labels.get(check.configuration_id, check.configuration_id),
            result=check_words(check),
            failed=check.outcome == "failed",
            tail=check.tail if check.outcome == "failed" else (),
        )
        for check in last.values()
    ]
    return tuple(sorted(views, key=lambda view: not view.failed))
