# SPDX-License-Identifier: Apache-2.0
"""A failure's name and reason as soon as it is known: pytest tells them at its end, and a run may be stopped before."""

import pytest


class Failures:
    """In pytest's first process, which has the reports of all."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tell(f"failed in {report.when}: {report.nodeid}", report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(f"not collected: {report.nodeid}", report)

    def _tell(self, what: str, report: pytest.TestReport | pytest.CollectReport) -> None:
        reason = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
        # Asked for now: it isn't there yet when plugins are configured.
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        terminal.write(f"\n{what}: {(reason.splitlines() or [''])[0]}\n")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(config))
