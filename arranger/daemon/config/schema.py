"""The configuration file, validated before anything starts.

Field names are those of ``KubeSchedulerConfiguration`` where it has the same thing. A wrong file
is refused with the path of every wrong field; nothing is guessed or ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from arranger.daemon.config.extenders import ExtenderConfig, check_extenders
from arranger.daemon.config.section import ConfigSection
from arranger.daemon.config.workloads import WorkloadConfig, merged_workloads, workload_kinds
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.files.content import read_text
from arranger.files.limits import FileError
from arranger.files.yaml_text import one_document
from arranger.framework.runtime.config_errors import config_errors
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.kube.client.kubeconfig_check import file_error
from arranger.quota.preemption.policy import QuotaConfig

API_VERSION: Final = "arranger.io/v1alpha1"
KIND: Final = "SchedulerConfiguration"


class ConfigError(ValueError):
    """The configuration cannot be used; the message says where and why."""


class EnabledPlugin(ConfigSection):
    """A plugin to add, or to give another weight."""

    name: str
    """Name of the plugin."""
    weight: Annotated[int, Field(ge=1)] | None = None
    """Factor of the plugin's scores. Where silent: its default weight if it is enabled by default
    and not disabled, else 1.
    """


class PluginSet(ConfigSection):
    """Changes to the default plugins; ``disabled: ["*"]`` starts from none."""

    enabled: list[EnabledPlugin] = []
    disabled: list[str] = []
    """Names of default plugins to leave out; `"*"` for all."""


class PluginConfig(ConfigSection):
    """Arguments of one plugin."""

    name: str
    """Name of the plugin."""
    args: dict[str, Any] = {}
    """Its arguments: see [Plugins](plugins.md)."""


class ProfileConfig(ConfigSection):
    """The plugins of one ``schedulerName``."""

    scheduler_name: Annotated[str, Field(min_length=1)] = "arranger"
    """Pods with this `spec.schedulerName` are ours."""
    plugins: PluginSet = PluginSet()
    plugin_config: list[PluginConfig] = []


class LeaderElectionConfig(ConfigSection):
    """Seconds and names of the Lease that replicas compete for."""

    leader_elect: bool = True
    """Whether replicas compete for a Lease."""
    lease_duration: Annotated[float, Field(gt=0)] = 15.0
    """Seconds without a renewal after which others may take over."""
    renew_deadline: Annotated[float, Field(gt=0)] = 10.0
    """Seconds without a renewal after which a leader writes nothing more and its process ends."""
    retry_period: Annotated[float, Field(gt=0)] = 2.0
    """Seconds between attempts to take or to renew the Lease."""
    resource_name: str = "arranger"
    """Name of the Lease."""
    resource_namespace: str = "arranger-system"
    """Namespace of the Lease."""

    @model_validator(mode="after")
    def _check_times(self) -> LeaderElectionConfig:
        if not self.lease_duration > self.renew_deadline > 1.2 * self.retry_period:
            raise ValueError(
                "leaseDuration must exceed renewDeadline, and that 1.2 times retryPeriod"
            )
        return self


class ServerConfig(ConfigSection):
    """Where /livez, /readyz and /metrics are served; ``port: 0`` picks a free one."""

    host: str = "0.0.0.0"
    """Address on which `/livez`, `/readyz` and `/metrics` are served, by HTTPS;
    `--bind-address` goes before it."""
    port: Annotated[int, Field(ge=0, le=65535)] = 10259
    """Port of the same; 0 picks a free one. `--secure-port` goes before it."""


class GangConfig(ConfigSection):
    """What holds for gangs that do not say otherwise; see ``arranger.engine.gang.state.policy``."""

    wait_time_seconds: Annotated[float, Field(gt=0)] = 600.0
    """How long a gang may hold nodes while it is incomplete, unless it says otherwise."""
    on_timeout: Literal["Block", "Retry"] = "Block"
    """What happens then: `Block` until its owner acts, or `Retry`."""
    on_partial_bind: Literal["Complete", "Delete", "Hold"] = "Complete"
    """What happens with a gang that is found with part of its minimum bound: `Complete` it before
    all others, `Delete` its pods when that takes longer than the wait time, or `Hold` what it
    has.
    """
    starvation_after_seconds: Annotated[float, Field(gt=0)] = 600.0
    """After waiting so long for room a gang's start is planned, and room kept for it: pods of its
    priority or a lower one go there only if they end before, by `activeDeadlineSeconds` or
    `arranger.io/max-run-time`, or fit beside it then.
    """
    planned_gangs: Annotated[int, Field(ge=1, le=64)] = 1
    """How many gangs are planned at a time, the first of the queue."""
    reservation_seconds: Annotated[float, Field(gt=0)] = 600.0
    """Room is kept for such gangs for so long at a stretch; if none of them has started by then,
    nothing is kept for as long, and for gangs of the same namespace longer each time.
    """
    reservation_max_nodes_percent: Annotated[int, Field(ge=0, le=100)] = 50
    """Room is kept on so many of all nodes at most, or on one; none for gangs that need more."""
    wait_instead_of_preempting_seconds: Annotated[float, Field(ge=0)] = 0.0
    """A gang that starts in less than so many seconds by the plan waits, and evicts nobody."""
    #: Changes to the shipped kinds, and others.
    workloads: list[WorkloadConfig] = []

    @model_validator(mode="after")
    def _check_workloads(self) -> GangConfig:
        merged_workloads(self.workloads)
        return self


class QueueConfig(ConfigSection):
    """How queues share the cluster; see :class:`QuotaConfig`."""

    over_commit_factor: Annotated[float, Field(ge=1)] = 1.0
    """PodGroups are admitted while the cards that they request fit into this many times the quota
    of their queue.
    """
    card_unlimited_cpu_memory: bool = False
    """Whether pods with cards are free of their queue's limits on CPU and memory."""
    pod_owner_reference_to_service_type: dict[str, Literal["inference", "training"]] = {
        "ReplicaSet": "inference",
        "Deployment": "inference",
        "StatefulSet": "inference",
        "Job": "training",
    }
    """Service type of pods that do not tell theirs, by the kind of their owner."""
    owner_resources: list[Annotated[str, Field(pattern=r"^[a-z0-9.-]+/v[a-z0-9]+/[a-z]+$")]] = [
        "apps/v1/deployments",
        "apps/v1/daemonsets",
        "batch/v1/jobs",
        "batch.volcano.sh/v1alpha1/jobs",
        "arranger.io/v1alpha1/tyjobs",
    ]
    """Resources (group/version/resource) whose annotations count for the pods that they own,
    beside those of ReplicaSets, StatefulSets and ReplicationControllers; the scheduler needs the
    right to list and watch them, and reads their metadata only.
    """
    command_namespaces: list[str] = ["default"]
    """Where Commands for queues are obeyed (`vcctl` writes them to `default`); empty for
    everywhere. Who may create Commands there may open and close any queue, unless the policies of
    `manifests/80-admission.yaml` are installed.
    """
    respect_priority: bool = True
    """Whether a victim in another queue must be of lower priority than the pod it gives way to,
    unless neither has any.
    """
    preempt_within_queue: bool = True
    """Whether a pod may evict one of lower priority in its own queue; without it there is reclaim
    between queues only.
    """
    reclaim_min_runtime_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """A pod is not evicted for one of another queue before it has run so long."""
    preempt_min_runtime_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """A pod is not evicted for one of its own queue before it has run so long."""
    eviction_cool_down_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """What comes back after an eviction (of its gang, its controller or its name) is not evicted
    again within so long of it; a new scheduler forgets.
    """
    card_request_timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 300.0
    """How long cards are kept for an admitted PodGroup (`volcano.sh/card.request`) while
    its pods are not all there; it is asked again when they are.
    """
    usage_half_life_seconds: Annotated[float, Field(ge=60, allow_inf_nan=False)] | None = None
    """Queues take turns by what they use and by what they have used, of which half counts after so
    long (604800 is a week); only by what they use where silent.
    """
    usage_period_seconds: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 3600.0
    """What queues have used counts beside what they use as if it had been used within so long."""


class TYJobConfig(ConfigSection):
    """What holds for TYJobs that do not say otherwise; read by ``arranger controllers``."""

    scheduling_timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """How long a TYJob may lack the nodes of its leader and `minWorkersNum` workers before it
    fails, unless it says otherwise; for ever where silent.
    """


class TracingConfig(ConfigSection):
    """Traces of scheduling attempts, as kube-apiserver's ``TracingConfiguration`` has them; they
    need OpenTelemetry: ``pip install 'arranger[tracing]'``."""

    endpoint: Annotated[str, Field(pattern=r"^([^/\s:]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$")] = (
        "localhost:4317"
    )
    """Host and port of the collector, which takes OTLP by gRPC; the connection is not encrypted."""
    sampling_rate_per_million: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Of so many attempts in a million a trace is sent; of none where silent."""


class Config(ConfigSection):
    """The whole file."""

    api_version: Literal["arranger.io/v1alpha1"] = API_VERSION
    """Version of the format of the file."""
    kind: Literal["SchedulerConfiguration"] = KIND
    """Kind of the file."""
    profiles: Annotated[list[ProfileConfig], Field(min_length=1)] = [ProfileConfig()]
    plugin_files: list[Path] = []
    """Python files with plugins, relative to the configuration file."""
    leader_election: LeaderElectionConfig = LeaderElectionConfig()
    server: ServerConfig = ServerConfig()
    gangs: GangConfig = GangConfig()
    queues: QueueConfig = QueueConfig()
    tyjobs: TYJobConfig = TYJobConfig()
    tracing: TracingConfig | None = None
    extenders: list[ExtenderConfig] = []
    extender_parallelism: Annotated[int, Field(ge=1)] = 1
    """Pods or gangs that extenders are asked about at once; with 1 each answer has seen where the
    last one went, as with kube-scheduler.
    """
    pod_initial_backoff_seconds: Annotated[float, Field(gt=0)] = 1.0
    """Wait after a pod's first failed attempt; it doubles with each. Woken by an event, a pod is
    tried before if nothing else is to be tried.
    """
    pod_max_backoff_seconds: Annotated[float, Field(gt=0)] = 10.0
    """The longest wait after a failed attempt."""
    max_checkpoint_seconds: Annotated[float, Field(ge=0, le=86400)] = 600.0
    """The most time that a pod is given to save its state before it is evicted
    (`arranger.io/checkpoint-before-eviction`); 0: nobody is given any.
    """
    eviction_max_pod_grace_period_seconds: Annotated[int, Field(ge=1, le=31_536_000)] = 3600
    """The most time that a pod is given to end when the scheduler has it leave its node, whatever
    its `terminationGracePeriodSeconds`, and whoever has deleted it before.
    """
    _file: Path | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Note the file of the validation's context; ours, not pydantic's."""
        self._file = (context or {}).get("file")

    @model_validator(mode="after")
    def _check(self) -> Config:
        names = [profile.scheduler_name for profile in self.profiles]
        if len(set(names)) != len(names):
            raise ValueError(f"two profiles of one schedulerName: {', '.join(sorted(names))}")
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            raise ValueError("podMaxBackoffSeconds is less than podInitialBackoffSeconds")
        check_extenders(self.extenders)
        return self

    @property
    def file(self) -> Path | None:
        """What this was read from, for messages; None where it was not read from a file."""
        return self._file

    def plugin_paths(self) -> list[Path]:
        """The plugin files, from where we are."""
        return [self._file.parent / each if self._file else each for each in self.plugin_files]

    def scheduling_queue_config(self) -> SchedulingQueueConfig:
        """The queue's times."""
        return SchedulingQueueConfig(
            initial_backoff=self.pod_initial_backoff_seconds,
            max_backoff=self.pod_max_backoff_seconds,
        )

    def quota_config(self) -> QuotaConfig:
        """How queues share the cluster."""
        queues = self.queues
        return QuotaConfig(
            respect_priority=queues.respect_priority,
            preempt_within_queue=queues.preempt_within_queue,
            service_type_by_owner=queues.pod_owner_reference_to_service_type,
            exempt_card_pods=queues.card_unlimited_cpu_memory,
            over_commit=queues.over_commit_factor,
            reclaim_min_runtime=queues.reclaim_min_runtime_seconds,
            preempt_min_runtime=queues.preempt_min_runtime_seconds,
            eviction_cool_down=queues.eviction_cool_down_seconds,
            card_request_timeout=queues.card_request_timeout_seconds,
            usage_half_life=queues.usage_half_life_seconds,
            usage_period=queues.usage_period_seconds,
        )

    def workload_kinds(self) -> tuple[WorkloadKind, ...]:
        """The kinds whose pods are gangs because of what owns them."""
        return workload_kinds(self.gangs.workloads)

    def gang_policy(self) -> GangPolicy:
        """What holds for gangs that do not say otherwise."""
        gangs = self.gangs
        return GangPolicy(
            wait_time=gangs.wait_time_seconds,
            on_timeout=gangs.on_timeout,
            on_partial_bind=gangs.on_partial_bind,
            starvation_after=gangs.starvation_after_seconds,
            reservation_seconds=gangs.reservation_seconds,
            reservation_max_nodes_percent=gangs.reservation_max_nodes_percent,
            planned_gangs=gangs.planned_gangs,
            wait_instead_of_preempting=gangs.wait_instead_of_preempting_seconds,
        )


def load_config(path: Path | None) -> Config:
    """Read a configuration file; without one, the defaults.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or has a wrong field.
    """
    if path is None:
        return Config()
    try:
        content = one_document(read_text(path))
    except FileError as error:
        raise ConfigError(f"{path}: {file_error(error)}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a mapping with kind: {KIND}")
    try:
        return Config.model_validate(content, context={"file": path})
    except ValidationError as error:
        raise ConfigError(f"{path}: {'; '.join(config_errors(Config, error))}") from error
