"""The ``extenders`` of the configuration file, field for field kube-scheduler's."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field, field_validator, model_validator

from arranger.api.extenders import Extender, ExtenderTls
from arranger.daemon.config.section import ConfigSection

_SECONDS_PER_UNIT: Final = {
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
}
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")
#: Seconds for a call if the file does not say, or says 0 (``DefaultExtenderTimeout``).
DEFAULT_TIMEOUT: Final = 5.0


class ManagedResource(ConfigSection):
    """An extended resource that an extender keeps count of."""

    name: Annotated[str, Field(pattern=r"^[^/]+/[^/]+$")]
    """Name of an extended resource that the extender keeps count of."""
    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit leaves the resource to the extender."""

    @field_validator("name")
    @classmethod
    def _check_domain(cls, name: str) -> str:
        domain = name.split("/")[0]
        if domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
            raise ValueError(f"{name!r} is no extended resource")
        return name


class ExtenderTlsConfig(ConfigSection):
    """Paths of PEM files; certificates within the file itself are not supported."""

    insecure: bool = False
    """Whether the server's certificate is not checked."""
    server_name: str = ""
    """The name that the server's certificate must be for, if not that of the URL."""
    cert_file: str = ""
    """File with the client's certificate, PEM."""
    key_file: str = ""
    """File with the client's key, PEM."""
    ca_file: str = ""
    """File with the authorities that the server's certificate is checked against, PEM."""

    @model_validator(mode="after")
    def _check_files(self) -> ExtenderTlsConfig:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("certFile and keyFile go together")
        if self.insecure and self.ca_file:
            raise ValueError("insecure and caFile exclude each other")
        return self


class ExtenderConfig(ConfigSection):
    """One extender; ``httpTimeout`` is seconds, or a duration as Go writes it ("1m30s")."""

    url_prefix: Annotated[str, Field(alias="urlPrefix", pattern=r"^https?://.+")]
    """URL that the verbs are appended to."""
    filter_verb: str = ""
    """Path of the call that filters nodes; not called where empty."""
    preempt_verb: str = ""
    """Path of the call that chooses among candidates for preemption; not called where empty."""
    prioritize_verb: str = ""
    """Path of the call that scores nodes; not called where empty."""
    weight: int = 0
    """Factor of its scores; must be positive with `prioritizeVerb`."""
    bind_verb: str = ""
    """Path of the call that binds pods in our place; one extender at most has it."""
    enable_https: Annotated[bool, Field(alias="enableHTTPS")] = False
    """Whether HTTPS is spoken; without `tlsConfig.caFile` the certificate is not checked, as in
    kube-scheduler.
    """
    tls_config: Annotated[ExtenderTlsConfig | None, Field(alias="tlsConfig")] = None
    http_timeout: Annotated[float, Field(alias="httpTimeout", ge=0)] = DEFAULT_TIMEOUT
    """Seconds that a call may take, or a duration such as `1m30s`; 0 is the default."""
    node_cache_capable: bool = False
    """Whether the extender knows the nodes, so that only their names are sent."""
    managed_resources: list[ManagedResource] = []
    ignorable: bool = False
    """Whether pods are scheduled without the extender when it fails."""

    @field_validator("http_timeout", mode="before")
    @classmethod
    def _parse_timeout(cls, value: object) -> object:
        return parse_duration(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_weight(self) -> ExtenderConfig:
        if self.prioritize_verb and self.weight <= 0:
            raise ValueError("an extender that prioritizes must have a positive weight")
        return self

    def to_extender(self) -> Extender:
        """The extender as the engine and the client know it."""
        return Extender(
            url=self.url_prefix,
            filter_verb=self.filter_verb,
            prioritize_verb=self.prioritize_verb,
            preempt_verb=self.preempt_verb,
            bind_verb=self.bind_verb,
            weight=self.weight,
            timeout=self.http_timeout or DEFAULT_TIMEOUT,
            node_cache_capable=self.node_cache_capable,
            managed_resources=frozenset(resource.name for resource in self.managed_resources),
            ignorable=self.ignorable,
            tls=self._tls(),
        )

    def _tls(self) -> ExtenderTls | None:
        if self.tls_config is None and not self.enable_https:
            return None
        given = self.tls_config or ExtenderTlsConfig()
        # As upstream: HTTPS that is asked for without an authority to check against.
        insecure = given.insecure or (self.enable_https and not given.ca_file)
        return ExtenderTls(**{**given.model_dump(), "insecure": insecure})


def parse_duration(duration: str) -> float:
    """Seconds of a duration as Go writes it.

    Raises:
        ValueError: it is none.
    """
    parts = _DURATION_PART.findall(duration)
    if not parts or "".join(n + unit for n, unit in parts) != duration:
        raise ValueError(f"{duration!r} is no duration such as 5s, 100ms or 1m30s")
    return sum(float(n) * _SECONDS_PER_UNIT[unit] for n, unit in parts)


def ordered_extenders(extenders: list[ExtenderConfig]) -> tuple[Extender, ...]:
    """The extenders in the order in which they are called: ignorable ones last, as upstream."""
    return tuple(e.to_extender() for e in sorted(extenders, key=lambda e: e.ignorable))


def check_extenders(extenders: list[ExtenderConfig]) -> None:
    """Check that extenders do not contradict each other.

    Raises:
        ValueError: two extenders bind, or manage one resource.
    """
    binders = sum(bool(e.bind_verb) for e in extenders)
    if binders > 1:
        raise ValueError(f"extenders: {binders} implement bind; only one can")
    managed = [r.name for e in extenders for r in e.managed_resources]
    twice = sorted({name for name in managed if managed.count(name) > 1})
    if twice:
        raise ValueError(f"extenders: managed twice: {', '.join(twice)}")


def ignored_resources(extenders: list[ExtenderConfig]) -> list[str]:
    """The resources that NodeResourcesFit is to leave to extenders."""
    resources = [r for e in extenders for r in e.managed_resources]
    return sorted(r.name for r in resources if r.ignored_by_scheduler)
