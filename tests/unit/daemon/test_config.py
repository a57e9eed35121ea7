"""The configuration file: what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config, ConfigError, load_config
from tests.paths import REPO

HEAD = {"apiVersion": "arranger.io/v1alpha1", "kind": "SchedulerConfiguration"}

WRONG = {
    "a field that does not exist": (
        {"profiles": [{"schedulerNam": "x"}]},
        "profiles.0.schedulerNam: unknown field; did you mean 'schedulerName'\\?$",
    ),
    "a field that is like no other": ({"zzz": 1}, "zzz: unknown field$"),
    "a field of an extender": (
        {"extenders": [{"urlPrefix": "http://x", "tlsConfig": {"keyfile": "a"}}]},
        "extenders.0.tlsConfig.keyfile: unknown field; did you mean 'keyFile'",
    ),
    "a weight below one": (
        {"profiles": [{"plugins": {"enabled": [{"name": "NodeName", "weight": 0}]}}]},
        "profiles.0.plugins.enabled.0.weight",
    ),
    "a renew deadline beyond the lease": (
        {"leaderElection": {"leaseDuration": 5}},
        "leaseDuration must exceed renewDeadline",
    ),
    "two profiles of one name": ({"profiles": [{}, {}]}, "two profiles of one schedulerName"),
    "a minimum runtime below zero": (
        {"queues": {"reclaimMinRuntimeSeconds": -1}},
        "queues.reclaimMinRuntimeSeconds",
    ),
    "a cool-down without end": (
        {"queues": {"evictionCoolDownSeconds": float("inf")}},
        "queues.evictionCoolDownSeconds",
    ),
    "cards kept for no time": (
        {"queues": {"cardRequestTimeoutSeconds": 0}},
        "queues.cardRequestTimeoutSeconds",
    ),
    "a workload whose number cannot be read": (
        {"gangs": {"workloads": [{"apiVersion": "x.io/v1", "kind": "X", "minimum": "spec."}]}},
        r"gangs.workloads.0.minimum: .*'spec.' cannot be read",
    ),
    "a workload that reads what it cannot": (
        {"gangs": {"workloads": [{"apiVersion": "x.io/v1", "kind": "X", "role": "spec.role"}]}},
        "gangs.workloads.0.role: .*spec is none of pod",
    ),
    "a workload without its resource": (
        {"gangs": {"workloads": [{"apiVersion": "x.io/v1", "kind": "X"}]}},
        "gangs: .*X lacks its resource",
    ),
    "a workload twice": (
        {"gangs": {"workloads": [{"apiVersion": "batch/v1", "kind": "Job"}] * 2}},
        "a kind is there twice",
    ),
    "a label without those for whose pods it counts": (
        {"gangs": {"workloads": [{"apiVersion": "ray.io/v1", "kind": "RayCluster", "label": "a"}]}},
        "RayCluster needs both of label and through",
    ),
    "another kind": ({"kind": "KubeSchedulerConfiguration"}, "kind"),
    "a lease for ever": (
        {"leaderElection": {"leaseDuration": float("inf")}},
        "leaderElection.leaseDuration: .*finite",
    ),
    "a wait of no number of seconds": (
        {"gangs": {"starvationAfterSeconds": float("nan")}},
        "gangs.starvationAfterSeconds",
    ),
    "a longest wait that is shorter than the first": (
        {"podInitialBackoffSeconds": 10, "podMaxBackoffSeconds": 1},
        "podMaxBackoffSeconds is less than podInitialBackoffSeconds",
    ),
}

EXTENDER = {
    "urlPrefix": "http://x",
    "filterVerb": "f",
    "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}],
}


def _write(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_refused_with_the_path_of_the_field(
    tmp_path: Path, content: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(_write(tmp_path, HEAD | content))


def _arguments(plugin: str, **args: object) -> dict[str, object]:
    return {"pluginConfig": [{"name": plugin, "args": args}]}


def _affinity(operator: str, *values: str) -> dict[str, object]:
    term = {"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}
    required = {"nodeSelectorTerms": [term]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return _arguments("NodeAffinity", addedAffinity=added)


_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
UNBUILDABLE = {
    "an unknown plugin": ({"plugins": {"enabled": [{"name": "Nope"}]}}, "no plugin named 'Nope'"),
    "an unknown plugin to disable": ({"plugins": {"disabled": ["Nope"]}}, "disabled.0"),
    "arguments of a plugin that is off": (
        {"pluginConfig": [{"name": "Nope"}]},
        "pluginConfig.0.name: 'Nope' is not enabled",
    ),
    "arguments for a plugin that takes none": (
        {"pluginConfig": [{"name": "NodeName", "args": {"x": 1}}]},
        "NodeName takes no arguments",
    ),
    "a wrong argument": (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": 1}}}]},
        "^profiles.0.pluginConfig.0.args.scoringStrategy.type: ",
    ),
    "an argument that does not exist": (
        {
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"typ": "MostAllocated"}}}
            ]
        },
        "args.scoringStrategy.typ: unknown field; did you mean 'type'",
    ),
    "a plugin that is enabled twice": (
        {"plugins": {"enabled": [{"name": "BinPack", "weight": w} for w in (5, 7)]}},
        "plugins.enabled.1.name: 'BinPack' is named twice",
    ),
    "arguments of one plugin twice": (
        {"pluginConfig": [{"name": "InterPodAffinity"}, {"name": "InterPodAffinity"}]},
        "pluginConfig.1.name: 'InterPodAffinity' is named twice",
    ),
    "no candidates at all": (
        _arguments("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
        "cannot both be 0",
    ),
    "one constraint twice": (
        _arguments("PodTopologySpread", defaultingType="List", defaultConstraints=[_SPREAD] * 2),
        "two of one topologyKey and whenUnsatisfiable",
    ),
    "an affinity to none of some values": (_affinity("In"), "operator In needs values"),
    "an affinity to a label with any value, and values": (
        _affinity("Exists", "a"),
        "operator Exists takes no values",
    ),
    "an affinity to more than two numbers": (
        _affinity("Gt", "1", "2"),
        "operator Gt needs one value",
    ),
    "nobody to bind": ({"plugins": {"disabled": ["DefaultBinder"]}}, "no plugin binds"),
    "nobody to sort": ({"plugins": {"disabled": ["PrioritySort"]}}, "sort the queue"),
}


@pytest.mark.parametrize(("profile", "message"), UNBUILDABLE.values(), ids=UNBUILDABLE.keys())
def test_a_profile_that_cannot_work_is_refused_before_anything_starts(
    profile: dict[str, object], message: str
) -> None:
    config = Config.model_validate(HEAD | {"profiles": [profile]})
    with pytest.raises(ConfigError, match=message):
        build_profiles(config)


def test_a_plugin_of_a_file_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from arranger.framework import Plugin\n"
        "class Mine(Plugin):\n"
        "    def __init__(self):\n"
        "        raise RuntimeError('no licence')\n"
    )
    profile = {"plugins": {"enabled": [{"name": "Mine"}]}}
    path = _write(tmp_path, HEAD | {"pluginFiles": ["mine.py"], "profiles": [profile]})
    with pytest.raises(ConfigError, match=r"profiles.0: plugin Mine: RuntimeError: no licence$"):
        build_profiles(load_config(path))


def test_all_faults_of_plugins_are_told_at_once_with_the_name_of_the_file(tmp_path: Path) -> None:
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategi": {}, "ignoredResources": 1}}
    first = {
        "plugins": {"enabled": [{"name": "nodename"}], "disabled": ["Nope"]},
        "pluginConfig": [fit, {"name": "NodeNam"}],
    }
    second = {"schedulerName": "other", "plugins": {"disabled": ["DefaultBinder"]}}
    path = _write(tmp_path, HEAD | {"profiles": [first, second], "extenders": [EXTENDER]})
    with pytest.raises(ConfigError) as caught:
        build_profiles(load_config(path))
    said = str(caught.value)
    assert said.startswith(f"{path}: profiles.0.plugins.disabled.0: no plugin named 'Nope'")
    for field in (
        "profiles.0.plugins.enabled.0.name: no plugin named 'nodename'; did you mean 'NodeName'?",
        "profiles.0.pluginConfig.0.args.scoringStrategi: unknown field; did",
        "profiles.0.pluginConfig.0.args.ignoredResources: Input should be",
        "profiles.0.pluginConfig.1.name: 'NodeNam' is not enabled; did you mean",
        "profiles.1.plugins: profile 'other': no plugin binds pods",
    ):
        assert field in said


def test_every_plugin_file_that_does_not_load_is_named_and_what_it_lacks_is_not(
    tmp_path: Path,
) -> None:
    profile = {"plugins": {"enabled": [{"name": "Mine"}]}}
    files = {"pluginFiles": ["one.py", "two.py"], "profiles": [profile]}
    path = _write(tmp_path, HEAD | files)
    with pytest.raises(ConfigError) as caught:
        build_profiles(load_config(path))
    first, second = (f"plugin file {tmp_path / name}.py: no such file" for name in ("one", "two"))
    assert str(caught.value) == f"{path}: pluginFiles.0: {first}; pluginFiles.1: {second}"


def test_the_defaults_are_a_working_profile() -> None:
    (profile,) = build_profiles(Config())
    assert profile.scheduler_name == "arranger"
    assert profile.weights["TaintToleration"] == 3


def test_a_plugin_file_is_found_beside_the_configuration_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from arranger.framework import Plugin\n"
        "class Mine(Plugin):\n"
        "    def filter_node(self, state, pod, node):\n"
        "        return self.reject('no') if node.name == 'bad' else None\n"
    )
    content = {
        "pluginFiles": ["mine.py"],
        "profiles": [{"plugins": {"enabled": [{"name": "Mine"}]}}],
    }
    (profile,) = build_profiles(load_config(_write(tmp_path, HEAD | content)))
    assert "Mine" in [plugin.name for plugin in profile.plugins_at("filter")]


def test_the_configuration_in_the_manifests_is_accepted(tmp_path: Path) -> None:
    manifest = yaml.safe_load((REPO / "manifests" / "30-config.yaml").read_text())
    path = tmp_path / "config.yaml"
    path.write_text(manifest["data"]["config.yaml"])
    assert build_profiles(load_config(path))


def test_the_cluster_role_has_no_wildcard_and_cannot_read_secrets() -> None:
    for manifest in yaml.safe_load_all((REPO / "manifests" / "20-rbac.yaml").read_text()):
        for rule in manifest.get("rules", []):
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            assert "secrets" not in rule["resources"]


#: Field of the file → another value than the default, and the field of the engine's rules.
REACHES: dict[str, dict[str, tuple[object, str]]] = {
    "gangs": {
        "waitTimeSeconds": (91.0, "wait_time"),
        "onTimeout": ("Retry", "on_timeout"),
        "onPartialBind": ("Hold", "on_partial_bind"),
        "starvationAfterSeconds": (92.0, "starvation_after"),
        "reservationSeconds": (93.0, "reservation_seconds"),
        "reservationMaxNodesPercent": (94, "reservation_max_nodes_percent"),
        "plannedGangs": (3, "planned_gangs"),
        "waitInsteadOfPreemptingSeconds": (95.0, "wait_instead_of_preempting"),
    },
    "queues": {
        "overCommitFactor": (2.0, "over_commit"),
        "cardUnlimitedCpuMemory": (True, "exempt_card_pods"),
        "podOwnerReferenceToServiceType": ({"Notebook": "inference"}, "service_type_by_owner"),
        "respectPriority": (False, "respect_priority"),
        "preemptWithinQueue": (False, "preempt_within_queue"),
        "reclaimMinRuntimeSeconds": (1.0, "reclaim_min_runtime"),
        "preemptMinRuntimeSeconds": (2.0, "preempt_min_runtime"),
        "evictionCoolDownSeconds": (3.0, "eviction_cool_down"),
        "cardRequestTimeoutSeconds": (4.0, "card_request_timeout"),
        "usageHalfLifeSeconds": (604800.0, "usage_half_life"),
        "usagePeriodSeconds": (1800.0, "usage_period"),
    },
}
#: What the daemon watches, and what is for the controllers: no rules.
WATCHED = {"ownerResources", "commandNamespaces", "workloads"}


def test_a_workload_that_is_shipped_keeps_what_is_not_changed_of_it() -> None:
    changes = [
        {"apiVersion": "batch/v1", "kind": "Job", "enabled": True},
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "enabled": False},
        {"apiVersion": "kubeflow.org/v2", "kind": "TFJob", "otherVersions": ["v1"]},
        {"apiVersion": "x.io/v1", "kind": "X", "resource": "xs", "minimum": "spec.size"},
    ]
    config = Config.model_validate({"gangs": {"workloads": changes}})
    kinds = {kind.kind: kind for kind in config.workload_kinds()}
    shipped = {kind.kind for kind in Config().workload_kinds()}
    assert kinds.keys() == shipped - {"RayCluster"} | {"Job", "X"}
    assert kinds["Job"].minimum is not None
    assert kinds["TFJob"].paths == ("/apis/kubeflow.org/v2/tfjobs", "/apis/kubeflow.org/v1/tfjobs")
    assert len(kinds["TFJob"].roles) == 1


@pytest.mark.parametrize("section", REACHES)
def test_what_is_set_for_gangs_and_queues_reaches_the_engine(section: str, tmp_path: Path) -> None:
    fields = REACHES[section]
    content = HEAD | {section: {name: value for name, (value, _) in fields.items()}}
    config = load_config(_write(tmp_path, content))
    known = {field.alias for field in type(getattr(config, section)).model_fields.values()}
    assert known - WATCHED == fields.keys(), "no field is forgotten"
    rules, others = (
        each.gang_policy() if section == "gangs" else each.quota_config()
        for each in (config, Config())
    )
    for value, rule in fields.values():
        assert (getattr(rules, rule), getattr(others, rule) != value) == (value, True), rule
