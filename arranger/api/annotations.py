"""Every annotation and label that the scheduler and the controllers read or write.

The reference page of annotations is made of the comments here. The embedded cluster has a few of
its own, see :mod:`arranger.embedded.kubelet`.
"""

from __future__ import annotations

from typing import Final

# --- gangs: Koordinator ---------------------------------------------------------------------------
_KOORDINATOR: Final = "gang.scheduling.koordinator.sh/"
#: On a pod: the gang that it is a member of.
GANG_NAME: Final = _KOORDINATOR + "name"
#: On a pod or PodGroup: how many members must run together.
GANG_MIN: Final = _KOORDINATOR + "min-available"
#: On a pod or PodGroup: how long nodes may be held for the others, such as ``90s`` or ``1h30m``.
GANG_WAIT: Final = _KOORDINATOR + "waiting-time"
#: On a pod or PodGroup: how many members there will be. Only checked: an attempt takes all that
#: have come.
GANG_TOTAL: Final = _KOORDINATOR + "total-number"
#: On a pod or PodGroup: ``Strict`` (hold nothing while incomplete) or ``NonStrict``.
GANG_MODE: Final = _KOORDINATOR + "mode"
#: On a pod or PodGroup: a JSON list of the gangs that start together, as ``namespace/name``.
GANG_GROUPS: Final = _KOORDINATOR + "groups"
#: On a pod or PodGroup: another spelling of ``groups``.
GANG_GROUPS_ALIAS: Final = _KOORDINATOR + "gang-groups"
#: On a pod or PodGroup: who counts towards the minimum after the first time: ``once-satisfied``,
#: ``only-waiting`` or ``waiting-and-running``.
GANG_MATCH: Final = _KOORDINATOR + "match-policy"
#: On a pod, written by the scheduler: ``true`` when its gang held nodes for too long and is
#: blocked.
GANG_TIMEOUT: Final = _KOORDINATOR + "timeout"

# --- gangs: the community's PodGroup --------------------------------------------------------------
#: On a pod (label or annotation): its PodGroup of ``scheduling.sigs.k8s.io``; as an annotation,
#: its gang.
POD_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
#: On a pod (label or annotation): another spelling of the same.
POD_GROUP_NAME: Final = POD_GROUP + "/name"
#: On a pod (annotation or label) or PodGroup: the same as ``min-available``.
POD_GROUP_MIN: Final = POD_GROUP + "/min-available"
#: On a pod or PodGroup: the same as ``match-policy``.
POD_GROUP_MATCH: Final = POD_GROUP + "/match-policy"
#: On a pod (label): its PodGroup of ``scheduling.x-k8s.io``.
POD_GROUP_X: Final = "scheduling.x-k8s.io/pod-group"

# --- gangs: bundles -------------------------------------------------------------------------------
_BUNDLES: Final = "gang.koordinater.io/"
#: On a pod: the gang that it is a member of, in the dialect of bundles.
BUNDLE_GANG: Final = _BUNDLES + "name"
#: On a pod: its bundle, which is its role in the gang.
BUNDLE_NAME: Final = _BUNDLES + "bundleName"
#: On a pod: how many members of its bundle must run together.
BUNDLE_MIN: Final = _BUNDLES + "minRequiredNumber"
#: On a pod: how many members its bundle will have. Only checked, as ``total-number``.
BUNDLE_TOTAL: Final = _BUNDLES + "totalChildrenNum"
#: On a pod: the same as ``waiting-time``.
BUNDLE_WAIT: Final = _BUNDLES + "waitingTime"
#: On a pod: ``true`` for the mode ``Strict``, ``false`` for ``NonStrict``.
BUNDLE_STRICT: Final = _BUNDLES + "isStrictMode"
#: On a pod, written by the scheduler: the same as ``timeout``, for gangs of this dialect.
BUNDLE_TIMEOUT: Final = _BUNDLES + "timeOut"

# --- gangs: Volcano -------------------------------------------------------------------------------
#: On a pod: its PodGroup of ``scheduling.volcano.sh``.
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
#: On a pod: another spelling of the same.
VOLCANO_GROUP_LONG: Final = "scheduling.volcano.sh/group-name"

# --- our own --------------------------------------------------------------------------------------
#: On a pod or PodGroup: ``required=<node label>`` or ``preferred=<node label>``, to keep the gang
#: inside one domain of that label.
TOPOLOGY: Final = "arranger.io/topology"
#: On a pod: ``false`` keeps it from being in a gang because of what owns it; on the owner, all of
#: its pods.
GANG_BY_OWNER: Final = "arranger.io/gang-by-owner"
#: On a pod: how long it may run once it has started, such as ``90s`` or ``1h30m``; then the
#: scheduler deletes it. On a TYJob or a Volcano Job it holds for all pods whose template does not
#: have it, and their pods are made with ``activeDeadlineSeconds``.
MAX_RUN_TIME: Final = "arranger.io/max-run-time"
#: On a pod: how long it is given to save its state once it has to leave for another, such as
#: ``60s``; not longer than the scheduler's configuration allows.
CHECKPOINT_BEFORE_EVICTION: Final = "arranger.io/checkpoint-before-eviction"
#: On a pod: when it has last saved its state (RFC 3339). Written after a notice it says that the
#: pod need not be waited for any more.
CHECKPOINTED_AT: Final = "arranger.io/checkpointed-at"
#: On a pod, written by the scheduler: until when it has time to save its state (RFC 3339), since it
#: was given notice; removed when that is withdrawn.
EVICTION_DEADLINE: Final = "arranger.io/eviction-deadline"
#: On a pod: the Reservation on whose nodes alone it may run, in its window.
RESERVATION: Final = "arranger.io/reservation"
#: On a pod: placement policies by which its node is chosen, separated by commas.
PLACEMENT: Final = "arranger.io/placement"
#: On a pod (annotation or label): ``leader`` or ``worker``, for the policies that tell them apart.
ROLE: Final = "arranger.io/role"

# --- TYJob: what the controller writes on pods ----------------------------------------------------
#: On a TYJob's pod (label): the name of the job.
TYJOB: Final = "arranger.io/tyjob"
#: On a TYJob's pod (label): its set of workers.
WORKER_SET: Final = "arranger.io/worker-set"
#: On a TYJob's worker: uid of the leader that it was made for.
LEADER_UID: Final = "arranger.io/leader-uid"
#: On a TYJob's pod: how often pods in its place had failed before it was made.
RESTARTS: Final = "arranger.io/restarts"
#: On a TYJob's pod: a digest of the part of the job's spec that it was made from.
SPEC_HASH: Final = "arranger.io/spec-hash"
#: On a TYJob's pod: the job's priority, 1 to 10.
JOB_PRIORITY: Final = "arranger.io/job-priority"
#: On a TYJob's pod: the job's order among jobs, ``Priority`` or ``DRF``.
JOB_QUEUE_POLICY: Final = "arranger.io/job-queue-policy"

# --- queues ---------------------------------------------------------------------------------------
_VOLCANO: Final = "volcano.sh/"
#: On a pod (annotation or label): its queue.
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
#: On a Queue: a JSON object from card to number, what the queue may use. A card without an entry
#: may not be used.
CARD_QUOTA: Final = _VOLCANO + "card.quota"
#: On a PodGroup: a JSON object from card to number, what all its pods will want.
CARD_REQUEST: Final = _VOLCANO + "card.request"
#: On a pod: the card that it needs, or several in order of preference: ``A|B``.
CARD_NAME: Final = _VOLCANO + "card.name"
#: On a pod or PodGroup: ``inference`` or ``training``.
SERVICE_TYPE: Final = _VOLCANO + "service.type"
#: On a Queue: ``Open`` or ``Closed``, what its owner wants it to be.
QUEUE_STATE: Final = "arranger.io/queue-state"
#: On a Queue: how long the pods of it, and of the queues that are part of it, may run at most.
QUEUE_MAX_RUN_TIME: Final = "arranger.io/max-run-time"
#: On a Queue: ``true`` while it is closed only because a queue that it is part of is.
CLOSED_BY_PARENT: Final = _VOLCANO + "closed-by-parent"
#: On a node (label): the group that queues name in ``spec.affinity``.
NODE_GROUP: Final = _VOLCANO + "nodegroup-name"
#: On a pod or PodGroup: ``false`` keeps it from being evicted, as long as there are queues. On a
#: pod also as a label.
PREEMPTABLE: Final = _VOLCANO + "preemptable"

# --- Volcano Jobs ---------------------------------------------------------------------------------
#: On a Volcano Job's pod (annotation and label): the name of the job.
JOB_NAME: Final = _VOLCANO + "job-name"
#: On a Volcano Job's pod (label): the namespace of the job.
JOB_NAMESPACE: Final = _VOLCANO + "job-namespace"
#: On a Volcano Job's pod: the version of the job that it was made for.
JOB_VERSION_KEY: Final = _VOLCANO + "job-version"
#: On a Volcano Job's pod: how often the job had been restarted when it was made.
JOB_RETRIES: Final = _VOLCANO + "job-retry-count"
#: On a pod (annotation or label): its task of a Volcano Job, which is its bundle.
TASK_SPEC: Final = _VOLCANO + "task-spec"
#: On a Volcano Job's pod (annotation and label): its number within the task.
TASK_INDEX: Final = _VOLCANO + "task-index"
#: On a Volcano Job's pod (annotation and label): the job's queue, as Volcano writes it. The
#: scheduler reads ``scheduling.volcano.sh/queue-name``.
JOB_QUEUE_NAME: Final = _VOLCANO + "queue-name"
#: On a Volcano Job's pod: the template of its task, as Volcano names it.
TEMPLATE_UID: Final = _VOLCANO + "template-uid"
#: Annotations of a Job that hold for all its pods whose template does not have them.
INHERITED_ANNOTATIONS: Final = (
    PREEMPTABLE,
    SERVICE_TYPE,
    CARD_NAME,
    MAX_RUN_TIME,
    _VOLCANO + "cooldown-time",
    _VOLCANO + "revocable-zone",
)
#: On a Volcano Job: an action that its owner asks for, done once for each value.
JOB_ACTION: Final = "arranger.io/action"

# --- Kubernetes -----------------------------------------------------------------------------------
#: On pods that a kubelet makes from its own files: nobody else can end them.
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
#: On a PersistentVolumeClaim: the node whose pod it is provisioned for; removed when that fails.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: On a PersistentVolumeClaim: the volume controller has finished binding it.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: On a PersistentVolume: its claim was chosen by software, not by its owner.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: On a claim or volume: its class, as it was written before there was a field for it.
BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
#: On a CSINode: the in-tree plugins whose volumes a CSI driver serves there.
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
