"""Gives the quotas to the plugins that enforce them."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

from arranger.framework.interface import Plugin
from arranger.framework.runtime.profile import Profile
from arranger.quota.ledger import QuotaLedger


@runtime_checkable
class QuotaPlugin(Protocol):
    """A plugin that looks at what queues use."""

    def with_quota(self, ledger: QuotaLedger) -> Plugin:
        """The same plugin for an engine's ledger."""


def with_quota(profile: Profile, ledger: QuotaLedger) -> Profile:
    """The profile with its plugins made for an engine's ledger, where they look at one."""
    plugins = [
        replace(weighted, plugin=weighted.plugin.with_quota(ledger))
        if isinstance(weighted.plugin, QuotaPlugin)
        else weighted
        for weighted in profile.plugins
    ]
    return Profile(profile.scheduler_name, plugins)
