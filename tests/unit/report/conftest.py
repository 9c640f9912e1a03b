"""One fake run and its view for all tests of the report."""

from __future__ import annotations

import pytest

from harness.report.facts import RunFacts
from harness.report.models import ReportView
from harness.report.view import report_view
from tests.fakes.run_builder import fake_facts


@pytest.fixture(scope="session")
def facts() -> RunFacts:
    """A run with one launch each, some doubts, a failed launch and a refusal."""
    return fake_facts()


@pytest.fixture(scope="session")
def view(facts: RunFacts) -> ReportView:
    """What its report says."""
    return report_view(facts)
