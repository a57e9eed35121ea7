"""Whether a profile evicts pods at all, and whose."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from arranger.cluster.pod_info import PodInfo
from arranger.framework.runtime.profile import Profile


@runtime_checkable
class EvictingPlugin(Protocol):
    """A PostFilter plugin that makes room by evictions."""

    def is_preemptable(self, victim: PodInfo) -> bool:
        """Whether a pod may be evicted for one of higher priority."""
        ...


def evicting_plugin(profile: Profile) -> EvictingPlugin | None:
    """The profile's plugin that evicts pods, if it has one."""
    return next(
        (p for p in profile.plugins_at("post_filter") if isinstance(p, EvictingPlugin)), None
    )
