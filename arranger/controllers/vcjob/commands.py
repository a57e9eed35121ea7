"""When a Command for a Job is over. Pure.

The status remembers the Command that was obeyed, in the write that begins its action; only then it
is deleted. So whoever comes after a crash, or an answer that was lost, does not obey it again.
"""

from __future__ import annotations

from arranger.api.types.command import Command
from arranger.api.types.volcano_job import JOB_GROUP
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.state_machine import FINISHED


def commanded_job(command: Command) -> str | None:
    """``namespace/name`` of the Job that a Command is for; None for other targets."""
    if not command.is_for(JOB_GROUP, "Job"):
        return None
    return f"{command.metadata.namespace}/{command.target.name}"


def is_settled(command: Command, snapshot: JobSnapshot | None) -> bool:
    """Whether nothing is to be done for a Command but to delete it.

    Args:
        snapshot: of the job that has the target's name; None where none is known.
    """
    if snapshot is None:
        return False
    obeyed = snapshot.controlled_resources.last_command == command.metadata.uid
    return obeyed or is_dropped(command, snapshot) or _is_for_another(command, snapshot)


def is_dropped(command: Command, snapshot: JobSnapshot) -> bool:
    """Whether a job will never do what a Command asks for: it has ended, or is on its way out."""
    job = snapshot.job
    over = job.status.state.phase in FINISHED or job.metadata.deletion_timestamp is not None
    return over and not _is_for_another(command, snapshot)


def _is_for_another(command: Command, snapshot: JobSnapshot) -> bool:
    """Whether the target was an earlier job of the same name."""
    return command.target.uid not in ("", snapshot.job.metadata.uid)
