"""Every annotation and label that the scheduler and the controllers read or write.

Each is an annotation of a pod unless its comment says otherwise. The embedded cluster has a few of
its own, see :mod:`arranger.embedded.kubelet`.
"""

from __future__ import annotations

from typing import Final

# --- gangs: Koordinator, see docs/design/gang-scheduling.md --------------------------------------
_KOORDINATOR: Final = "gang.scheduling.koordinator.sh/"
GANG_NAME: Final = _KOORDINATOR + "name"
GANG_MIN: Final = _KOORDINATOR + "min-available"
GANG_WAIT: Final = _KOORDINATOR + "waiting-time"
GANG_TOTAL: Final = _KOORDINATOR + "total-number"
GANG_MODE: Final = _KOORDINATOR + "mode"
#: JSON list of the gangs (``namespace/name``) that are placed together with this one.
GANG_GROUPS: Final = _KOORDINATOR + "groups"
#: The other spelling of :data:`GANG_GROUPS`, which is read as well.
GANG_GROUPS_ALIAS: Final = _KOORDINATOR + "gang-groups"
GANG_MATCH: Final = _KOORDINATOR + "match-policy"
#: ``"true"`` on the pods of a gang that timed out; it is tried again when its owner removes it.
GANG_TIMEOUT: Final = _KOORDINATOR + "timeout"

# --- gangs: the PodGroup of scheduling.sigs.k8s.io and scheduling.x-k8s.io -----------------------
#: Label: the PodGroup of a pod, as are the two below; also read as annotations.
POD_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
POD_GROUP_NAME: Final = POD_GROUP + "/name"
#: Label, deprecated: the minimum of a gang that has no PodGroup.
POD_GROUP_MIN: Final = POD_GROUP + "/min-available"
POD_GROUP_MATCH: Final = POD_GROUP + "/match-policy"
#: Label: the PodGroup (``scheduling.x-k8s.io``) of a pod.
POD_GROUP_X: Final = "scheduling.x-k8s.io/pod-group"

# --- gangs: bundles, see docs/design/bundles.md --------------------------------------------------
_BUNDLES: Final = "gang.koordinater.io/"
BUNDLE_GANG: Final = _BUNDLES + "name"
BUNDLE_NAME: Final = _BUNDLES + "bundleName"
BUNDLE_MIN: Final = _BUNDLES + "minRequiredNumber"
BUNDLE_TOTAL: Final = _BUNDLES + "totalChildrenNum"
BUNDLE_WAIT: Final = _BUNDLES + "waitingTime"
BUNDLE_STRICT: Final = _BUNDLES + "isStrictMode"
#: As :data:`GANG_TIMEOUT`, for pods that name their gang by :data:`BUNDLE_GANG` only.
BUNDLE_TIMEOUT: Final = _BUNDLES + "timeOut"

# --- gangs: Volcano ------------------------------------------------------------------------------
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_LONG: Final = "scheduling.volcano.sh/group-name"

# --- queues and cards: Volcano, see docs/design/queues.md ----------------------------------------
_VOLCANO: Final = "volcano.sh/"
#: The queue of a pod (annotation or label); :data:`JOB_QUEUE_NAME` is another key.
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
#: Of a Queue: JSON object, card → number that it may use.
CARD_QUOTA: Final = _VOLCANO + "card.quota"
#: Of a PodGroup: JSON object, card → number that all of it will need.
CARD_REQUEST: Final = _VOLCANO + "card.request"
#: The card a pod needs, or several in order of preference: ``A|B``.
CARD_NAME: Final = _VOLCANO + "card.name"
#: ``inference`` or ``training``.
SERVICE_TYPE: Final = _VOLCANO + "service.type"
#: ``"false"`` keeps a pod from being evicted.
PREEMPTABLE: Final = _VOLCANO + "preemptable"
#: Of a Queue: ``Open`` or ``Closed``, as its owner wants it to be.
QUEUE_STATE: Final = "arranger.io/queue-state"
#: Label of nodes: the group that queues name in ``spec.affinity``.
NODE_GROUP: Final = _VOLCANO + "nodegroup-name"

# --- Jobs: what Volcano's Job controller writes on pods ------------------------------------------
JOB_NAME: Final = _VOLCANO + "job-name"
JOB_NAMESPACE: Final = _VOLCANO + "job-namespace"
JOB_VERSION_KEY: Final = _VOLCANO + "job-version"
JOB_RETRIES: Final = _VOLCANO + "job-retry-count"
#: The task a pod belongs to, which is the bundle of its gang (annotation or label).
TASK_SPEC: Final = _VOLCANO + "task-spec"
TASK_INDEX: Final = _VOLCANO + "task-index"
#: The queue of the Job that a pod was made for; nothing reads it.
JOB_QUEUE_NAME: Final = _VOLCANO + "queue-name"
TEMPLATE_UID: Final = _VOLCANO + "template-uid"
#: Annotations of a Job that hold for all its pods whose template does not have them.
INHERITED_ANNOTATIONS: Final = (
    PREEMPTABLE,
    SERVICE_TYPE,
    CARD_NAME,
    _VOLCANO + "cooldown-time",
    _VOLCANO + "revocable-zone",
)
#: Of a Job: an action that its owner asks for, done once for each value.
JOB_ACTION: Final = "arranger.io/action"

# --- placement -----------------------------------------------------------------------------------
#: ``required=<node label>`` or ``preferred=<node label>``: keep a gang inside one domain.
TOPOLOGY: Final = "arranger.io/topology"
#: Placement policies of a pod, separated by commas, see docs/design/tyjob.md.
PLACEMENT: Final = "arranger.io/placement"
#: ``leader`` or ``worker``, for the policies that tell them apart (annotation or label).
ROLE: Final = "arranger.io/role"

# --- TYJob: what its controller writes on pods, see docs/design/tyjob.md -------------------------
#: Label: the name of the pod's TYJob.
TYJOB: Final = "arranger.io/tyjob"
#: Label: its set of workers.
WORKER_SET: Final = "arranger.io/worker-set"
#: The uid of the leader that a worker was made for.
LEADER_UID: Final = "arranger.io/leader-uid"
#: How often the earlier pods of this replica had failed when this one was made.
RESTARTS: Final = "arranger.io/restarts"
#: The job's priority, 1-10, and its order among jobs, ``Priority`` or ``DRF``.
JOB_PRIORITY: Final = "arranger.io/job-priority"
JOB_QUEUE_POLICY: Final = "arranger.io/job-queue-policy"

# --- storage: Kubernetes -------------------------------------------------------------------------
#: Of a PersistentVolumeClaim: the node whose pod it is provisioned for; removed when that fails.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: Of a PersistentVolumeClaim: the volume controller has finished binding it.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: Of a PersistentVolume: its claim was chosen by software, not by its owner.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: Of a claim or volume: its class, as it was written before there was a field for it.
BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
#: Of a CSINode: the in-tree plugins whose volumes a CSI driver serves there.
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
