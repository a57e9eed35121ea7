"""Scheduler extenders: HTTP servers that take part in placing pods.

The protocol is kube-scheduler's (``k8s.io/kube-scheduler/extender/v1``); the edge speaks it, and
the core only knows whom to ask about what.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from arranger.api.types.core import Pod


@dataclass(frozen=True, slots=True)
class ExtenderTls:
    """The certificates for calls to an extender, as paths of PEM files."""

    insecure: bool = False
    server_name: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class Extender:
    """One extender; it does not support a verb that is empty.

    Attributes:
        url: the prefix that verbs are appended to; names the extender in messages.
        weight: multiplies its scores, which are from 0 to 10.
        timeout: seconds for one call.
        node_cache_capable: it knows the nodes, so that it is sent names only.
        managed_resources: it is asked about pods only that ask for one of these resources; all if
            empty.
        ignorable: pods are scheduled without it while it fails.
        tls: None for plain HTTP, or HTTPS by the usual authorities.
    """

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    timeout: float = 5.0
    node_cache_capable: bool = False
    managed_resources: frozenset[str] = frozenset()
    ignorable: bool = False
    tls: ExtenderTls | None = None

    @property
    def filters_or_scores(self) -> bool:
        """Whether it filters or scores nodes."""
        return bool(self.filter_verb or self.prioritize_verb)

    def is_interested(self, pod: Pod) -> bool:
        """Whether it handles the pod (``IsInterested`` upstream)."""
        if not self.managed_resources:
            return True
        containers = chain(pod.spec.containers, pod.spec.init_containers)
        asked = (chain(c.resources.requests, c.resources.limits) for c in containers)
        return any(not self.managed_resources.isdisjoint(names) for names in asked)

    def chooses_victims(self, pod: Pod) -> bool:
        """Whether it has a say in which pods are evicted for a pod."""
        return bool(self.preempt_verb) and self.is_interested(pod)
