"""Every annotation and label that Arranger reads or writes."""

from __future__ import annotations

from typing import Final

# --- gangs: Koordinator (seed 000) ---------------------------------------------------------------
_KOORDINATOR: Final = "gang.scheduling.koordinator.sh/"
GANG_NAME: Final = _KOORDINATOR + "name"
GANG_MIN: Final = _KOORDINATOR + "min-available"
GANG_WAIT: Final = _KOORDINATOR + "waiting-time"
GANG_TOTAL: Final = _KOORDINATOR + "total-number"
GANG_MODE: Final = _KOORDINATOR + "mode"
GANG_GROUPS: Final = _KOORDINATOR + "groups"
#: The seed spells it both ways.
GANG_GROUPS_ALIAS: Final = _KOORDINATOR + "gang-groups"
GANG_MATCH: Final = _KOORDINATOR + "match-policy"
GANG_TIMEOUT: Final = _KOORDINATOR + "timeout"

# --- gangs: the community's PodGroup -------------------------------------------------------------
POD_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
POD_GROUP_NAME: Final = POD_GROUP + "/name"
POD_GROUP_MIN: Final = POD_GROUP + "/min-available"
POD_GROUP_MATCH: Final = POD_GROUP + "/match-policy"
POD_GROUP_X: Final = "scheduling.x-k8s.io/pod-group"

# --- gangs: bundles (seed 002) -------------------------------------------------------------------
_BUNDLES: Final = "gang.koordinater.io/"
BUNDLE_GANG: Final = _BUNDLES + "name"
BUNDLE_NAME: Final = _BUNDLES + "bundleName"
BUNDLE_MIN: Final = _BUNDLES + "minRequiredNumber"
BUNDLE_TOTAL: Final = _BUNDLES + "totalChildrenNum"
BUNDLE_WAIT: Final = _BUNDLES + "waitingTime"
BUNDLE_STRICT: Final = _BUNDLES + "isStrictMode"
BUNDLE_TIMEOUT: Final = _BUNDLES + "timeOut"

# --- gangs: Volcano ------------------------------------------------------------------------------
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_LONG: Final = "scheduling.volcano.sh/group-name"
#: The task a pod belongs to, which is its bundle (annotation or label).
VOLCANO_TASK: Final = "volcano.sh/task-spec"

# --- our own -------------------------------------------------------------------------------------
#: ``required=<node label>`` or ``preferred=<node label>``: keep a gang inside one domain.
TOPOLOGY: Final = "arranger.io/topology"
#: Placement policies of a pod, separated by commas (seed 003).
PLACEMENT: Final = "arranger.io/placement"
#: ``leader`` or ``worker``, for the policies that tell them apart (annotation or label).
ROLE: Final = "arranger.io/role"

# --- TYJob (seed 003): what the controller writes on pods ----------------------------------------
#: Label: the name of the pod's TYJob.
TYJOB: Final = "arranger.io/tyjob"
#: Label: its set of workers.
WORKER_SET: Final = "arranger.io/worker-set"
#: The uid of the leader that a worker was made for.
LEADER_UID: Final = "arranger.io/leader-uid"
#: How often this pod's place in the job had failed before it was made.
RESTARTS: Final = "arranger.io/restarts"
#: The job's priority, 1-10, and its order among jobs, ``Priority`` or ``DRF``.
JOB_PRIORITY: Final = "arranger.io/job-priority"
JOB_QUEUE_POLICY: Final = "arranger.io/job-queue-policy"
