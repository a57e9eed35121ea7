"""Changes that make a sample of our kinds bad, and how the server must refuse each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.project.crds.samples import SAMPLES, Object, changed


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that makes a sample bad.

    Attributes:
        sample: which one, by its sentence.
        change: dotted path below ``spec`` → value; ``...`` takes the field away.
        cause: reason and field of the one cause that the server must give.
    """

    sample: str
    change: Object
    cause: tuple[str, str]

    def manifest(self) -> Object:
        """The bad object."""
        sample = SAMPLES[self.sample]
        return sample.manifest(changed(sample.spec, self.change), "bad")


_SIGS, _X = "the community's PodGroup as Koordinator reads it", "the community's PodGroup"
_GANG, _VOLCANO, _QUEUE = "a gang with bundles", "Volcano's PodGroup", "a queue"
_JOB, _TY = "Volcano's job", "a TYJob that says all"
_VALUE, _ENUM = "FieldValueInvalid", "FieldValueNotSupported"
_TYPE, _MISSING = "FieldValueTypeInvalid", "FieldValueRequired"

_RESERVED = "a reservation"

REFUSED: Final[dict[str, Refusal]] = {
    "nobody, and no maintenance": Refusal(_RESERVED, {"users": ...}, (_VALUE, "spec")),
    "users of a maintenance": Refusal(_RESERVED, {"maintenance": True}, (_VALUE, "spec")),
    "no nodes": Refusal(_RESERVED, {"nodes": {}}, (_VALUE, "spec.nodes")),
    "no nodes of a selector": Refusal(_RESERVED, {"nodes.count": 0}, (_VALUE, "spec.nodes.count")),
    "a count and cards": Refusal(
        _RESERVED, {"nodes.cards": {"A100": 8}}, (_VALUE, "spec.nodes.count")
    ),
    "no cards": Refusal(
        _RESERVED,
        {"nodes.count": ..., "nodes.cards": {"A100": 0}},
        (_VALUE, "spec.nodes.cards.A100"),
    ),
    "an amount that is none": Refusal(
        _RESERVED,
        {"nodes.count": ..., "nodes.resources": {"cpu": "much"}},
        (_VALUE, "spec.nodes.resources.cpu"),
    ),
    "a part for maintenance": Refusal(
        _RESERVED,
        {"users": ..., "maintenance": True, "nodes.perNode": {"cpu": 1}},
        (_VALUE, "spec.nodes.perNode"),
    ),
    "two lengths": Refusal(
        _RESERVED, {"window.end": "2999-01-01T00:00:00Z"}, (_VALUE, "spec.window")
    ),
    "a day that is none": Refusal(
        _RESERVED,
        {"window.recurrence.days": ["Caturday"]},
        (_ENUM, "spec.window.recurrence.days[0]"),
    ),
    "a start that is no time": Refusal(
        _RESERVED, {"window.start": "now"}, (_TYPE, "spec.window.start")
    ),
    "fewer members than none": Refusal(_SIGS, {"minMember": -1}, (_VALUE, "spec.minMember")),
    "members as text": Refusal(_SIGS, {"minMember": "5"}, (_TYPE, "spec.minMember")),
    "a wait below zero": Refusal(
        _SIGS, {"scheduleTimeoutSeconds": -1}, (_VALUE, "spec.scheduleTimeoutSeconds")
    ),
    "no member, where upstream wants one": Refusal(
        _X, {"minMember": 0}, (_VALUE, "spec.minMember")
    ),
    "a resource that is true": Refusal(
        _X, {"minResources": {"cpu": True}}, (_TYPE, "spec.minResources.cpu")
    ),
    "a mode between strict and not": Refusal(_GANG, {"mode": "Lax"}, (_ENUM, "spec.mode")),
    "a match policy nobody knows": Refusal(
        _GANG, {"matchPolicy": "always"}, (_ENUM, "spec.matchPolicy")
    ),
    "a gang without its namespace in the group": Refusal(
        _GANG, {"group": ["here/gang", "other"]}, (_VALUE, "spec.group[1]")
    ),
    "a bundle without a minimum": Refusal(
        _GANG, {"bundles": [{"name": "ps"}]}, (_MISSING, "spec.bundles[0].minMember")
    ),
    "a topology without its label": Refusal(
        _GANG, {"topology": {"required": True}}, (_MISSING, "spec.topology.key")
    ),
    "a task with fewer members than none": Refusal(
        _VOLCANO, {"minTaskMember": {"ps": -1}}, (_VALUE, "spec.minTaskMember.ps")
    ),
    "a queue with a name that none can have": Refusal(
        _VOLCANO, {"queue": "My_Queue"}, (_VALUE, "spec.queue")
    ),
    "a topology that is firm": Refusal(
        _VOLCANO, {"networkTopology.mode": "firm"}, (_ENUM, "spec.networkTopology.mode")
    ),
    "no weight": Refusal(_QUEUE, {"weight": 0}, (_VALUE, "spec.weight")),
    "more weight than Volcano allows": Refusal(_QUEUE, {"weight": 65536}, (_VALUE, "spec.weight")),
    "a priority below zero": Refusal(_QUEUE, {"priority": -1}, (_VALUE, "spec.priority")),
    "reclaimable as text": Refusal(_QUEUE, {"reclaimable": "no"}, (_TYPE, "spec.reclaimable")),
    "a capability that is a list": Refusal(
        _QUEUE, {"capability": ["cpu"]}, (_TYPE, "spec.capability")
    ),
    "a guarantee of yes": Refusal(
        _QUEUE, {"guarantee.resource": {"cpu": True}}, (_TYPE, "spec.guarantee.resource.cpu")
    ),
    "a parent with a slash": Refusal(_QUEUE, {"parent": "root/sci"}, (_VALUE, "spec.parent")),
    "a strategy nobody knows": Refusal(
        _QUEUE, {"dequeueStrategy": "lifo"}, (_ENUM, "spec.dequeueStrategy")
    ),
    "devices without a count": Refusal(
        _QUEUE,
        {"dra.capability": {"gpu": {"capacity": {"memory": "1Gi"}}}},
        (_MISSING, "spec.dra.capability.gpu.count"),
    ),
    "a job without tasks": Refusal(_JOB, {"tasks": ...}, (_MISSING, "spec.tasks")),
    "a job with no task": Refusal(_JOB, {"tasks": [], "minAvailable": ...}, (_VALUE, "spec.tasks")),
    "a task with a name no pod can have": Refusal(
        _JOB, {"tasks.0.name": "Worker"}, (_VALUE, "spec.tasks[0].name")
    ),
    "a task without a template": Refusal(
        _JOB, {"tasks.1.template": ...}, (_MISSING, "spec.tasks[1].template")
    ),
    "a template without containers": Refusal(
        _JOB,
        {"tasks.1.template.spec.containers": []},
        (_VALUE, "spec.tasks[1].template.spec.containers"),
    ),
    "a container without a name": Refusal(
        _JOB,
        {"tasks.1.template.spec.containers.0.name": ...},
        (_MISSING, "spec.tasks[1].template.spec.containers[0].name"),
    ),
    "an action that is none": Refusal(
        _JOB, {"policies.0.action": "Restart"}, (_ENUM, "spec.policies[0].action")
    ),
    "an event that only Volcano itself may use": Refusal(
        _JOB, {"policies.0.event": "OutOfSync"}, (_ENUM, "spec.policies[0].event")
    ),
    "a policy of a task without an action": Refusal(
        _JOB,
        {"tasks.0.policies.0.action": ...},
        (_MISSING, "spec.tasks[0].policies[0].action"),
    ),
    "a timeout without a unit": Refusal(
        _JOB, {"policies.1.timeout": "90"}, (_VALUE, "spec.policies[1].timeout")
    ),
    "fewer retries than none": Refusal(_JOB, {"maxRetry": -1}, (_VALUE, "spec.maxRetry")),
    "plugins with a number": Refusal(
        _JOB, {"plugins": {"env": [1]}}, (_TYPE, "spec.plugins.env[0]")
    ),
    "a mount at two places": Refusal(
        _JOB, {"volumes.0.mountPath": "/a:/b"}, (_VALUE, "spec.volumes[0].mountPath")
    ),
    "tasks of more pods together than a job may have": Refusal(
        _JOB,
        {"tasks.1.replicas": 10_000, "minAvailable": ...},
        (_VALUE, "spec.tasks"),
    ),
    "as many workers as a job may have pods": Refusal(
        _TY, {"workerSets.0.counts": 10_000}, (_VALUE, "spec.workerSets")
    ),
    "a TYJob without a leader": Refusal(_TY, {"leader": ...}, (_MISSING, "spec.leader")),
    "a TYJob without workers": Refusal(_TY, {"workerSets": ...}, (_MISSING, "spec.workerSets")),
    "a TYJob with no set of workers": Refusal(
        _TY, {"workerSets": [], "minWorkersNum": 0}, (_VALUE, "spec.workerSets")
    ),
    "a set of no workers": Refusal(
        _TY, {"workerSets.0.counts": 0, "minWorkersNum": 0}, (_VALUE, "spec.workerSets[0].counts")
    ),
    "a leader without a template": Refusal(
        _TY, {"leader.template": ...}, (_MISSING, "spec.leader.template")
    ),
    "a leader with a name no pod can have": Refusal(
        _TY, {"leader.name": "a.b"}, (_VALUE, "spec.leader.name")
    ),
    "a priority of none": Refusal(_TY, {"priority": 0}, (_VALUE, "spec.priority")),
    "a priority above ten": Refusal(_TY, {"priority": 11}, (_VALUE, "spec.priority")),
    "a policy to clean some pods": Refusal(
        _TY, {"cleanPodPolicy": "Some"}, (_ENUM, "spec.cleanPodPolicy")
    ),
    "fewer restarts than none": Refusal(_TY, {"restartLimit": -1}, (_VALUE, "spec.restartLimit")),
    "fewer workers than none": Refusal(_TY, {"minWorkersNum": -1}, (_VALUE, "spec.minWorkersNum")),
    "an order of jobs nobody knows": Refusal(
        _TY,
        {"schedulerPolicy.jobQueuePolicy": "FIFO"},
        (_ENUM, "spec.schedulerPolicy.jobQueuePolicy"),
    ),
    "a placement nobody knows": Refusal(
        _TY, {"schedulerPolicy.basicPolicy": "Spread"}, (_VALUE, "spec.schedulerPolicy.basicPolicy")
    ),
    "a placement nobody knows among others": Refusal(
        _TY,
        {"schedulerPolicy.basicPolicy": ["Gang", "Spread"]},
        (_ENUM, "spec.schedulerPolicy.basicPolicy[1]"),
    ),
    "a placement that is a number": Refusal(
        _TY, {"schedulerPolicy.basicPolicy": 5}, (_VALUE, "spec.schedulerPolicy.basicPolicy")
    ),
    "a placement that is half a number": Refusal(
        _TY, {"schedulerPolicy.basicPolicy": 0.5}, (_VALUE, "spec.schedulerPolicy.basicPolicy")
    ),
    "a placement that is an object": Refusal(
        _TY,
        {"schedulerPolicy.basicPolicy": {"a": 1}},
        ("FieldValueTooMany", "spec.schedulerPolicy.basicPolicy"),
    ),
    "a placement that is an empty object": Refusal(
        _TY, {"schedulerPolicy.basicPolicy": {}}, (_VALUE, "spec.schedulerPolicy.basicPolicy")
    ),
    "a placement that is yes": Refusal(
        _TY, {"schedulerPolicy.basicPolicy": True}, (_VALUE, "<nil>")
    ),
    "a wait of no time": Refusal(
        _TY, {"schedulingTimeoutSeconds": 0}, (_VALUE, "spec.schedulingTimeoutSeconds")
    ),
    "no placement at all": Refusal(
        _TY, {"schedulerPolicy.basicPolicy": []}, (_VALUE, "spec.schedulerPolicy.basicPolicy")
    ),
    "a template whose metadata is a number": Refusal(
        _TY, {"leader.template.metadata": 5}, (_TYPE, "spec.leader.template.metadata")
    ),
    "a label that is a number": Refusal(
        _TY,
        {"leader.template.metadata": {"labels": {"a": 5}}},
        (_TYPE, "spec.leader.template.metadata.labels.a"),
    ),
    "variables that are no list": Refusal(
        _TY,
        {"leader.template.spec.containers.0.env": "x"},
        (_TYPE, "spec.leader.template.spec.containers[0].env"),
    ),
    "init containers that are none": Refusal(
        _TY,
        {"leader.template.spec.initContainers": 5},
        (_TYPE, "spec.leader.template.spec.initContainers"),
    ),
    "a volume of a template that is text": Refusal(
        _TY,
        {"leader.template.spec.volumes": ["x"]},
        (_TYPE, "spec.leader.template.spec.volumes[0]"),
    ),
    "a port without a number": Refusal(
        _TY,
        {"leader.template.spec.containers.0.ports": [{"name": "master"}]},
        (_MISSING, "spec.leader.template.spec.containers[0].ports[0].containerPort"),
    ),
    "a volume without a name": Refusal(
        _TY, {"volumes": [{"emptyDir": {}}]}, (_MISSING, "spec.volumes[0].name")
    ),
}

#: What both servers see and the package jsonschema does not.
UNSEEN: Final[dict[str, Refusal]] = {
    "an amount that is none": Refusal(
        _QUEUE, {"capability": {"cpu": "lots"}}, (_VALUE, "spec.capability.cpu")
    ),
    "an amount below zero": Refusal(
        _SIGS, {"minResources": {"cpu": "-1"}}, (_VALUE, "spec.minResources.cpu")
    ),
    "a number below zero": Refusal(
        _VOLCANO, {"minResources": {"cpu": -1}}, (_VALUE, "spec.minResources.cpu")
    ),
    "two sets of workers of one name": Refusal(
        _TY, {"workerSets.1.name": "fast"}, ("FieldValueDuplicate", "spec.workerSets[1]")
    ),
    "two bundles of one name": Refusal(
        _GANG, {"bundles.1.name": ""}, ("FieldValueDuplicate", "spec.bundles[1]")
    ),
    "a gang that is in its group twice": Refusal(
        _GANG, {"group": ["a/b", "a/b"]}, ("FieldValueDuplicate", "spec.group[1]")
    ),
}

#: What breaks a rule over several fields, which are CEL.
UNRULY: Final[dict[str, Refusal]] = {
    "two ways to say how far": Refusal(
        _VOLCANO, {"networkTopology.highestTierAllowed": 1}, (_VALUE, "spec.networkTopology")
    ),
    "more deserved than the queue may use": Refusal(
        _QUEUE, {"deserved.cpu": "4001m"}, (_VALUE, "spec.deserved")
    ),
    "more guaranteed than deserved": Refusal(
        _QUEUE, {"guarantee.resource.cpu": 3}, (_VALUE, "spec.guarantee")
    ),
    "more guaranteed than the queue may use": Refusal(
        _QUEUE, {"guarantee.resource.memory": "5Gi"}, (_VALUE, "spec.guarantee")
    ),
    "a queue below itself": Refusal(_QUEUE, {"parent": "bad"}, (_VALUE, "<nil>")),
    "more pods wanted than there are": Refusal(
        _JOB, {"minAvailable": 3}, (_VALUE, "spec.minAvailable")
    ),
    "more pods of a task wanted than there are": Refusal(
        _JOB, {"tasks.0.minAvailable": 2}, (_VALUE, "spec.tasks[0].minAvailable")
    ),
    "parts that do not make up the task": Refusal(
        _JOB,
        {"tasks.0.partitionPolicy.partitionSize": 2},
        (_VALUE, "spec.tasks[0].partitionPolicy"),
    ),
    "two tasks of one name": Refusal(_JOB, {"tasks.1.name": "worker"}, (_VALUE, "spec.tasks")),
    "a policy for no case": Refusal(_JOB, {"policies.0.event": ...}, (_VALUE, "spec.policies[0]")),
    "a policy for an event and an exit code": Refusal(
        _JOB, {"policies.2.event": "PodFailed"}, (_VALUE, "spec.policies[2]")
    ),
    "a policy for success": Refusal(
        _JOB, {"policies.2.exitCode": 0}, (_VALUE, "spec.policies[2].exitCode")
    ),
    "more workers wanted than there are": Refusal(
        _TY, {"minWorkersNum": 6}, (_VALUE, "spec.minWorkersNum")
    ),
}
