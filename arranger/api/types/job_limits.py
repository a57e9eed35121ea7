"""How large a job may be: more than anybody needs, and less than would keep others waiting.

Our definitions say the same. A cluster may have definitions of others, so it is checked here, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Pods of one job.
MAX_PODS: Final = 10_000
#: Tasks, or sets of workers.
MAX_PARTS: Final = 256
#: Policies of a job or of a task.
MAX_POLICIES: Final = 64
#: Events of one policy.
MAX_EVENTS: Final = 16
#: Plugins of a job, and arguments of one of them.
MAX_PLUGINS: Final = 16
MAX_ARGUMENTS: Final = 64
#: Volumes that all pods of a job have.
MAX_VOLUMES: Final = 64
#: Containers of a template, those that run first among them.
MAX_CONTAINERS: Final = 64
#: Bytes of a template as JSON; and of the volumes of a TYJob, which all of its pods have.
MAX_TEMPLATE_BYTES: Final = 262_144
#: Resources that the containers of a template request and limit, in all.
MAX_TEMPLATE_RESOURCES: Final = 1024
#: Bytes of what a job adds to all containers of a pod together: variables and mounts. A pod with
#: much more is too large for etcd.
MAX_ADDED_BYTES: Final = 1_048_576
#: Characters of a host name, and of a part of a job.
MAX_LABEL: Final = 63


def check_number(what: str, number: int, most: int) -> None:
    """Raises ValueError if there are more of something than there may be."""
    if number > most:
        raise ValueError(f"{number} {what} are more than {most}")


def check_pods(counts: Iterable[int]) -> None:
    """Raises ValueError if there are more pods than a job may have.

    A number below zero is no pods, and makes up for none of the others.
    """
    check_number("pods", sum(max(0, count) for count in counts), MAX_PODS)
