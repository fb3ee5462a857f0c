"""The pytest plugin `lastbit`: `--lastbit-report PATH` writes what every assertion found.

The assertions themselves are functions: `lastbit.assert_bitwise`, `lastbit.assert_ulp`,
`lastbit.assert_batch_invariant` and `lastbit.assert_deterministic`. They work without the plugin.

Every session of pytest loads this module, so it imports neither numpy nor torch, nor any part of
lastbit that does. What the assertions found travels with the report of each test, which is how
pytest-xdist carries results from its workers; so one file is written, by the main process, whatever
number of workers ran the tests and whether one of them died.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import pytest

from lastbit.asserting.journal import SCHEMA, Entry, Journal, listen, summary_of, unlisten
from lastbit.errors import InputError
from lastbit.files import require_folder, write_atomically

_CARRIED = "_lastbit_entries"  # the attribute of a test's report
_NAME = "lastbit-report"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--lastbit-report`."""
    group = parser.getgroup("lastbit", "bits and ulp of floating-point results")
    group.addoption(
        "--lastbit-report",
        metavar="PATH",
        help="Write a JSON report of every assertion of lastbit that ran.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start a report if one is wanted."""
    path = config.getoption("--lastbit-report")
    if path is None:
        return
    worker = hasattr(config, "workerinput")
    if not worker:
        try:
            require_folder(path)
        except InputError as error:
            raise pytest.UsageError(f"--lastbit-report: {error}") from None
    config.pluginmanager.register(Reporter(path, worker), _NAME)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop listening."""
    reporter = config.pluginmanager.get_plugin(_NAME)
    if isinstance(reporter, Reporter):
        config.pluginmanager.unregister(reporter)
        unlisten(reporter.journal)


class Reporter:
    """Collects what assertions found and writes it at the end.

    Attributes:
        journal: what was found in this process since the last test's report.
    """

    def __init__(self, path: str, worker: bool) -> None:
        self.journal = Journal()
        self._path = os.path.abspath(path)  # a test may change the folder
        self._shown, self._worker = path, worker
        self._problem = ""
        self._entries: list[Entry] = []
        listen(self.journal)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Remember which test runs."""
        self.journal.test = item.nodeid
        try:
            return (yield)
        finally:
            self.journal.test = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send what was found along with the report of a test's part."""
        report = yield
        if found := self.journal.take():
            setattr(report, _CARRIED, found)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what came along with a report."""
        self._take(getattr(report, _CARRIED, []))

    def _take(self, found: list[Entry]) -> None:
        # Every worker imports every test file, and finds the same outside of tests.
        self._entries += [one for one in found if one["test"] or one not in self._entries]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report; workers leave that to the main process."""
        if self._worker:
            return
        self._take(self.journal.take())
        # Tests of several workers end in any order, and those of one stay in theirs.
        self._entries.sort(key=lambda entry: entry["test"] or "")
        content = {
            "schema": SCHEMA,
            "summary": summary_of(self._entries),
            "assertions": self._entries,
        }
        try:
            write_atomically(self._path, json.dumps(content, indent=2, allow_nan=False) + "\n")
        except InputError as error:
            self._problem = f"--lastbit-report: {error}"
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the report is and what it counts."""
        if self._problem:
            terminalreporter.write_line(self._problem, red=True)
            return
        counts = summary_of(self._entries)
        total = counts.pop("assertions")
        parts = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        text = f"lastbit: {total} assertion{'' if total == 1 else 's'}"
        terminalreporter.write_line(f"{text} ({parts or 'nothing was asserted'}): {self._shown}")
