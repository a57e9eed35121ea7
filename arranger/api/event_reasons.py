"""The reasons of all Events that we write; kube-scheduler's or Volcano's where they have one."""

from __future__ import annotations

from typing import Final

# --- any object -----------------------------------------------------------------------------------
#: The object has made our own code raise, or cannot be read: it is left alone until it changes. A
#: pod that waits for us has FailedScheduling instead.
QUARANTINED: Final = "Quarantined"
#: The API server refuses the status that we write of the object, or what our controllers write for
#: it; the text is the server's.
FAILED_STATUS: Final = "FailedStatus"

# --- pods -----------------------------------------------------------------------------------------
#: The pod was bound to a node.
SCHEDULED: Final = "Scheduled"
#: An attempt to place the pod failed, or none is made since it is being deleted; the text says why.
FAILED_SCHEDULING: Final = "FailedScheduling"
#: The pod has to leave its node for another pod, or for the gang of another.
PREEMPTED: Final = "Preempted"
#: The pod has to leave its node for another and has asked for time to save its state: the
#: annotation ``arranger.io/checkpoint-before-eviction``. The text says until when.
EVICTION_NOTICE: Final = "EvictionNotice"
#: Nobody needs the place of a pod that was given notice any more: it stays.
EVICTION_WITHDRAWN: Final = "EvictionWithdrawn"
#: The pod, or its gang, makes others leave; the text names them.
PREEMPTING: Final = "Preempting"
#: The pod has run for its maximum run time and is deleted: the annotation
#: ``arranger.io/max-run-time``, or that of its queue. Also the reason in its condition
#: DisruptionTarget.
MAX_RUN_TIME: Final = "MaximumExecutionTimeExceeded"
#: A Reservation that says so has pods of others leave its nodes when its window opens: the pod is
#: deleted. Also the reason in its condition DisruptionTarget, and of the notice before.
NODE_RESERVED: Final = "NodeReserved"
#: The pod's gang held nodes for longer than its wait time; they are given back. Of a gang that is
#: bound in part, a pod that is deleted (``gangs.onPartialBind: Delete``): then also the reason in
#: its condition DisruptionTarget.
GANG_TIMED_OUT: Final = "GangTimedOut"
#: A placement policy, service type, job priority, order of jobs, maximum run time or time to save
#: its state in the pod's annotations is unknown and ignored, or its card annotation names none, or
#: there are settings of a gang and no name of one. Also on a Volcano Job whose PodGroup does not
#: get all of its annotations, as they are too many or too long.
INVALID_ANNOTATION: Final = "InvalidAnnotation"
#: The pod claims a higher priority, or another service type, than its queue believes; the text says
#: as what it counts.
LIMITED_BY_QUEUE: Final = "LimitedByQueue"
#: The pod is on a node, and names another queue than the one it is charged to, or somebody for it;
#: the text says why it stays in that.
STAYS_IN_QUEUE: Final = "StaysInQueue"
#: The pod's queue would exceed its limit of CPU; the text has the numbers, in thousandths.
INSUFFICIENT_CPU_QUOTA: Final = "InsufficientCPUQuota"
#: The pod's queue would exceed its limit of memory; the text has the numbers, in Mi.
INSUFFICIENT_MEMORY_QUOTA: Final = "InsufficientMemoryQuota"
#: The pod's queue would exceed its quota of a card or its limit of another resource; the text has
#: the numbers, in thousandths. Also on a PodGroup that is not admitted.
INSUFFICIENT_SCALAR_QUOTA: Final = "InsufficientScalarQuota"
#: The pod asks for nothing, and its queue is beyond a limit already.
EMPTY_QUEUE_CAPABILITY: Final = "EmptyQueueCapability"
#: The pod names a card and asks for none, or one that no node has. Also on a PodGroup whose
#: ``card.request`` cannot be read.
GET_TASK_REQUEST_RESOURCE_FAILED: Final = "GetTaskRequestResourceFailed"

# --- PodGroups ------------------------------------------------------------------------------------
#: A PodGroup of Volcano: its gang cannot be placed; the text is that of its pods. When it has its
#: minimum it has an event Scheduled.
UNSCHEDULABLE: Final = "Unschedulable"
#: What the PodGroup, or a pod, says about its gang cannot be read and is ignored.
INVALID_GANG: Final = "InvalidGang"
#: The PodGroup was admitted and its pods did not come: its queue keeps no cards for it any more.
CARD_REQUEST_TIMED_OUT: Final = "CardRequestTimedOut"

# --- what queues have used ------------------------------------------------------------------------
#: The ConfigMap with what queues have used cannot be read: it is forgotten, and written anew.
INVALID_USAGE: Final = "InvalidUsage"
#: The ConfigMap is gone, or another has its name: nothing is kept until the scheduler starts again.
USAGE_NOT_KEPT: Final = "UsageNotKept"

# --- Queues ---------------------------------------------------------------------------------------
#: Something of the Queue cannot be read, contradicts itself or is not supported.
INVALID_QUEUE: Final = "InvalidQueue"

# --- Reservations ---------------------------------------------------------------------------------
#: Something of the Reservation cannot be read, or contradicts itself: it reserves nothing.
INVALID_RESERVATION: Final = "InvalidReservation"

# --- Volcano Jobs ---------------------------------------------------------------------------------
#: The job cannot be right as it is; it keeps what it has until it is corrected.
INVALID_JOB: Final = "Invalid"
#: A policy's action, or one that somebody has asked for, begins.
EXECUTE_ACTION: Final = "ExecuteAction"
#: A Command for the job is obeyed.
COMMAND_ISSUED: Final = "CommandIssued"
#: The annotation ``arranger.io/action`` or a Command is no action, or one for a part of a job only.
INVALID_ACTION: Final = "InvalidAction"
#: The API server refuses to make something that the job needs.
FAILED_CREATE: Final = "FailedCreate"

# --- TYJobs ---------------------------------------------------------------------------------------
#: The job cannot be run as it is; it keeps its pods until it is corrected.
INVALID_TYJOB: Final = "InvalidTYJob"
#: The API server refuses to make something that the job needs.
REFUSED_TYJOB: Final = "RefusedTYJob"
#: The leader has failed.
LEADER_FAILED: Final = "LeaderFailed"
#: A worker has failed.
WORKER_FAILED: Final = "WorkerFailed"
